"""Mistakes in a user's file of variants: all at once, each with line and column."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rccltune.model.errors import InputFileError
from rccltune.variants.catalog import load_catalog

HEAD = "format: 1\nvariants:\n"
PLACE = re.compile(r"v\.yaml:(\d+):(\d+)")
# Value of one more line in an entry, the column of its mistake, and what is said.
BAD_LINES = [
    ("enviro: {A_B: 1}", 5, "did you mean 'environment'?"),
    ("environment: {A-B: 1}", 19, "'A-B', which is no name"),
    ("environment: [A_B]", 18, "'name: value' pairs"),
    ("environment: {A_B: }", 23, "must be a text"),
    ("environment: {A_B: 1, A_B: 2}", 27, "'A_B' is given twice"),
    ("environment: {NCCL_ALGO: ring}", 19, "rccltune sets NCCL_ALGO itself"),
    ("environment: {NCCL_TUNER_PLUGIN: x}", 19, "rccltune sets NCCL_TUNER_PLUGIN itself"),
    ("options: {-b: 8}", 15, "-b is the sweep's to say"),
    ("options: {G: 1}", 15, "'G' is no option"),
    ("library: librccl.so", 14, "no absolute path"),
    ("releases: [RCCL 2.21.5 to 2.20.5]", 16, "ends before it begins"),
    ("releases: [rccl]", 16, "names no releases"),
    ("releases: [RCCL on 3 to 2 nodes]", 16, "names no numbers of nodes"),
    ("parameter: size", 16, "unknown word 'size'; known are channels, dir"),
    ("acts: sometimes", 11, "known are settings, path"),
    ("calls: [{collectives: [all_reduce, gossip]}]", 40, "unknown collective 'gossip'"),
    ("calls: {dtypes: [float33]}", 22, "unknown word 'float33'"),
    ("calls: {redops: [xor]}", 22, "unknown word 'xor'"),
    ("calls: {min_bytes: 4M, max_bytes: 1M}", 12, "min_bytes is above max_bytes"),
    ("calls: {max_bytes: 4Q}", 24, "'4Q' is no size"),
    ("calls: {multiple_of: 0}", 26, "'0' is no whole number from 1 up"),
    ("needs: {ranks: [eight]}", 21, "'eight' is no whole number"),
    ("needs: {graph: 2}", 20, "neither true nor false"),
    ("needs: {gfx: 942}", 13, "unknown key 'gfx'"),
    ("threshold: {default: 1M}", 16, "names its variable"),
    ("threshold: {variable: A_B, bounds: within}", 40, "known are above, below"),
    ("lossy: perhaps", 12, "neither true nor false"),
    ("runner: jax", 13, "known are torch"),
    ("source: ", 12, "must be a text"),
]
# A whole entry's lines, and the mistake at its name.
BAD_ENTRIES = [
    ("Big:\n    summary: s\n    options: {-G: 1}", "'Big', which is no name"),
    ("mine:\n    options: {-G: 1}", "variants.mine lacks summary"),
    ("mine:\n    summary: s", "it sets no variable, no option and no library"),
    ("mine:\n    summary: s\n    environment: {A_B: '{bytes}'}", "'{bytes}' stands for nothing"),
    ("mine:\n    summary: s\n    options: {-G: '{max_bytes}'}", "can hold '{ranks}' alone"),
    ("mine:\n    summary: s\n    parameter: dir\n    environment: {A_B: 1}", "'{dir}'"),
    (
        "mine:\n    summary: s\n    environment: {A_B: 1}\n    threshold: {variable: B_C}",
        "B_C is not in its environment",
    ),
    ("mine:\n    summary: s\n    options: {-G: 1}\n    replaces: true", "replaces nothing"),
    ("mscclpp:\n    summary: s\n    options: {-G: 1}", "add 'replaces: true'"),
    ("default:\n    summary: s\n    replaces: true", "cannot be replaced"),
    ("channels-32:\n    summary: s\n    options: {-G: 1}", "is channels-N already"),
]


def told(text: str) -> list[tuple[int, int, str]]:
    """Line, column and sentence of each mistake."""
    with pytest.raises(InputFileError) as caught:
        load_catalog(text, "v.yaml")
    assert caught.value.exit_code == 3
    lines = [line for line in caught.value.message.splitlines() if line.startswith("  v.yaml:")]
    found = [(PLACE.match(line.strip()), line) for line in lines]
    return [(int(m[1]), int(m[2]), line) for m, line in found if m]


@given(st.lists(st.sampled_from(BAD_LINES), min_size=1, max_size=8))
def test_every_wrong_line_is_placed(bad: list[tuple[str, int, str]]) -> None:
    """Any number of entries, one wrong line each: as many mistakes, each at its own place."""
    text = HEAD + "".join(
        f"  e{n}:\n    summary: s\n    {line}\n" for n, (line, _, _) in enumerate(bad)
    )
    found = told(text)
    expected = [(5 + 3 * n, column) for n, (_, column, _) in enumerate(bad)]
    assert [(line, column) for line, column, _ in found] == expected
    for (_, _, said), (_, _, sentence) in zip(bad, found, strict=True):
        assert said in sentence


@pytest.mark.parametrize(("entry", "said"), BAD_ENTRIES)
def test_an_entry_without_sense_is_told_at_its_name(entry: str, said: str) -> None:
    """Every value is right, and still it cannot be measured."""
    found = told(f"{HEAD}  {entry}\n")
    assert [(line, column) for line, column, _ in found] == [(3, 3)]
    assert said in found[0][2]


@given(st.text(max_size=60) | st.text("&*[]{}:-,#!|>'\"% \n\tab1", max_size=60))
def test_no_file_is_too_wild(text: str) -> None:
    """Whatever the text: a catalog, or mistakes that have a place; nothing else is raised."""
    mistake = None
    try:
        load_catalog(text, "v.yaml")
    except InputFileError as error:
        mistake = f"{error.where} {error.message}"
    assert mistake is None or PLACE.search(mistake)
