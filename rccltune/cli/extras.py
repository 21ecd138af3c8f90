"""What is measured beside a sweep: rates of links, and NPKit's events of the winner."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rccltune.cli.console import Console, with_options
from rccltune.cli.fit_tables import ceiling_lines, transferbench_option
from rccltune.cli.help import grouped
from rccltune.cli.options import FOLDER
from rccltune.model.vocabulary import lay

if TYPE_CHECKING:
    from rccltune.measure.preparation import Prepared
    from rccltune.npkit.session import Dumped


F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Extras:
    """What ``--transferbench`` and ``--npkit-dump`` say."""

    transferbench: Path | None
    npkit_dump: Path | None

    def check(self, prepared: Prepared) -> None:
        """Find out before a long sweep whether both can be done at its end."""
        from rccltune.ceiling import session
        from rccltune.npkit.session import check_dump, stored_dump

        if self.transferbench is not None:
            session.check_file(self.transferbench, simulated=prepared.site.node is not None)
        if self.npkit_dump is not None and not stored_dump(prepared.folder, self.npkit_dump):
            check_dump(self.npkit_dump, prepared.site)

    def rates(self, console: Console, prepared: Prepared) -> None:
        """Keep the rates, and say what they bound."""
        from rccltune.ceiling.session import bounded, take_rates
        from rccltune.fit.session import fit_session

        if self.transferbench is None:
            return
        take_rates(prepared.folder, self.transferbench, reporter=console, is_here=True)
        found = bounded(fit_session(prepared.folder, reporter=console))
        if found is not None:
            console.event("ceiling", found.as_plain(), lay(ceiling_lines(found)))

    def dump(self, console: Console, prepared: Prepared) -> None:
        """Run the winner once more, with NPKit's dump."""
        from rccltune.npkit.session import dump_winner

        if self.npkit_dump is None:
            return
        done = dump_winner(
            prepared.folder,
            self.npkit_dump,
            prepared.sweep,
            prepared.site,
            timeout_s=prepared.timeout_s,
            reporter=console,
        )
        console.event("npkit", done.as_plain(), lay(_lines(done)))


def _lines(done: Dumped) -> list[str]:
    dump, winner = done.dump, done.winner
    simulated = "SIMULATED " if dump.simulated else ""
    gain = (
        f", {winner.gain:.2f}x the library's own choice"
        if winner.gain
        else ", the fastest measured"
    )
    what = f"{dump.n_gpu_events} events of {len(dump.ranks)} GPUs"
    lines = [
        f"{simulated}NPKit: {winner}{gain}: {what}, {dump.n_files} files in {done.folder}",
        f"beside the launch: {done.collected}",
    ]
    if done.generator is None:
        lines.append(
            "npkit_trace_generator.py was not found in or above the library's folder: it is in "
            "RCCL's sources, tools/scripts/"
        )
    if done.header is None:
        lines.append(
            "npkit_event.h was not found: take src/include/npkit/npkit_event.h of the sources that "
            "this library was built from, since event numbers differ between releases"
        )
    if done.other_release:
        lines.append(
            "the trace generator is of another release: it wants clock_calibration files, which "
            "this library does not write"
        )
    return [*lines, f"Next: {done.command}"]


_EXTRAS = (
    transferbench_option,
    grouped(
        "--npkit-dump",
        type=FOLDER,
        metavar="DIR",
        group="Advanced",
        help="Run the winner once more and write NPKit's events to this folder.",
    ),
)


def extras(command: F) -> F:
    """What sweep and tune measure beside the settings."""

    def gather(given: dict[str, Any]) -> None:
        given["extras"] = Extras(
            transferbench=given.pop("transferbench"), npkit_dump=given.pop("npkit_dump")
        )

    return with_options(command, _EXTRAS, gather)
