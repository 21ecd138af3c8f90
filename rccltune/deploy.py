"""A session's rules and the plugin as a folder that a site's jobs can use: whole, or not there."""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Final

from rccltune import __version__, plugin, session, verify
from rccltune.model import (
    Algorithm,
    Collective,
    CommandLineError,
    Protocol,
    Reporter,
    Rule,
    RuleCount,
    Scale,
    SessionError,
    VerificationError,
    grammar,
    lay,
    shown,
)
from rccltune.rules import (
    UNPROVEN_MARK,
    Host,
    RuleFile,
    accepted,
    check_plugin,
    content_of,
    cost_table,
    counted,
    decisions,
    is_harmless,
    misread,
)
from rccltune.session import Session, disk_errors, sync_folder

ENV_SH: Final = "env.sh"
README: Final = "README"
SIMULATED: Final = (
    "SIMULATED: these rules come from a stand-in benchmark, not from hardware; not for production"
)
NOT_VERIFIED: Final = "NOT VERIFIED on this machine (rccltune verify)"
# The first line of README, by which a folder is known as one of ours.
_MARK: Final = "Rules and tuner plugin for RCCL and NCCL, put here by rccltune deploy"
# What rccltune 0.1.0 had in place of a README.
_OF_0_1_0: Final = ("versions", "current", "MANIFEST")
_VERIFIED: Final = re.compile(r"^# verified: *(.*\S)", re.MULTILINE)
_UNPROVEN: Final = re.compile(rf"^# {UNPROVEN_MARK}", re.MULTILINE)
_SIMULATED: Final = re.compile(r"^# SIMULATED", re.MULTILINE)
# By these the plugin finds a file in a folder.
_FOUND_BY_NAME: Final = re.compile(r"rccl_tuner_gfx[0-9a-f]+_[a-z]+-nps\d+(?:_([a-z0-9-]+))?\.csv")
_SAFE: Final = re.compile(r"[\w.+-]+")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """One rule file.

    Attributes:
        file: as the plugin reads it.
        verified: what its comment ``# verified:`` says; None where it has none.
        n_unproven: rules whose gain nothing proves.
        misread: lines that a host takes for something else where it reads the file by itself.
    """

    name: str
    content: bytes
    file: RuleFile
    count: RuleCount
    verified: str | None
    n_unproven: int
    misread: tuple[str, ...]

    @property
    def placement(self) -> str | None:
        """The only placement of ranks that it is for."""
        return dict(self.file.requires).get("placement")

    @property
    def remark(self) -> str:
        """Whether somebody verified it, and what nothing proves."""
        said = f"verified: {self.verified}" if self.verified else NOT_VERIFIED
        return f"{said}; {self.n_unproven} UNPROVEN" if self.n_unproven else said


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    """What was put where.

    Attributes:
        directory: absolute.
        replaced: whether a folder of an earlier deploy was there.
        environment: (name, value) of what the rules need beside plugin and file.
    """

    directory: Path
    replaced: bool
    rules: tuple[Rules, ...]
    environment: tuple[tuple[str, str], ...]
    simulated: bool

    @property
    def placements(self) -> tuple[str, ...]:
        """Which placement must be declared before any rule holds; empty where none must."""
        named = [one.placement for one in self.rules]
        return tuple(name for name in named if name is not None) if all(named) else ()

    def variables(self, folder: Path) -> dict[str, str]:
        """What env.sh sets, with the files in ``folder``."""
        by_name = len(self.rules) > 1
        rules = {"RCCLTUNE_CONFIG_DIR": str(folder)} if by_name else {
            "NCCL_TUNER_CONFIG_FILE": str(folder / self.rules[0].name)
        }  # fmt: skip
        plain = {"NCCL_TUNER_PLUGIN": str(folder / plugin.LIBRARY)}
        return {**plain, **rules, **dict(self.environment)}

    def as_plain(self) -> dict[str, Any]:
        """For --json."""
        return {
            "directory": str(self.directory),
            "replaced": self.replaced,
            "simulated": self.simulated,
            "rules": sum(one.count.rules for one in self.rules),
            "fallbacks": sum(one.count.fallbacks for one in self.rules),
            "verified": {one.name: one.verified for one in self.rules},
            "unproven": {one.name: one.n_unproven for one in self.rules},
            "read_otherwise": {one.name: list(one.misread) for one in self.rules},
            "placements": list(self.placements),
            "environment": self.variables(self.directory),
        }


