"""What is taken of a session: what the lists name, and nothing else."""

from __future__ import annotations

import dataclasses
import json
import os
import stat
import tarfile
from pathlib import Path

import pytest
from archives import unpack

from rccltune import gather
from rccltune.cli import run
from rccltune.gather import FIELDS, ArchiveContent
from rccltune.model import measurement, rule, settings
from rccltune.model.errors import CommandLineError, SessionError
from rccltune.model.estimate import Estimate
from rccltune.ranks.runs import COLUMNS, EndFile, RunFile
from rccltune.session.samples_csv import HEAD
from rccltune.session.store import SessionHeader, SessionSetup
from rccltune.verify import verdict_file

SECRETS = ("node17", "lovelace", "project-x", "hush", "example.org", "10.1.2.3")
RUN = {
    "process": "42bcd09b1d96",
    "library": "/home/lovelace/project-x/librccl.so.1",
    "argv": ["mpirun", "-H", "node17", "--plugin", "/home/lovelace/librccl-tuner-rccltune.so"],
    "added": [
        ["NCCL_ALGO", "Tree"],
        ["MY_TOKEN", "hush"],
        ["RCCLTUNE_SIM_NODE", "/home/lovelace/x"],
    ],
    "owner": "lovelace",
}
RANK = f"""\
# rccltune-perf 1
# library /home/lovelace/project-x/librccl.so.1
# plugin /home/lovelace/mine.so
# host node17.example.org
# device 0 0000:0c:00.0
# greetings from lovelace
# failed 7 ncclInternalError: node17 said no
# variable NCCL_ALGO=Tree
# variable NCCL_TUNER_CONFIG_FILE=/home/lovelace/rccl_tuner.csv
# variable MY_TOKEN=hush
{COLUMNS}
4,0,measure,1024,300,7.4651,33,0,,,tree/ll,,,?,,,,,,,
5,0,measure,1024,300,7.4651,33,0,,,tree/ll,,,?,,,,,,,graph: node17 said no
6,0,measure,1024,300,@lovelace,33,0,,,tree/ll,,,?,,,,,,,
7,0,order,1024,1,,33,0,,,tree/ll,,,?,8,0,2,17,3f2a,9c04,
"""
RULES = """\
#@ format 1
# session: /home/lovelace/project-x, made by lovelace
# verified: 2026-11-21, 1 rule better
#@ requires product=NVIDIA-H100-80GB-HBM3
#@ library NCCL 2.28.9
#@ needs NCCL_MIN_NCHANNELS=32 MY_TOKEN=hush
allreduce,1024,4096,tree,ll,-1,1,64,-1,-1
#@ hole 0 9 not measured
#@ end 1
"""


