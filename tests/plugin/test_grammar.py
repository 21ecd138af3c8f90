"""One grammar: emit reads a rule file as the real plugin does, whatever bytes are in it."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from rccltune.model.errors import InputFileError
from rccltune.model.rule import Rule
from rccltune.model.settings import IDLE, Scale, Setting
from rccltune.model.units import MAX_NBYTES
from rccltune.model.vocabulary import Algorithm, Collective, Protocol
from rccltune.rules.decision import cost_table, find_decisions
from rccltune.rules.plugin_library import PluginLibrary
from rccltune.rules.rule_file import read_rules

SCALE = Scale(n_nodes=1, n_ranks=8)
CELLS = cost_table((a, p) for a in Algorithm for p in Protocol)
# Characters that Python's own splitting, stripping, digits and letter case know and C's do not,
# in UTF-8 and as single bytes, beside those that mean something to both.
ODD = st.sampled_from(
    [
        *(text.encode() for text in "\u2028\u2029\x85\xa0\u1680\u3000\ufeff²٣１ſKàİ"),
        *(bytes([code]) for code in (0x85, 0xA0, 0xB2, 0xE9, 0xFF, 0x0B, 0x0C, 0x1C, 0x1E, 0x7F)),
        *(b"\r", b"\n", b"\r\n", b" ", b"\t", b",", b"#", b"#@ ", b"=", b"_", b"+", b"-", b"0"),
        *(b"0x", b"9" * 5000, b"-1", b"nps4"),
    ]
)
PLAIN = st.sampled_from(
    [
        b"allreduce,0,99,ring,ll,-1,1,8,-1,-1",
        b"allreduce,50,400,tree,ll128,16,1,8",
        b"allreduce,100,200,-1,-1,8,-1,-1,-1,-1",
        b"allreduce,0,300,ring,simple,0,-1,8,-1,0",
        b"allreduce,300,18446744073709551615,ring,simple,1,1,-1,1,-1,cpx,-1",
        b"allreduce,7,7,tree,simple,-1,1,8,-1,-1,spx-nps1",
        b"allreduce , 0 , 9 , ring , ll , -1 , 1 , 8 # why",
        b"colltype,minbytes,maxbytes,algorithm,protocol,channels,nNodes,nRanks",
        b"allgather,0,9,tree,ll,-1,1,8",
        b"alltoall,0,9,ring,ll,-1,1,8",
        b"# allreduce,0,9,ring,ll,-1,1,8",
        b"#@ format 1",
        b"#@ end 2",
        b"#@ needs A_NAME=some value",
        b"#@ needs RCCL_LL128_FORCE_ENABLE=1",
        b"#@ requires compute=CPX memory=NPS4",
        b"#@ requires compute=cpx memory=nps4 placement=node",
        b"#@ requires device=0x74a1 cus=38",
        b"#@ requires device=29857",
        b"#@ requires product=NVIDIA-H200",
        b"#@ requires product=H200 cus=38",
        b"#@ library NCCL 2.28.9",
        b"#@ library RCCL 2.27.7",
        b"#@ hole 0 99 not measured",
        b"#@ section allreduce nodes=1 ranks=8",
        b"",
    ]
)


@st.composite
def mangled(draw: st.DrawFn) -> bytes:
    """A line with some of its bytes gone and others in their place."""
    line = draw(PLAIN)
    for _ in range(draw(st.integers(0, 2))):
        begin = draw(st.integers(0, len(line)))
        end = begin + draw(st.sampled_from([0, 0, 0, 1]))
        line = line[:begin] + draw(ODD) + line[end:]
    return line


# Every file ends with a rule of another collective, so that the plugin has a table to speak of.
LAST = b"\nbroadcast,0,9,ring,ll,-1,-1,-1\n"


@given(st.lists(mangled(), max_size=5), st.sampled_from([b"\n", b"\r\n"]))
@example([b"#@ format 1", b"allreduce,0,99,ring,ll,-1,1,8", LAST, b"#@ end 3"], b"\n")
@example([b"#@ end \xb2"], b"\n")
@example([b"#@ end 2\x85", b"allreduce,0,99,ring,ll,-1,1,8\xe2\x80\xa8#@ end 2"], b"\n")
@example([b"#@\xa0end 7", b"#@\rend 1"], b"\r\n")
@example([b"# one\xe2\x80\xa8allreduce,0,99,ring,ll,-1,1,8"], b"\n")
@example([b"allreduce,0,99,ring,ll,-1,1,8\rallreduce,0,99,tree,ll,-1,1,8"], b"\n")
@example([b"allreduce,0,1_0,ring,ll,-1,1,8"], b"\n")
@example([b"allreduce,0,99,ring,ll,-1,1,8\xa0"], b"\n")
@example([b"#@ hole \xb2 99 x"], b"\n")
@example([b"\xe9,\xe9,\xe9,ring,ll,-1,1,8"], b"\n")
@example([b"allreduce,0," + b"9" * 5000 + b",ring,ll,-1,1,8"], b"\n")
@example([b"#@ requires placement=" + b"x" * 24], b"\n")
@example([b"#@ requires cus=0x26 cus=38"], b"\n")
@example([b"#@ requires device=0x74a1", b"#@ requires device=29857"], b"\n")
@example([b"#@ requires arch=gfx942\xa0cus=0"], b"\n")
@example([b"#@ requires product=H200", b"#@ requires product=NVIDIA-H200"], b"\n")
@example([b"#@ requires product=NVIDIA-" + b"x" * 88], b"\n")
@example([b"#@ requires product=NVIDIA-" + b"x" * 89], b"\n")
@example([b"#@ requires product=" + b"x" * 89], b"\n")
@example([b"#@ requires product=\xa0"], b"\n")
@example([b"#@ library NCCL 2.28.9", b"#@\tlibrary\rNCCL 2.28.09"], b"\n")
@example([b"#@ library NCCL\xa02.28.9"], b"\n")
@example([b"#@ library NCCL 2.28." + b"0" * 5000 + b"9"], b"\n")
@example([b"#@ library NCCL 2.28." + b"9" * 5000], b"\n")
@example([b"#@ library NCCL 2.28.\xd9\xa3"], b"\n")
@example([b"allreduce,0,99,ring,ll,-1,1,8,-1,-1,cpx\xa0"], b"\n")
@example([b"allreduce,0,99,ring,ll,-1,1,8,-1,-1,unknown"], b"\n")
@example([b"allreduce,0,99,ring,ll,-1,1,8,-1,-1,cpx-nps17"], b"\n")
def test_python_reads_as_the_plugin(host: PluginLibrary, lines: list[bytes], ending: bytes) -> None:
    """Refused or not, with the same code; as many rules and skipped rows; the same decisions."""
    content = ending.join(lines) + LAST
    read = read_rules(content)
    with tempfile.TemporaryDirectory() as folder:
        path, log = Path(folder) / "rules.csv", Path(folder) / "log"
        path.write_bytes(content)
        env = {
            "NCCL_TUNER_CONFIG_FILE": str(path),
            "RCCLTUNE_LOG": f"summary:{log}",
            # Of the machine nothing but its mode is known, so that no file is for another one.
            "RCCLTUNE_SYSROOT": folder,
            "RCCLTUNE_MODE": "cpx-nps4",
        }
        try:
            communicator = host.communicator(abi=6, n_nodes=1, n_ranks=8, env=env)
        except InputFileError as error:
            if "requires another machine" in str(error):
                assert read.errors == ()
            else:
                assert read.errors
                assert f"[{read.errors[0].code}]" in str(error)  # noqa: PT017 - not every file is refused
            return
        assert read.errors == ()
        hints = {b for r in read.rules for b in (r.min_nbytes, r.max_nbytes) if b <= MAX_NBYTES}
        with communicator:
            found = find_decisions(communicator, Collective.ALL_REDUCE, CELLS, hints)
        said = log.read_bytes().decode("utf-8", "replace")
    told = re.search(r"rules=\d+ of=(\d+) skipped-rows=(\d+)", said)
    if told is None:
        assert "requires placement=" in said
        return
    assert (int(told[1]), int(told[2])) == (len(read.rules), len(read.findings))
    assert ("library" in _unchecked(said)) == (read.library is not None)
    assert ("product" in _unchecked(said)) == ("product" in dict(read.requires))
    unmet = next(((n, v) for n, v in read.needs if v and len(n.encode()) < 64), None)
    shown = f"{unmet[0]}={unmet[1]}"[:30] if unmet else ""
    assert shown.encode("utf-8", "replace").decode() in said
    for nbytes in sorted({0, 320, *hints, *(h + 1 for h in hints if h < MAX_NBYTES)}):
        answer = next(d.setting for d in found if d.min_nbytes <= nbytes <= d.max_nbytes)
        assert answer == first(read.rules, nbytes)


def _unchecked(said: str) -> str:
    """What could not be checked, here all that is asked: no GPU and no library is seen."""
    match = re.search(r" unchecked=([a-z,]+) \(not known here\)", said)
    return match[1] if match else ""


def first(rules: tuple[Rule, ...], nbytes: int) -> Setting | None:
    """The first rule that holds here in CPX with NPS4, every cell on offer."""
    for rule in rules:
        mode = rule.only_mode
        here = mode is None or (mode.compute == "CPX" and mode.memory in (None, "NPS4"))
        if here and rule.matches(Collective.ALL_REDUCE, nbytes, SCALE):
            return None if rule.setting == IDLE else rule.setting
    return None
