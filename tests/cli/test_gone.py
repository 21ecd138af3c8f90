"""Verbs and options that went say what to use instead."""

from __future__ import annotations

import pytest

from rccltune.cli import removed_options, run


@pytest.mark.parametrize(
    ("verb", "word"),
    [(verb, word) for verb, words in removed_options.OPTIONS.items() for word in words],
)
def test_what_went_of_a_verb_exits_with_2_and_a_sentence(
    verb: str, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The sentence alone, without the usage of what is there."""
    assert run([verb, *word.split(), "x"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert said == f"Error: {removed_options.sentence(verb, word)}"


@pytest.mark.parametrize("verb", removed_options.VERBS)
def test_a_verb_that_went_exits_with_2_and_a_sentence(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever options are behind it."""
    assert run([verb, "--any", "x"]) == 2
    assert " ".join(capsys.readouterr().err.split()) == f"Error: {removed_options.VERBS[verb]}"
