"""Samples of a launch that went through a schedule: which step gave which row, and what ran.

The recipe and what each benchmark asks are in docs/inside/schedule.md. Rows are matched to steps
from the end of the warm-up on, and trusted only where every rank was asked exactly as often, at
exactly the sizes that the table shows, as the benchmark's options imply: one call more or less, and
a row might stand beside the wrong setting.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from rccltune.logs.trace import Asked, agree, prove, read_trace
from rccltune.model import grammar
from rccltune.model.errors import LaunchError, OutputError
from rccltune.model.measured import PASSES, Questions, Sample
from rccltune.model.settings import SILENT, Role, Setting
from rccltune.model.vocabulary import Doubt

_WORD: Final = re.compile(r"([a-z-]+)=(\S+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """One rank's way through a schedule.

    Attributes:
        rows: what it was asked, of steps that were over or of a combined launch that ended.
        n_begun: steps that began.
        n_over: calls after the last step.
        ended: whether the communicator was finalized; a trace without it was cut off.
        last: setting of the last step that began, None before the first and after the last.
    """

    rows: tuple[Asked, ...]
    n_begun: int
    n_over: int
    ended: bool
    last: Setting | None

    @property
    def n_whole(self) -> int:
        """Steps whose records are all there."""
        return self.n_begun if self.ended else max(0, self.n_begun - 1)


def read_walk(text: str, where: str) -> Walk:
    """Read one rank's trace of a schedule.

    Raises:
        OutputError: it is no trace of format 1, or a row is damaged.
    """
    # A rank that was killed while it wrote leaves half a line; the steps before it are whole.
    text = text[: text.rfind("\n") + 1]
    lines = [line for line in grammar.lines(text) if line.startswith("#@ ")]
    begun = [dict(_WORD.findall(line)) for line in lines if line.startswith("#@ begin ")]
    ends = [dict(_WORD.findall(line)) for line in lines if line.startswith("#@ end ")]
    try:
        steps = [words for words in begun if words["setting"] != "overrun"]
        return Walk(
            rows=read_trace(text, where),
            n_begun=grammar.whole(ends[-1]["begun"]) if ends else len(steps),
            n_over=grammar.whole(ends[-1]["overrun-calls"]) if ends else len(begun) - len(steps),
            ended=bool(ends),
            last=Setting.parse(begun[-1]["setting"]) if begun and begun == steps else None,
        )
    except (KeyError, ValueError) as error:
        raise OutputError(f"a '#@' line cannot be read: {error}", where=where) from error


def suspect(walks: Iterable[Walk], questions: Questions) -> Setting | None:
    """The setting that was in force when a combined launch failed.

    Args:
        walks: of all ranks; the one that got furthest tells, since others may not have asked yet.
        questions: what the benchmark's options imply.

    Returns:
        None where nobody can be blamed: before the first pass, in an idle step, where nothing of
        ours chooses, and after the combined launch.
    """
    furthest = max(walks, key=lambda walk: (walk.ended, walk.n_begun), default=None)
    if furthest is None or furthest.ended or furthest.n_begun <= questions.leading:
        return None
    return furthest.last if furthest.last and furthest.last.role is Role.FORCED else None


def agree_on_walk(walks: Mapping[str, Walk]) -> str | None:
    """Whether all ranks went the same way as far as all of them got; None when they did.

    Args:
        walks: by file name; every rank writes its own.

    Returns:
        What differs first, in words.
    """
    shared = min(walk.n_whole for walk in walks.values())
    if all(walk.ended for walk in walks.values()) and len({w.n_begun for w in walks.values()}) > 1:
        return "the ranks went through different numbers of steps"
    upto = {name: [row for row in w.rows if row.step < shared] for name, w in walks.items()}
    differing = agree(upto)
    if differing is not None:
        return differing
    counts = {
        name: {(r.step, r.collective, r.nbytes): r.calls for r in rows}
        for name, rows in upto.items()
    }
    first = next(iter(counts.values()))
    if any(one != first for one in counts.values()):
        return "the ranks were asked differently often"
    return None


def place(
    samples: Iterable[Sample], walk: Walk, steps: Sequence[Setting], questions: Questions
) -> tuple[Sample, ...]:
    """Give every row the setting of its step, and say what ran.

    Args:
        samples: of the whole launch, whatever setting they carry.
        walk: one rank's; all ranks' are alike (:func:`agree_on_walk`).
        steps: the schedule.
        questions: what the benchmark's options imply.

    Returns:
        Samples of the passes that are proven, in the table's order. The first pass of each
        setting is flagged: it paid for connections. Every later pass of a setting counts as a
        run of its own (``launch`` gets ``.1``, ``.2`` …), since others ran in between.

    Raises:
        LaunchError: rows and steps do not belong together; nothing of the launch can be used.
    """
    samples = tuple(samples)
    if samples and not any(sample.nbytes for sample in samples):
        raise LaunchError(
            "every row of the table is of 0 bytes, so nothing was called: the benchmark rounds "
            "these sizes down to nothing",
            hint="measure larger ones (--min-bytes); each rank's share has 16 bytes at least.",
        )
    passes = _passes(samples)
    questions, steps = _from_the_end(passes, walk, questions, steps)
    is_whole = len(passes) == len(steps) - questions.leading
    if walk.ended and is_whole and not walk.n_over:
        unasked = _unasked(passes, walk, questions)
        if walk.n_begun <= questions.leading or all(row.nbytes in unasked for row in passes[0]):
            return _past_the_tuner(passes, steps, questions, unasked)
    if walk.ended and (walk.n_begun != len(steps) or walk.n_over):
        raise _void(f"{walk.n_begun} of {len(steps)} steps began, {walk.n_over} calls came after")
    if walk.ended and len(passes) != len(steps) - questions.leading:
        raise _void(f"{len(passes)} passes were printed for {len(steps)} steps")
    asked = Counter[tuple[int, int]]()
    for row in walk.rows:
        asked[row.step, row.nbytes] += row.calls
    found: list[Sample] = []
    seen: Counter[Setting] = Counter()
    n_halves = max(_halves(passes), default=0)
    for number, rows in enumerate(passes):
        step = questions.leading + number
        if step >= min(walk.n_whole, len(steps)):
            break
        printed = {row.nbytes for row in rows}
        is_cut = any(at == step and n not in printed for at, n in asked)
        if not walk.ended and (is_cut or min(_halves([rows])) < n_halves):
            break  # the benchmark died while it printed this pass
        bypassed = _check_questions(rows, step, asked, questions)
        trace = [row for row in walk.rows if row.step == step and row.nbytes not in bypassed]
        setting = steps[step]
        found += _of_step(rows, trace, setting, step, seen[setting])
        seen[setting] += 1
    return tuple(found)


def _from_the_end(
    passes: Sequence[object], walk: Walk, questions: Questions, steps: Sequence[Setting]
) -> tuple[Questions, Sequence[Setting]]:
    """Where the table's first pass is: the last one printed belongs to the last step that began.

    Without spare steps, or where the launch was cut off, it is where the options imply.
    """
    leading = walk.n_begun - len(passes)
    is_near = abs(leading - questions.leading) <= questions.spare
    if not walk.ended or walk.n_over or leading < 0 or not is_near:
        return questions, steps
    every = (*steps, *(SILENT,) * questions.spare)
    return replace(questions, leading=leading), every[: walk.n_begun]


def _unasked(
    passes: Sequence[Sequence[Sample]], walk: Walk, questions: Questions
) -> frozenset[int]:
    """Sizes in bytes at which nobody asked but a warm-up and what prints the table's columns."""
    asked = Counter[int]()
    for question in walk.rows:
        asked[question.nbytes] += question.calls
    lines = Counter(nbytes for nbytes, _ in {(s.nbytes, s.line) for rows in passes for s in rows})
    return frozenset(
        nbytes
        for nbytes, n in lines.items()
        if asked[nbytes] <= questions.extra + n * questions.columns
    )


