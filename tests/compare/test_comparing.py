"""Comparisons on a simulated node, through the command line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from builds import make_once
from comparisons import SIZES, comparer, native_folder, table
from wording import lacks

from rccltune import api
from rccltune.cli import run
from rccltune.ranks import runs

REPOSITORY = Path(__file__).resolve().parents[2]
RULE = "allreduce,0,32768,tree,ll,-1,-1,-1,-1,-1\n"
LIBRARY = "librccl.so.1"
Compare = Callable[..., int]


@pytest.fixture(scope="session")
def copied(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A copy of the library, and a comparison of the site with it; nobody may change them."""
    folder = make_once(tmp_path_factory, "compared", compare_copy)
    return str(folder / LIBRARY), folder / "c"


def compare_copy(folder: Path) -> None:
    """Compare the site with a copy of its library."""
    shutil.copy(native_folder() / "sim" / LIBRARY, folder / LIBRARY)
    with pytest.MonkeyPatch.context() as patch:
        assert comparer(folder, patch)("site", str(folder / LIBRARY), *SIZES) == 0


def starts(folder: str = "c") -> list[bool]:
    """Of each start whether our plugin was loaded."""
    return [one.file.plugin for one in runs.read_runs(Path(folder))]


def test_a_setting_against_the_idle_plugin_takes_one_start(
    compare: Compare, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both are in each communicator; the table, the files, the figure, and 9 for what is slower.

    By the node file tree/ll takes 20 µs and 25 µs at 1 KiB as 15 and 20.
    """
    assert compare("idle", "tree/ll", *SIZES, "--markdown", "c.md") == 9
    assert starts() == [True]
    found = table()
    assert found.loc[16 << 10, "verdict"] == "slower"
    assert found.loc[64 << 10, "verdict"] == "faster"
    # Four an octave beside what differs.
    assert len(found) > 3
    assert set(found["basis"]) == {"communicators"}
    assert found.loc[16 << 10, "b_ran"].startswith("tree/ll/")
    out = capsys.readouterr().out
    assert lacks(out, "slower", "faster", "6 communicators in turns", "SIMULATED") == []
    assert Path("c/compare.png").read_bytes().startswith(b"\x89PNG")
    plain = json.loads(Path("c/comparison.json").read_text())
    assert (plain["exit_code"], len(plain["sizes"])) == (9, len(found))
    assert "| all_reduce | 16 KiB |" in Path("c.md").read_text()


def test_a_setting_that_the_library_offers_nowhere_is_no_equal(
    compare: Compare, capsys: pytest.CaptureFixture[str]
) -> None:
    """RCCL closes LL128 on MI300X: it would run what it runs anyway, and be 1.00x."""
    assert compare("site", "tree/ll128", *SIZES) == 4
    assert lacks(capsys.readouterr().err, "tree/ll128", "+RCCL_LL128_FORCE_ENABLE=1") == []


def test_a_copy_of_the_library_is_equal(copied: tuple[str, Path]) -> None:
    """In starts of either side that take turns: A B B A."""
    copy, folder = copied
    found = table(str(folder))
    assert set(found["verdict"]) == {"equal"}
    assert (set(found["n_a"]), set(found["basis"])) == ({6}, {"starts"})
    made = runs.read_runs(folder)
    libraries = ["b" if one.file.library == copy else "a" for one in made]
    assert "".join(libraries) == "ab" + "abba" * 3


def test_what_ran_the_same_is_not_timed(compare: Compare) -> None:
    """Above its rule the file answers nothing, and the site runs what idle does."""
    Path("rules.csv").write_text(RULE)
    # A quarter is slower at 16 KiB; with such a margin no more sizes are looked at.
    assert compare("site", "rules.csv", *SIZES, "--margin", "60") == 0
    found = table()
    assert found.loc[64 << 10, "basis"] == "the same setting"
    assert found.loc[64 << 10, "verdict"] == "equal"
    assert found.loc[16 << 10, "basis"] == "starts"


def test_two_rule_files_take_turns_in_one_process(compare: Compare) -> None:
    """Each communicator answers by one of them."""
    Path("old.csv").write_text(RULE)
    Path("new.csv").write_text(RULE.replace("tree,ll", "ring,simple"))
    assert compare("old.csv", "new.csv", *SIZES) in (0, 9)
    assert starts() == [True]
    found = table()
    assert found.loc[64 << 10, "basis"] == "the same setting"
    assert found.loc[16 << 10, "a_ran"].startswith("tree/ll")
    assert found.loc[16 << 10, "b_ran"].startswith("ring/simple")


@pytest.mark.parametrize(
    ("fault", "verdict"),
    [
        ({"kind": "crash", "how": "segv", "rank": 1}, "failed"),
        ({"kind": "wrong", "elements": 3}, "wrong"),
    ],
    ids=["crash", "wrong"],
)
def test_b_is_harm_where_it_fails_or_is_wrong(
    compare: Compare, fault: dict[str, object], verdict: str
) -> None:
    """That size is named, the others are judged."""
    faults = [{**fault, "setting": "tree/ll", "bytes": [32768, 32768]}]
    assert compare("idle", "tree/ll", *SIZES, faults=faults) == 9
    found = table()
    assert found.loc[32 << 10, "verdict"] == verdict
    assert found.loc[16 << 10, "verdict"] == "slower"


def test_nothing_is_held_against_a_that_fails(
    compare: Compare, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 5, after a second try."""
    faults = [
        {"kind": "crash", "how": "segv", "rank": 1, "setting": "tree/ll", "bytes": [0, 1 << 30]}
    ]
    assert compare("tree/ll", "idle", *SIZES, faults=faults) == 5
    assert "A (tree/ll)" in capsys.readouterr().err


def test_the_same_command_goes_on(
    compare: Compare, copied: tuple[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """What is whole is not measured again; the start that was cut is; another question is refused.

    What a budget cuts is never equal: 8; without it the same command goes on.
    """
    copy, folder = copied
    shutil.copytree(folder, "c")
    made = runs.read_runs(Path("c"))
    last = made[-1].folder
    # As kill -9 in the middle of the last start leaves it.
    (last / runs.END_FILE).unlink()
    for name in ("rank-0.csv", "rank-1.csv"):
        kept = (last / name).read_text().splitlines(keepends=True)[:-2]
        (last / name).write_text("".join(kept))
    Path("c/comparison.csv").unlink()
    assert compare("site", copy, *SIZES, "--budget", "0.01s") == 8
    assert json.loads(Path("c/comparison.json").read_text())["was_cut"]
    assert len(runs.read_runs(Path("c"))) == len(made)
    assert compare("site", copy, *SIZES) == 0
    assert len(runs.read_runs(Path("c"))) == len(made) + 1
    assert set(table()["n_b"]) == {6}
    capsys.readouterr()
    assert compare("site", "NCCL_NTHREADS=512", *SIZES) == 7
    said = capsys.readouterr().err
    assert lacks(said, "librccl.so.1", "NCCL_NTHREADS=512", "in it", "now") == []


def test_an_entry_that_is_not_here_is_refused(
    compare: Compare, capsys: pytest.CaptureFixture[str]
) -> None:
    """4, with who has it; nothing is started."""
    assert compare("site", "mscclpp", *SIZES) == 4
    assert "MSCCL++" in capsys.readouterr().err
    assert not Path("c/runs").exists()


def test_a_session_is_no_side(compare: Compare, capsys: pytest.CaptureFixture[str]) -> None:
    """Two of them are; one beside anything else is not."""
    Path("session").mkdir()
    assert compare("session", "site") == 2
    assert "two sessions" in capsys.readouterr().err
    assert run(["compare", "session", "session"]) == 7


def test_two_sessions_are_compared_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Settings that both have; twice the time is slower, and said not in turns."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    published = (REPOSITORY / "examples/mi300x-cpx-nps4/all_reduce.csv").read_text()
    head, columns, rows = published.partition("setting,nbytes,time_us\n")
    doubled = (row.split(",") for row in rows.split())
    slower = "".join(f"{a},{n},{2 * float(us)}\n" for a, n, us in doubled)
    for name, text in (("a", rows), ("b", slower)):
        Path(f"{name}.csv").write_text(head + columns + text)
        assert run(["import", f"{name}.csv", "-o", name, "-q"]) == 0
    capsys.readouterr()
    assert run(["compare", "a", "b", "--json"]) == 9
    plain = json.loads(capsys.readouterr().out)
    assert plain["in_turns"] is False
    assert "B is slower" in plain["error"]
    assert plain["where"]
    assert plain["hint"]
    assert {row["verdict"] for row in plain["sizes"]} == {"slower"}
    assert {round(row["ratio"], 2) for row in plain["sizes"]} == {2.0}
    assert run(["compare", "a", "a", "--margin", "50"]) == 0
    assert lacks(capsys.readouterr().out, "equal", "not in turns") == []


def test_programs_compare_too(compare: Compare) -> None:
    """The verb is a function; what it found is a table."""
    assert compare("idle", "tree/ll", *SIZES) == 9
    found = api.compare(
        "idle",
        "tree/ll",
        "c",
        starts=6,
        simulate="node.yaml",
        mode="spx-nps1",
        min_bytes="16K",
        max_bytes="64K",
    )
    assert found.exit_code == 9
    assert list(found.table["verdict"]) == list(table()["verdict"])


def test_the_list_shows_the_catalog(compare: Compare, capsys: pytest.CaptureFixture[str]) -> None:
    """With why an entry is not here."""
    assert compare("site", "site", "--list") == 0
    out = capsys.readouterr().out
    assert lacks(out, "channels-N", "mscclpp", "has no MSCCL++", "yes", "no") == []


def test_what_the_site_chooses_is_named(
    compare: Compare, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The site as it is has it; where our plugin answers it is cleared, so that both differ."""
    monkeypatch.setenv("NCCL_ALGO", "Tree")
    one_size = ("--min-bytes", "16K", "--max-bytes", "16K")
    assert compare("site", "idle", *one_size, "--margin", "60") == 0
    assert table().loc[16 << 10, "a_ran"].startswith("tree/ll")
    assert table().loc[16 << 10, "b_ran"].startswith("ring/ll")
    out = capsys.readouterr().out
    assert lacks(out, "A has these of the site, which choose: NCCL_ALGO=Tree", "B has none") == []


def test_a_changed_node_is_another_question(
    compare: Compare, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file has its old name; times of before are not what it says now."""
    assert compare("site", "idle", *SIZES) == 0
    assert compare("site", "idle", *SIZES) == 0
    assert compare("site", "idle", *SIZES, noise={"sigma": 0.03, "launch_sigma": 0.01}) == 7
    assert "node: smallest (" in capsys.readouterr().err


def test_what_was_measured_is_shown_though_a_file_cannot_be_written(
    compare: Compare, capsys: pytest.CaptureFixture[str]
) -> None:
    """The table comes first, and the error says which file."""
    Path("file").write_text("")
    assert compare("site", "idle", *SIZES, "--markdown", "file/c.md") == 7
    found = capsys.readouterr()
    assert "3 sizes: 3 equal" in found.out
    assert "c.md" in found.err
