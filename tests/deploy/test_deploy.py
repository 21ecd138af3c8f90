"""A folder for jobs: what is in it, what it is checked with, and what is refused."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rccltune import plugin
from rccltune.cli import run
from rccltune.deploy import folder as deploy
from rccltune.deploy.folder import Deployment
from rccltune.deploy.session import deploy_sessions
from rccltune.model.errors import (
    CommandLineError,
    InputFileError,
    MachineError,
    RccltuneError,
    SessionError,
    VerificationError,
)
from rccltune.model.reporter import Reporter
from rccltune.model.schema import to_plain

NAME = "rccl_tuner_gfx942_cpx-nps4.csv"
ONE_OAM = "rccl_tuner_gfx942_cpx-nps4_one-oam.csv"
SHELLS = ("sh", "dash", "bash", "bash --posix", "busybox sh", "zsh")
HEAD = "#@ requires arch=gfx942 cus=38 compute=CPX memory=NPS4{more}\n"
RULE = "allreduce,1024,4096,tree,ll,-1,1,64,-1,-1\n"
Made = Callable[..., Path]


@pytest.fixture(scope="module")
def measured(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session of published measurements, without rules."""
    try:
        plugin.library()
    except MachineError as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("measured") / "session"
    logs = repository / "examples" / "mi300x-cpx-nps4" / "all_reduce.csv"
    assert run(["import", str(logs), "-o", str(folder), "-q"]) == 0
    return folder


@pytest.fixture
def made(measured: Path, tmp_path: Path) -> Made:
    """Makes that session with rule files of one rule each: name, what its head says more."""

    def make(lines: str = "", more: str = "", name: str = NAME, rule: str = RULE) -> Path:
        folder = tmp_path / "session"
        if not folder.exists():
            shutil.copytree(measured, folder)
        (folder / name).write_text(HEAD.format(more=more) + lines + rule, encoding="utf-8")
        return folder

    return make


def put(folder: Path, directory: Path, *, unproven: bool = False) -> Deployment:
    """Deploy and say nothing."""
    return deploy_sessions(directory, [folder], unproven=unproven, reporter=Reporter())


