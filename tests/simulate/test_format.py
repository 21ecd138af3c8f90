"""The output has the form of each release of the benchmarks, and says that it is simulated."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from simulation import Sim, Small
from wording import lacks

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


def test_fnuz_line_is_glued_to_the_version_line(sim: Sim) -> None:
    """rccl-tests forgets the end of that line; a parser has to live with it."""
    first = sim.run("mi300x-cpx-nps4", "-b 8 -e 8").out.splitlines()[0]
    assert lacks(first, "gfx942 architecture", "FNUZ", "FP8", "2.17.9") == []


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


def test_unknown_option_prints_usage_and_exits_0(sim: Sim) -> None:
    """The exit code says nothing; only the missing rows do."""
    got = sim.run("mi300x-cpx-nps4", "-A 1", RCCLTUNE_SIM_BENCHMARK="rt24")
    assert got.code == 0
    assert "invalid option '?'" in got.out
    assert "USAGE:" in got.out


def test_minimum_above_maximum_is_an_error(sim: Sim) -> None:
    """main() returns -1, which a shell sees as 255."""
    got = sim.run("mi300x-cpx-nps4", "-b 8M -e 4M")
    assert got.code == 255
    assert "invalid sizes for 'minbytes' and 'maxbytes'" in got.err


def test_letters_whose_meaning_changed(sim: Sim, small: Small) -> None:
    """A missing break, and a letter that changed its meaning (facts 8.1)."""
    node = small(
        "variants: [{name: reg, when: {registered: true}}]\neffects: [{variant: reg, factor: 2}]\n"
    )
    plain = sim.run(node, "-b 1K -e 1K", RCCLTUNE_SIM_BENCHMARK="rt24").rows[0]
    with_q = sim.run(node, "-b 1K -e 1K -q 1", RCCLTUNE_SIM_BENCHMARK="rt24").rows[0]
    fixed = sim.run(node, "-b 1K -e 1K -q 1").rows[0]
    assert with_q.time_us == pytest.approx(2 * plain.time_us, rel=1e-3)
    assert fixed.time_us == pytest.approx(plain.time_us, rel=1e-3)
    halves = {
        (family, o): len(
            sim.run(node, f"-b 1K -e 1K -O {o}", RCCLTUNE_SIM_BENCHMARK=family).rows[0].rest
        )
        for family in ("rt24", "rtnew")
        for o in (0, 1)
    }
    assert halves == {("rt24", 0): 4, ("rt24", 1): 8, ("rtnew", 0): 4, ("rtnew", 1): 4}


def test_check_off_and_in_place_alltoall_say_not_available(sim: Sim, small: Small) -> None:
    """Not checked is not right."""
    node = small()
    assert sim.run(node, "-b 1K -e 1K -c 0").rows[0].rest[3::4] == ("N/A", "N/A")
    assert sim.run(node, "-b 1K -e 1K", collective="alltoall").rows[0].rest[3::4] == ("0", "N/A")


def test_sizes_of_gathered_collectives_are_rounded_down(sim: Sim) -> None:
    """Small requests come back as 0 bytes."""
    sizes = [
        (row.size, row.count)
        for row in sim.run("mi300x-cpx-nps4", "-b 256 -e 2K -f 2", collective="all_gather").rows
    ]
    # 64 ranks: a share is a multiple of 16 bytes, so less than 1 KiB is nothing.
    assert sizes == [(0, 0), (0, 0), (1024, 4), (2048, 8)]


def test_cycles(sim: Sim, small: Small) -> None:
    """-N and -s repeat the table."""
    node = small()
    got = sim.run(node, "-b 1K -e 4K -f 2 -N 3")
    assert [row.size for row in got.rows] == [1024, 2048, 4096] * 3
    assert got.out.count("# Testing ") == 3
    old = sim.run(node, "-b 1K -e 4K -f 2 -s 3", RCCLTUNE_SIM_BENCHMARK="rt24")
    assert old.out.count("# Testing ") == 2
    assert "# Testing" not in sim.run(node, "-b 1K -e 1K -N 2", RCCLTUNE_SIM_BENCHMARK="nt").out


def test_type_operation_and_root_stand_in_their_columns(sim: Sim, small: Small) -> None:
    """Also of collectives that have none."""
    (rooted,) = sim.run(small(), "-b 1K -e 1K -r 2", collective="broadcast").rows
    assert (rooted.op, rooted.root) == ("none", 2)
    (reduced,) = sim.run(small(), "-b 1K -e 1K -d int8 -o max").rows
    assert (reduced.dtype, reduced.op, reduced.count, reduced.root) == ("int8", "max", 1024, -1)


def test_additive_steps(sim: Sim, small: Small) -> None:
    """The default is a step, not a factor."""
    rows = sim.run(small(), "-b 1K -e 4K -i 1K").rows
    assert [row.size for row in rows] == [1024, 2048, 3072, 4096]


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


def test_memory_limit_lowers_the_maximum(sim: Sim) -> None:
    """24 GiB of a CPX device hold three buffers of 7 GiB."""
    got = sim.run("mi300x-cpx-nps4", "-b 1G -e 16G -f 2")
    # 24 GiB less 2 GiB and 1 GiB, in three buffers.
    assert "# Reducing maxBytes to 7516192768 due to memory limitation" in got.out
    assert [row.size for row in got.rows] == [2**30, 2**31, 2**32]
    assert "Reducing" not in sim.run("mi300x-spx-nps1", "-b 16G -e 16G").out


def test_device_lines(sim: Sim) -> None:
    """A CPX device is a function of its OAM on the bus."""
    got = sim.run("mi300x-cpx-nps4", "-b 8 -e 8", RCCLTUNE_SIM_BENCHMARK="rt24")
    lines = re.findall(
        r"^#   Rank +(\d+) Pid +\d+ on +simnode device +(\d+) \[(.*)\] (.*)$", got.out, re.MULTILINE
    )
    assert len(lines) == 64
    assert lines[9] == ("9", "9", "0000:25:00.1", "AMD Instinct MI300X")


def test_asked_for_more_devices_than_there_are(sim: Sim, small: Small) -> None:
    """The message that rank-count mistakes are known by."""
    got = sim.run(small(), "-b 8 -e 8", RCCLTUNE_SIM_RANKS="5")
    assert got.code == 3
    assert lacks(got.err, "ERROR", "GPUs", "5) is", "4") == []


@pytest.mark.parametrize("option", ["-g 0", "-t 0", "-t -1"])
def test_a_process_without_a_rank_is_refused(sim: Sim, small: Small, option: str) -> None:
    """There is nothing that it could measure."""
    got = sim.run(small(), f"-b 8 -e 8 {option}")
    assert (got.code, got.rows) == (64, [])
    assert option in got.err


def test_without_a_node_file_it_refuses_to_be_a_benchmark(sim: Sim, small: Small) -> None:
    """Law 4: found on a PATH it must not look like a benchmark."""
    got = sim.run(small(), "-b 8 -e 8", RCCLTUNE_SIM_NODE="")
    assert got.code == 64
    assert "this program is no benchmark" in got.err
    assert not got.rows
