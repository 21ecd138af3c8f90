"""``rccltune compare``: from what a user asks to what is known, in a folder of its own."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rccltune.compare import results
from rccltune.compare.comparison_request import ComparisonRequest
from rccltune.compare.explaining import explain_differences
from rccltune.compare.judge_sizes import A, B
from rccltune.compare.known_changes import NewerSide, ReleaseChange, find_known_changes
from rccltune.compare.reasons import NO_TUNER, PERHAPS, add_reasons
from rccltune.compare.results import ComparisonResult
from rccltune.compare.sides import Side, check_entries
from rccltune.compare.turns import MeasuredSide, OngoingComparison
from rccltune.launch import signals
from rccltune.launch.variables import (
    CHANNELS,
    CLEARED,
    LaunchEnvironment,
    chooses,
    launch_environment,
)
from rccltune.measure import library
from rccltune.measure.hosts import HostComparison
from rccltune.measure.instrument import Instrument, check_collectives, find_instrument
from rccltune.measure.launcher import end_leftovers
from rccltune.measure.passes import SweepScope
from rccltune.measure.paths_here import paths_here
from rccltune.measure.perf_sweep import call_words, tuner_of_baseline
from rccltune.model import defaults
from rccltune.model.errors import CommandLineError, SessionError
from rccltune.model.measurement import Sweep
from rccltune.model.ranges import Range
from rccltune.model.reporter import Reporter
from rccltune.model.rounding import minutes
from rccltune.model.text import join_lines
from rccltune.model.units import format_size
from rccltune.model.verdict import Verdict
from rccltune.model.vocabulary import Collective, Placement
from rccltune.ranks import plan
from rccltune.releases import name_library, release_of
from rccltune.rules.rule_file import read_rules
from rccltune.session import files, lock, store
from rccltune.session.store import another
from rccltune.simulate import compiled
from rccltune.variants.availability import VariantSite
from rccltune.variants.paths_past import PathPast

if TYPE_CHECKING:
    import pandas as pd

    from rccltune.simulate.node import SimulatedNode

# Of this side where nobody knows better; it asks a tuner in every library.
_COLLECTIVE: Final = Collective.ALL_REDUCE


@dataclass(frozen=True, kw_only=True)
class PreparedComparison:
    """A comparison that could start now."""

    request: ComparisonRequest
    sides: tuple[MeasuredSide, MeasuredSide]
    sweep: Sweep
    scope: SweepScope
    question: Mapping[str, Any]

    @property
    def remarks(self) -> tuple[str, ...]:
        """Sentences that a user should know before it starts."""
        remarks = [line for one in self.sides for line in one.instrument.site.remarks]
        return tuple(dict.fromkeys(remarks))


def prepare(request: ComparisonRequest) -> PreparedComparison:
    """Find out what is there; nothing is started or written.

    Raises:
        CommandLineError: what was said does not fit together.
        MachineError: no library, no GPU, or an entry of the catalog that is not had here.
        SessionError: the folder has another comparison.
    """
    sweep_request = request.sweep_request
    of_sides = tuple(dict.fromkeys((*request.a.collectives, *request.b.collectives)))
    collectives = sweep_request.sweep.collectives if sweep_request.named_collectives else of_sides
    sweep = replace(sweep_request.sweep, collectives=collectives or (_COLLECTIVE,))
    check_collectives(sweep.collectives)
    first = _instrument(request, request.a, request.a.variables)
    site = first.site
    mode = site.fingerprint.mode
    if not sweep_request.named_sizes and mode is not None and mode.compute == "CPX":
        sweep = replace(sweep, max_nbytes=defaults.MAX_NBYTES_CPX)
    n_ranks = site.scale.n_ranks
    sides = _over_one_runtime(
        *(
            MeasuredSide(
                letter=letter,
                side=one,
                instrument=_instrument(request, one, one.variables_for(sweep.max_nbytes, n_ranks)),
            )
            for letter, one in ((A, request.a), (B, request.b))
        )
    )
    dtype, op = call_words(sweep)
    for one in sides:
        variant_site = VariantSite(
            collectives=sweep.collectives, dtype=sweep.dtypes[0], op=sweep.op
        )
        check_entries(one.side, one.instrument.site, variant_site)
    every = Range(min_nbytes=sweep.min_nbytes, max_nbytes=sweep.max_nbytes, factor=2).sizes
    sizes = {one: plan.sizes_for(every, one, n_ranks) for one in sweep.collectives}
    sizes = {one: found for one, found in sizes.items() if found}
    if not sizes:
        raise CommandLineError(
            f"nothing of what was asked for can be called by {n_ranks} ranks",
            hint="ask for larger sizes (--max-bytes).",
        )
    release = release_of(first.ground.library.version)
    needs_graphs = any(one.side.needs_graphs for one in sides) and sweep_request.timing == "auto"
    scope = SweepScope(
        sizes=sizes,
        placements=(Placement.OUT_OF_PLACE,),
        dtype=dtype,
        op=op,
        timing=plan.GRAPH if needs_graphs else sweep_request.timing,
        checked_up_to=first.checked_up_to,
        idle_source=release.idle_source if release is not None else "",
    )
    question = _question(sides[0], sides[1], scope)
    _same_question(request.folder, question)
    return PreparedComparison(
        request=request, sides=sides, sweep=sweep, scope=scope, question=question
    )


def _instrument(
    request: ComparisonRequest, side: Side, variables: tuple[tuple[str, str], ...]
) -> Instrument:
    """The rank program on a side's library and variables."""
    where = request.sweep_request.site
    where = replace(where, librccl=side.library, added=(*where.added, *variables))
    limit = request.sweep_request.timeout_s
    if where.simulate is None or side.library is None or not side.library.is_file():
        return find_instrument(where, request.folder, limit)
    stand_in = library.stand_in()
    if library.digest_of(side.library) != library.digest_of(stand_in.file):
        return find_instrument(where, request.folder, limit)
    instrument = find_instrument(replace(where, librccl=None), request.folder, limit)
    copied = replace(instrument.ground.library, file=side.library)
    return replace(instrument, ground=replace(instrument.ground, library=copied))


