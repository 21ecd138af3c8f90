"""rccltune gather: no name and no secret leaves the house, and what arrives still works."""

from __future__ import annotations

import io
import json
import os
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from wording import lacks

from rccltune import plugin
from rccltune.cli import run
from rccltune.model import MachineError

KEY = """-----BEGIN OPENSSH PRIVATE KEY-----
b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW
QyNTUxOQAAACBx0example0Zm9yYXRlc3QAAAA
-----END OPENSSH PRIVATE KEY-----"""
# What stands in the files, and what of it must be nowhere in the archive.
SAID = {
    "export GITHUB=ghp_16C7e42F292c6912E7710c838347Ae178B4a": ["ghp_16C7e42F292c6912E7710c838347Ae178B4a"],
    "pull with glpat-Zx81kQp20LmVt7sYwq3R": ["glpat-Zx81kQp20LmVt7sYwq3R"],
    "aws AKIAIOSFODNN7EXAMPLE": ["AKIAIOSFODNN7EXAMPLE"],
    "Authorization: Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.SflKxwRJSMeKKF2QT4": [
        "eyJhbGciOiJIUzI1NiJ9",
        "eyJzdWIiOiIxMjM0In0",
        "SflKxwRJSMeKKF2QT4",
    ],
    "login wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY1": ["bPxRfiCYEXAMPLEKEY1", "wJalrXUtnFEMI"],
    "wandb 8f14e45fceea167a5a36dedd4bea2543aa0c1d2e": ["8f14e45fceea167a5a36dedd4bea2543aa0c1d2e"],
    "remote https://deploybot:Tr0ub4dor@git.corp.example.com/secret.git": ["deploybot", "Tr0ub4dor", "git.corp.example.com"],
    "https_proxy=http://proxyuser:p@ss/w0rd@proxy.corp.example.com:3128": ["proxyuser", "w0rd", "proxy.corp"],
    "it was Tr0ub4dor again": ["Tr0ub4dor"],
    "DB_PASSWORD='correct horse battery'": ["correct horse", "battery"],
    "mysql --password hunter2hunter -u app": ["hunter2hunter"],
    '{"api_key": "short-but-mine"}': ["short-but-mine"],
    "NCCL_IB_AUTH_TOKEN=tok5": ["tok5"],
    "SITE_MOTD=welcome-to-atlantis": ["welcome-to-atlantis"],
    KEY: KEY.split("\n")[1:3],
    "on gpu017.cluster.example.com and gpu017 alone": ["gpu017"],
    "peer xk42.rack7.site42": ["xk42", "rack7"],
    "fe80::1ff:fe23:4567:890a%ib0 2001:db9:85a3::8a2e:370:7334": [
        "fe80::1ff", "4567:890a", "2001:db9", "370:7334",
    ],
    "ens1:10.20.30.40<0> de:ad:be:ef:12:34": ["10.20.30.40", "de:ad:be:ef:12:34"],
    "/home/jdoe/rccl and /nfs/users/kmueller-x/y of jdoe": ["jdoe", "kmueller"],
    "mail jane.roe@physics.example.edu": ["jane.roe", "physics.example"],
    "Serial Number: 692251001124 3f2504e0-4f89-11d3-9a0c-0305e82c3301": ["692251001124", "3f2504e0"],
    "/home/ümlaut/x by ümlaut": ["ümlaut", "\\u00fcmlaut"],
}  # fmt: skip
NEVER = [word for words in SAID.values() for word in words]
PLACES = (
    "# Rank  0 Group  0 Pid   4711 on gpu017.cluster.example.com device  0 [0000:05:00] X\n"
    "xk42.rack7.site42:17:17 [0] NCCL INFO Bootstrap\n"
)


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real session of the simulated node, with rules."""
    try:
        if not (plugin.native_folder() / "sim" / "all_reduce_perf").is_file():
            pytest.skip("this install has no stand-in benchmarks")
    except MachineError as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("swept") / "rccltune-session"
    words = "--simulate mi300x --mode cpx-nps4 --launcher none --collective all_reduce"
    words += " --min-bytes 1K --max-bytes 64K --exhaustive --repeats 1"
    assert run(["sweep", "--runner", "rccl-tests", *words.split(), "-o", str(folder), "-q"]) == 0
    assert run(["emit-config", str(folder), "-q"]) == 0
    return folder


@pytest.fixture
def copy(swept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The session, for a test that changes it, in an empty working folder."""
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(swept, tmp_path / "session-of-mine"))