def put(folder: Path, name: str, content: object) -> Path:
    """A file, of JSON where it is no text."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


@pytest.fixture
def session(tmp_path: Path) -> Path:
    """A session with everything that may be taken, and what may not beside it in each file."""
    folder = tmp_path / "session"
    fingerprint = {
        "product": "AMD Instinct MI300X",
        "hosts": ["node17.example.org"],
        "cu_count": 38,
    }
    head = {"format": 1, "command": "rccltune sweep -o /home/lovelace", "fingerprint": fingerprint}
    put(folder, "session.json", {**head, "tool": "rccltune, http://lovelace@10.1.2.3/x"})
    put(folder, "samples.csv", f"{HEAD}\nall_reduce,1\n/home/lovelace,x y,9\n")
    put(folder, "runs/1/run.json", RUN)
    put(folder, "runs/1/ending.json", {"exit_code": 0, "words": "node17 said no"})
    put(
        folder, "runs/1/plan.txt", "plan 2 1024\nanswer tree/ll128/16\nrules /home/lovelace/x.csv\n"
    )
    put(folder, "runs/1/rank-0.csv", RANK)
    put(folder, "verdict.json", {"path": "/home/lovelace/x.csv", "needs": {"MY_TOKEN": "hush"}})
    put(folder, "rccl_tuner_gfx942_cpx-nps4.csv", RULES)
    for name in ("runs/1/log.txt", "runs/1/environment.json", "launches/a/stdout.log", "notes"):
        put(folder, name, "hush, said lovelace on node17\n")
    return folder


def text(made: ArchiveContent, name: str) -> str:
    """A file of the archive."""
    return made.files[f"session/{name}"].decode()


def test_nothing_that_is_not_listed_is_in_it(session: Path) -> None:
    """Neither files nor fields, lines, columns, cells, variables, paths; hosts are hashed."""
    made = gather.gather_session(session)
    everything = "".join([*made.contents(), *map(bytes.decode, made.files.values())])
    assert [secret for secret in SECRETS if secret in everything] == []
    assert sorted(made.files) == [
        "session/rccl_tuner_gfx942_cpx-nps4.csv",
        *(f"session/runs/1/{n}" for n in ("ending.json", "plan.txt", "rank-0.csv", "run.json")),
        *(f"session/{n}" for n in ("samples.csv", "session.json", "verdict.json")),
    ]
    assert list(made.hosts) == ["node17"]


def test_what_is_listed_stays_as_it_is(session: Path) -> None:
    """So that it can be read again: rows, plan, rules, what was started."""
    made = gather.gather_session(session)
    host = made.hosts["node17"]
    head = json.loads(text(made, "session.json"))
    assert head["fingerprint"] == {
        "product": "AMD Instinct MI300X",
        "hosts": [host],
        "cu_count": 38,
    }
    assert json.loads(text(made, "runs/1/run.json")) == {
        "process": "42bcd09b1d96",
        "library": "librccl.so.1",
        "argv": ["--plugin", "librccl-tuner-rccltune.so"],
        "added": [["NCCL_ALGO", "Tree"]],
    }
    assert json.loads(text(made, "runs/1/ending.json")) == {"exit_code": 0, "words": ""}
    assert json.loads(text(made, "verdict.json")) == {"path": "left-out", "needs": {}}
    assert text(made, "samples.csv") == f"{HEAD}\nall_reduce,1\n,,9\n"
    assert text(made, "runs/1/plan.txt") == "plan 2 1024\nanswer tree/ll128/16\nrules left-out\n"
    assert text(made, "rccl_tuner_gfx942_cpx-nps4.csv").splitlines() == [
        "#@ format 1",
        "# verified: 2026-11-21, 1 rule better",
        "#@ requires product=NVIDIA-H100-80GB-HBM3",
        "#@ library NCCL 2.28.9",
        "#@ needs NCCL_MIN_NCHANNELS=32",
        "allreduce,1024,4096,tree,ll,-1,1,64,-1,-1",
        "#@ hole 0 9 not measured",
        "#@ end 1",
    ]
    assert text(made, "runs/1/rank-0.csv").splitlines() == [
        "# rccltune-perf 1",
        "# library librccl.so.1",
        "# plugin left-out",
        f"# host {host}",
        "# device 0 0000:0c:00.0",
        "# failed 7",
        "# variable NCCL_ALGO=Tree",
        "# variable NCCL_TUNER_CONFIG_FILE=rccl_tuner.csv",
        *RANK.splitlines()[10:12],
        "5" + RANK.splitlines()[11][1:] + "graph",
        "6" + RANK.splitlines()[11][1:].replace("7.4651", ""),
        RANK.splitlines()[14],
    ]


def test_the_owner_is_told_what_is_in_it_and_what_is_not(session: Path) -> None:
    """Each kind of file with its size, what stands for a host, and what stays."""
    said = "\n".join(gather.gather_session(session).listing())
    for part in ("runs/*/rank-*.csv", "stands for node17", "left out: 4 files"):
        assert part in said


def test_links_pipes_and_broken_files_are_left_out(session: Path, tmp_path: Path) -> None:
    """A link would bring a secret into it; whoever opens a pipe waits for ever."""
    secret = put(tmp_path, "secret", "launch\nhush\n")
    (session / "samples.csv").unlink()
    (session / "samples.csv").symlink_to(secret)
    (session / "verdict.json").unlink()
    os.mkfifo(session / "verdict.json")
    put(session, "runs/1/run.json", "{")
    put(session, "runs/1/ending.json", "[" * 100_000)
    names = gather.gather_session(session).files
    assert [name for name in names if name.endswith(("samples.csv", ".json"))] == [
        "session/session.json"
    ]


def test_a_field_of_a_new_record_is_on_the_list_or_left_out_on_purpose() -> None:
    """Whoever adds one to a file of a session decides here whether it is sent."""
    # The rule file says what it requires, and is sent; of rccl-tests neither logs nor facts are.
    on_purpose = {"command", "requires", "stated"}
    records = (
        SessionHeader,
        SessionSetup,
        RunFile,
        EndFile,
        verdict_file.VerdictFile,
        verdict_file.RuleVerdict,
    )
    records += (Estimate, rule.LeftToLibrary, verdict_file.IdleEffect)
    records += (
        measurement.Fingerprint,
        settings.Setting,
        settings.Mode,
        settings.Scale,
        settings.RankLocation,
        rule.Rule,
    )
    fields = {one.name for record in records for one in dataclasses.fields(record)}
    assert fields - FIELDS == on_purpose


def test_the_archive_is_its_owners_and_writes_over_nothing(session: Path, tmp_path: Path) -> None:
    """Whole or not there; the list of its contents is in it."""
    target = tmp_path / "sent.tar.gz"
    made = gather.gather_session(session)
    assert gather.write(made, target) == target.stat().st_size
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    with tarfile.open(target) as archive:
        names = archive.getnames()
        stream = archive.extractfile(names[0])
        assert stream is not None
        assert stream.read().decode().splitlines() == made.contents()
    assert names == [f"rccltune-gathered/{name}" for name in ("CONTENTS.txt", *made.files)]
    with pytest.raises(CommandLineError, match="is there already"):
        gather.write(made, target)
    with pytest.raises(SessionError, match="exists"):
        gather.write(made, target / "folder.tar.gz")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["sent.tar.gz", "session"]


def test_a_session_that_was_sent_is_fitted_again(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same curves from the rows of the archive, through the command line."""
    folder, node = tmp_path / "mine", repository / "examples/nodes/smallest.yaml"
    sweep = ["sweep", "--simulate", str(node), "--mode", "spx-nps1", "--collective", "all_reduce"]
    sweep += ["--min-bytes", "1K", "--max-bytes", "4K", "--setting", "ring/ll", "-q"]
    assert run([*sweep, "-o", str(folder)]) == 0
    target = tmp_path / "sent.tar.gz"
    capsys.readouterr()
    assert run(["gather", str(folder), "-o", str(target)]) == 0
    said = capsys.readouterr()
    assert "session/runs/*/plan.txt" in said.out
    assert "Nothing was sent" in " ".join(said.err.split())
    unpack(target, tmp_path)
    sent = tmp_path / "rccltune-gathered" / "session"
    for one in (folder, sent):
        assert run(["fit", str(one), "-q"]) == 0
    assert (sent / "samples.csv").read_text() == (folder / "samples.csv").read_text()
    capsys.readouterr()
    assert run(["gather", str(folder), "-o", str(target)]) == 2
    assert "is there already" in " ".join(capsys.readouterr().err.split())
    assert run(["gather", str(tmp_path / "missing"), "-o", str(target)]) == 2
    assert "there is no session here" in capsys.readouterr().err