def _over_one_runtime(a: MeasuredSide, b: MeasuredSide) -> tuple[MeasuredSide, MeasuredSide]:
    """Both sides over the runtime that one of them names: NCCL brings none, PyTorch's wheel does.

    RCCL is linked to its own.
    """
    libraries = [one.instrument.ground.library for one in (a, b)]
    runtime = next((one.runtime for one in libraries if one.runtime is not None), None)
    if runtime is None or not all("libnccl" in one.file.name for one in libraries):
        return a, b

    def over(one: MeasuredSide) -> MeasuredSide:
        ground = one.instrument.ground
        known = replace(ground.library, runtime=ground.library.runtime or runtime)
        return replace(
            one, instrument=replace(one.instrument, ground=replace(ground, library=known))
        )

    return over(a), over(b)


def _question(a: MeasuredSide, b: MeasuredSide, scope: SweepScope) -> dict[str, Any]:
    """Question of a comparison; the same one goes on in the same folder."""
    site = a.instrument.site
    return {
        "a": _plain_side(a),
        "b": _plain_side(b),
        "mode": str(site.fingerprint.mode) if site.fingerprint.mode else None,
        "scale": site.scale.short,
        "placement": site.seating.place.name,
        "product": site.fingerprint.product,
        "node": None if site.node is None else _told_node(site.node),
        "sizes": {name.value: [nbytes[0], nbytes[-1]] for name, nbytes in scope.sizes.items()},
        "dtype": scope.dtype,
        "op": scope.op,
        "timing": scope.timing,
    }


def _told_node(node: SimulatedNode) -> str:
    """Its name, and letters by which a changed file of the same name is told from it."""
    return f"{node.name} ({hashlib.sha256(compiled.compile_node(node)).hexdigest()[:12]})"