def sourced(script: str, shell: str = "sh", **given: str) -> subprocess.CompletedProcess[str]:
    """Run lines under ``set -eu`` with little in the environment; then what is exported."""
    words = shell.split()
    if shutil.which(words[0]) is None:
        pytest.skip(f"there is no {words[0]} here")
    return subprocess.run(
        [*words, "-euc", f"{script}\nenv | grep -E '^(NCCL|RCCL)' | sort"],
        env={"PATH": os.environ["PATH"], **given},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def exported(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """NAME=VALUE lines."""
    return dict(line.split("=", 1) for line in done.stdout.splitlines())


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_folder_has_plugin_rules_env_sh_and_readme(made: Made, tmp_path: Path) -> None:
    """The same bytes, readable by all whatever the umask; README has where from, and hashes."""
    folder, site = (
        made("# verified: 2026-11-21, 1 rule better\n#@ library RCCL 2.27.7\n"),
        tmp_path / "apps" / "site",
    )
    before = os.umask(0o077)
    try:
        done = put(folder, site)
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in site.iterdir()}
    read_only = dict.fromkeys((NAME, "env.sh", "README"), 0o444)
    assert modes == {plugin.LIBRARY: 0o555, "check": 0o555, **read_only}
    assert stat.S_IMODE(site.stat().st_mode) == 0o755
    assert [path.name for path in site.parent.iterdir()] == ["site"]
    readme = (site / "README").read_text(encoding="utf-8")
    for name, path in ((NAME, folder / NAME), (plugin.LIBRARY, plugin.library())):
        assert (site / name).read_bytes() == path.read_bytes()
        assert f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {name}\n" in readme
    assert f"{NAME}: 1 rule, verified: 2026-11-21, 1 rule better\n" in readme
    assert "They were measured with RCCL 2.27.7: in a job with another release" in readme
    assert "AMD Instinct MI300X, gfx942, cpx-nps4" in readme
    assert f"Session: {folder}, made by rccltune" in readme
    assert to_plain(done) == {
        "directory": str(site),
        "replaced": False,
        "simulated": False,
        "rules": 1,
        "fallbacks": 0,
        "verified": {NAME: "2026-11-21, 1 rule better"},
        "unproven": {NAME: 0},
        "read_otherwise": {NAME: []},
        "placements": [],
        "environment": exported(sourced(f". {site}/env.sh")),
    }


def test_what_speaks_against_rules_is_said_in_both_texts(made: Made, tmp_path: Path) -> None:
    """Nobody verified them, nothing proves one, they are simulated."""
    put(made("# SIMULATED: made up\n# UNPROVEN: 1\n"), tmp_path / "site", unproven=True)
    for name in ("README", "env.sh"):
        text = (tmp_path / "site" / name).read_text(encoding="utf-8")[:400]
        assert all(word in text for word in ("SIMULATED", "NOT VERIFIED", "1 UNPROVEN"))
    assert "SIMULATED" in sourced(f". {tmp_path}/site/env.sh").stderr


def test_what_a_library_may_write_over_is_said(made: Made, tmp_path: Path) -> None:
    """By the release that the rules were measured with, until a verification has asked it."""
    told = Told()
    lines = "# library: RCCL 2.27.7+hip7.2\n"
    rule = "reducescatter,1024,4096,ring,simple,-1,1,64,-1,-1\n"
    deploy_sessions(tmp_path / "site", [made(lines, rule=rule)], unproven=True, reporter=told)
    wanted = "reduce_scatter up to 21.5 MiB runs ll whatever a rule says"
    assert any(wanted in said for said in told.said)
    assert wanted in (tmp_path / "site/README").read_text(encoding="utf-8")
    told = Told()
    folder = made(f"{lines}# verified: 1 rule\n", rule=rule)
    deploy_sessions(tmp_path / "site", [folder], unproven=True, reporter=told)
    assert not any("whatever a rule says" in said for said in told.said)


class Told(Reporter):
    """Keeps what is said."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.said: list[str] = []

    def say(self, text: str) -> None:
        """Keep it."""
        self.said.append(text)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("path", ["site", "it's $HOME `x` [1]", 'back\\slash "q": ,'])
def test_env_sh_sets_all_of_it_and_leaves_nothing(
    made: Made, tmp_path: Path, shell: str, path: str
) -> None:
    """By absolute paths, in every shell and from any folder."""
    site = tmp_path / path
    put(made("#@ needs NCCL_MIN_NCHANNELS=32\n"), site)
    script = '. "$SITE/env.sh"; ! set | grep "^_rccltune"'
    done = sourced(script, shell, SITE=str(site))
    assert (done.returncode, done.stderr) == (0, "")
    assert exported(done) == {
        "NCCL_TUNER_PLUGIN": str(site / plugin.LIBRARY),
        "NCCL_TUNER_CONFIG_FILE": str(site / NAME),
        "NCCL_MIN_NCHANNELS": "32",
    }


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("name", "left"),
    [
        ("NCCL_TUNER_PLUGIN", {"NCCL_TUNER_PLUGIN"}),
        ("NCCL_TUNER_CONFIG_FILE", {"NCCL_TUNER_PLUGIN", "NCCL_TUNER_CONFIG_FILE"}),
        ("RCCLTUNE_CONFIG_DIR", {"NCCL_TUNER_PLUGIN", "RCCLTUNE_CONFIG_DIR"}),
        (
            "NCCL_MIN_NCHANNELS",
            {"NCCL_TUNER_PLUGIN", "NCCL_TUNER_CONFIG_FILE", "NCCL_MIN_NCHANNELS"},
        ),
    ],
)
def test_a_variable_of_the_users_own_stays_with_a_warning(
    made: Made, tmp_path: Path, shell: str, name: str, left: set[str]
) -> None:
    """What belongs to a foreign plugin or to other rules gets nothing of ours."""
    put(made("#@ needs NCCL_MIN_NCHANNELS=32\n"), tmp_path / "site")
    done = sourced(f". {tmp_path}/site/env.sh", shell, **{name: "/mine"})
    assert done.returncode == 0
    assert exported(done).keys() == left
    assert exported(done)[name] == "/mine"
    assert name in done.stderr


@pytest.mark.parametrize("shell", SHELLS)
def test_a_copy_names_itself_or_says_that_it_cannot(made: Made, tmp_path: Path, shell: str) -> None:
    """bash and zsh know their file; elsewhere a folder that is gone stops a careful script."""
    put(made(), tmp_path / "site")
    (tmp_path / "site").rename(tmp_path / "copy")
    done = sourced(f"cd {tmp_path}/copy; . ../copy/env.sh", shell)
    if shell.startswith(("bash", "zsh")):
        assert exported(done)["NCCL_TUNER_PLUGIN"] == f"{tmp_path}/copy/{plugin.LIBRARY}"
    else:
        assert done.returncode != 0
        assert "nothing is set" in done.stderr


def test_several_files_are_found_by_their_names(made: Made, tmp_path: Path) -> None:
    """A placement is asked for and never declared."""
    folder = made(more=" placement=one-oam", name=ONE_OAM)
    done = put(folder, tmp_path / "site")
    assert done.placements == ("one-oam",)
    said = sourced(f". {tmp_path}/site/env.sh").stderr
    assert "export RCCLTUNE_PLACEMENT=one-oam" in said
    assert sourced(f". {tmp_path}/site/env.sh", RCCLTUNE_PLACEMENT="one-oam").stderr == ""
    made()
    done = put(folder, tmp_path / "site")
    assert (done.placements, done.replaced) == ((), True)
    found = exported(sourced(f". {tmp_path}/site/env.sh"))
    assert found.keys() == {"NCCL_TUNER_PLUGIN", "RCCLTUNE_CONFIG_DIR"}


SCALE = """#@ section allreduce nodes=1 ranks={0}
# verified: 1.20x
allreduce,1024,4096,tree,ll,-1,1,{0},-1,-1
"""


def sessions(made: Made, tmp_path: Path, *ranks: int) -> list[Path]:
    """Sessions of one machine, each with a rule for so many ranks."""
    found = []
    for n in ranks:
        folder = made(f"# verified: on {n} ranks\n", rule=SCALE.format(n))
        found.append(folder.rename(tmp_path / f"s{n}"))
    return found


def test_sessions_of_several_scales_become_one_file(made: Made, tmp_path: Path) -> None:
    """The plugin of the folder answers at each; README names every session."""
    folders = sessions(made, tmp_path, 64, 8)
    done = deploy_sessions(tmp_path / "site", folders, unproven=False, reporter=Reporter())
    (one,) = done.rules
    assert [rule.n_ranks for rule in one.file.rules] == [64, 8]
    assert one.verified == "on 64 ranks; on 8 ranks"
    assert done.variables(Path("/d"))["NCCL_TUNER_CONFIG_FILE"] == f"/d/{NAME}"
    readme = (tmp_path / "site/README").read_text(encoding="utf-8")
    assert all(f"Session: {folder}, made by" in readme for folder in folders)


def test_sessions_that_contradict_each_other_are_refused(made: Made, tmp_path: Path) -> None:
    """Two of one scale, or of two machines: nothing is written."""
    (one,) = sessions(made, tmp_path, 64)
    twin = tmp_path / "twin"
    shutil.copytree(one, twin)
    with pytest.raises(CommandLineError, match="64 ranks on 1 node too"):
        deploy_sessions(tmp_path / "site", [one, twin], unproven=True, reporter=Reporter())
    header = (twin / "session.json").read_text()
    (twin / "session.json").write_text(header.replace("gfx942", "gfx950"))
    with pytest.raises(SessionError, match="two machines"):
        deploy_sessions(tmp_path / "site", [one, twin], unproven=True, reporter=Reporter())
    assert not (tmp_path / "site").exists()


def test_placements_of_several_sessions_stay_files(made: Made, tmp_path: Path) -> None:
    """Found by their names, as those of one session are."""
    (whole,) = sessions(made, tmp_path, 64)
    part = made(more=" placement=one-oam", name=ONE_OAM).rename(tmp_path / "part")
    done = deploy_sessions(tmp_path / "site", [whole, part], unproven=True, reporter=Reporter())
    assert [one.name for one in done.rules] == [NAME, ONE_OAM]
    assert "RCCLTUNE_CONFIG_DIR" in done.variables(Path("/d"))


def test_a_folder_of_its_own_is_replaced_as_a_whole(made: Made, tmp_path: Path) -> None:
    """What it had and has no more is gone; who looks at any moment sees one or the other."""
    folder, site = made(), tmp_path / "site"
    put(folder, site)
    (folder / NAME).unlink()
    seen: list[set[str]] = []
    swap = deploy._swap

    def look(half: Path, target: Path) -> None:
        seen.append({path.name for path in target.iterdir()})
        swap(half, target)
        seen.append({path.name for path in target.iterdir()})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deploy, "_swap", look)
        assert put(made(name="rccl_tuner.csv"), site).replaced
    mine = {plugin.LIBRARY, "env.sh", "README", "check"}
    assert seen == [mine | {NAME}, mine | {"rccl_tuner.csv"}]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["session", "site"]


@pytest.mark.parametrize("code", [errno.EINVAL, errno.EPERM])
def test_where_names_cannot_be_exchanged_the_folder_is_moved_aside(
    made: Made, tmp_path: Path, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NFS; another refusal ends it with the folder as it was."""
    folder, site = made(), tmp_path / "site"
    put(folder, site)
    before = contents(site)
    made("# another\n")

    class Libc:
        """A C library whose kernel refuses."""

        @staticmethod
        def renameat2(*_: object) -> int:
            deploy.ctypes.set_errno(code)
            return -1

    monkeypatch.setattr(deploy.ctypes, "CDLL", lambda *_, **__: Libc)
    monkeypatch.setattr(deploy, "check", lambda *_: None)
    if code == errno.EINVAL:
        put(folder, site)
        assert "# another" in (site / NAME).read_text(encoding="utf-8")
    else:
        with pytest.raises(SessionError, match="cannot write site"):
            put(folder, site)
        assert contents(site) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["session", "site"]


@pytest.mark.parametrize("number", range(1, 5))
def test_a_disk_that_fills_at_any_file_leaves_what_was_there(
    made: Made, tmp_path: Path, number: int
) -> None:
    """Nothing half-written, exit code 7."""
    folder, site = made(), tmp_path / "site"
    put(folder, site)
    before, left = contents(site), [number]

    def full(_: int) -> None:
        left[0] -= 1
        if not left[0]:
            raise OSError(errno.ENOSPC, "No space left on device")

    made("# another\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(SessionError, match="No space left"):
            put(folder, site)
    assert contents(site) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["session", "site"]


def strange(site: Path) -> None:
    """A folder of somebody's own."""
    site.mkdir()
    (site / "notes").touch()


def added_to(site: Path) -> None:
    """A folder of ours in which somebody keeps something."""
    strange(site)
    for name in ("README", "env.sh"):
        (site / name).write_text(f"{deploy._MARK}\n")


def a_session(site: Path) -> None:
    """The arguments the wrong way round."""
    site.mkdir()
    (site / "session.json").write_text("{}")


@pytest.mark.parametrize(
    ("before", "says"),
    [
        (strange, r"not made by rccltune deploy: it has other things in it \(notes\)"),
        (added_to, r"other things in it \(notes\)"),
        (a_session, "the folder to make is named first"),
        (Path.touch, "this is no folder"),
        (lambda site: site.symlink_to("gone"), "this is a link"),
    ],
    ids=["strange", "added-to", "session", "file", "link"],
)
def test_a_folder_that_is_not_ours_stays_as_it_is(
    made: Made, tmp_path: Path, before: Callable[[Path], None], says: str
) -> None:
    """Exit code 2, and what is there is named."""
    site = tmp_path / "site"
    before(site)
    with pytest.raises(CommandLineError, match=says):
        put(made(), site)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["session", "site"]


def test_an_empty_folder_may_be_used(made: Made, tmp_path: Path) -> None:
    """Whoever makes the folders of a site made it."""
    (tmp_path / "site").mkdir()
    assert not put(made(), tmp_path / "site").replaced


@pytest.mark.parametrize(
    ("lines", "rule", "error", "says"),
    [
        ("", "allreduce,9,8,ring,ll,-1,1,64,-1,-1\n", InputFileError, "min-above-max"),
        ("#@ needs NCCL_NET_PLUGIN=evil\n", RULE, CommandLineError, "may load code"),
        ("#@ needs NCCL_MIN_NCHANNELS=/x\n", RULE, CommandLineError, "may load code"),
        ("# UNPROVEN: 1\n", RULE, CommandLineError, "1 of rccl_tuner.* are UNPROVEN"),
        ("", "", SessionError, "there is no rule in this session"),
    ],
)
def test_rules_that_must_not_go_out_are_refused(
    made: Made, tmp_path: Path, lines: str, rule: str, error: type[RccltuneError], says: str
) -> None:
    """Mistakes, variables that load code, nothing proven, nothing at all."""
    with pytest.raises(error, match=says):
        put(made(lines, rule=rule), tmp_path / "site")
    assert not (tmp_path / "site").exists()


def test_what_verification_refused_is_refused(made: Made, tmp_path: Path) -> None:
    """By its content, whatever else is in the session."""
    folder = made()
    digest = hashlib.sha256((folder / NAME).read_bytes()).hexdigest()
    refused = f'{{"path": "{NAME}", "sha256": "{digest}", "message": "slower", "hint": null}}'
    (folder / "refused.json").write_text(refused)
    with pytest.raises(VerificationError, match="verification of these rules failed: slower"):
        put(folder, tmp_path / "site")


def test_files_that_contradict_each_other_are_refused(made: Made, tmp_path: Path) -> None:
    """A job has one environment, and the plugin one file for a placement."""
    folder = made("#@ needs NCCL_MIN_NCHANNELS=32\n")
    made("#@ needs NCCL_MIN_NCHANNELS=64\n", " placement=one-oam", ONE_OAM)
    with pytest.raises(CommandLineError, match="both NCCL_MIN_NCHANNELS=32 and"):
        put(folder, tmp_path / "site")
    made(name=ONE_OAM)
    with pytest.raises(CommandLineError, match="for any placement"):
        put(folder, tmp_path / "site")
    made("", " placement=first", ONE_OAM)
    with pytest.raises(CommandLineError, match="does not say them"):
        put(folder, tmp_path / "site")


def test_no_rule_file_and_no_session_are_refused(measured: Path, tmp_path: Path) -> None:
    """With what to do."""
    with pytest.raises(SessionError, match="no rule file"):
        put(measured, tmp_path / "site")
    with pytest.raises(SessionError, match="no session"):
        put(tmp_path, tmp_path / "site")


@pytest.mark.parametrize("damage", ["plugin", "rules", "env.sh"])
def test_a_folder_whose_plugin_does_not_follow_the_rules_is_not_made(
    made: Made, tmp_path: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plugin is loaded from the folder with what env.sh sets, and asked."""
    write = deploy._write

    def broken(path: Path, content: bytes, mode: int) -> None:
        if damage == "plugin" and path.name == plugin.LIBRARY:
            content = b"no library"
        if damage == "rules" and path.name == NAME:
            content = content.replace(b"tree,ll,", b"ring,ll,")
        write(path, content, mode)

    monkeypatch.setattr(deploy, "_write", broken)
    if damage == "env.sh":
        text = deploy._ENV_SH.replace('eval "$1=', 'false && eval "$1=')
        monkeypatch.setattr(deploy, "_ENV_SH", text)
    with pytest.raises((MachineError, VerificationError), match=r"loaded|tree/ll|env\.sh"):
        put(made(), tmp_path / "site")
    assert [path.name for path in tmp_path.iterdir()] == ["session"]


def test_shellcheck_has_nothing_to_say(made: Made, tmp_path: Path) -> None:
    """Of env.sh with all that it may hold, as POSIX sh."""
    checker = shutil.which("shellcheck", path=str(Path(sys.executable).parent))
    if checker is None:
        pytest.skip("shellcheck is not installed")
    made("# SIMULATED: made up\n#@ needs NCCL_MIN_NCHANNELS=32\n", " placement=one-oam", ONE_OAM)
    put(tmp_path / "session", tmp_path / "site")
    done = subprocess.run(
        [checker, "--shell=sh", tmp_path / "site" / "env.sh"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == ""
