"""What ``tune`` says of a sweep by combined launches, before it begins."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rccltune.cli import sweep_perf
from rccltune.cli.console import Console
from rccltune.cli.options import ON_REQUEST
from rccltune.cli.progress import minutes
from rccltune.model.vocabulary import Laid, lay

if TYPE_CHECKING:
    from rccltune.measure.preparation import Prepared
    from rccltune.measure.request import Request
    from rccltune.measure.site import Site


def site_of(console: Console, request: Request, output: Path) -> Site:
    """Where it runs; where that is no hardware it is said before all else."""
    from rccltune.measure.site import find_site
    from rccltune.session.store import NODE_FILE

    site = find_site(request.site)
    if site.node is not None:
        is_kept = request.site.simulate == str(output / NODE_FILE)
        kept = ", as this session keeps it" if is_kept else ""
        console.say(f"SIMULATED node {site.node.name}{kept}: no hardware is measured")
    return site


def talk_before(console: Console, prepared: Prepared) -> None:
    """What a user should know before anything starts."""
    for remark in prepared.site.remarks:
        console.say(remark)
    console.say(f"Method: {prepared.method}")
    for said in _not_measured(prepared):
        console.say(said)
    if not prepared.sweep.named_variants:
        console.say(ON_REQUEST)
    there = f"; {len(prepared.done)} are there already" if prepared.done else ""
    console.say(f"{_launches(prepared)} to make{there}{_more_rounds(prepared)}")
    for where, name, value in prepared.filled:
        console.say(f"{where} sets {name}={value} in every rank of every launch")
    if prepared.cleared:
        names = ", ".join(name for name, _ in prepared.cleared)
        console.say(f"Cleared for every rank, since they choose: {names}")


def _not_measured(prepared: Prepared) -> Iterator[str]:
    """What a user could miss, and why it is not there."""
    for item in prepared.plan.impossible:
        yield f"Not measured: {item.collective.value} {item.setting}: {item.reason}"
    for one in prepared.quarantined:
        yield f"Not measured: {one}: quarantined, {one.reason}"
    yield from sweep_perf.left_out_of(prepared)


def plan_text(prepared: Prepared) -> Laid:
    """Every launch that is planned, what is not, and how long it takes."""
    from rccltune.session.launches import named_in

    lines = [
        f"{one.id}  {one.collectives[0].value:<15} {named_in(one):<12}  {shlex.join(one.argv)}"
        for one in prepared.left
    ]
    lines += [
        f"not measured: {item.collective.value} {item.setting}: {item.reason}"
        for item in prepared.plan.impossible
    ]
    lines += [f"not measured: {one}: quarantined, {one.reason}" for one in prepared.quarantined]
    lines += [f"not measured: variant {said}" for said in prepared.refused]
    lines += prepared.left_out
    listed = {
        "cleared": [f"{name}={value}" for name, value in prepared.cleared],
        "passed": [f"{name}={value}" for name, value in prepared.passed],
        "set by configuration files": [
            f"{name}={value} ({where})" for where, name, value in prepared.filled
        ],
    }
    for title, pairs in listed.items():
        if pairs:
            lines += [f"{title}:", *(f"  {pair}" for pair in pairs)]
    lines.append(f"method: {prepared.method}")
    lines.append(f"{_launches(prepared)}, {_expected(prepared)}")
    return lay(lines)


def _launches(prepared: Prepared) -> str:
    n = len(prepared.left)
    return f"{n} launch{'es' * (n != 1)}"


def _more_rounds(prepared: Prepared) -> str:
    """What a search may want after these launches, empty where nothing."""
    n = prepared.most_following
    if n < 2:
        return "; perhaps one more round" * n
    return f"; up to {n} more rounds"


def _expected(prepared: Prepared) -> str:
    """How long it takes; what a search will want is not known before, and has a bound."""
    said = f"about {minutes(prepared.estimate_s)}"
    if more := _more_rounds(prepared):
        said += f"{more}, about {minutes(prepared.most_s)} in all"
    if prepared.budget_s is not None and prepared.most_s > prepared.budget_s:
        said += f"; --budget {minutes(prepared.budget_s)} ends it"
    return said