def _seen_by(one: MeasuredSide) -> LaunchEnvironment:
    """Environment of a side's ranks: without our plugin the site as it is."""
    ground = one.instrument.ground
    return launch_environment(
        os.environ,
        ground.added,
        clear=ground.cleared,
        keep=CHANNELS if one.side.has_plugin else CLEARED,
    )


def _plain_side(one: MeasuredSide) -> dict[str, Any]:
    ground = one.instrument.ground
    # Where the folder lies changes nothing.
    pairs = [pair for pair in _seen_by(one).told() if not pair.startswith("RCCLTUNE_SIM_NODE=")]
    return {
        "side": one.side.name,
        "library": str(ground.library.file),
        "version": ground.library.version,
        "digest": library.digest_of(ground.library.file)[:12],
        "answer": None if one.side.answer is None else str(one.setting),
        "rules": one.side.digest,
        "environment": pairs,
    }


def _same_question(folder: Path, question: Mapping[str, Any]) -> None:
    """Stop where a folder has another comparison, or is none but not empty.

    Raises:
        SessionError: it has; the message has each difference.
    """
    path = folder / results.JSON_FILE
    if not path.exists():
        theirs = [one.name for one in folder.iterdir()] if folder.is_dir() else []
        if any(not name.startswith((".", lock.MARKER)) for name in theirs):
            raise SessionError(
                "this folder is not empty and has no comparison", where=str(folder), hint=_OTHER
            )
        return
    try:
        known = json.loads(files.read_regular(path))["question"]
    except (ValueError, KeyError, TypeError) as error:
        raise SessionError("this is no comparison of ours", where=str(path), hint=_OTHER) from error
    mine = json.loads(json.dumps(question))
    differences = list(_differences(known, mine))
    if differences:
        raise SessionError(
            join_lines(["this folder has another comparison:", *differences]),
            where=str(folder),
            hint=f"ask the same again, or choose another folder: -o {another(folder)}.",
        )


_OTHER: Final = "choose another folder with -o."


def _differences(
    known: Mapping[str, Any], mine: Mapping[str, Any], under: str = ""
) -> Iterator[str]:
    for name in mine:
        theirs = known.get(name)
        if isinstance(mine[name], dict) and isinstance(theirs, dict):
            yield from _differences(theirs, mine[name], f"{under}{name}: ")
        elif theirs != mine[name]:
            yield f"  {under}{name}: {_said(theirs)} in it, {_said(mine[name])} now"


def _said(value: object) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value)) or "nothing"
    return "nothing" if value in (None, "") else str(value)


def compare(prepared: PreparedComparison, reporter: Reporter) -> ComparisonResult:
    """Measure what is left, judge it, and write what was found.

    Raises:
        LaunchError: A cannot run, or B not at all.
        MachineError: hosts or a configuration file stand against it.
        SessionError: another writer, or the disk refuses.
        OutputError: ranks were answered differently.
        KeyboardInterrupt: after all that was started is gone; what is measured is kept.
    """
    request = prepared.request
    measuring = OngoingComparison(
        folder=request.folder.resolve(),
        sides=prepared.sides,
        scope=prepared.scope,
        n_starts=request.n_starts,
        margin=request.margin,
        reporter=reporter,
        hosts=compare_hosts(prepared, reporter),
        budget_s=request.sweep_request.budget_s,
    )
    with opened(prepared, reporter):
        measuring.read()
        since, before_s = time.monotonic(), measuring.spent_s
        if not measuring.runs:
            seconds = measuring.expected_s(len(measuring.sides))
            reporter.say(f"About {minutes(seconds)}, longer where the sides differ")
        measuring.measure()
        comparison = _result(prepared, measuring)
        comparison.write()
        comparison = explain_differences(comparison, measuring)
        known = map(str, _known_changes(prepared, comparison))
        seconds = before_s + time.monotonic() - since
        comparison = replace(comparison, remarks=(*comparison.remarks, *known), seconds=seconds)
        comparison.write()
    return comparison


