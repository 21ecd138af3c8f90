"""``rccltune why``: why a job's rules were, or were not, used at each size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rccltune.cli.console import Console, common
from rccltune.cli.help import verb
from rccltune.cli.shared_options import COLLECTIVE, FILE
from rccltune.model.text import JoinedLines, join_lines
from rccltune.model.units import format_span
from rccltune.model.vocabulary import Collective

if TYPE_CHECKING:
    from rccltune.why.job_report import JobQuestion, JobRemark, JobReport, SizeAnswer


@verb("why")
@click.argument("files", type=FILE, nargs=-1, required=True, metavar="FILE...")
@click.option("--collective", type=COLLECTIVE, help="Of a benchmark's table that names none.")
@common
def why(
    *,
    console: Console,
    files: tuple[Path, ...],
    collective: Collective | None,
) -> None:
    """Say why a job's rules were or were not used, per communicator, collective and size.

    FILE is any of: the job's log with NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT,ENV,TUNING,COLL
    (ranks may be mixed, or one file each), the plugin's lines (RCCLTUNE_LOG=summary or
    decisions), a benchmark's output, the job's rule file. The more of them, the more is answered;
    what they cannot tell is said, with the variable that makes the job tell it.

    \b
    Example:
      rccltune why job.log plugin.* rccl_tuner_gfx942_cpx-nps4.csv

    Exit codes: 0 answered, 3 the rule file is refused, 6 a file is not understood,
    8 the files tell nothing.
    """
    from rccltune.job import BENCHMARK
    from rccltune.why.explain_job import explain_job
    from rccltune.why.job_report import AnswerKind

    report = explain_job(files, collective)
    console.result(_print_answers(report), _text(report))
    if any(one.kind is AnswerKind.HIT for one in report.answers):
        measure = f" --measure '{BENCHMARK}'" * report.is_benchmark
        console.say(
            f"Next: rccltune job{measure} -- COMMAND measures whether the rules make it faster."
        )


def _print_answers(report: JobReport) -> dict[str, Any]:
    return {
        "questions": [
            {
                "question": one.title,
                "answer": one.answer,
                "line": one.shown,
                "remedy": one.remedy,
            }
            for one in report.questions
        ],
        "answers": [_shown_answer(answer) for answer in report.answers],
        "remarks": [{"text": one.text, "remedy": one.remedy} for one in report.remarks],
    }


def _shown_answer(answer: SizeAnswer) -> dict[str, Any]:
    return {
        "nodes": answer.where.n_nodes,
        "ranks": answer.where.n_ranks,
        "collective": answer.collective,
        "min_bytes": answer.min_nbytes,
        "max_bytes": answer.max_nbytes,
        "sizes": answer.n_sizes,
        "channels": answer.channels,
        "answer": answer.kind,
        "text": answer.text,
        "remedy": answer.remedy,
    }


def _text(report: JobReport) -> JoinedLines:
    parts = [line for one in report.questions for line in _question(one)]
    parts.append("")
    head = None
    for names, answer in _join_equal_answers(report.answers):
        mine = f"{', '.join(names)}, {answer.where}"
        if mine != head:
            parts += ["", mine] if head else [mine]
            head = mine
        parts += _lines(answer)
    parts += [""] if report.remarks else []
    parts += [line for one in report.remarks for line in _remark(one)]
    return join_lines(parts)


def _question(one: JobQuestion) -> list[str]:
    """An answer, below it the lines that show it."""
    first, *more = one.answer.split("\n")
    lines = [f"{one.title}: {first}", *(f"  {text}" for text in more)]
    return [*lines, *(f"    {text}" for text in (one.shown or "").splitlines())]


def _join_equal_answers(answers: Sequence[SizeAnswer]) -> Iterator[tuple[list[str], SizeAnswer]]:
    """Collectives of a scale with one and the same answer at all of their sizes, together."""
    groups: list[tuple[list[str], SizeAnswer]] = []
    count = Counter((one.where, one.collective) for one in answers)
    for answer in answers:
        alone = count[answer.where, answer.collective] == 1
        names, last = groups[-1] if groups else ([], None)
        if last is not None and alone and len(names) > 0 and _is_same(answer, last, count):
            names.append(_name(answer))
            groups[-1] = (names, _over(last, answer))
        else:
            groups.append(([_name(answer)], answer))
    return iter(groups)


def _is_same(one: SizeAnswer, other: SizeAnswer, count: Counter[Any]) -> bool:
    same = (one.where, one.kind, one.text, one.remedy) == (
        other.where,
        other.kind,
        other.text,
        other.remedy,
    )
    sized = one.min_nbytes is not None and other.min_nbytes is not None
    return same and sized and count[other.where, other.collective] == 1


def _over(one: SizeAnswer, other: SizeAnswer) -> SizeAnswer:
    """The sizes of both."""
    low = min(one.min_nbytes or 0, other.min_nbytes or 0)
    high = max(one.max_nbytes or 0, other.max_nbytes or 0)
    return replace(one, min_nbytes=low, max_nbytes=high)


def _name(answer: SizeAnswer) -> str:
    nameless = "any collective" if answer.min_nbytes is None else "a collective not named"
    return answer.collective.value if answer.collective else nameless


def _lines(answer: SizeAnswer) -> list[str]:
    remedy = [f"      > {_sentence(answer.remedy)}"] if answer.remedy else []
    return [f"  {_range(answer):<22} {answer.kind.value}: {answer.text}{_on(answer)}", *remedy]


def _on(answer: SizeAnswer) -> str:
    """The channels that a rule's calls ran on; beside the answer, which has those asked for."""
    if answer.channels is None or answer.kind.value not in _RULED:
        return ""
    first, last = answer.channels
    return f", on {first if first == last else f'{first} to {last}'} channel{'s'[: last != 1]}"


_RULED = ("rule hit", "ran as the rule would", "overwritten after the tuner")


def _range(answer: SizeAnswer) -> str:
    if answer.min_nbytes is None or answer.max_nbytes is None:
        return "any size"
    return format_span(answer.min_nbytes, answer.max_nbytes)


def _remark(one: JobRemark) -> list[str]:
    return [one.text, f"  > {_sentence(one.remedy)}"] if one.remedy else [one.text]


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
