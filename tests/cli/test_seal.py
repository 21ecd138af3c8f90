"""Rule files that are not as long as they say: refused by every verb, sealed again by one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from wording import lacks

from rccltune import rules
from rccltune.cli import run

EXAMPLE = "examples/mi300x-cpx-nps4/all_reduce.csv"
RULES = "rccltune-session/rccl_tuner_gfx942_cpx-nps4.csv"


@pytest.fixture
def emitted(here: Path, repository: Path) -> Path:
    """A file of ours, a row of which somebody took out by hand."""
    (here / "examples").symlink_to(repository / "examples")
    assert run(["import", EXAMPLE]) == 0
    assert run(["emit-config"]) == 0
    path = here / RULES
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    gone = next(n for n, line in enumerate(lines) if line.startswith("allreduce,"))
    path.write_text("".join(lines[:gone] + lines[gone + 1 :]), encoding="utf-8")
    return path


def n_rows(path: Path) -> int:
    """Rows of the file, counted for this test."""
    return sum(line.startswith("allreduce,") for line in path.read_text("utf-8").splitlines())


@pytest.mark.parametrize(
    "words",
    [
        ["explain", RULES],
        ["explain", "other.csv", "--diff", RULES],
        ["deploy", "to"],
        ["emit-config", "--base", RULES, "-o", "merged.csv"],
    ],
    ids=lambda words: words[0] + ("-diff" if "--diff" in words else ""),
)
def test_every_verb_refuses_it(
    emitted: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    """Exit code 3; both counts and the remedy are named."""
    Path("other.csv").write_text("allreduce,0,9,ring,ll,-1,1,64\n")
    n = n_rows(emitted)
    capsys.readouterr()

    assert run(words) == 3

    said = capsys.readouterr().err
    assert lacks(said, f"{n + 1}", f"{n}", "rules") == []
    assert "rccltune seal FILE" in said


def test_seal_mends_it(emitted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing but the two numbers changes; said, and once is enough."""
    n = n_rows(emitted)
    before = emitted.read_text(encoding="utf-8")
    capsys.readouterr()

    assert run(["seal", RULES]) == 0

    said = capsys.readouterr().out
    assert f"says {n} rows now" in said
    assert f"there are {n} rows" in said
    assert emitted.read_text(encoding="utf-8") == before.replace(
        f"#@ rules {n + 1}\n", f"#@ rules {n}\n"
    ).replace(f"#@ end {n + 1}\n", f"#@ end {n}\n")
    assert run(["explain", RULES]) == 0
    stamp = emitted.stat()
    capsys.readouterr()
    assert run(["seal", RULES, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["changed"] is False
    assert emitted.stat().st_ino == stamp.st_ino


def test_a_file_of_somebody_elses_gets_both_lines(here: Path) -> None:
    """Its bytes stay, CR and what is no UTF-8 too; permissions too; a link stays a link."""
    target = here / "real.csv"
    target.write_bytes(
        b"# caf\xe9\r\nallreduce,0,9,ring,ll,-1,1,8\r\n\nalltoall,0,9,ring,ll,-1,1,8"
    )
    target.chmod(0o640)
    (here / "link.csv").symlink_to("real.csv")
    inode = target.stat().st_ino

    assert run(["seal", "link.csv"]) == 0

    assert (here / "link.csv").is_symlink()
    assert target.read_bytes() == (
        b"#@ rules 2\n# caf\xe9\r\nallreduce,0,9,ring,ll,-1,1,8\r\n\n"
        b"alltoall,0,9,ring,ll,-1,1,8\n#@ end 2\n"
    )
    assert target.stat().st_mode & 0o7777 == 0o640
    assert target.stat().st_ino != inode
    assert sorted(path.name for path in here.iterdir()) == ["link.csv", "real.csv"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"#@ rules 2\nallreduce,0,9,bush,ll,-1,1,8\n", "rules.csv:2: unknown algorithm 'bush'"),
        (b"", "rules.csv:1: the file is empty"),
        (b"#@ rul", "rules.csv:1: the file is empty, or ends"),
        (b"\x7fELF", "not a text file"),
        (None, "cannot be read"),
    ],
)
def test_what_the_plugin_refuses_anyway_is_not_sealed(
    here: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, said: str
) -> None:
    """Exit code 3, with the lines; the file stays."""
    path = here / "rules.csv"
    if content is not None:
        path.write_bytes(content)

    assert run(["seal", str(path)]) == 3

    assert said in capsys.readouterr().err
    assert content is None or path.read_bytes() == content


def test_a_rewritten_file_is_counted_anew(emitted: Path) -> None:
    """Rules narrowed to two parts, and rules that go; a file that said nothing is sealed."""
    assert run(["seal", RULES]) == 0
    text = emitted.read_text(encoding="utf-8")
    read = rules.read_rules(text.encode())
    first = read.rules[0]
    assert first.line is not None
    changes = {first.line: rules.Change(parts=(first, first, first), evidence="thrice")}

    for before in (text, text.replace("#@ rules", "# rules").replace("#@ end", "# end")):
        made = rules.rewritten(before, changes, ("a header",))
        after = rules.read_rules(made.encode())
        assert after.errors == ()
        n = len(read.rules) + 2
        assert made.startswith(f"#@ rules {n}\n")
        assert made.endswith(f"\n#@ end {n}\n")
        assert "#@ format 1\n# a header\n" in made
    gone = rules.rewritten(
        text, {r.line: rules.Change(parts=(), evidence="") for r in read.rules if r.line}, ()
    )
    assert gone.startswith("#@ rules 0\n")
    assert rules.read_rules(gone.encode()).errors == ()


@pytest.mark.usefixtures("emitted")
def test_a_base_that_is_whole_is_merged_and_counted() -> None:
    """Rows that are left out of it do not make it look cut."""
    base = Path("base.csv")
    rows = "allreduce,0,16383,tree,ll,1,1,8,-1,-1\nalltoall,0,9,ring,ll,-1,1,8\n"
    base.write_text(f"#@ rules 2\n{rows}#@ end 2\n")
    assert run(["emit-config", "--base", "base.csv", "-o", "merged.csv"]) == 0
    merged = Path("merged.csv")
    assert rules.read_rules(merged.read_bytes()).errors == ()
    assert merged.read_text("utf-8").count("#@ rules ") == 1
    assert merged.read_text("utf-8").count("#@ end ") == 1