def deploy_session(
    directory: Path, folder: Path, *, unproven: bool, reporter: Reporter
) -> Deployed:
    """Make a folder with the plugin, a session's rule files, env.sh and README.

    Args:
        directory: of a new folder, or of one that was made so before.
        folder: the session.
        unproven: rules whose gain nothing proves may go out.
        reporter: told which lines others read otherwise.

    Raises:
        SessionError: no session, no rule in it, a full disk.
        InputFileError: a rule file that the plugin would refuse.
        CommandLineError: files that contradict each other; a variable that may load code; rules
            that nothing proves, unasked; the folder is something else's.
        VerificationError: verification refused the rules, or the plugin does not follow them.
        MachineError: this install has no plugin, or it cannot be loaded.
    """
    target = _absolute(directory)
    replaced = _is_ours(target)
    made = session.open_session(folder)
    rules = _rule_files(made.path)
    odd = [f"{one.n_unproven} of {one.name}" for one in rules if one.n_unproven]
    if odd and not unproven:
        raise CommandLineError(
            f"nothing proves the gain of some rules: {', '.join(odd)} are UNPROVEN",
            where=str(folder),
            hint="prove them with rccltune verify, leave them out with rccltune emit-config "
            "--proven --force, or deploy them all the same with --unproven.",
        )
    for one in rules:
        for line in one.misread:
            reporter.say(f"Warning: {one.name} is read otherwise where our plugin does not: {line}")
    heads = [grammar.text_of(one.content) for one in rules]
    done = Deployed(
        directory=target,
        replaced=replaced,
        rules=rules,
        environment=_environment(rules),
        simulated=made.simulated or any(_SIMULATED.search(text) for text in heads),
    )
    with disk_errors(target):
        _put(done, made)
    return done


def _absolute(directory: Path) -> Path:
    """As the user names it: links in it are those that nodes see, too."""
    # Path.absolute() leaves '..' in, and its parent may be a link.
    path = Path(os.path.abspath(directory))  # noqa: PTH100 - see above
    if not str(path).isprintable():
        raise CommandLineError(
            "a folder's path with a control character cannot be named in env.sh",
            where=repr(str(path)),
            hint="name another folder.",
        )
    return path


def _is_ours(target: Path) -> bool:
    """Whether a folder is there that deploy made, so that it may be replaced.

    Raises:
        CommandLineError: something else is there.
    """
    if not target.is_symlink() and not target.exists():
        return False
    wrong = None
    if target.is_symlink() or not target.is_dir():
        wrong = "this is a link" if target.is_symlink() else "this is no folder"
    elif (target / "session.json").exists():
        raise CommandLineError(
            "this folder is a session, and the folder to make is named first",
            where=str(target),
            hint="rccltune deploy DIR SESSION",
        )
    elif any((target / name).is_symlink() or (target / name).is_dir() for name in _OF_0_1_0):
        wrong = "this folder was made by the deploy of rccltune 0.1.0, which kept versions"
    else:
        names = sorted(path.name for path in target.iterdir())
        others = [name for name in names if not _is_of_ours(name)]
        if names and (others or not _has_mark(target)):
            wrong = (
                "the folder was not made by rccltune deploy: it has other things in it "
                f"({', '.join((others or names)[:3])})"
            )
        elif names:
            return True
    if wrong is not None:
        raise CommandLineError(
            wrong, where=str(target), hint="name a new folder; this one stays as it is."
        )
    return False


def _is_of_ours(name: str) -> bool:
    return name in (ENV_SH, README, plugin.LIBRARY) or name.startswith("rccl_tuner")


def _has_mark(target: Path) -> bool:
    try:
        with (target / README).open(encoding="utf-8", errors="replace") as lines:
            return lines.readline().startswith(_MARK)
    except OSError:
        return False


def _rule_files(folder: Path) -> tuple[Rules, ...]:
    """The rule files of a session that have a rule, the one for any placement first."""
    rules = [_rules(path) for path in verify.site_rule_paths(folder)]
    for one in rules:
        why = verify.refused(folder, one.content)
        if why is not None:
            raise VerificationError(
                f"the verification of these rules failed: {why.message}",
                where=str(folder / one.name),
                hint="choose others with rccltune emit-config, and verify them before they go out.",
            )
    filled = [one for one in rules if one.count.rules]
    if not filled:
        raise SessionError(
            "there is no rule in this session's rule files: nothing is faster than the library's "
            "own choice, and a plugin without rules gains nothing"
            if rules
            else "there is no rule file in this session",
            where=str(folder),
            hint="measure more sizes, settings or variants."
            if rules
            else "make one with rccltune emit-config, prove it with rccltune verify, and deploy "
            "again.",
        )
    filled.sort(key=lambda one: (one.placement is not None, one.name))
    _check_names(folder, filled)
    return tuple(filled)


