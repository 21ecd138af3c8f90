"""``rccltune job``: does it pay in the user's own job, and does communication matter to it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rccltune.cli.console import DEFAULT_SESSION, Console, Word, common, styled, table
from rccltune.cli.help import Verb
from rccltune.cli.options import FOLDER, allow_need_option
from rccltune.model.errors import SessionError, VerificationError
from rccltune.model.vocabulary import Laid, format_time, lay

if TYPE_CHECKING:
    from rccltune.job.answer import Answer
    from rccltune.job.looks import Compared
    from rccltune.job.runs import Run


def _duration(text: str) -> float:
    from rccltune.measure.declaration import parse_duration

    return parse_duration(text)


_DURATION = Word("duration", _duration)
_OUTPUT = Path("rccltune-job")


class _WithCommand(Verb):
    """What stands behind the first ``--`` is the user's, every word of it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        at = args.index("--") if "--" in args else len(args)
        ctx.meta["rccltune.command"] = tuple(args[at + 1 :])
        return super().parse_args(ctx, args[:at])

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "-- COMMAND..."]


@click.command("job", cls=_WithCommand)
@click.argument("session", required=False, type=FOLDER)
@click.option("--rules", type=FOLDER, metavar="FILE", help="Rule file. Default: the session's.")
@click.option(
    "--budget",
    type=_DURATION,
    default="10m",
    show_default=True,
    metavar="T",
    help="Time for all runs together.",
)
@click.option(
    "--measure",
    metavar="REGEX|wall",
    help="Pattern that finds a number in the output (a rate where its group is (?P<rate>…)), or "
    "wall for the duration. Default: step times of rccltune.torch, else the duration.",
)
@click.option("--bad-rules", is_flag=True, help="Run it with deliberately bad rules, too.")
@allow_need_option
@common
@click.pass_context
def job(
    context: click.Context,
    *,
    console: Console,
    session: Path | None,
    rules: Path | None,
    budget: float,
    measure: str | None,
    bad_rules: bool,
    allowed: frozenset[str],
) -> None:
    """Run your own job in turns, as it is and with the rules, and say whether they pay.

    COMMAND is run as it stands, again and again, and {run} in it stands for a folder of the run's
    own (RCCLTUNE_JOB_RUN too): let checkpoints go there, so that no run resumes another one's.
    --bad-rules shows whether communication settings matter to the job at all. Runs are kept in
    ./rccltune-job, and the same command goes on where it was interrupted.

    \b
    Example:
      rccltune job -- torchrun --nproc_per_node=8 train.py --steps 200 --out {run}
      rccltune job --rules rules.csv --measure 'step ([0-9.]+) ms' -- mpirun -np 8 ./app

    Exit codes: 0 done, 2 command line, 3 the rule file is refused, 4 no plugin or not loaded by
    the job, 5 the job fails, 6 its output is not understood, 7 no session, 8 too few runs, or no
    rule answered, 9 the rules make it slower.
    """
    from rccltune.job.answer import draw
    from rccltune.job.trying import Request, try_job, written

    folder = session or (DEFAULT_SESSION if DEFAULT_SESSION.exists() else None)
    if session is not None and not session.exists():
        raise SessionError("there is no session here", where=str(session))
    if folder is not None:
        console.say(f"Session: {folder}")
    request = Request(
        command=context.meta["rccltune.command"],
        folder=_OUTPUT,
        session=folder,
        rules=rules,
        measure=measure,
        budget_s=budget,
        control=bad_rules,
        allowed=allowed,
    )
    found = try_job(request, reporter=console)
    written(_OUTPUT, found)
    figure = draw(_OUTPUT, found)
    console.result(found.as_plain(), _text(found, figure, color=console.color))
    if _pays(found):
        console.say("Next: rccltune deploy DIR hands the rules to jobs.")
    else:
        console.say(f"Next: rccltune why {_OUTPUT}/plugin-*.log says which rules answered.")
    if found.rules is not None and found.rules.verdict.value == "slower":
        raise VerificationError(
            "the job is slower with the rules",
            where=str(_OUTPUT),
            hint="do not use these rules for this job; rccltune why on plugin-*.log there says "
            "which of them answered.",
        )


