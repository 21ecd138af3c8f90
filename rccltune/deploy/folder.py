"""The folder itself: what is in it, whether it may be replaced, and that the plugin works in it."""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Final

from rccltune import plugin
from rccltune.model.brief import brief
from rccltune.model.errors import CommandLineError, VerificationError
from rccltune.model.rule import Rule, RuleCount
from rccltune.model.settings import Scale
from rccltune.model.text import join_lines, printable
from rccltune.model.version import __version__
from rccltune.model.vocabulary import Algorithm, Collective, Protocol
from rccltune.rules.decision import cost_table, find_decisions
from rccltune.rules.plugin_check import check_plugin
from rccltune.rules.plugin_library import PluginLibrary
from rccltune.rules.rule_file import RuleFile
from rccltune.session.files import sync_folder
from rccltune.session.store import NODE_FILE, Session

ENV_SH: Final = "env.sh"
README: Final = "README"
CHECK: Final = "check"
SIMULATED: Final = (
    "SIMULATED: these rules come from a stand-in benchmark, not from hardware; not for production"
)
NOT_VERIFIED: Final = "NOT VERIFIED on this machine"
# The first line of README, by which a folder is known as one of ours.
_MARK: Final = "Rules and tuner plugin for RCCL and NCCL, put here by rccltune deploy"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployedRuleFile:
    """One rule file.

    Attributes:
        path: where it lies in a session; of several that were joined, the first.
        file: as the plugin reads it.
        verified: what its comment ``# verified:`` says; None where it has none.
        n_unproven: rules whose gain nothing proves.
        misread: lines that a host takes for something else where it reads the file by itself.
        overwritten: what the library writes over of them, a sentence each.
    """

    path: Path
    content: bytes
    file: RuleFile
    count: RuleCount
    verified: str | None
    n_unproven: int
    misread: tuple[str, ...]
    overwritten: tuple[str, ...]

    @property
    def name(self) -> str:
        """Its name in the folder."""
        return self.path.name

    @property
    def placement(self) -> str | None:
        """The only placement of ranks that it is for."""
        return dict(self.file.requires).get("placement")

    @property
    def remark(self) -> str:
        """Whether somebody verified it, and what nothing proves."""
        sentence = f"verified: {self.verified}" if self.verified else NOT_VERIFIED
        return f"{sentence}; {self.n_unproven} UNPROVEN" if self.n_unproven else sentence


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """Folder that was made for jobs: plugin, rule files, exports.

    Attributes:
        directory: absolute.
        replaced: whether a folder of an earlier deploy was there.
        environment: (name, value) of what the rules need beside plugin and file.
    """

    directory: Path
    replaced: bool
    rules: tuple[DeployedRuleFile, ...]
    environment: tuple[tuple[str, str], ...]
    simulated: bool

    @property
    def placements(self) -> tuple[str, ...]:
        """Placements of which one must be declared before any rule holds; empty where none must."""
        names = [one.placement for one in self.rules]
        return tuple(name for name in names if name is not None) if all(names) else ()

    def variables(self, folder: Path) -> dict[str, str]:
        """Variables that env.sh sets, with the files in ``folder``."""
        by_name = len(self.rules) > 1
        rules = {"RCCLTUNE_CONFIG_DIR": str(folder)} if by_name else {
            "NCCL_TUNER_CONFIG_FILE": str(folder / self.rules[0].name)
        }  # fmt: skip
        plain = {"NCCL_TUNER_PLUGIN": str(folder / plugin.LIBRARY)}
        return {**plain, **rules, **dict(self.environment)}

    def json_fields(self) -> dict[str, Any]:
        """Fields for --json."""
        return {
            "directory": self.directory,
            "replaced": self.replaced,
            "simulated": self.simulated,
            "rules": sum(one.count.rules for one in self.rules),
            "fallbacks": sum(one.count.fallbacks for one in self.rules),
            "verified": {one.name: one.verified for one in self.rules},
            "unproven": {one.name: one.n_unproven for one in self.rules},
            "read_otherwise": {one.name: one.misread for one in self.rules},
            "placements": self.placements,
            "environment": self.variables(self.directory),
        }


def is_ours(target: Path) -> bool:
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
    return name in (ENV_SH, README, CHECK, NODE_FILE, plugin.LIBRARY) or name.startswith(
        "rccl_tuner"
    )


