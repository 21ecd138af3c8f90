"""Rule files of one machine and library for different ranks, as one file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rccltune.model import grammar
from rccltune.model.errors import CommandLineError
from rccltune.model.settings import Scale
from rccltune.model.vocabulary import Collective
from rccltune.rules.line_format import add_frame, is_frame, text_of
from rccltune.rules.rule_file import RuleFile, read_rules

_APART: Final = "deploy them into folders of their own."


def join_rule_files(parts: Sequence[tuple[Path, bytes]]) -> bytes:
    """One file with the rules of several, as emit-config and verify write them.

    Args:
        parts: where each lies, with its content; at least one.

    Raises:
        CommandLineError: they contradict each other.
    """
    if len(parts) == 1:
        return parts[0][1]
    files = [(path, read_rules(content)) for path, content in parts]
    for path, file in files[1:]:
        _check_same(files[0], (path, file))
    _check_scales(files)
    heads, bodies = zip(*(_split(path, content) for path, content in parts), strict=True)
    # What is required and needed is the same in all; who measured what is not.
    comments = dict.fromkeys(tuple(line for line in head if _is_comment(line)) for head in heads)
    instructions = [line for line in heads[0] if not _is_comment(line)]
    lines = [*(line for block in comments for line in block), *instructions]
    return text_of(add_frame([*lines, *(line for body in bodies for line in body)])).encode()


def _check_same(first: tuple[Path, RuleFile], other: tuple[Path, RuleFile]) -> None:
    (path, mine), (where, theirs) = first, other
    for what, one, two in (
        ("machine", sorted(mine.requires), sorted(theirs.requires)),
        ("library", mine.library, theirs.library),
        ("environment", sorted(mine.needs), sorted(theirs.needs)),
    ):
        if one != two:
            raise CommandLineError(
                f"these rules are of another {what} than those in {path}: {_words(two)}, and "
                f"{_words(one)} there",
                where=str(where),
                hint=_APART,
            )


def _words(said: str | list[tuple[str, str]] | None) -> str:
    if isinstance(said, list):
        return " ".join(f"{name}={value}" for name, value in said) or "nothing"
    return said or "nothing said"


def _check_scales(files: Sequence[tuple[Path, RuleFile]]) -> None:
    """Stop where two files have rules for the same calls."""
    known: dict[tuple[Collective, Scale], Path] = {}
    for path, file in files:
        mine = set()
        for rule in file.rules:
            if rule.n_nodes is None or rule.n_ranks is None:
                raise CommandLineError(
                    f"a rule for {rule.collective.value} is for any number of ranks, and other "
                    "files have rules for some",
                    where=f"{path}:{rule.line}",
                    hint=_APART,
                )
            mine.add((rule.collective, Scale(n_nodes=rule.n_nodes, n_ranks=rule.n_ranks)))
        for collective, scale in sorted(mine, key=str):
            if (collective, scale) in known:
                raise CommandLineError(
                    f"{known[collective, scale]} has rules for {collective.value} with {scale} too",
                    where=str(path),
                    hint="deploy one of the two.",
                )
        known |= dict.fromkeys(mine, path)


def _split(path: Path, content: bytes) -> tuple[list[str], list[str]]:
    """Lines above the first section, and from there on.

    Raises:
        CommandLineError: there is no section.
    """
    lines = [line for line in grammar.lines(grammar.text_of(content)) if not is_frame(line)]
    starts = [at for at, line in enumerate(lines) if grammar.instruction(line)[:1] == ["section"]]
    if not starts:
        raise CommandLineError(
            "this rule file was not written by emit-config, and others are to be joined with it",
            where=str(path),
            hint=_APART,
        )
    return lines[: starts[0]], lines[starts[0] :]


def _is_comment(line: str) -> bool:
    return line.startswith("# ") and not line.startswith("# columns:")