def _check_names(folder: Path, rules: Sequence[Rules]) -> None:
    """Of several files the plugin finds the right one by its name."""
    for_any = [one.name for one in rules if one.placement is None]
    if len(for_any) > 1:
        raise CommandLineError(
            f"more than one rule file is for any placement: {', '.join(for_any)}",
            where=str(folder),
            hint="keep the one to deploy in the session, and move the others away.",
        )
    found = {one.name: _FOUND_BY_NAME.fullmatch(one.name) for one in rules}
    odd = [one.name for one in rules if (m := found[one.name]) is None or m[1] != one.placement]
    if len(rules) > 1 and odd:
        raise CommandLineError(
            f"these are {len(rules)} rule files, and the plugin finds them by arch, mode and "
            f"placement in their names: {', '.join(odd)} does not say them",
            where=str(folder),
            hint="deploy them from sessions of their own, into folders of their own.",
        )


def _rules(path: Path) -> Rules:
    content = content_of(path)
    file = accepted(
        content, path, "write it again with rccltune emit-config --force, or correct these lines."
    )
    if not _SAFE.fullmatch(path.name):
        raise CommandLineError(
            "the name of this rule file has letters that not every shell takes",
            where=str(path),
            hint="rename it.",
        )
    text = grammar.text_of(content)
    verified = _VERIFIED.search(text)
    return Rules(
        name=path.name,
        content=content,
        file=file,
        count=counted(file.rules),
        verified=shown(verified[1]) if verified else None,
        n_unproven=len(_UNPROVEN.findall(text)),
        misread=tuple(map(str, misread(content, file))),
    )


def _environment(rules: Sequence[Rules]) -> tuple[tuple[str, str], ...]:
    """What all files need, together; one job has one environment."""
    values: dict[str, str] = {}
    for one in rules:
        for name, value in one.file.needs:
            if not _VARIABLE.fullmatch(name) or not is_harmless(name, value):
                raise CommandLineError(
                    f"these rules need {name}={value}, and only variables of the shipped variants "
                    "are handed to jobs: any other may load code or open files",
                    where=one.name,
                    hint="if you know what it does and who wrote the rules, export it in the job "
                    "yourself, and take it out of the file's line '#@ needs'.",
                )
            if values.setdefault(name, value) != value:
                raise CommandLineError(
                    f"the rules need both {name}={values[name]} and {name}={value}: no job can "
                    "have both",
                    where=one.name,
                    hint="emit the files together, or deploy them into folders of their own.",
                )
    return tuple(sorted(values.items()))


def _put(done: Deployed, made: Session) -> None:
    """Write all of it beside the folder, ask the plugin there, and give it the folder's name."""
    target = done.directory
    target.parent.mkdir(parents=True, exist_ok=True)
    half = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        library = plugin.library().read_bytes()
        _write(half / plugin.LIBRARY, library, 0o555)
        for one in done.rules:
            _write(half / one.name, one.content, 0o444)
        _write(half / ENV_SH, env_sh(done, target).encode(), 0o444)
        _write(half / README, _readme(done, made, library).encode(), 0o444)
        check(done, half)
        half.chmod(0o755)
        _swap(half, target)
        sync_folder(target.parent)
    finally:
        # What was in the way, or what failed.
        shutil.rmtree(half, ignore_errors=True)


def _write(path: Path, content: bytes, mode: int) -> None:
    """For every user of the cluster, whatever the umask."""
    with path.open("xb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    path.chmod(mode)


_EXCHANGE: Final = 2
_AT_FDCWD: Final = -100


def _swap(half: Path, target: Path) -> None:
    """Let both change names, so that whoever looks sees one folder or the other."""
    if not target.exists():
        half.rename(target)
        return
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    names = os.fsencode(half), os.fsencode(target)
    if rename and rename(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _EXCHANGE) == 0:
        return
    if rename and ctypes.get_errno() not in (errno.EINVAL, errno.ENOSYS):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    # NFS and old C libraries: for a moment there is none.
    aside = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    target.rename(aside / target.name)
    try:
        half.rename(target)
    except OSError:
        (aside / target.name).rename(target)
        raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)