def archive(*words: str) -> dict[str, bytes]:
    """The members of what gather makes, by name."""
    assert run(["gather", *words, "--yes", "--force", "-q", "-o", "sent.tar.gz"]) == 0
    with tarfile.open("sent.tar.gz") as packed:
        members = [(one, packed.extractfile(one)) for one in packed]
        assert all(one.isreg() and one.uid == one.gid == 0 and not one.uname for one, _ in members)
        return {one.name: stream.read() for one, stream in members if stream is not None}


def unpacked(members: dict[str, bytes], folder: Path) -> Path:
    """The session, as its receiver has it."""
    for name, data in members.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder / "rccltune-gathered" / "session"


def rules(folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What emit-config makes of a session's logs, derived files taken away."""
    for name in ("fit.json", "samples.csv"):
        (folder / name).unlink(missing_ok=True)
    capsys.readouterr()
    assert run(["emit-config", str(folder), "-o", "-", "-q"]) == 0
    return capsys.readouterr().out


def leaks(members: dict[str, bytes]) -> list[str]:
    """Everything that is in the archive and must not be."""
    return [
        f"{word} in {name}"
        for name, data in members.items()
        for word in NEVER
        if word.encode().lower() in data.lower() or word in name
    ]


def everywhere(plain: object, said: str) -> object:
    """A JSON value with more behind every string."""
    if isinstance(plain, dict):
        return {key: everywhere(value, said) for key, value in plain.items()}
    if isinstance(plain, list):
        return [everywhere(value, said) for value in plain]
    return f"{plain} {said}" if isinstance(plain, str) else plain


def put(folder: Path, change: Callable[[Any], Any], kind: str) -> None:
    """Change every JSON file of a name."""
    for path in folder.rglob(kind):
        path.write_text(json.dumps(change(json.loads(path.read_text()))))


def test_nothing_of_what_stands_in_any_field_or_line_leaves(copy: Path) -> None:
    """Each secret in every string of every JSON file, and between all lines of every other."""
    said = "\n".join(SAID)
    put(copy, lambda plain: everywhere(plain, said), "*.json")
    for path in copy.rglob("*"):
        if path.is_file() and path.suffix in (".log", ".csv", ".yaml", ".env"):
            lines = path.read_text().splitlines(keepends=True)
            path.write_text(PLACES + f"\n{said}\n".join(["", *lines[:40], ""]))
    first = next(copy.glob("launches/*"))
    (first / "trace-xk42.rack7.site42-4711.csv").write_text("x")

    assert leaks(archive(str(copy))) == []


def test_each_secret_alone_is_found_without_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of them is taken out only because another one gave it away."""
    monkeypatch.chdir(tmp_path)
    told = {
        "it was Tr0ub4dor again",
        "on gpu017.cluster.example.com and gpu017 alone",
        "peer xk42.rack7.site42",
    }
    for number, (said, words) in enumerate(SAID.items()):
        if said in told:
            continue
        log = tmp_path / f"job{number}.log"
        log.write_text(f"before\n{said}\nbehind\n")
        [text] = [data.decode() for name, data in archive(str(log)).items() if "files/" in name]
        assert [word for word in words if word in text] == []
        assert text.startswith("before\n")
        assert text.endswith("\nbehind\n")


def test_the_archive_gives_the_same_rules(
    copy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Names and secrets wherever a real session may have them; then fit, emit-config and report."""
    hosts = ["gpu017.cluster.example.com"]
    said = "\n".join(SAID)

    def named(plain: dict[str, Any]) -> dict[str, Any]:
        fingerprint = {**plain["fingerprint"], "hosts": hosts, "devices": ["GPU-de:ad:be:ef:12:34"]}
        # A command is one line, as a session has it.
        extra = (
            {"command": " ".join([plain["command"], *SAID, ""]).replace("\n", " ")}
            if "command" in plain
            else {}
        )
        return {**plain, "fingerprint": fingerprint, **extra}

    def asked(plain: dict[str, Any]) -> dict[str, Any]:
        more = [["NCCL_IB_AUTH_TOKEN", "tok5"], ["SITE_MOTD", "welcome-to-atlantis"]]
        return {
            **plain,
            "argv": ["/home/jdoe/run", *plain["argv"]],
            "environment": [*plain["environment"], *more],
        }

    put(copy, named, "session.json")
    put(copy, named, "outcome.json")
    put(copy, asked, "launch.json")
    for log in copy.rglob("stdout.log"):
        text = log.read_text().replace("simnode", "gpu017")
        log.write_text(PLACES.split("\n")[1] + "\n" + text)
        log.with_name("stderr.log").write_text(said)
    for trace in copy.rglob("trace-*.csv"):
        trace.rename(trace.with_name(f"trace-gpu017-{trace.name.split('-', 2)[2]}"))
    members = archive(str(copy))
    theirs = unpacked(members, tmp_path / "theirs")

    assert leaks(members) == []
    ours = rules(copy, capsys)
    assert "allreduce," in ours
    assert rules(theirs, capsys) == ours
    assert run(["report", str(theirs), "-q"]) == 0
    header = json.loads((theirs / "session.json").read_text())
    [host] = header["fingerprint"]["hosts"]
    assert host.startswith("host-")
    assert list(theirs.glob(f"launches/*/trace-{host}-*.csv"))
    assert f"on {host} device" in " ".join(
        next(theirs.glob("launches/*/stdout.log")).read_text().split()
    )


def test_a_session_without_names_is_sent_byte_by_byte(copy: Path) -> None:
    """Samples, curves, rules and traces are what they were: nothing of ours looks like a name."""
    members = archive(str(copy))
    names = ("samples.csv", "fit.json", "session.json", "sweep.yaml", "placement.json")
    for path in [*(copy / name for name in names), *copy.glob("rccl_tuner*.csv"), *copy.rglob("trace-*.csv"), *copy.rglob("launch.json")]:  # fmt: skip
        whole = path.relative_to(copy).as_posix()
        found = [data for name, data in members.items() if name.endswith(f"session/{whole}")]
        if path.name.startswith("trace-"):
            continue
        assert found == [path.read_bytes()], whole


def test_listed_files_and_variables_alone(
    copy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What nobody knows, links and FIFOs stay here and are named; so do variables, as a count."""
    (tmp_path / "id_rsa").write_text("mine alone")
    first = next(copy.glob("launches/*"))
    (first / "stderr.log").unlink()
    (first / "stderr.log").symlink_to(tmp_path / "id_rsa")
    (copy / "fit.json").unlink()
    os.mkfifo(copy / "fit.json")
    (copy / "candidates").symlink_to(tmp_path)
    (copy / "notes\x1b[2J.txt").write_text("mine alone")
    (copy / "secret-plans").mkdir()
    (copy / "search.json").write_text("{ no JSON")
    environment = json.loads((first / "environment.json").read_text())
    environment["passed"] = {"NCCL_SOCKET_IFNAME": "ens1", "NCCL_MINE": "mine alone"}
    (first / "environment.json").write_text(json.dumps(environment))
    members = archive(str(copy))
    assert run(["gather", str(copy), "-o", "other.tar.gz", "--yes"]) == 0
    said = capsys.readouterr().out

    assert b"mine alone" not in b"".join(members.values())
    assert not [name for name in members if "secret-plans" in name or "notes" in name]
    sent = json.loads(members[f"rccltune-gathered/session/launches/{first.name}/environment.json"])
    assert sent["passed"] == {"NCCL_SOCKET_IFNAME": "ens1"}
    for line in (
        "notes\\x1b[2J.txt: not listed",
        f"session/launches/{first.name}/stderr.log: a link",
        "session/fit.json: no regular file",
        "session/candidates: a link",
        "session/secret-plans/: not listed",
        "session/search.json: no JSON that can be read",
        "Variables left out, names and values: 1",
    ):
        assert line in said
    assert "NCCL_MINE" not in said


def test_bytes_that_are_no_text_arrive(copy: Path) -> None:
    """A log that was cut, or written by somebody in another encoding, is what it was."""
    first = next(copy.glob("launches/*"))
    odd = b"\xff\xfe\x00 caf\xe9 \xed\xa0\x80\r\nno end"
    (first / "stderr.log").write_bytes(odd)
    assert archive(str(copy))[f"rccltune-gathered/session/launches/{first.name}/stderr.log"] == odd


def test_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Alone it is the machine: variables that are listed, and of them nothing that leaks."""
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith(("NCCL_", "RCCL")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "ens1")
    monkeypatch.setenv("NCCL_TOPO_FILE", "/home/jdoe/topo.xml")
    monkeypatch.setenv(
        "NCCL_DEBUG_FILE",
        "https://deploybot:Tr0ub4dor@git.corp.example.com/ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    )
    monkeypatch.setenv("NCCL_NET_PLUGIN", "fe80::1ff:fe23:4567:890a%ib0")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/home/jdoe/lib:/nfs/users/kmueller-x/lib")
    monkeypatch.setenv("NCCL_IB_AUTH_TOKEN", "tok5")
    monkeypatch.setenv("SITE_MOTD", "welcome-to-atlantis")
    program = tmp_path / "bin" / "amd-smi"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\ncat <<'END'\n" + "\n".join(SAID) + "\nEND\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    members = archive()

    told = {"on gpu017.cluster.example.com and gpu017 alone", "peer xk42.rack7.site42"}
    unknown = [word for said in told for word in SAID[said]]
    assert [leak for leak in leaks(members) if leak.split(" in ")[0] not in unknown] == []
    text = members["rccltune-gathered/gathered-system.txt"].decode()
    assert "variable NCCL_SOCKET_IFNAME\n\tens1\n" in text
    assert "/home/user-" in text
    assert {"rccltune-gathered/detect.json", "rccltune-gathered/doctor.json"} <= set(members)
    host = os.uname().nodename
    assert len(host) < 3 or f" {host} " not in text


def test_nothing_is_written_unasked(
    copy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a terminal it shows, and says how; what is there is replaced with --force alone."""
    monkeypatch.setenv("COLUMNS", "200")
    words = ["gather", str(copy), "-o", "mine.tar.gz"]
    assert run(words) == 2
    shown = capsys.readouterr()
    assert "session/launches/*/stdout.log" in shown.out
    assert lacks(shown.err, "no terminal") == []
    assert "--yes" in shown.err
    assert not Path("mine.tar.gz").exists()

    Path("mine.tar.gz").write_text("another's")
    assert run([*words, "--yes"]) == 2
    assert "--force" in capsys.readouterr().err
    assert Path("mine.tar.gz").read_text() == "another's"
    assert run([*words, "--yes", "--force"]) == 0
    with (
        io.BytesIO(Path("mine.tar.gz").read_bytes()) as stream,
        tarfile.open(fileobj=stream) as packed,
    ):
        assert "rccltune-gathered/CONTENTS.txt" in packed.getnames()
    assert sorted(path.name for path in Path().iterdir()) == ["mine.tar.gz", "session-of-mine"]


@pytest.mark.parametrize("answer", ["y", "n"])
def test_a_terminal_is_asked(answer: str, copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only yes writes; no is no mistake."""
    stdin = io.StringIO(f"{answer}\n")
    monkeypatch.setattr(stdin, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", stdin)
    assert run(["gather", str(copy), "-o", "mine.tar.gz"]) == 0
    assert Path("mine.tar.gz").exists() == (answer == "y")


def test_what_cannot_be_sent_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder that is no session; a log that is not there; a file that is no text."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "binary").write_bytes(b"\x7fELF\0")
    for name, code, said in (
        (".", 7, "there is no session here"),
        ("gone.log", 2, "neither a session nor a log"),
        ("binary", 2, "only text can be sent"),
    ):
        assert run(["gather", name, "--yes"]) == code
        assert said in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["binary"]


def test_the_same_host_is_the_same_in_all_that_is_sent_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Short and full, in prefixes, ranges and mail-like words; what only looks alike is not one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.log").write_text(
        PLACES + "GPU017 gpu0170 gpu[016-018] 0gpu017:1:1 [0] NCCL INFO x\n"
    )
    (tmp_path / "b.log").write_text(
        "prterun-gpu017-99@1,0 root@gpu017 gpu017-ib0 at 12:34:56, 0000:c1:00.0, 2.27.7\n"
    )
    members = archive("a.log", "b.log")
    first, second = (members[f"rccltune-gathered/files/{name}.log"].decode() for name in "ab")
    host = first.split(" on ")[1].split(" ")[0]
    assert (
        lacks(first.split("\n")[2], f"{host}", "gpu0170 hosts-1", f"0{host}:1:1", "0] NCCL", "INFO")
        == []
    )
    assert (
        second
        == f"prterun-{host}-99@1,0 root@{host} {host}-ib0 at 12:34:56, 0000:c1:00.0, 2.27.7\n"
    )