def _known_changes(
    prepared: PreparedComparison, result: ComparisonResult
) -> Iterator[ReleaseChange]:
    sites = [one.instrument.site for one in prepared.sides]
    libraries = [name_library(one.library, one.fingerprint.arch_or_vendor) for one in sites]
    environments = [_seen_by(one) for one in prepared.sides]
    a, b = (
        NewerSide(
            arch=site.fingerprint.arch,
            n_nodes=site.scale.n_nodes,
            variables={**dict(environment.passed), **dict(environment.added)},
        )
        for site, environment in zip(sites, environments, strict=True)
    )
    yield from find_known_changes(result.table, (libraries[0], libraries[1]), (a, b))


def compare_hosts(prepared: PreparedComparison, reporter: Reporter) -> HostComparison:
    """Several hosts, held against each other."""
    request, site = prepared.request, prepared.sides[0].instrument.site
    return HostComparison(
        named=site.hosts, session=request.folder, reporter=reporter, force=request.force
    )


@contextmanager
def opened(prepared: PreparedComparison, reporter: Reporter) -> Iterator[None]:
    """The folder of this comparison alone, while it is measured.

    Raises:
        SessionError: it has another one, another writer, or the disk refuses.
    """
    folder, site = prepared.request.folder, prepared.sides[0].instrument.site
    with lock.lock_session(folder, reporter), signals.interruptible():
        _same_question(folder, prepared.question)
        if not (folder / results.JSON_FILE).exists():
            begun = {"format": results.FORMAT, "question": prepared.question}
            store.write_derived(folder, results.JSON_FILE, begun)
        if site.node is not None:
            files.write_atomically(folder / store.NODE_FILE, compiled.compile_node(site.node))
        end_leftovers(folder, reporter)
        yield


def _result(prepared: PreparedComparison, measuring: OngoingComparison) -> ComparisonResult:
    request = prepared.request
    table = _table(prepared, measuring)
    inside = measuring.is_inside
    site = prepared.sides[0].instrument.site
    return ComparisonResult(
        folder=request.folder,
        a=request.a.name,
        b=request.b.name,
        table=table,
        question=prepared.question,
        margin=request.margin,
        repeats="communicators" if inside else "starts",
        n_starts=request.n_starts,
        seconds=measuring.spent_s,
        was_cut=measuring.is_over,
        simulated=site.node is not None,
        bounds=tuple(results.find_bounds(request.b, table, site.scale.n_ranks)),
        remarks=tuple(_remarks(measuring)),
    )


def _remarks(measuring: OngoingComparison) -> list[str]:
    differences = []
    if measuring.is_over:
        differences.append("the budget is spent; the same command with a larger --budget goes on")
    if not measuring.captures and measuring.scope.timing == "auto":
        differences.append(
            "calls cannot be captured into graphs here: all sizes are timed by loops"
        )
    for one in measuring.sides:
        differences += _choosing(measuring, one)
        if sizes := measuring.unoffered_sizes(one):
            differences.append(
                f"the library does not offer {one.setting} at {len(sizes)} sizes "
                f"({format_size(sizes[0])} to {format_size(sizes[-1])}): there "
                f"{one.letter.upper()} runs the library's own choice"
            )
        if one.side.rules and (measuring.untimed_calls(one)["answer"].isin(("", "none"))).all():
            has_rules = read_rules(one.side.rules.encode()).rules
            why = (
                f"no rule of it is for {one.instrument.site.scale}"
                if has_rules
                else "no rule in it"
            )
            differences.append(f"{one.side.name} answers nothing here: {why}")
    return differences


