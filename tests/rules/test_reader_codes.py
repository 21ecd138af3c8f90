"""What the plugin's reader says of a line that is wrong."""

from __future__ import annotations

import re
from pathlib import Path

from rccltune.rules import rule_file

ROOT = Path(__file__).resolve().parents[2]

# A line for each code of the plugin's reader, wrong in that way alone.
WRONG = {
    "bad-format": "#@ format 2\n#@ end 0",
    "cut": "",
    "bad-requires": "#@ requires colour=red",
    "bad-library": "#@ library NCCL 2.28",
    "bad-bits": "#@ bits one two",
    "half-setting": "allreduce,0,1,-1,ll,-1,1,8",
    "header-row": "colltype,minbytes,maxbytes,algorithm,protocol,channels,nNodes,nRanks",
    "min-above-max": "allreduce,2,1,tree,ll,-1,1,8",
    "not-a-number": "allreduce,4K,1,tree,ll,-1,1,8",
    "not-text": "allreduce\x00",
    "number-range": "allreduce,0,1,tree,ll,-2,1,8",
    "too-few-fields": "allreduce,0,1,tree",
    "tree-not-allreduce": "broadcast,0,1,tree,ll,-1,1,8",
    "unknown-algorithm": "allreduce,0,1,Tree,ll,-1,1,8",
    "unknown-collective": "AllReduce,0,1,tree,ll,-1,1,8",
    "unknown-field": "allreduce,0,1,tree,ll,-1,1,8,-1,-1,xpx",
    "unknown-protocol": "allreduce,0,1,tree,ll64,-1,1,8",
    "untunable-collective": "alltoall,0,1,ring,ll,-1,1,8",
}


def test_each_wrong_line_has_its_code() -> None:
    """Every code of the plugin's source is found by its line above, as the error or warning it is."""
    source = (ROOT / "native_plugin/src/rule_file.c").read_text(encoding="utf-8")
    pattern = r'FINDING_(ERROR|WARNING),\s*"([a-z0-9-]+)"'
    listed = {code: severity.lower() for severity, code in re.findall(pattern, source)}
    # 2^20 rules are too many to write here; tests/rules and CTest have them.
    assert listed.keys() - WRONG.keys() == {"too-many-rules"}
    for code, text in WRONG.items():
        found = rule_file.read_rules(text.encode()).findings
        assert [(f.code, f.severity.value) for f in found] == [(code, listed[code])]
