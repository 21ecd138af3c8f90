"""The command line: the one place that knows click, prints and exits.

Nothing heavy is imported here: ``rccltune --help`` costs what click costs.
"""

from __future__ import annotations

import importlib
import shlex
import sys
import tempfile
import traceback
import warnings
from typing import Any, Final

import click

from rccltune.cli.console import Answer, put, take_over, talk
from rccltune.model.errors import CommandLineError, RccltuneError, SessionError
from rccltune.model.text import join_lines, unknown
from rccltune.model.version import __version__

_ISSUES: Final = "please report it with this file"
_START: Final = (
    "rccltune finds the fastest settings for RCCL's and NCCL's collectives on your",
    "machine, proves that they are faster, and writes the rules that apply them.",
    "",
    "Start here:",
    "  rccltune doctor                 is this machine ready to be measured?",
    "  rccltune tune --mode cpx-nps4   measure, choose, verify (--mode auto: as is)",
    "  rccltune tune --mode cpx-nps4 --simulate mi300x",
    "                                  the same on a simulated node, without a GPU",
    "  rccltune import FILE...         begin with logs of rccl-tests that you have",
    "",
    "All commands: rccltune --help. About one: rccltune COMMAND --help.",
)
# Verb -> (module, attribute, what it is for). The one-line help stands here so that the list of
# verbs needs no import of them.
_VERBS: Final = {
    "detect": ("rccltune.cli.detect", "detect", "Show what this machine is."),
    "doctor": ("rccltune.cli.doctor", "doctor", "Say what would spoil a measurement here."),
    "tune": ("rccltune.cli.tune", "tune", "Sweep, choose, verify: all of it in one go."),
    "sweep": ("rccltune.cli.sweep", "sweep", "Measure every setting on this machine."),
    "import": ("rccltune.cli.import_", "import_", "Turn existing logs into a session."),
    "fit": ("rccltune.cli.fit", "fit", "Fit time against size; find where settings cross."),
    "emit-config": ("rccltune.cli.emit_config", "emit_config", "Choose settings, write rules."),
    "verify": ("rccltune.cli.verify", "verify", "Keep only the rules that win on this machine."),
    "compare": ("rccltune.cli.compare", "compare", "Say whether B is faster than A, and where."),
    "check": ("rccltune.cli.check", "check", "Say whether verified rules still hold here."),
    "plot": ("rccltune.cli.report", "plot", "Draw what was measured, fitted and chosen."),
    "report": ("rccltune.cli.report", "report", "Write one page that can be mailed."),
    "workload": ("rccltune.cli.workload", "workload", "Say what a recorded job asks for."),
    "explain": ("rccltune.cli.explain", "explain", "Show what a rule file will do."),
    "why": ("rccltune.cli.why", "why", "Say why a job's rules were or were not used."),
    "job": ("rccltune.cli.job", "job", "Try rules in your own job; does it pay?"),
    "deploy": ("rccltune.cli.deploy", "deploy", "Hand rules and plugin over to a site's jobs."),
    "plugin": ("rccltune.cli.plugin", "plugin", "Find, use and check the tuner plugin."),
    "npkit": ("rccltune.cli.npkit", "npkit", "Run one setting with NPKit's events."),
    "gather": ("rccltune.cli.gather", "gather", "Make an archive to send, from a list."),
}


