"""What happens to a setting that hangs or crashes, is killed, or computes wrong results.

1. ``measure/connection.py`` waits for the answer to each step as long as :func:`step_limit_s` says,
   and ``measure/rank_program.py`` then ends all ranks.
2. :func:`describe_end` finds the step that was under way: its setting is to blame, for its
   collective. The run's ``ending.json`` keeps that. (A launch of rccl-tests has one setting, and
   its limit and its end from ``measure/rccl_tests.py``; all that follows holds for it too.)
3. :func:`find_excluded` reads the ends of all runs. A setting that hung or crashed once is excluded
   for its collective, and so is one that computed wrong results. One that was killed is tried again
   twice: no setting sends SIGKILL, somebody did, or the kernel where memory is short.
4. ``measure/ongoing_sweep.py`` starts ranks anew for what is left without excluded settings, and
   ``unusable_rows.py`` marks what those timed. Where no setting is to blame it tries again
   (:func:`most_failures`), or stops where that cannot help (``measure/hopeless_runs.py``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rccltune.launch.process import LaunchEnd
from rccltune.model.failure import ExcludedSetting, Failure
from rccltune.model.settings import Role, Setting
from rccltune.model.vocabulary import Collective
from rccltune.ranks import plan, runs
from rccltune.ranks.plan import PlacedStep
from rccltune.ranks.runs import EndFile, Run

if TYPE_CHECKING:
    import pandas as pd

# Until all ranks are there, and until the first communicator is: libraries load and connections
# are made, slower with more ranks.
_START_S: Final = 120.0
_START_EACH_S: Final = 2.0
# A step, and a communicator after the first.
HUNG_AFTER_S: Final = 60.0
# A communicator may take so many times what the first one took.
_SLOWER: Final = 10
# After so many a setting takes too much memory, or what kills it will go on.
_MOST_KILLED: Final = 3
# Failures of the library as it is after which nothing else is tried.
_MOST_FAILURES: Final = 2
_SAID: Final = re.compile(rf"{runs.PROGRAM}: (?:rank \d+: )?(.*)")
_SIMULATED: Final = re.compile(r"^rccltune simulated node: (.*)", re.MULTILINE)
# A rank that only says that another one is gone.
_ECHO: Final = re.compile(r"is gone|other ranks")
_GONE: Final = re.compile(r"rank (\d+) is gone")
# Launchers put what they have to say between such lines.
_RULER: Final = re.compile(r"^-{20,}$", re.MULTILINE)
# What the program ends with where a rank was ended by a signal.
_BY_SIGNAL: Final = 128
_SIGKILL: Final = 9


def step_limit_s(line: str, first_us: float | None, n_ranks: int, hung_after_s: float) -> float:
    """Seconds after which a step that is not answered hangs.

    Args:
        line: of the plan.
        first_us: µs that the first communicator took; None while there is none.
        n_ranks: of a communicator.
        hung_after_s: of a step that makes no communicator.
    """
    if first_us is None or line.startswith(plan.COMMUNICATOR):
        return communicator_limit_s(first_us, n_ranks)
    return hung_after_s


def communicator_limit_s(first_us: float | None, n_ranks: int) -> float:
    """Seconds that a communicator may take: ten times the first one's, a minute at least.

    The first one may take two minutes, and 2 s for each rank.

    Args:
        first_us: µs that the first one took; None while there is none.
        n_ranks: of it; more ranks make more connections.
    """
    if first_us is None:
        return _START_S + _START_EACH_S * n_ranks
    return max(HUNG_AFTER_S, 1e-6 * _SLOWER * first_us)


def describe_end(run: Run, ending: LaunchEnd, *, hung: bool) -> EndFile:
    """How a run ended, and which setting is to blame where it failed.

    Args:
        run: as far as it has measured.
        ending: of its processes.
        hung: they were ended because no answer came.
    """
    end = EndFile(
        exit_code=ending.exit_code, signal=ending.signal, duration_s=round(ending.duration_s, 3)
    )
    pending = run.in_flight
    # A launcher may fail to see that its ranks have ended well.
    all_done = run.remarks.n_done == run.file.n_ranks
    if pending is None and (ending.exit_code == 0 or all_done):
        return end
    log = _read_log(run)
    words = _words(run, log, hung=hung)
    at = _failed_at(run) or pending
    step = at.step if at else None
    return replace(
        end,
        failure=_failure(ending, hung=hung),
        line=at.line if at else None,
        collective=step.call.collective if step else None,
        setting=step.setting if step and step.setting.role in (Role.FORCED, Role.RULES) else None,
        rules=at.label.rules if at and step and step.setting.role is Role.RULES else "",
        words=words or ("" if hung else f"it ended with {ending.how}; {_last_words(log)}"),
    )


def _failure(ending: LaunchEnd, *, hung: bool) -> Failure:
    if hung:
        return Failure.HANG
    killed = ending.signal == _SIGKILL or ending.exit_code == _BY_SIGNAL + _SIGKILL
    return Failure.KILLED if killed else Failure.CRASH


def _failed_at(run: Run) -> PlacedStep | None:
    """The step that a rank itself says to have failed at, or that a rank was at which is gone."""
    failed = run.remarks.failed
    lines = {line for _, line, words in failed if not _ECHO.search(words)}
    # Of two ranks that end at once the slower one may lack a row that the other has.
    gone = {int(match[1]) for *_, words in failed if (match := _GONE.search(words))}
    quiet = gone - {rank for rank, *_ in failed}
    reached = [len(run.ranks[rank]) for rank in quiet if rank < len(run.ranks)]
    lines |= {run.steps[n].line for n in reached if n < len(run.steps)}
    return next((one for one in run.steps[run.n_done :] if one.line in lines), None)


def _read_log(run: Run) -> str:
    """What all said."""
    try:
        return (run.folder / runs.LOG_FILE).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _words(run: Run, log: str, *, hung: bool) -> str:
    """Words of the program or the library: the first rank's words that are about itself."""
    sentences = [words for _, _, words in run.remarks.failed]
    sentences += [match[1] for match in map(_SAID.match, log.splitlines()) if match]
    causes = [words for words in sentences if not _ECHO.search(words)]
    if not causes and not hung and (match := _SIMULATED.search(log)):
        causes = [match[1]]
    # Ranks that hang are ended by us, and see each other go: that says nothing of why they hung.
    return next(iter(causes if hung else [*causes, *sentences]), "")[:400]


