"""``rccltune detect --links``: how fast pairs of devices are, by how they are linked."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from rccltune.cli.console import Console, table
from rccltune.model.errors import LaunchError, SessionError
from rccltune.model.link_map import LinkMap, Spread
from rccltune.model.text import JoinedLines, join_lines
from rccltune.model.units import format_size

if TYPE_CHECKING:
    from rccltune.links import LinkMapPlan
    from rccltune.machine.system import System
    from rccltune.measure.site import SiteRequest


def show_links(
    console: Console, site: SiteRequest, session: Path, look: Callable[[], System]
) -> None:
    """Show the session's link map, measured now where it has none.

    Args:
        console: where to.
        site: where.
        session: that has the map, or gets it.
        look: finds out what this machine is; not asked where a node is simulated, or where the
            map is there already.

    Raises:
        LaunchError: pairs failed; what the others gave is shown and kept.
    """
    from rccltune.links import draw_links, stored_links
    from rccltune.model.schema import to_plain

    console.say(f"Session: {session}")
    done = stored_links(session)
    if done is not None and not done.failed:
        console.say(f"measured {done.measured}, not again; a new session measures anew")
        measured = False
    else:
        done = _measure_links(console, site, session, look)
        measured = True
    pictures: tuple[Path, ...] = ()
    try:
        pictures = draw_links(done, session, anew=measured)
    except SessionError as error:
        # A session to look at may be read-only; the figures are worth showing all the same.
        console.say(f"not drawn: {error}")
    more = {"session": session, "classes": done.rows, "pictures": pictures}
    console.result({**to_plain(done), **more}, _text(done, pictures))
    if not done.failed:
        console.say(
            "Next: rccltune sweep --rank-placement PLACE measures jobs on a few near devices."
        )
    if done.failed:
        first = done.failed[0]
        raise LaunchError(
            f"{len(done.failed)} of {len(done.pairs)} pairs failed; the rest is kept",
            where=f"{session}/{first.log}",
            hint="the same command tries the failed ones again.",
        )


def _measure_links(
    console: Console, site: SiteRequest, session: Path, look: Callable[[], System]
) -> LinkMap:
    from rccltune.links import measure_links, prepare_links

    system = look() if site.simulate is None else None
    prepared = prepare_links(site, session, system=system)
    _talk_before(console, prepared)
    return measure_links(
        prepared,
        reporter=console,
        command=shlex.join(["rccltune", *sys.argv[1:]]),
    )


def _talk_before(console: Console, prepared: LinkMapPlan) -> None:
    site = prepared.instrument.site
    if site.node is not None:
        console.say(f"SIMULATED node {site.node.name}: no hardware is measured")
    console.say(
        f"{len(prepared.chosen)} of {len(prepared.every)} pairs, a start of two ranks for each"
    )


def _text(done: LinkMap, pictures: tuple[Path, ...]) -> JoinedLines:
    head = [f"SIMULATED node {done.node}: no hardware was measured"] if done.simulated else []
    n_there = sum(row.n_there for row in done.rows)
    small, large = format_size(done.small_nbytes), format_size(done.large_nbytes)
    library = f" of {done.library}" if done.library else ""
    head.append(
        f"{done.machine}: {len(done.devices)} devices, {len(done.pairs)} of {n_there} pairs tried, "
        f"{done.times_text}"
    )
    head.append(
        f"sendrecv{library}, both devices sending at once: latency at {small}, bandwidth "
        f"of one direction at {large}"
    )
    parts = [join_lines(head), _classes(done), _pairs(done)]
    parts += [join_lines(f"drawn: {path}" for path in pictures)] if pictures else []
    return join_lines(parts, gap="\n\n")


def _classes(done: LinkMap) -> str:
    columns = ("link", "pairs", "latency µs", "least–most", "GB/s", "least–most", "failed")
    rows = [
        (
            row.link.meaning,
            f"{row.n_measured} of {row.n_there}",
            *_spread(row.latency_us),
            *_spread(row.gb_per_s),
            str(row.n_failed) if row.n_failed else "–",
        )
        for row in done.rows
    ]
    return table(columns, rows, numeric=(1, 2, 3, 4, 5, 6))


def _spread(spread: Spread | None) -> tuple[str, str]:
    if spread is None:
        return "–", "–"
    return f"{spread.median:.1f}", f"{spread.least:.1f}–{spread.most:.1f}"


def _pairs(done: LinkMap) -> str:
    columns = ("devices", "addresses", "link", "latency µs", "GB/s", "")
    rows = [
        (
            f"{pair.first}, {pair.second}",
            ", ".join(pair.names),
            pair.link.meaning,
            _number(pair.latency_us),
            _number(done.bandwidth(pair)),
            f"failed: {pair.failure} ({pair.log})" if pair.failure else "",
        )
        for pair in done.pairs
    ]
    return table(columns, rows, numeric=(3, 4))


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"