def _has_mark(target: Path) -> bool:
    try:
        with (target / README).open(encoding="utf-8", errors="replace") as lines:
            return lines.readline().startswith(_MARK)
    except OSError:
        return False


def write_folder(done: Deployment, sessions: Sequence[Session]) -> None:
    """Write all of it beside the folder, ask the plugin there, and give it the folder's name."""
    target = done.directory
    target.parent.mkdir(parents=True, exist_ok=True)
    half = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        library = plugin.library().read_bytes()
        _write(half / plugin.LIBRARY, library, 0o555)
        for rule_file in done.rules:
            _write(half / rule_file.name, rule_file.content, 0o444)
        _write(half / ENV_SH, env_sh(done, target).encode(), 0o444)
        simulate = ""
        node = sessions[0].path / NODE_FILE
        if done.simulated and node.exists():
            _write(half / NODE_FILE, node.read_bytes(), 0o444)
            simulate = f' --simulate "$here/{NODE_FILE}"'
        names = " ".join(done.variables(done.directory))
        script = _CHECK_SH.format(simulate=simulate, names=names)
        _write(half / CHECK, script.encode(), 0o555)
        _write(half / README, _readme(done, sessions, library).encode(), 0o444)
        check(done, half)
        half.chmod(0o755)
        _swap(half, target)
        sync_folder(target.parent)
    finally:
        # What was in the way, or what failed.
        shutil.rmtree(half, ignore_errors=True)


