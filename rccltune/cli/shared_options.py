"""Options that several verbs share."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rccltune.cli.console import DEFAULT_SESSION, TextParameter, with_options
from rccltune.cli.help import grouped
from rccltune.model import defaults
from rccltune.model.errors import CommandLineError
from rccltune.model.settings import LL128_FORCED, Mode
from rccltune.model.vocabulary import Collective

if TYPE_CHECKING:
    from rccltune.analyse.choice_options import ChoiceOptions


F = TypeVar("F", bound=Callable[..., Any])


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ValueError(f"'{text}' is no KEY=VALUE")
    return key, value


COLLECTIVE = TextParameter("collective", Collective.parse)
MODE = TextParameter("mode", Mode.parse)
PAIR = TextParameter("key=value", _pair)


def _percent(text: str) -> float:
    """A share in percent, ValueError otherwise."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    # NaN is not in any range, and compares with nothing.
    if not 0 <= value < 100:
        raise ValueError(f"'{text}' is no percentage: write a number from 0 to below 100")
    return value


PERCENT = TextParameter("percent", _percent)
FOLDER = click.Path(path_type=Path, file_okay=True, dir_okay=True)


class PathToRead(click.Path):
    """A path to read; what is wrong with it is told as of any file."""

    def convert(
        self,
        value: Any,  # noqa: ANN401 - click hands over whatever there is
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:  # noqa: ANN401 - a Path
        """The path.

        Raises:
            CommandLineError: nothing is there, or it cannot be read.
        """
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            message = error.message
            if param is not None and ctx is not None and not Path(value).exists():
                message = f"what {param.get_error_hint(ctx)} names is not there"
            raise CommandLineError(message, where=str(value), hint="correct its path.") from error


FILE = PathToRead(path_type=Path, exists=True)


def allow_need_option(command: F) -> F:
    """--allow-need NAME, of the verbs that give a rule file's variables to ranks or jobs."""

    def gather(arguments: dict[str, Any]) -> None:
        arguments["allowed"] = frozenset(arguments.pop("allow_need"))

    option = grouped(
        "--allow-need",
        multiple=True,
        metavar="NAME",
        group="Choosing",
        help="Allow rules to need this variable, which may load code or open files (repeatable).",
    )
    return with_options(command, (option,), gather)


def markdown_option(command: F) -> F:
    """--markdown FILE, of the verbs whose result is worth a table in a pull request."""
    option = grouped(
        "--markdown",
        type=FOLDER,
        metavar="FILE",
        group="Output",
        help="Write a short table for a pull request.",
    )
    return option(command)


def session_argument(command: F) -> F:
    """SESSION, which may be left out."""
    return click.argument("session", type=FOLDER, default=DEFAULT_SESSION)(command)


def named(words: str, *sessions: Path) -> str:
    """``rccltune fit``; with the sessions where they are not the one that is meant unnamed."""
    paths = () if sessions == (DEFAULT_SESSION,) else sessions
    return " ".join(("rccltune", words, *(shlex.quote(str(path)) for path in paths)))


def then_choose(session: Path) -> str:
    """Line that names the commands to run after measuring."""
    verbs = ", ".join(named(verb, session) for verb in ("fit", "emit-config", "plot"))
    return f"Next: {verbs}"


def forced_line(used: Path, site_rules: Path) -> str:
    """Sentence that jobs take the rules of the session with LL128 forced, not the site's."""
    return (
        f"That, and rccltune deploy, take the rules of {used}; {shlex.quote(str(site_rules))} is "
        f"for jobs that must not set {LL128_FORCED[0]}."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceArguments:
    """The options of choosing as typed; percentages are still percentages."""

    tolerance: float
    min_gain: float
    baseline: str | None = None
    max_channels: int | None = None
    workload: Path | None = None
    proven: bool = False
    same_bits: bool = False

    def options(self) -> ChoiceOptions:
        """Options of choosing zones.

        Raises:
            CommandLineError: the baseline is no setting.
            RccltuneError: the workload cannot be read.
        """
        from rccltune.analyse.choice_options import ChoiceOptions, parse_baseline
        from rccltune.workload import read_workload

        return ChoiceOptions(
            tolerance=self.tolerance / 100,
            min_gain=self.min_gain / 100,
            max_channels=self.max_channels,
            baseline=parse_baseline(self.baseline),
            weights=tuple(
                (one.collective, one.scale, one.nbytes, float(one.calls))
                for one in (read_workload(self.workload).counts if self.workload else ())
            ),
            proven=self.proven,
            same_bits=self.same_bits,
        )


_TUNING = (
    grouped(
        "--tolerance",
        group="Choosing",
        type=PERCENT,
        default=100 * defaults.TOLERANCE,
        show_default=True,
        metavar="PCT",
        help="Time that may be lost at a size to have fewer rules.",
    ),
    grouped(
        "--min-gain",
        group="Choosing",
        type=PERCENT,
        default=100 * defaults.MIN_GAIN,
        show_default=True,
        metavar="PCT",
        help="Estimated gain that a rule must have over the library's own choice.",
    ),
)
_CHOOSING = (
    *_TUNING,
    grouped(
        "--baseline",
        group="Choosing",
        metavar="SETTING",
        help="Compare gains with this, where the library's own choice was not measured.",
    ),
    grouped(
        "--max-channels",
        group="Choosing",
        type=click.IntRange(min=1),
        metavar="N",
        help="Choose no setting with more channels.",
    ),
    grouped(
        "--workload",
        group="Choosing",
        type=FILE,
        metavar="FILE",
        help="Weigh sizes by the calls of this recorded job.",
    ),
    grouped(
        "--proven",
        group="Choosing",
        is_flag=True,
        help="Leave out rules whose gain repeats do not prove.",
    ),
    grouped(
        "--same-bits",
        group="Choosing",
        is_flag=True,
        help="Choose only settings whose results keep their bits at every size.",
    ),
)


def _gather_choosing(arguments: dict[str, Any]) -> None:
    arguments["choosing"] = ChoiceArguments(
        **{f.name: arguments.pop(f.name) for f in fields(ChoiceArguments)}
    )


def _gather_tuning(arguments: dict[str, Any]) -> None:
    # A sweep's options have some of the other names in another meaning.
    names = [f.name for f in fields(ChoiceArguments) if f.default is MISSING]
    arguments["choosing"] = ChoiceArguments(**{name: arguments.pop(name) for name in names})


def choosing(command: F) -> F:
    """Options of emit-config, plot and report that say how to choose."""
    return with_options(command, _CHOOSING, _gather_choosing)


def choosing_of_tune(command: F) -> F:
    """Options of tune, which measures what it chooses from."""
    return with_options(command, _TUNING, _gather_tuning)