def _past_the_tuner(
    passes: Sequence[Sequence[Sample]],
    steps: Sequence[Setting],
    questions: Questions,
    unasked: Container[int],
) -> tuple[Sample, ...]:
    """Rows of a launch in which no call but the warm-up's asked for anything.

    A path took all of its sizes: no setting can run there, whichever was in turn. A size at which
    more was asked proves nothing, since no step ever ended.
    """
    found: list[Sample] = []
    for setting, rows in zip(steps[questions.leading :], passes, strict=True):
        for row in rows:
            own = Doubt.BYPASSED if row.nbytes in unasked else Doubt.UNPROVEN
            key = replace(row.key, setting=setting)
            found.append(replace(row, key=key, doubt=row.doubt or own, executed=None))
    return tuple(found)


def _passes(samples: Iterable[Sample]) -> list[list[Sample]]:
    """Rows of each pass over the sizes: one ends where the size falls."""
    passes: list[list[Sample]] = []
    last = -1
    for sample in sorted(samples, key=lambda s: s.line or 0):
        if not passes or sample.nbytes < last:
            passes.append([])
        passes[-1].append(sample)
        last = sample.nbytes
    return passes


def _halves(passes: Iterable[Iterable[Sample]]) -> list[int]:
    """Timings of each line."""
    return list(Counter(row.line for rows in passes for row in rows).values())