def _write(path: Path, content: bytes, mode: int) -> None:
    """Write a file that every user of the cluster can read, whatever the umask."""
    with path.open("xb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    path.chmod(mode)


_CHECK_SH: Final = """\
#!/bin/sh
# Do these rules still hold on this machine? In a job script, before its ranks start:
#   check --quick || unset {names}
here=$(CDPATH='' cd "$(dirname "$0")" && pwd)
if ! command -v rccltune >/dev/null; then
    echo "check: rccltune is not on PATH: nothing was checked, the rules may hold all the same" >&2
    exit 127
fi
exec rccltune check "$here"{simulate} "$@"
"""
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
_rccltune_old=''
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
    unset _rccltune_dir _rccltune_from _rccltune_old
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


def env_sh(done: Deployment, folder: Path) -> str:
    """The text of env.sh for a folder; POSIX sh."""
    by_name = ("NCCL_TUNER_CONFIG_FILE", "RCCLTUNE_CONFIG_DIR")
    several = len(done.rules) > 1
    warnings = [f"echo {shlex.quote(f'rccltune: {SIMULATED}')} >&2\n"] if done.simulated else []
    if done.placements:
        name = done.placements[0]
        warnings.append(
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
        said="".join(warnings),
        other=by_name[not several],
        variable=by_name[several],
        value="$_rccltune_dir" if several else f"$_rccltune_dir/{done.rules[0].name}",
        needs="\n        ".join(needs) or ":",
    )


def _head(done: Deployment) -> list[str]:
    """Heading comments: what the folder is, and what speaks against it."""
    lines = [_MARK]
    lines += [SIMULATED] if done.simulated else []
    for one in done.rules:
        lines.append(f"{one.name}: {one.count}, {one.remark}")
        lines += [f"{one.name}: {said}" for said in one.overwritten]
    return lines


def _readme(done: Deployment, sessions: Sequence[Session], library: bytes) -> str:
    """Text of README: what is in the folder, where it comes from and how to use it."""
    fingerprint = sessions[0].fingerprint
    parts = (
        fingerprint.product,
        fingerprint.arch,
        str(fingerprint.mode) if fingerprint.mode else None,
    )
    requires = " ".join(f"{key}={value}" for key, value in done.rules[0].file.requires)
    contents = [(plugin.LIBRARY, library), *((one.name, one.content) for one in done.rules)]
    now = datetime.now(timezone.utc).astimezone()
    script = shlex.quote(str(done.directory / ENV_SH))
    lines = [
        *_head(done),
        "",
        f"Deployed {now:%Y-%m-%d %H:%M %Z} by rccltune {__version__}.",
        *(
            f"Session: {' '.join(str(one.path.absolute()).split())}, made by {one.tool}."
            for one in sessions
        ),
        f"Measured on: {', '.join(part for part in parts if part) or 'an unknown machine'}.",
        f"The rules require {requires or 'nothing'} of a machine.",
        *_library_lines(done.rules[0].file),
        "",
        f"To use it, in each job before its ranks start:  . {script}",
        "It sets",
        *(f"  {name}={value}" for name, value in done.variables(done.directory).items()),
        "To leave it out in a job, unset these.",
        f"Whether they still hold here:  {shlex.quote(str(done.directory / CHECK))} [--quick]",
        "",
        "sha256 of what was put here:",
        *(f"{hashlib.sha256(content).hexdigest()}  {name}" for name, content in contents),
        "",
    ]
    return join_lines(lines)


def _library_lines(file: RuleFile) -> list[str]:
    """What happens in a job with another library than the rules were measured with."""
    if file.library is None:
        return []
    sentence = (
        f"They were measured with {file.library}: in a job with another release the plugin warns, "
        "and with RCCLTUNE_STRICT=1 on all ranks it refuses them."
    )
    return [sentence]


def check(done: Deployment, folder: Path) -> None:
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
    exported = {os.fsdecode(name): os.fsdecode(value) for name, value in pairs}
    variables = done.variables(folder)
    if ran.returncode or {name: exported.get(name) for name in variables} != variables:
        raise VerificationError(
            f"env.sh does not set what it should: {printable(os.fsdecode(ran.stderr))}",
            where=str(done.directory),
            hint="please report it: it is a bug.",
        )
    host = PluginLibrary(folder / plugin.LIBRARY)
    check_plugin(host.path)
    for one in done.rules:
        _check_rules(host, one, {name: exported[name] for name in variables}, folder)


def _check_rules(
    host: PluginLibrary, rule_file: DeployedRuleFile, variables: Mapping[str, str], folder: Path
) -> None:
    required = dict(rule_file.file.requires)
    # No machine: what the plugin does not see there it does not hold against the rules. To find
    # one of several files it would have to see a device.
    environment = {**variables, "RCCLTUNE_SYSROOT": str(folder)}
    environment.pop("RCCLTUNE_CONFIG_DIR", None)
    environment["NCCL_TUNER_CONFIG_FILE"] = str(folder / rule_file.name)
    if "compute" in required:
        environment["RCCLTUNE_MODE"] = f"{required['compute']}-{required.get('memory', '')}".lower()
    if rule_file.placement is not None:
        environment["RCCLTUNE_PLACEMENT"] = rule_file.placement
    table = cost_table((a, p) for a in Algorithm for p in Protocol)
    for scale, rules in _by_scale(rule_file.file.rules).items():
        with host.communicator(
            abi=max(host.abi_versions),
            n_nodes=scale.n_nodes,
            n_ranks=scale.n_ranks,
            env=environment,
        ) as opened:
            for rule in rules:
                call = {"num_pipe_ops": rule.num_pipe_ops or 1, "reg_buff": rule.reg_buff or 0}
                size = rule.min_nbytes
                answers = find_decisions(opened, rule.collective, table, (size,), **call)
                answer = next(each.setting for each in reversed(answers) if each.min_nbytes <= size)
                if answer is None or rule.setting.contradicts(answer):
                    raise VerificationError(
                        f"the plugin answers {answer} where line {rule.line} says {rule.setting} "
                        f"({rule.collective.value} of {size} bytes, {scale})",
                        where=rule_file.name,
                        hint="rccltune explain shows what the file says; please report it.",
                    )


def _by_scale(rules: Sequence[Rule]) -> dict[Scale, list[Rule]]:
    """First rule of each collective by scale, at one node with eight ranks for any number."""
    first: dict[tuple[Collective, Scale], Rule] = {}
    for rule in rules:
        n_nodes = rule.n_nodes or 1
        scale = Scale(n_nodes=n_nodes, n_ranks=rule.n_ranks or 8 * n_nodes)
        # Communicators of one rank are left alone, and so is another mode's row.
        if scale.n_ranks > 1 and rule.only_mode is None:
            first.setdefault((rule.collective, scale), rule)
    first_rules: dict[Scale, list[Rule]] = {}
    for (collective, scale), rule in first.items():
        before = rules[: rules.index(rule)]
        # One for any number of ranks may stand before it.
        if not any(each.matches(collective, rule.min_nbytes, scale) for each in before):
            first_rules.setdefault(scale, []).append(rule)
    return first_rules
