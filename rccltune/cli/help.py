"""Help in groups: ``--help`` shows the usual options of a long verb, ``--help-all`` every one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import click

_ALL: Final = "rccltune.help_all"
# Above one a verb has headings, above the other a short help, too.
_SHORT, _LONG = 15, 18
# Columns for names and their values; longer ones stand on a line of their own.
_NAMES: Final = 28
HEADINGS: Final = ("What", "Sizes", "Running", "Choosing", "Output", "Advanced", "Options")


class GroupedOption(click.Option):
    """An option that knows where it stands in the help.

    Args:
        group: heading that it stands under.
        usual: whether ``--help`` of a long verb shows it.
        kwargs: click's own.
    """

    def __init__(
        self,
        *args: Any,  # noqa: ANN401 - click's own
        group: str = "Options",
        usual: bool = False,
        **kwargs: Any,  # noqa: ANN401 - click's own
    ) -> None:
        """Keep both."""
        super().__init__(*args, **kwargs)
        self.group = group
        self.usual = usual

    def get_help_extra(self, ctx: click.Context) -> Any:  # noqa: ANN401 - a TypedDict of some releases
        """Not ``x>=1``, which nobody had to be told."""
        extra = super().get_help_extra(ctx)
        extra.pop("range", None)
        return extra


grouped = partial(click.option, cls=GroupedOption)


def _show_all(ctx: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        ctx.meta[_ALL] = True
        # The console's own options are grouped by this module.
        from rccltune.cli.console import put
        from rccltune.model.text import join_lines

        put(join_lines(ctx.get_help().split("\n")))
        ctx.exit()


_HELP_ALL: Final = GroupedOption(
    ["--help-all"],
    is_flag=True,
    is_eager=True,
    expose_value=False,
    group="Output",
    usual=True,
    callback=_show_all,
    help="Show every option, in groups, and exit.",
)


class Verb(click.Command):
    """A command with both helps."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Its own, with both."""
        return [*super().get_params(ctx), _HELP_ALL]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The usual ones in a list, or all under their headings."""
        options = [one for one in self.get_params(ctx) if isinstance(one, click.Option)]
        if len(options) > _LONG and not ctx.meta.get(_ALL):
            _section(ctx, formatter, "Usual options", [one for one in options if _is_usual(one)])
        elif len(options) > _SHORT:
            for heading in HEADINGS:
                _section(ctx, formatter, heading, [o for o in options if _group(o) == heading])
        else:
            _section(ctx, formatter, "Options", options)


def usual(command: click.Command) -> list[click.Option]:
    """The options that ``--help`` shows: of a long verb the usual ones, else every one."""
    options = [one for one in command.params if isinstance(one, click.Option)]
    # Beside its own a verb has --help and --help-all.
    return [o for o in options if _is_usual(o)] if len(options) + 2 > _LONG else options


def _group(option: click.Option) -> str:
    if isinstance(option, GroupedOption):
        return option.group
    return "Output" if "--help" in option.opts else "Options"


def _is_usual(option: click.Option) -> bool:
    return option.usual if isinstance(option, GroupedOption) else "--help" in option.opts


_UNBROKEN: Final = "\N{NON-BREAKING HYPHEN}"


def _section(
    ctx: click.Context,
    formatter: click.HelpFormatter,
    heading: str,
    options: list[click.Option],
) -> None:
    rows = [row for row in (one.get_help_record(ctx) for one in options) if row is not None]
    if rows:
        # No line ends within a name: rccltune-session, --mode.
        unbroken = [
            (name, text.replace("  [", " [").replace("-", _UNBROKEN)) for name, text in rows
        ]
        with formatter.section(heading):
            formatter.write_dl(unbroken, col_max=_NAMES)
        formatter.buffer = [text.replace(_UNBROKEN, "-") for text in formatter.buffer]


verb: Callable[..., Callable[[Callable[..., Any]], Verb]] = partial(click.command, cls=Verb)