_ENV_SH: Final = """\
{head}
# Source it in each job before its ranks start:  . {script}
# A variable that is set to something else stays as it is, with a warning. A copy of this folder is
# found by bash and zsh; for other shells correct this line.
_rccltune_dir={folder}
if [ -n "${{BASH_VERSION:-}}" ]; then
    eval '_rccltune_from=${{BASH_SOURCE[0]:-}}'
elif [ -n "${{ZSH_VERSION:-}}" ]; then
    eval '_rccltune_from=${{(%):-%x}}'
else
    _rccltune_from=''
fi
case $_rccltune_from in
*/*) _rccltune_from=${{_rccltune_from%/*}}/ ;;
?*) _rccltune_from=. ;;
esac
if [ -n "$_rccltune_from" ] && [ -r "$_rccltune_from/{plugin}" ]; then
    _rccltune_dir=$(CDPATH='' cd "$_rccltune_from" && pwd)
fi
_rccltune_set() {{
    eval "_rccltune_old=\\${{$1-}}"
    case $_rccltune_old in
    '' | "$2") eval "$1=\\$2" && export "${{1?}}" ;;
    *)
        echo "rccltune: $1 is set to '$_rccltune_old' and stays so, not '$2'" >&2
        return 1
        ;;
    esac
}}
if [ ! -r "$_rccltune_dir/{plugin}" ]; then
    echo "rccltune: there is no {plugin} in $_rccltune_dir; nothing is set" >&2
    unset -f _rccltune_set
    unset _rccltune_dir _rccltune_from
    return 1
fi
{said}\
if _rccltune_set NCCL_TUNER_PLUGIN "$_rccltune_dir/{plugin}"; then
    if [ -n "${{{other}:-}}" ]; then
        echo "rccltune: {other} is set and stays so: the job's rules are those" >&2
    elif _rccltune_set {variable} "{value}"; then
        {needs}
    fi
fi
unset -f _rccltune_set
unset _rccltune_dir _rccltune_from _rccltune_old
"""


def env_sh(done: Deployed, folder: Path) -> str:
    """The text of env.sh for a folder; POSIX sh."""
    by_name = ("NCCL_TUNER_CONFIG_FILE", "RCCLTUNE_CONFIG_DIR")
    several = len(done.rules) > 1
    said = [f"echo {shlex.quote(f'rccltune: {SIMULATED}')} >&2\n"] if done.simulated else []
    if done.placements:
        name = done.placements[0]
        said.append(
            'if [ -z "${RCCLTUNE_PLACEMENT:-}" ]; then\n'
            f'    echo "rccltune: these rules are for jobs whose ranks lie as '
            f'{" or ".join(done.placements)}; export RCCLTUNE_PLACEMENT={name} where they do" >&2\n'
            "fi\n"
        )
    needs = [f"_rccltune_set {n} {shlex.quote(v)} || :" for n, v in done.environment]
    return _ENV_SH.format(
        head="\n".join(f"# {line}" for line in _head(done)),
        script=shlex.quote(str(folder / ENV_SH)),
        folder=shlex.quote(str(folder)),
        plugin=plugin.LIBRARY,
        said="".join(said),
        other=by_name[not several],
        variable=by_name[several],
        value="$_rccltune_dir" if several else f"$_rccltune_dir/{done.rules[0].name}",
        needs="\n        ".join(needs) or ":",
    )


def _head(done: Deployed) -> list[str]:
    """What it is, and what speaks against it."""
    lines = [_MARK]
    lines += [SIMULATED] if done.simulated else []
    return lines + [f"{one.name}: {one.count}, {one.remark}" for one in done.rules]


def _readme(done: Deployed, made: Session, library: bytes) -> str:
    """What is in the folder, where it comes from and how to use it."""
    found = made.fingerprint
    parts = (found.product, found.arch, str(found.mode) if found.mode else None)
    requires = " ".join(f"{key}={value}" for key, value in done.rules[0].file.requires)
    contents = [(plugin.LIBRARY, library), *((one.name, one.content) for one in done.rules)]
    now = datetime.now(timezone.utc).astimezone()
    script = shlex.quote(str(done.directory / ENV_SH))
    lines = [
        *_head(done),
        "",
        f"Deployed {now:%Y-%m-%d %H:%M %Z} by rccltune {__version__}.",
        f"Session: {' '.join(str(made.path.absolute()).split())}, made by {made.tool}.",
        f"Measured on: {', '.join(part for part in parts if part) or 'an unknown machine'}.",
        f"The rules require {requires or 'nothing'} of a machine.",
        "",
        f"To use it, in each job before its ranks start:  . {script}",
        "It sets",
        *(f"  {name}={value}" for name, value in done.variables(done.directory).items()),
        "To leave it out in a job, unset these.",
        "",
        "sha256 of what was put here:",
        *(f"{hashlib.sha256(content).hexdigest()}  {name}" for name, content in contents),
        "",
    ]
    return lay(lines)


