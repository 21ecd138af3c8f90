"""``rccltune sweep``: measure every setting on this machine, or on a simulated one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rccltune.cli import sweep_perf
from rccltune.cli.console import DEFAULT_SESSION, Console, common
from rccltune.cli.help import grouped, verb
from rccltune.cli.shared_options import FILE, FOLDER
from rccltune.cli.sweep_options import names, sweep_option, sweep_options
from rccltune.model import defaults
from rccltune.model.errors import CommandLineError

if TYPE_CHECKING:
    from rccltune.measure.request import Request


@verb("sweep")
@sweep_option("mode")
@grouped(
    "-c",
    "--config",
    type=FILE,
    metavar="YAML",
    group="What",
    help="Options from a file (sweep.yaml); those given here win over it.",
)
@grouped(
    "-o",
    "--output",
    type=FOLDER,
    default=DEFAULT_SESSION,
    show_default=True,
    metavar="SESSION",
    group="Output",
    usual=True,
    help="Folder for everything that is measured and made.",
)
@sweep_options(*(name for name in names() if name != "mode"))
@grouped(
    "--apply-mode",
    is_flag=True,
    group="Running",
    help="Set the GPUs to --mode first, and put the old mode back afterwards.",
)
@grouped(
    "--plan",
    "plan_only",
    is_flag=True,
    group="Output",
    usual=True,
    help="Show what would run and for how long, and stop.",
)
@grouped(
    "--force",
    is_flag=True,
    group="Advanced",
    help="Go on although several hosts are not alike.",
)
@common
def sweep(
    *,
    console: Console,
    config: Path | None,
    output: Path,
    plan_only: bool,
    apply_mode: bool,
    force: bool,
    **options: Any,  # noqa: ANN401 - the options of a sweep file, by name
) -> None:
    """Measure which setting of a collective is fast at which size, in a session.

    Settings are checked and timed once, then those that could win in several communicators. One
    that hangs, crashes or gives wrong results is excluded. Interrupted, the same command goes on.
    With --runner rccl-tests each setting is one mpirun of all_reduce_perf and the like.

    \b
    Example:
      rccltune sweep --mode cpx-nps4 --np 64

    Exit codes: 0 done, 2 command line, 3 sweep.yaml, 4 the machine cannot run it, 5 runs failed, 7
    the session is of another machine, 130 interrupted.
    """
    from rccltune.measure.request import merge_request, refuse_simulated
    from rccltune.measure.site import in_mode

    request = merge_request(config, options, runner=defaults.SWEEP_RUNNER)
    refuse_simulated(request, output)
    check_hardware(request, apply_mode=apply_mode)
    with in_mode(request.sweep.mode, apply=apply_mode, reporter=console):
        prepared = sweep_perf.prepare(console, request, output)
        if plan_only:
            console.result(prepared, sweep_perf.plan_text(prepared), is_file=True)
            console.say("Next: the same command without --plan.")
        else:
            sweep_perf.run(console, prepared, force=force)


def check_hardware(request: Request, *, apply_mode: bool) -> None:
    """Stop where this machine would be changed for a node that is none.

    Raises:
        CommandLineError: it would.
    """
    if apply_mode and request.site.simulate is not None:
        raise CommandLineError(
            "--apply-mode sets the mode of this machine's GPUs, and a simulated node is measured",
            where=request.site.simulate,
            hint="leave it out; or choose another session with -o to measure this machine.",
        )
