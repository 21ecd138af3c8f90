"""The output has the form of each release of the benchmarks, and says that it is simulated."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from simulation import Sim, Small

FAMILIES = ("rt24", "rtmid", "rt25", "rtnew", "nt")
REAL = {
    "rt24": "amd19_mi300x_2n16r_allreduce.log",
    "rt25": "amd01_mi355x_1n8r_allreduce.log",
    "rtnew": "amd21_mi355x_2n16r_allreduce_v2.17.9.log",
    "nt": "nv31_4gpu_allreduce_v2.18.3.txt",
}


def shape(line: str) -> str:
    """A line with its numbers and names taken out, blanks at its end too (files were copied)."""
    line = re.sub(r"\[[0-9a-f:.]+\].*", "[bus] product", line)
    line = re.sub(r"Pid +\d+ on +\S+ device +\d+", "Pid P on H device D", line)
    line = re.sub(r"Rank +\d+( Group +\d+)?", r"Rank R\1", line)
    return re.sub(r"Group +\d+", "Group G", line).rstrip()


def columns(line: str) -> list[int]:
    """Where the words of a row end: right-aligned columns end where they do in the real program."""
    return [match.end() for match in re.finditer(r"\S+", line)]


@pytest.mark.parametrize("family", sorted(REAL))
def test_structure_is_that_of_a_real_log(sim: Sim, family: str, shared_data: Path) -> None:
    """Header, rank and footer lines are equal but for names and numbers, and columns end alike."""
    real = (shared_data / "logs" / REAL[family]).read_text().splitlines()
    got = sim.run(
        "mi300x-cpx-nps4",
        "-b 8 -e 1G -f 2 -c 1",
        RCCLTUNE_SIM_BENCHMARK=family,
        RCCLTUNE_SIM_RANKS="64",
    )
    assert got.code == 0
    ours = [line for line in got.out.splitlines() if not line.startswith("# SIMULATED")]

    def heads(lines: list[str]) -> list[str]:
        # Without what names versions and sizes, UCX's own lines, the library's version block.
        keep = [shape(x) for x in lines if x.startswith("#") and "version" not in x]
        seen: list[str] = []
        for text in keep:
            line = re.sub(r"(nThread \d+ nGpus).*", r"\1", text)
            line = re.sub(r"(values|bandwidth)( +: ).*", r"\1\2", line)
            if not seen or seen[-1] != line:
                seen.append(line)
        return seen

    expected = heads(real)
    # The copies lost, or kept, blank '#' lines at their ends; the version line is checked below.
    found = heads(ours)
    assert [x for x in found if x.strip("# ")] == [x for x in expected if x.strip("# ")]
    real_rows = [x for x in real if re.match(r" +\d+ +\d+ +float", x)]
    our_rows = [x for x in ours if re.match(r" +\d+ +\d+ +float", x)]
    assert {tuple(columns(x)) for x in our_rows} <= {tuple(columns(x)) for x in real_rows}


@pytest.mark.parametrize("family", FAMILIES)
def test_version_line_says_simulated(sim: Sim, family: str) -> None:
    """Design law 4: nobody can take the output for a measurement."""
    got = sim.run("mi300x-cpx-nps4", "-b 8 -e 16 -f 2", RCCLTUNE_SIM_BENCHMARK=family)
    lines = [x for x in got.out.splitlines() if "ersion" in x]
    assert len(lines) == 1
    assert "# SIMULATED" in lines[0]
    assert "# SIMULATED modelled all_reduce: every other setting and size" in got.out
    assert "# SIMULATED measured all_reduce: tree/ll 32..134217728 B" in got.out


def test_nothing_of_a_modelled_collective_is_called_measured(sim: Sim) -> None:
    """The header tells published figures from computed ones."""
    got = sim.run("mi300x-cpx-nps4", "-b 8M -e 8M", collective="reduce_scatter")
    assert "SIMULATED measured" not in got.out
    assert "# SIMULATED modelled reduce_scatter: every other setting and size" in got.out


@pytest.mark.parametrize("family", FAMILIES)
def test_help_lists_the_letters_of_the_release(sim: Sim, family: str) -> None:
    """Programs find out what a benchmark can do by its --help alone."""
    got = sim.run("mi300x-cpx-nps4", "--help", RCCLTUNE_SIM_BENCHMARK=family)
    assert got.code == 0
    assert got.out.startswith("USAGE: all_reduce_perf")
    letters = set(re.findall(r"\[-(\w),--", got.out))
    assert {"t", "g", "b", "e", "f", "n", "w", "m", "c", "G"} <= letters
    assert ("s" in letters) == (family in ("rt24", "rtmid"))
    assert ("N" in letters) == (family in ("rt25", "rtnew", "nt"))
    assert ("A" in letters) == (family == "rtnew")
    assert ("J" in letters) == (family in ("rtnew", "nt"))
    assert ("Z" in letters) == (family in ("rtmid", "rt25", "rtnew"))


@pytest.mark.parametrize(
    "option",
    ["-J out.json", "-Z csv", "-S 1", "-C 1", "-a 3", "-d all", "-o all", "-r all"],
)
def test_what_is_not_played_is_refused(sim: Sim, small: Small, option: str) -> None:
    """A file or column that is asked for and does not come would be missed late."""
    got = sim.run(small(), f"-b 1K -e 1K {option}")
    assert (got.code, got.rows) == (64, [])
    assert f"does not play {option}" in got.err
    assert sim.run(small(), "-b 1K -e 1K -C 0 -a 1").code == 0


def test_without_a_node_file_it_refuses_to_be_a_benchmark(sim: Sim, small: Small) -> None:
    """Law 4: found on a PATH it must not look like a benchmark."""
    got = sim.run(small(), "-b 8 -e 8", RCCLTUNE_SIM_NODE="")
    assert got.code == 64
    assert "this program is no benchmark" in got.err
    assert not got.rows