def _last_words(log: str) -> str:
    """Text that a launcher put between rulers, else the last line that anybody wrote."""
    parts = _RULER.split(log)
    if len(parts) > 2:
        return " ".join(parts[1].split())[:400]
    lines = (line.strip() for line in reversed(log.splitlines()))
    return next((line[:200] for line in lines if line), "nothing was said")


def is_tried_again(failures: Sequence[Failure]) -> bool:
    """Whether what failed so is tried again: it was killed, and not too often.

    Args:
        failures: of one setting, or of one size.
    """
    return len(failures) < _MOST_KILLED and all(one is Failure.KILLED for one in failures)


def most_failures(failure: Failure | None) -> int:
    """How often the library may fail so, with nothing chosen, before nothing can be compared."""
    return _MOST_KILLED if failure is Failure.KILLED else _MOST_FAILURES


def find_excluded(
    all_runs: Iterable[Run], table: pd.DataFrame | None = None, *, rules: str = ""
) -> tuple[ExcludedSetting, ...]:
    """Settings that are measured no more.

    Args:
        all_runs: of a session.
        table: their rows (:mod:`rccltune.ranks.rows`), of which wrong results are looked at;
            None looks at how runs ended alone.
        rules: digest of a rule file; ends under its rules are looked at instead of those of
            settings.
    """
    by_number = {run.number: run for run in all_runs}
    failures: dict[tuple[Collective, Setting], list[tuple[Run, Failure]]] = {}
    for run in by_number.values():
        end = run.ended
        if end is None or end.failure is None or end.rules != rules:
            continue
        if end.setting is not None and end.collective is not None:
            failures.setdefault((end.collective, end.setting), []).append((run, end.failure))
    failures = {
        name: pairs
        for name, pairs in failures.items()
        if not is_tried_again([failure for _, failure in pairs])
    }
    if table is not None:
        wrong = wrong_rows(table)
        columns = [wrong[name] for name in ("collective", "setting", "run")]
        for collective, word, number in dict.fromkeys(zip(*columns, strict=True)):
            setting = Setting.parse(word)
            if setting.role is Role.FORCED:
                name = (Collective(collective), setting)
                failures.setdefault(name, []).append((by_number[number], Failure.WRONG))
    return tuple(
        ExcludedSetting(
            collective=collective,
            setting=setting,
            scale=pairs[0][0].scale,
            rank_placement=pairs[0][0].file.rank_placement,
            launches=tuple(run.name for run, _ in pairs),
            failures=tuple(failure for _, failure in pairs),
        )
        for (collective, setting), pairs in failures.items()
    )


def wrong_rows(table: pd.DataFrame) -> pd.DataFrame:
    """Rows whose results were wrong; what a probe of the order of adding counts is none of them."""
    wrong: pd.DataFrame = table[(table["wrong"] > 0) & (table["step"] != plan.ORDER)]
    return wrong
