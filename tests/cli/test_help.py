"""Help: the usual options first, every one on demand, in groups; where to start; values."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.shell_completion import BashComplete

from rccltune.cli import group, run


def told(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a command line that ends well puts on stdout."""
    assert run(list(words)) == 0
    return capsys.readouterr().out


def test_bare_it_says_where_to_start(capsys: pytest.CaptureFixture[str]) -> None:
    """Commands to copy, and exit code 0."""
    text = told(capsys)
    for verb in ("doctor", "tune", "import"):
        assert f"rccltune {verb}" in text
    assert all(len(line) <= 80 for line in text.splitlines())


# What was typed, what was meant, and another word that is known.
WRONG_WORDS = [
    ("fti", "fit", "gather"),
    ("emitconfig", "emit-config", "tune"),
    ("sweep --collective allreduc", "all_reduce", "reduce_scatter"),
    ("sweep --collective all_gather,broadcst", "broadcast", "all_reduce"),
    ("explain x.csv --collective redcue", "reduce", "all_gather"),
    ("sweep --simulate mi300", "mi300x", "mi300x-msccl"),
    ("sweep --mode cpx-nps5", "cpx-nps4", "spx-nps1"),
    ("sweep --setting trea/ll", "tree", "pat"),
    ("sweep --setting tree/l128", "ll128", "simple"),
    ("sweep --dtype flot", "float", "bfloat16"),
    ("sweep --op summ", "sum", "prod"),
    ("sweep --launcher opnmpi", "openmpi", "srun"),
    ("sweep --preset cpx64", "cpx-64", "cpx-one-oam"),
    ("plot --figure gian", "gain", "predictions"),
    ("verify --timing graphs", "graph", "loop"),
]


@pytest.mark.parametrize(("typed", "meant", "known"), WRONG_WORDS)
def test_a_word_that_is_nearly_right_is_named_with_all_known_ones(
    typed: str,
    meant: str,
    known: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And nothing runs."""
    monkeypatch.chdir(tmp_path)
    assert run(typed.split()) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert f"did you mean '{meant}" in said
    assert known in said
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("sweep --colective all_reduce", "--collective"),
        ("tune --beside gemm", "No such option"),
        ("verify --repeats 3", "No such option"),
        ("seal rules.csv", "unknown command 'seal'"),
    ],
)
def test_an_unknown_option_or_verb_is_told_as_such(
    typed: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the nearest one; what there was before is unknown like anything else."""
    assert run(typed.split()) == 2
    assert said in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("typed", "verbs"),
    [
        ("fit --tolerance 3", {"tune", "emit-config"}),
        ("report --format png", {"plot"}),
        ("emit-config --communicators 3", {"verify", "sweep"}),
    ],
)
def test_an_option_of_another_verb_is_answered_with_that_verb(
    typed: str, verbs: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """No option of this one is guessed instead."""
    assert run(typed.split()) == 2
    said = capsys.readouterr().err
    assert "is no option of" in said
    assert verbs <= set(said.replace(",", " ").split())


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("rccltune tun", {"tune"}),
        ("rccltune tune --mode cpx-", {"cpx-nps1", "cpx-nps4"}),
        ("rccltune tune --simulate mi300x-oam", {"mi300x-oam-cpx-nps4"}),
        ("rccltune sweep --collective all_", {"all_reduce", "all_gather"}),
        ("rccltune sweep --setting tree/", {"tree/ll", "tree/ll128", "tree/simple"}),
        ("rccltune sweep --timing g", {"graph"}),
    ],
)
def test_a_shell_completes_values(
    line: str, expected: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As bash asks for them."""
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split()) - 1))
    text = BashComplete(group, {}, "rccltune", "_RCCLTUNE_COMPLETE").complete()
    found = {word.partition(",")[2] for word in text.splitlines()}
    assert expected <= found
    assert all(word.startswith(line.rsplit(maxsplit=1)[-1]) for word in found)
