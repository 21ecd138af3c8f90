"""``rccltune job``: does it pay in the user's own job."""

from __future__ import annotations

from pathlib import Path

import click

from rccltune.cli.console import DEFAULT_SESSION, Console, TextParameter, common
from rccltune.cli.help import Verb
from rccltune.cli.shared_options import FILE, FOLDER, named
from rccltune.model.errors import VerificationError
from rccltune.model.text import join_lines


def _duration(text: str) -> float:
    from rccltune.model.units import parse_duration

    return parse_duration(text)


_DURATION = TextParameter("duration", _duration)


class _WithCommand(Verb):
    """A verb that leaves the user every word behind the first ``--``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        at = args.index("--") if "--" in args else len(args)
        ctx.meta["rccltune.command"] = tuple(args[at + 1 :])
        return super().parse_args(ctx, args[:at])

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "-- COMMAND..."]


@click.command("job", cls=_WithCommand)
@click.argument("session", required=False, type=FOLDER)
@click.option("--rules", type=FILE, metavar="FILE", help="Rule file. [default: the session's]")
@click.option(
    "--budget",
    type=_DURATION,
    metavar="T",
    help="Time for all runs together. [default: 6 pairs of runs]",
)
@click.option(
    "--measure",
    metavar="REGEX",
    help="Finds the number that the job prints: a time in its brackets, or a rate in (?P<rate>…). "
    "[default: step times of rccltune.torch, else the duration]",
)
@click.option("--bad-rules", is_flag=True, help="Run it with rules that are bad on purpose, too.")
@common
@click.pass_context
def job(
    context: click.Context,
    *,
    console: Console,
    session: Path | None,
    rules: Path | None,
    budget: float | None,
    measure: str | None,
    bad_rules: bool,
) -> None:
    """Run your own job in turns, as it is and with the rules, and say whether they pay.

    COMMAND is run as it stands: once to warm up, then as it is, with the rules, with the rules, as
    it is, and so on, by a plan that is said before. {run} in it (RCCLTUNE_JOB_RUN in its
    environment) is a folder of the run's own in SESSION/job: let checkpoints go there, so that no
    run resumes another one's. --bad-rules shows whether a difference could be seen at all.

    \b
    Example:
      rccltune job -- torchrun --nproc_per_node=8 train.py --steps 200 --out {run}
      rccltune job --rules rules.csv --measure 'step ([0-9.]+)' -- mpirun ./app

    Exit codes: 0 done, 2 command line, 3 the rule file is refused, 4 no plugin or not loaded by
    the job, 5 the job fails, 6 its output is not understood, 7 no session, 8 too few runs, or no
    rule answered, 9 the rules make it slower, 130 interrupted.
    """
    from rccltune.job import try_job

    folder = session or (DEFAULT_SESSION if DEFAULT_SESSION.exists() else None)
    if folder is not None:
        console.say(f"Session: {folder}")
    result = try_job(
        context.meta["rccltune.command"],
        session=folder,
        rules=rules,
        budget_s=budget,
        measure=measure,
        bad_rules=bad_rules,
        reporter=console,
    )
    console.result(result, join_lines(result.lines))
    if result.is_harm:
        raise VerificationError(
            "the job is slower with the rules",
            where=str(result.folder),
            hint="do not use these rules for this job; rccltune why says which answered.",
        )
    if result.gain is not None and result.gain.is_faster and rules is None and folder is not None:
        console.say(f"Next: {named('deploy DIR', folder)} hands the rules to jobs.")