def _text(found: Answer, figure: Path, *, color: bool) -> Laid:
    from rccltune.job.measures import in_words

    lines = ["SIMULATED, no hardware"] if found.simulated else []
    lines += [styled(_rules(found), "green" if color and _pays(found) else None)]
    lines += [line for line in (_control(found), _drift(found)) if line]
    lines += [f"Note: {text}." for text in found.differences]
    columns = ("run", "how", in_words(found.what), "steps", "calls", "by rules", "took")
    rows = (_row(one) for one in found.runs)
    parts = [lay(lines), table(columns, rows, numeric=(0, 2, 3, 4, 5, 6)), lay(_hits(found))]
    return lay([*parts, f"Figure: {figure}"], gap="\n\n")


def _pays(found: Answer) -> bool:
    return found.rules is not None and found.rules.verdict.value == "faster"


def _interval(one: Compared) -> str:
    middle, low, high = one.percent
    return f"{middle:+.1f} % ({low:.1f} to {high:.1f} %)"


def _rules(found: Answer) -> str:
    one = found.rules
    if one is None:
        return "Rules: not known."
    rounds = f"{one.speed.n_launches} rounds, 95 % interval"
    most = max(abs(end) for end in one.percent[1:])
    match one.verdict.value:
        case "faster":
            return f"Rules: {_interval(one)} speed of the job; {rounds}."
        case "slower":
            return f"Rules: {_interval(one)} speed of the job: slower; {rounds}."
        case "perhaps slower":
            return (
                f"Rules: {_interval(one)} speed of the job: perhaps slower, but not surely; "
                f"{rounds}."
            )
        case "no difference":
            return f"Rules: no difference: {_interval(one)}, so {most:.1f} % at most; {rounds}."
        case _:
            return (
                f"Rules: no difference was found, and {most:.1f} % at most may be there: "
                f"{_interval(one)}; {rounds}."
            )


def _control(found: Answer) -> str:
    importance = found.importance
    if importance is None:
        return ""
    head = importance.value[:1].upper() + importance.value[1:]
    if found.slower_than is not None:
        return (
            f"{head}: with deliberately bad rules it had not ended after {found.slower_than:.1f} "
            "times its duration."
        )
    join = ":"
    if found.rules_change_it:
        head, join = f"{head}: the rules change its speed", ";"
    if not found.control_hits:
        return f"{head}{join} the deliberately bad rules answered no call."
    one = found.control
    if one is None:
        return f"{head}."
    if one.speed.n_launches == 1:
        return f"{head}{join} one run with bad rules tells too little."
    what = "cost" if found.importance and found.importance.name != "NONE" else "cost no more than"
    return f"{head}{join} deliberately bad rules {what} {_cost(one, most=what != 'cost')}."


def _cost(one: Compared, *, most: bool) -> str:
    """How much slower bad rules make it, from the change of its speed."""
    middle, low, high = (-percent for percent in one.percent)
    if most:
        return f"{max(0.0, low):.1f} % speed"
    return f"{middle:.1f} % speed ({high:.1f} to {low:.1f} %; {one.speed.n_launches} rounds)"


def _drift(found: Answer) -> str:
    if found.drift is None:
        return ""
    return f"Drift: {100 * found.drift:+.1f} % from the first run as it is to the last."


def _hits(found: Answer) -> list[str]:
    """Which rules answered how many calls, over all runs of one kind."""
    lines = []
    for arm, head in (("rules", "Rules that answered"), ("control", "Bad rules that answered")):
        by_rule: dict[tuple[int, str], int] = {}
        for run in found.runs:
            for line, setting, hits in (
                run.answers.by_rule if run.arm.value == arm and run.answers else ()
            ):
                by_rule[line, setting] = by_rule.get((line, setting), 0) + hits
        if by_rule:
            each = ", ".join(
                f"line {line} {setting}: {hits} calls" for (line, setting), hits in by_rule.items()
            )
            lines.append(f"{head}: {each}")
    lines.append(
        "Calls are what the plugin was asked; a captured graph asks once and replays the answer."
    )
    return lines


def _row(run: Run) -> tuple[str, ...]:
    said, answers = run.measured, run.answers
    return (
        str(run.number),
        run.arm.words,
        f"{said.value:.6g}" if said else run.outcome.words,
        "–" if said is None or said.n_steps is None else str(said.n_steps),
        "no plugin" if answers is None else str(answers.calls),
        "–" if answers is None else str(answers.hits),
        format_time(1e6 * run.outcome.duration_s),
    )