def _choosing(measuring: OngoingComparison, one: MeasuredSide) -> Iterator[str]:
    """Sentences about what chooses on a side beside what was typed."""
    name, seen = one.letter.upper(), _seen_by(one)
    choosing = [f"{key}={value}" for key, value in seen.passed if chooses(key)]
    if choosing:
        yield f"{name} has these of the site, which choose: {' '.join(choosing)}"
    if one.side.has_plugin and seen.cleared:
        cleared = " ".join(f"{key}={value}" for key, value in seen.cleared)
        yield f"{name} has none of these of the site, since our plugin answers: {cleared}"
    tuner = None if one.side.has_plugin else tuner_of_baseline(measuring.runs_of(one))
    if tuner not in (None, "none"):
        yield f"{name} has a tuner of its own: {tuner}"


def _table(prepared: PreparedComparison, measuring: OngoingComparison) -> pd.DataFrame:
    """A row a size: what was timed, what is equal without, what failed or was wrong."""
    import pandas as pd

    judged = measuring.judged()
    judged["basis"] = "communicators" if measuring.is_inside else "starts"
    rows: dict[tuple[str, int], dict[str, Any]] = {
        (row["collective"], row["nbytes"]): {str(name): value for name, value in row.items()}
        for row in judged.to_dict("records")
    }
    octaves = {
        (name.value, nbytes) for name, sizes in prepared.scope.sizes.items() for nbytes in sizes
    }
    for cell, why in measuring.same.items():
        if cell in octaves:
            rows[cell] = _untimed(cell, Verdict.EQUAL, why, ratio=1.0)
    failed = {one.cell: one for one in measuring.failed() if one.letter == B and one.cell}
    wrong = measuring.wrong(prepared.sides[1])
    for cell in octaves | wrong | set(failed):
        if cell in wrong:
            rows[cell] = _untimed(cell, Verdict.WRONG, "results of B are wrong")
        elif cell in failed and cell in measuring.failed_cells(B):
            how = failed[cell].end.failure
            rows[cell] = _untimed(cell, Verdict.FAILED, f"B {how.words if how else 'failed'}")
        elif cell not in rows:
            rows[cell] = _untimed(cell, Verdict.UNDECIDED, "not timed")
    for at, one in zip(("a_ran", "b_ran"), prepared.sides, strict=True):
        ran = _ran(prepared, measuring, one)
        for cell, row in rows.items():
            row[at] = ran.get(cell, "")
    table = add_reasons(pd.DataFrame(list(rows.values())), {})[list(results.COLUMNS)]
    ordered: pd.DataFrame = table.sort_values(["collective", "nbytes"], ignore_index=True)
    return ordered


def _untimed(
    cell: tuple[str, int], verdict: Verdict, why: str, ratio: float = float("nan")
) -> dict[str, Any]:
    missing = dict.fromkeys(("low", "high", "a_us", "b_us"), float("nan"))
    where = {"collective": cell[0], "nbytes": cell[1], "timing": "", "n_a": 0, "n_b": 0}
    return {**where, **missing, "ratio": ratio, "verdict": verdict.value, "basis": why}


def _ran(
    prepared: PreparedComparison, measuring: OngoingComparison, one: MeasuredSide
) -> dict[tuple[str, int], str]:
    """Setting that a side ran at each size, or the path that asked no tuner there."""
    environment = _seen_by(one)
    variables = {**dict(environment.passed), **dict(environment.added)}
    paths = paths_here(one.instrument.site, prepared.sweep, variables)
    calls = measuring.untimed_calls(one)
    return {
        (str(collective), int(nbytes)): str(ran) or _path(paths, collective, nbytes)
        for collective, nbytes, ran in zip(
            calls["collective"], calls["nbytes"], calls["ran"], strict=True
        )
    }


def _path(paths: tuple[PathPast, ...], collective: str, nbytes: int) -> str:
    for one in paths:
        if one.collective.value == collective and one.min_nbytes <= nbytes <= one.max_nbytes:
            return f"{one.path}{NO_TUNER}" if one.is_sure else f"{PERHAPS}{one.path}"
    return ""
