"""deploy as an admin types it, and what a job gets that sources env.sh: the real plugin's doing."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from deliveries import let_others_in, sourced
from kept import sweep_once
from trees import write
from variant_truth import Manner, untouched
from wording import lacks

from rccltune import plugin, session, simulate
from rccltune.cli import run
from rccltune.model import Reporter
from rccltune.rules import sealed

pytestmark = pytest.mark.usefixtures("stand_ins", "here")

KIB, MIB = 1024, 1 << 20
SMALL = ["--launcher", "none", "--collective", "all_reduce", "--exhaustive"]
SMALL += ["--min-bytes", "1K", "--max-bytes", "64M", "--setting", "tree/ll"]
SMALL += ["--setting", "ring/simple", "--repeats", "3"]
SESSION = Path("rccltune-session")
SITE = Path("site")
RULES = "rccl_tuner_gfx942_cpx-nps4.csv"
# 3 rules of a session that was imported, none of them simulated.
IMPORTED = "examples/mi300x-cpx-nps4/all_reduce.csv"


@pytest.fixture
def simulated(here: Path) -> None:
    """A simulated session with rules."""
    assert here == Path.cwd()
    assert sweep_once(["--simulate", "mi300x", "--mode", "cpx-nps4", *SMALL, "-q"], SESSION) == 0
    assert run(["emit-config", "-q"]) == 0
    _as_proven(SESSION / RULES)


def _as_proven(path: Path) -> None:
    """As whoever verifies the rules leaves them: one launch of each setting proves nothing."""
    text = path.read_text(encoding="utf-8")
    kept = [one for one in text.splitlines(True) if not one.startswith("# UNPROVEN:")]
    path.write_text("".join(kept), encoding="utf-8")


@pytest.fixture
def imported(
    repository: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[[str], None]:
    """A session of published measurements, with its rules; more lines go into their head."""

    def made(lines: str = "", folder: Path = SESSION) -> None:
        assert here == Path.cwd()
        assert run(["import", str(repository / IMPORTED), "-o", str(folder), "-q"]) == 0
        assert run(["emit-config", str(folder), "--baseline", "ring/simple", "-q"]) == 0
        path = folder / RULES
        _as_proven(path)
        with path.open("a", encoding="utf-8") as file:
            file.write(lines)
        capsys.readouterr()

    return made


@pytest.mark.parametrize("shell", ["sh", "dash", "bash", "busybox sh"])
@pytest.mark.usefixtures("simulated")
def test_a_job_that_sources_it_runs_the_deployed_rules(shell: str, tmp_path: Path) -> None:
    """The stand-in library loads the deployed plugin, which reads the deployed file."""
    assert run(["deploy", "site"]) == 0
    # What is not deployed is gone: nothing else can have answered.
    shutil.rmtree(SESSION)
    given = sourced(SITE, shell)
    rules = (SITE / "current").resolve() / RULES
    assert given["NCCL_TUNER_CONFIG_FILE"] == str(rules)
    rows = [line.split(",") for line in rules.read_text().splitlines() if line[:1].isalpha()]
    asked = {max(int(row[1]), KIB): f"{row[3]}/{row[4]}" for row in rows}
    node = simulate.node_path("mi300x", "cpx-nps4")
    # There is no such device here that could say its mode.
    more = {"RCCLTUNE_MODE": "cpx-nps4", "RCCLTUNE_LOG": f"summary:{tmp_path}/log"}
    tuned = untouched(node, "all_reduce", list(asked), Manner().with_env(**given, **more))
    plain = untouched(node, "all_reduce", list(asked), Manner())
    assert {size: ran.what for size, ran in tuned.items()} == asked
    assert any(plain[size].what != what for size, what in asked.items())
    said = (tmp_path / "log").read_text(encoding="utf-8")
    assert f"file={rules}" in said
    assert session.sha256_of(rules) in said


@pytest.mark.usefixtures("simulated")
def test_simulated_rules_are_called_so_everywhere(capsys: pytest.CaptureFixture[str]) -> None:
    """Output, JSON, MANIFEST and env.sh; the copied file says so itself."""
    capsys.readouterr()
    assert run(["deploy", "site"]) == 0
    assert "SIMULATED" in capsys.readouterr().out.splitlines()[0]
    assert "# simulated: yes" in (SITE / "MANIFEST").read_text(encoding="utf-8")
    for name in ("env.sh", "MANIFEST", "check.sh"):
        assert "SIMULATED" in (SITE / name).read_text(encoding="utf-8")[:200]
    assert run(["deploy", "site", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["simulated"] is True


def test_what_was_deployed_is_said(
    imported: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    """Hashes of what is there, where it comes from, and that nobody verified it."""
    imported()
    assert run(["deploy", str(SESSION), "site", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    folder = Path(told["folder"])
    assert folder == (SITE / "current").resolve()
    assert (told["simulated"], told["before"]) == (False, None)
    assert told["verified"] == {RULES: None}
    assert told["environment"] == sourced(SITE)
    manifest = (folder / "MANIFEST").read_text(encoding="utf-8")
    for name, path in ((RULES, SESSION / RULES), (plugin.LIBRARY, plugin.library())):
        assert f"{session.sha256_of(path)}  {name}\n" in manifest
        assert session.sha256_of(folder / name) == session.sha256_of(path)
    assert f"{RULES}: NOT VERIFIED" in manifest
    assert "# measured on: AMD Instinct MI300X, gfx942, cpx-nps4" in manifest
    assert "# requires: arch=gfx942 cus=38 compute=CPX memory=NPS4" in manifest
    assert f"# session: {SESSION.absolute()}, made by rccltune" in manifest


def test_verified_rules_are_called_so(
    imported: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    """By the comment that verify writes."""
    imported("# verified: 2026-11-21, 12 rounds, 3 rules better\n")
    assert run(["deploy", "site"]) == 0
    said = capsys.readouterr().out
    assert "verified: 2026-11-21, 12 rounds, 3 rules better" in said
    assert "NOT VERIFIED" not in said + (SITE / "MANIFEST").read_text(encoding="utf-8")


def test_unproven_rules_are_deployed_on_demand_alone(
    imported: Callable[[], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """Rules from one launch each: refused, and with --unproven called so wherever one looks."""
    imported()
    assert run(["emit-config", "--baseline", "ring/simple", "--force", "-q"]) == 0
    assert run(["deploy", "site"]) == 2
    said = capsys.readouterr().err
    assert f"of {RULES} UNPROVEN" in said
    assert "rccltune verify" in said
    assert "--proven" in said
    assert not SITE.exists()
    assert run(["deploy", "site", "--unproven", "--json"]) == 0
    marks = (SESSION / RULES).read_text(encoding="utf-8").count("# UNPROVEN:")
    assert marks > 0
    assert json.loads(capsys.readouterr().out)["unproven"] == {RULES: marks}
    for name in ("env.sh", "MANIFEST"):
        assert "UNPROVEN" in (SITE / name).read_text(encoding="utf-8")
    assert run(["emit-config", "--baseline", "ring/simple", "--proven", "--force", "-q"]) == 0
    assert "# UNPROVEN:" not in (SESSION / RULES).read_text(encoding="utf-8")


def test_check_sh_agrees_with_the_node_that_was_measured(
    imported: Callable[..., None], tmp_path: Path
) -> None:
    """Ready in CPX/NPS4, not in SPX/NPS1."""
    imported()
    assert run(["deploy", "site", "-q"]) == 0
    for name, code in (("mi300x-cpx-nps4", 0), ("mi300x-spx-nps1", 1)):
        root = write(name, tmp_path / name)
        env = {"PATH": os.environ["PATH"], **sourced(SITE)}
        command = [SITE.absolute() / "check.sh", "--root", root]
        assert subprocess.run(command, env=env, check=False, capture_output=True).returncode == code


def test_back_to_the_version_before(
    imported: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    """It says to which; with nothing before it, it refuses and changes nothing."""
    imported()
    assert run(["deploy", "site", "--json"]) == 0
    first = json.loads(capsys.readouterr().out)["version"]
    assert run(["deploy", "site", "--rollback"]) == 7
    assert lacks(capsys.readouterr().err, f"{first}", "no version") == []
    path = SESSION / RULES
    path.write_text(path.read_text(encoding="utf-8") + "# another one\n", encoding="utf-8")
    assert run(["deploy", "site"]) == 0
    assert f"(before: {first})" in capsys.readouterr().out
    assert sourced(SITE)["NCCL_TUNER_PLUGIN"].split("/")[-2] != first
    assert run(["deploy", "--rollback", "site"]) == 0
    said = capsys.readouterr().out
    assert lacks(said, f"version {first}", "to version", "check.sh") == []
    assert f"{RULES}: NOT VERIFIED" in said
    assert sourced(SITE)["NCCL_TUNER_PLUGIN"].split("/")[-2] == first
    assert run(["deploy", "--rollback", "site", "--json"]) == 7
    assert not list(SITE.glob("writer.lock*"))


def test_the_same_again_changes_nothing(
    imported: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    """And is no version to go back to."""
    imported()
    assert run(["deploy", "site", "-q"]) == 0
    before = {p: p.lstat().st_mtime_ns for p in SITE.rglob("*")}
    assert run(["deploy", "site"]) == 0
    assert "was there already" in capsys.readouterr().out
    assert {p: p.lstat().st_mtime_ns for p in SITE.rglob("*")} == before


def test_a_session_without_rules_is_refused_with_what_to_do(
    imported: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    """No session, no rule file, none with a rule in it."""
    assert run(["deploy", "site"]) == 7
    assert lacks(capsys.readouterr().err, "no session") == []
    imported()
    text = (SESSION / RULES).read_text(encoding="utf-8")
    (SESSION / RULES).unlink()
    assert run(["deploy", "site"]) == 7
    assert "rccltune emit-config" in capsys.readouterr().err
    rows = [line for line in text.splitlines() if not line[:1].isalpha()]
    (SESSION / RULES).write_text("\n".join(sealed(rows)) + "\n")
    assert run(["deploy", "site"]) == 7
    assert lacks(capsys.readouterr().err, "no rule") == []
    assert not SITE.exists()


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("allreduce,9,8,ring,ll,-1,1,64,-1,-1", "min-above-max"),
        ("#@ needs A;reboot=1", "'A;reboot' is no name of a variable"),
    ],
)
def test_a_rule_file_that_harms_is_refused(
    imported: Callable[..., None], capsys: pytest.CaptureFixture[str], line: str, says: str
) -> None:
    """What the plugin would refuse in every job, and what a shell would run."""
    imported(f"{line}\n")
    assert run(["deploy", "site"]) == 3
    assert says in capsys.readouterr().err
    assert not SITE.exists()


def test_the_pair_for_an_environment_goes_out_by_name(
    imported: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """Its own rules and its variable; never by itself, nor where the variable alone gains."""
    imported()
    apart = SESSION / "channels-32" / RULES
    apart.parent.mkdir()
    row = "allreduce,4096,8192,tree,ll,-1,1,64,-1,-1\n"
    apart.write_text("#@ needs NCCL_MIN_NCHANNELS=32\n" + row, encoding="utf-8")
    assert run(["deploy", "site"]) == 0
    assert "NCCL_MIN_NCHANNELS" not in sourced(SITE, "sh")
    assert run(["deploy", "site", "--environment", "channels-32"]) == 0
    given = sourced(SITE, "sh")
    assert given["NCCL_MIN_NCHANNELS"] == "32"
    assert Path(given["NCCL_TUNER_CONFIG_FILE"]).read_text(encoding="utf-8").endswith(row)
    capsys.readouterr()
    assert run(["deploy", "site", "--environment", "channels-64"]) == 2
    assert lacks(capsys.readouterr().err, "channels-64", "it has them for: channels-32") == []
    apart.write_text("#@ needs NCCL_MIN_NCHANNELS=32\n", encoding="utf-8")
    assert run(["deploy", "site", "--environment", "channels-32"]) == 7
    said = " ".join(capsys.readouterr().err.split())
    assert "export NCCL_MIN_NCHANNELS=32 in the job" in said
    assert sourced(SITE, "sh") == given


def test_files_that_contradict_each_other_are_refused(
    imported: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    """A job has one environment."""
    imported("#@ needs NCCL_MIN_NCHANNELS=32\n")
    other = SESSION / RULES.replace(".csv", "_one-oam.csv")
    text = (SESSION / RULES).read_text(encoding="utf-8")
    placed = text.replace("memory=NPS4", "memory=NPS4 placement=one-oam")
    other.write_text(placed.replace("NCHANNELS=32", "NCHANNELS=64"), encoding="utf-8")
    assert run(["deploy", "site"]) == 2
    assert lacks(capsys.readouterr().err, "have both") == []
    other.write_text(text, encoding="utf-8")
    assert run(["deploy", "site"]) == 2
    assert lacks(capsys.readouterr().err, "any placement") == []
    other.write_text(placed.replace("one-oam", "first"), encoding="utf-8")
    assert run(["deploy", "site"]) == 2
    assert lacks(capsys.readouterr().err, f"{other.name}") == []
    other.write_text(placed, encoding="utf-8")
    assert run(["deploy", "site", "-q"]) == 0
    assert sourced(SITE)["RCCLTUNE_CONFIG_DIR"] == str((SITE / "current").resolve())
    assert sourced(SITE)["NCCL_MIN_NCHANNELS"] == "32"


def test_another_deploy_at_work_is_an_error(
    imported: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    """One writer at a time, as in a session."""
    imported()
    with session.writing(SITE, Reporter()):
        assert run(["deploy", "site"]) == 7
    said = capsys.readouterr().err
    assert lacks(said, f"process {os.getpid()}", "another rccltune") == []
    assert " -o" not in said
    assert not (SITE / "current").exists()


def test_a_full_disk_is_a_message(
    imported: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 7 and nothing half-written; a version that was there stays current."""
    imported()
    assert run(["deploy", "site", "-q"]) == 0
    before = (SITE / "current").readlink()
    path = SESSION / RULES
    path.write_text(path.read_text(encoding="utf-8") + "# another one\n", encoding="utf-8")

    def full(handle: int) -> None:
        if stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(28, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", full)
        assert run(["deploy", "site"]) == 7
    assert lacks(capsys.readouterr().err, "on device") == []
    assert (SITE / "current").readlink() == before
    assert len(list((SITE / "versions").iterdir())) == 1


@pytest.mark.parametrize(
    "words", [[], ["a", "b", "c"], ["--rollback", "a", "b"], ["--rollback"]], ids=" ".join
)
def test_too_many_folders_or_none(words: list[str]) -> None:
    """Exit code 2, and nothing is made."""
    assert run(["deploy", *words]) == 2


@pytest.mark.parametrize("name", ["a:b", "a,b", 'a"b', "a\nb"])
def test_a_path_that_no_container_can_bind_is_refused(
    imported: Callable[..., None], name: str
) -> None:
    """A colon ends the path in -v, and a comma in Apptainer's --bind; quotes in its --env-file."""
    imported()
    assert run(["deploy", name]) == 2
    assert not Path(name).exists()


def test_folders_that_it_makes_are_open_to_all(
    imported: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    """Also those above DIR, whatever the umask; one that was there is left, and said."""
    imported()
    Path("mine").mkdir(mode=0o700)
    before = os.umask(0o077)
    try:
        assert run(["deploy", "mine/apps/rccltune"]) == 0
    finally:
        os.umask(before)
    for folder in ("mine/apps", "mine/apps/rccltune", "mine/apps/rccltune/versions"):
        assert stat.S_IMODE(Path(folder).stat().st_mode) == 0o755
    assert stat.S_IMODE(Path("mine").stat().st_mode) == 0o700
    assert "not everybody may read " in capsys.readouterr().err


def test_which_folder_keeps_others_out_is_said(
    imported: Callable[..., None], here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first one on the way; nothing where everybody can read the version."""
    imported()
    let_others_in(here)
    assert run(["deploy", "site"]) == 0
    assert "not everybody" not in capsys.readouterr().err
    SITE.chmod(0o711)
    assert run(["deploy", "site"]) == 0
    assert lacks(capsys.readouterr().err, f"{here}/site") == []


def test_a_folder_of_somebody_elses_is_a_message(
    imported: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 7, with what to do; a session's advice would be no help here."""
    imported()
    assert run(["deploy", "site", "-q"]) == 0

    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    for words in (["deploy", "site"], ["deploy", "--rollback", "site"]):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("tempfile.mkstemp", refused)
            assert run(words) == 7
        said = capsys.readouterr().err
        assert lacks(said, "Permission") == []
        assert f"at: {SITE.absolute()}\n" in said
        assert lacks(said, "the version") == []
        assert "measured" not in said


def test_a_link_to_nothing_is_a_message(
    imported: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    """A file system that is not mounted; a link to a folder is one."""
    imported()
    SITE.symlink_to("gone")
    assert run(["deploy", "site"]) == 2
    assert lacks(capsys.readouterr().err, "link leads") == []
    Path("gone").mkdir()
    assert run(["deploy", "site", "-q"]) == 0
    # By the name that nodes see.
    assert sourced(SITE)["NCCL_TUNER_PLUGIN"].startswith(f"{SITE.absolute()}/versions/")