def check(done: Deployed, folder: Path) -> None:
    """Ask the plugin of a folder, with the variables that its env.sh sets.

    This machine need not be one that the rules are for: the plugin looks at no device, and is told
    the mode and the placement that they require.

    Raises:
        VerificationError: env.sh does not set what it should, or an answer is not the file's.
        MachineError: the plugin cannot be loaded.
    """
    # Before the folder has its name, env.sh would look for it under that.
    script = f"{env_sh(done, folder)}env -0"
    plain = {"PATH": os.environ.get("PATH", os.defpath)}
    ran = subprocess.run(
        ["/bin/sh", "-eu", "-c", script], env=plain, cwd="/", capture_output=True, check=False
    )
    pairs = (one.partition(b"=")[::2] for one in ran.stdout.split(b"\0"))
    found = {os.fsdecode(name): os.fsdecode(value) for name, value in pairs}
    wanted = done.variables(folder)
    if ran.returncode or {name: found.get(name) for name in wanted} != wanted:
        raise VerificationError(
            f"env.sh does not set what it should: {shown(os.fsdecode(ran.stderr))}",
            where=str(done.directory),
            hint="please report it: it is a bug.",
        )
    host = Host(folder / plugin.LIBRARY)
    check_plugin(host.path)
    for one in done.rules:
        _check_rules(host, one, {name: found[name] for name in wanted}, folder)


def _check_rules(host: Host, one: Rules, variables: Mapping[str, str], folder: Path) -> None:
    required = dict(one.file.requires)
    # No machine: what the plugin does not see there it does not hold against the rules. To find
    # one of several files it would have to see a device.
    told = {**variables, "RCCLTUNE_SYSROOT": str(folder)}
    told.pop("RCCLTUNE_CONFIG_DIR", None)
    told["NCCL_TUNER_CONFIG_FILE"] = str(folder / one.name)
    if "compute" in required:
        told["RCCLTUNE_MODE"] = f"{required['compute']}-{required.get('memory', '')}".lower()
    if one.placement is not None:
        told["RCCLTUNE_PLACEMENT"] = one.placement
    table = cost_table((a, p) for a in Algorithm for p in Protocol)
    for scale, rules in _by_scale(one.file.rules).items():
        with host.communicator(
            abi=max(host.abi_versions), n_nodes=scale.n_nodes, n_ranks=scale.n_ranks, env=told
        ) as opened:
            for rule in rules:
                call = {"num_pipe_ops": rule.num_pipe_ops or 1, "reg_buff": rule.reg_buff or 0}
                size = rule.min_nbytes
                made = decisions(opened, rule.collective, table, (size,), **call)
                answer = next(each.setting for each in reversed(made) if each.min_nbytes <= size)
                if answer is None or rule.setting.contradicts(answer):
                    raise VerificationError(
                        f"the plugin answers {answer} where line {rule.line} says {rule.setting} "
                        f"({rule.collective.value} of {size} bytes, {scale})",
                        where=one.name,
                        hint="rccltune explain shows what the file says; please report it.",
                    )


def _by_scale(rules: Sequence[Rule]) -> dict[Scale, list[Rule]]:
    """By scale the first rule of each collective, at one node with eight ranks for any number."""
    first: dict[tuple[Collective, Scale], Rule] = {}
    for rule in rules:
        n_nodes = rule.n_nodes or 1
        scale = Scale(n_nodes=n_nodes, n_ranks=rule.n_ranks or 8 * n_nodes)
        # Communicators of one rank are left alone, and so is another mode's row.
        if scale.n_ranks > 1 and rule.only_mode is None:
            first.setdefault((rule.collective, scale), rule)
    found: dict[Scale, list[Rule]] = {}
    for (collective, scale), rule in first.items():
        before = rules[: rules.index(rule)]
        # One for any number of ranks may stand before it.
        if not any(each.matches(collective, rule.min_nbytes, scale) for each in before):
            found.setdefault(scale, []).append(rule)
    return found