def _check_questions(
    rows: Sequence[Sample], step: int, asked: Mapping[tuple[int, int], int], questions: Questions
) -> frozenset[int]:
    """Every size of the pass was asked for as often as the options imply, and no other.

    Returns:
        Sizes in bytes at which nobody asked but what prints the benchmark's columns.
    """
    n_lines = Counter(nbytes for nbytes, _ in {(s.nbytes, s.line) for s in rows if s.nbytes})
    here = {nbytes: calls for (at, nbytes), calls in asked.items() if at == step}
    for nbytes in here.keys() - n_lines.keys():
        raise _void(f"step {step} was asked at {nbytes} bytes, which its pass does not print")
    smallest = min(n_lines, default=None)
    bypassed = {n for n, n_rows in n_lines.items() if here.get(n) == n_rows * questions.columns}
    for nbytes, n in n_lines.items():
        if nbytes in bypassed:
            continue
        wanted = n * questions.per_row
        allowed = {wanted}
        if step == questions.leading and nbytes == smallest:
            allowed.add(wanted + questions.extra)
        # No question at all is a bypass, which the proof of the row says.
        if here.get(nbytes, wanted) not in allowed:
            raise _void(
                f"step {step} was asked {here[nbytes]} times at {nbytes} bytes, not {wanted} times"
            )
    return frozenset(bypassed)


def _of_step(
    rows: Sequence[Sample], trace: Sequence[Asked], setting: Setting, step: int, n_before: int
) -> list[Sample]:
    # Rows share a few keys, and copying takes longer than finding one.
    keys = {key: replace(key, setting=setting) for key in {row.key for row in rows}}
    named = [
        replace(
            row,
            key=keys[row.key],
            step=step,
            cycle=0,
            launch=f"{row.launch}{PASSES}{n_before}" if n_before else row.launch,
            doubt=_doubt(row, setting, n_before),
        )
        for row in rows
    ]
    return list(prove(named, trace, setting, step=step))


def _doubt(row: Sample, setting: Setting, n_before: int) -> Doubt | None:
    """The row's own flag, what the benchmark's columns say ran, or a setting's first use."""
    if row.doubt is not None:
        return row.doubt
    if row.executed is not None and setting.contradicts(row.executed):
        return Doubt.SUBSTITUTED
    return None if n_before else Doubt.CONNECTING


def _void(what: str) -> LaunchError:
    return LaunchError(
        f"the table and the schedule do not belong together: {what}",
        hint="measure by rccltune-perf (sweep without --runner), and report this with the "
        "launch's folder.",
    )