class _Verbs(click.Group):
    """A group whose commands are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Verbs in the order in which they are used."""
        del ctx
        return list(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one verb."""
        del ctx
        if cmd_name not in _VERBS:
            return None
        module, attribute, _ = _VERBS[cmd_name]
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take ``help VERB`` for ``VERB --help``."""
        return super().parse_args(ctx, [*args[1:2], "--help"] if args[:1] == ["help"] else args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The verb; one that is nearly right is named."""
        if args and args[0] not in _VERBS and not args[0].startswith("-"):
            raise click.UsageError(unknown("command", args[0], _VERBS), ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs without importing them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry[2]) for name, entry in _VERBS.items()])


@click.group(
    cls=_Verbs,
    invoke_without_command=True,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "auto_envvar_prefix": "RCCLTUNE_CLI",
        "max_content_width": 100,
    },
)
@click.version_option(__version__, "-V", "--version", prog_name="rccltune")
@click.pass_context
def group(context: click.Context) -> None:
    """Find, prove and apply the fastest setting for each RCCL collective.

    \b
    Example, on published measurements and without a GPU:
      rccltune import examples/mi300x-cpx-nps4/all_reduce.csv
      rccltune fit
      rccltune emit-config
      rccltune plot

    Exit codes: 0 done, 1 a bug, 2 command line, 3 sweep.yaml or rule file, 4 machine,
    5 launches, 6 output not understood, 7 session, 8 too little data, 9 verification,
    130 interrupted.
    """
    if context.invoked_subcommand is None:
        put(join_lines(_START))


def main() -> None:
    """Entry point of the ``rccltune`` program; always exits."""
    streams = take_over()
    warnings.showwarning = _say_warning
    code = run(sys.argv[1:])
    lost = streams.lost()
    if lost is not None:
        talk(f"Error: the result could not be written to stdout: {lost.strerror}")
        talk("  Hint: what was measured or made is kept; free space, and ask again.")
    sys.exit(code or (SessionError.exit_code if lost is not None else 0))


def _say_warning(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    """Print a library's warning as talk; it may quote what it was given."""
    talk(f"{category.__name__}: {message}")


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit code."""
    # Behind -- stands a job's own command.
    ours = arguments[: arguments.index("--")] if "--" in arguments else arguments
    answer = Answer(is_wanted="--json" in ours)
    try:
        _check_order(ours)
        # Without standalone mode click returns the code of --help and raises everything else.
        done = group.main(arguments, "rccltune", standalone_mode=False, obj=answer)
        code = int(done or 0)
    except Exception as error:  # noqa: BLE001 - the one place where any error becomes an exit code
        code = _explain(error, answer.fields)
    if code:
        answer.fields["exit_code"] = code
    answer.write()
    return code


def _check_order(arguments: list[str]) -> None:
    """Stop where options stand before the verb that has them, with the call that was meant.

    Raises:
        CommandLineError: they do.
    """
    place = next((at for at, word in enumerate(arguments) if word in _VERBS), 0)
    before, verb = arguments[:place], arguments[place : place + 1]
    if before and before[0].partition("=")[0] in _options(verb[0]) - {"-h", "--help"}:
        meant = shlex.join(["rccltune", *verb, *before, *arguments[place + 1 :]])
        raise CommandLineError(
            f"{before[0]} is an option of {verb[0]}, and stands behind it", hint=f"write {meant}"
        )


def _explain(error: Exception, fields: dict[str, Any]) -> int:
    """Tell the user what ended the command, and add it to what --json says; the exit code."""

    def fail(message: str, *, where: str | None = None, hint: str | None = None) -> None:
        fields.update(error=message, where=where, hint=hint)

    match error:
        case click.UsageError() if type(error).__name__ == "NoArgsIsHelpError":
            # Of click 8.2 and later; its message is the whole help.
            lines = error.format_message().split("\n")
            talk(*lines)
            fail("what to do is not said", hint=_asking(error))
            return error.exit_code
        case click.NoSuchOption() if (of_others := _of_other_verbs(error)) is not None:
            talk(f"Error: {of_others}")
            fail(of_others, hint=_asking(error))
            return error.exit_code
        case click.ClickException():
            talk(*_usage(error), f"Error: {error.format_message()}")
            fail(error.format_message(), hint=_asking(error))
            return error.exit_code
        case RccltuneError():
            talk(join_lines(["Error: ", error.text], gap=""))
            fail(error.message, where=error.where, hint=error.hint)
            return error.exit_code
        case click.Abort():
            again = "The same command again continues from here."
            talk(f"Interrupted. {again}")
            fail("interrupted", hint=again)
            return 130
        case _:
            path = _keep_traceback()
            talk(f"Error: rccltune has a bug; {_ISSUES}: {path}")
            fail("rccltune has a bug", where=path, hint=_ISSUES)
            return 1


def _of_other_verbs(error: click.NoSuchOption) -> str | None:
    """Name the verbs that have an option which this one has not; None where none has it."""
    verb = (error.ctx.info_name if error.ctx is not None else None) or ""
    verbs = [name for name in _VERBS if error.option_name in _options(name)]
    if not verbs:
        return None
    return f"{error.option_name} is no option of {verb}, but of {', '.join(verbs)}"


def _options(verb: str) -> set[str]:
    """All options of a verb, as they are typed."""
    command = group.get_command(click.Context(group), verb)
    return {word for one in command.params for word in one.opts} if command else set()


def _usage(error: click.ClickException) -> list[str]:
    """Usage of the verb, where that is what went wrong; click's own words."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is None:
        return []
    return [*context.get_usage().split("\n"), _asking(error) or "", ""]


def _asking(error: click.ClickException) -> str | None:
    """How to ask for help on the verb that went wrong."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is None:
        return None
    return f"Try '{context.command_path} {context.help_option_names[0]}' for help."


def _keep_traceback() -> str:
    text = f"rccltune {__version__}, Python {sys.version}\n{sys.argv}\n{traceback.format_exc()}"
    with tempfile.NamedTemporaryFile(
        "w",
        prefix="rccltune-crash-",
        suffix=".txt",
        delete=False,
        encoding="utf-8",
        errors="backslashreplace",
    ) as stream:
        stream.write(text)
    return stream.name
