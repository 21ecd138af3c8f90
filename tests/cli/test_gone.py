"""Verbs and options that went say what to use instead."""

from __future__ import annotations

import click
import pytest

from rccltune.cli import group, removed_options, run


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


def test_nothing_that_is_there_is_said_to_be_gone() -> None:
    """Each verb of the table exists, and has none of the options."""
    context = click.Context(group)
    verbs = {name: group.get_command(context, name) for name in removed_options.OPTIONS}
    there = {
        (name, option)
        for name, verb in verbs.items()
        if verb is not None
        for one in verb.params
        for option in (*one.opts, *one.secondary_opts)
    }
    went = {(name, word) for name, words in removed_options.OPTIONS.items() for word in words}
    assert None not in verbs.values()
    assert there & went == set()
    assert not set(removed_options.VERBS) & set(group.list_commands(context))


def test_what_never_was_is_answered_as_ever(capsys: pytest.CaptureFixture[str]) -> None:
    """With the usage, and exit code 2."""
    assert run(["deploy", "--nonsense"]) == 2
    assert "No such option" in capsys.readouterr().err
    assert removed_options.sentence("deploy", "--nonsense") is None
    assert removed_options.sentence("nonsense") is None
