"""``rccltune compare``: is B faster than A, where, by how much, and is that certain."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from rccltune.cli.console import Console, common, table
from rccltune.cli.help import grouped, verb
from rccltune.cli.progress import shown_progress
from rccltune.cli.shared_options import FILE, FOLDER, PERCENT, markdown_option
from rccltune.cli.sweep_options import sweep_option, sweep_options
from rccltune.model import defaults
from rccltune.model.errors import MachineError
from rccltune.model.text import JoinedLines, join_lines
from rccltune.model.units import format_size

if TYPE_CHECKING:
    from rccltune.compare.comparison_request import ComparisonRequest
    from rccltune.compare.results import ComparisonResult
    from rccltune.compare.sides import CatalogRow
    from rccltune.variants.catalog import Catalog


def _sides(_ctx: click.Context, _param: click.Parameter, begun: str) -> list[CompletionItem]:
    """Complete a side: words and names of the catalog, else a file."""
    from rccltune.variants.catalog import load_catalog

    words = ("site", "idle", "torch", *(spec.name for spec in load_catalog().specs[1:]))
    items = [CompletionItem(word) for word in words if word.startswith(begun)]
    return items or [CompletionItem(begun, type="file")]


@verb("compare")
@click.argument("a", required=False, shell_complete=_sides)
@click.argument("b", required=False, shell_complete=_sides)
@grouped(
    "-o",
    "--output",
    type=FOLDER,
    default=Path(defaults.COMPARISON),
    show_default=True,
    metavar="DIR",
    group="Output",
    usual=True,
    help="Folder to write; the same command goes on.",
)
@sweep_option("mode")
@sweep_option("simulate")
@sweep_option("collective", help="Which. [default: all_reduce, or a path's own]")
@sweep_option("setting", help="Force both sides to this setting, ring/ll say.")
@sweep_options("min_bytes", "max_bytes", "dtype", "op")
@grouped(
    "--starts",
    type=click.IntRange(min=6),
    default=defaults.STARTS,
    show_default=True,
    metavar="N",
    group="Running",
    usual=True,
    help="Starts of each side, in turns; inside a process communicators.",
)
@grouped(
    "--margin",
    type=PERCENT,
    default=100 * defaults.MARGIN,
    show_default=True,
    metavar="PCT",
    group="Choosing",
    usual=True,
    help="Times that differ by less are equal.",
)
@sweep_options("timing", "np", "launcher", "hostfile")
@sweep_option("env", help="Set this variable on both sides (repeatable).")
@sweep_options("budget", "timeout")
@grouped(
    "--sides", type=FILE, metavar="FILE", group="What", help="Own named sides, as in the catalog."
)
@grouped(
    "--list",
    "lists",
    is_flag=True,
    group="What",
    usual=True,
    help="Show the named sides, and which of them exist here.",
)
@markdown_option
@grouped(
    "--bits",
    is_flag=True,
    group="What",
    usual=True,
    help="Compare the bits of results instead of times.",
)
@grouped(
    "--share-gpus",
    is_flag=True,
    group="Running",
    help="Let several ranks have one GPU (NCCL from 2.30 on): for --bits, never for times.",
)
@grouped("--force", is_flag=True, group="Advanced", help="Go on though hosts differ.")
@common
@click.pass_context
def compare(
    context: click.Context,
    /,
    *,
    console: Console,
    a: str | None,
    b: str | None,
    output: Path,
    starts: int,
    margin: float,
    sides: Path | None,
    lists: bool,
    markdown: Path | None,
    bits: bool,
    share_gpus: bool,
    force: bool,
    **options: Any,  # noqa: ANN401 - where and what to measure, as of a sweep
) -> None:
    """Measure two sides in turns: is B faster than A, at which sizes, by how much.

    A side is site (as it is), FILE.so or torch (a library), NAME=VALUE, RULES.csv, idle, a setting,
    or a name that --list shows; + joins several. Two sessions are compared offline.

    \b
    Example:
      rccltune compare site NCCL_MIN_NCHANNELS=32
      rccltune compare old.csv new.csv

    Exit codes: 0 equal or faster, 2 command line, 3 a rule file has mistakes, 4 no such side
    here, 5 A or a library cannot run, 7 the folder has another comparison or is no session, 8
    undecided somewhere, 9 B slower, wrong or failed.
    """
    # What is wrong in the command is said before anything that takes seconds to import.
    from rccltune.compare.comparison_request import are_sessions, read_catalog, request_of

    if lists:
        _list(console, read_catalog(sides), options)
        return
    if a is None or b is None:
        raise click.UsageError("name two sides, A and B; --list shows the named ones", context)
    if share_gpus and not bits:
        raise click.UsageError("ranks that share a GPU have no times: --bits alone", context)
    if are_sessions(a, b):
        if bits:
            raise click.UsageError("--bits compares sides that are probed, not sessions", context)
        from rccltune.compare.offline import compare_sessions

        done = compare_sessions(Path(a), Path(b), margin / 100)
    else:
        if share_gpus:
            from rccltune.compare.bits_comparison import SHARED

            options["env"] = {**SHARED, **options["env"]}
        request = request_of(
            (a, b),
            options,
            known=read_catalog(sides),
            folder=output,
            margin=margin / 100,
            n_starts=starts,
            force=force,
        )
        if bits:
            _show_bits(console, request, context)
        done = _measure_rest(console, request)
    # What was measured is shown even where a file cannot be written.
    console.result(done, text_of(done))
    if done.folder is not None:
        from rccltune.report.compared import draw

        draw(done, done.folder)
    if markdown is not None:
        _write(markdown, done.markdown())
    _say_verdict(console, done)
    context.exit(done.exit_code)


def _say_verdict(console: Console, done: ComparisonResult) -> None:
    """Say in --json why a comparison ends with 9 or 8."""
    counts = _counts(done)
    if done.exit_code == 9:
        hint = "ranges says at which sizes, and why."
        console.fail(f"B is slower, wrong or fails: {counts}", where=done.folder or ".", hint=hint)
    elif done.exit_code:
        hint = "larger --starts and --budget decide more sizes."
        console.fail(f"not every size is decided: {counts}", where=done.folder or ".", hint=hint)


def _counts(done: ComparisonResult) -> str:
    """How many sizes have which verdict."""
    counts = ", ".join(f"{n} {name}" for name, n in done.counts().items() if n)
    return f"{len(done.table)} sizes: {counts}"


def _list(console: Console, known: Catalog, options: dict[str, Any]) -> None:
    """Print the catalog, with what of it exists here."""
    from rccltune.compare.sides import list_sides
    from rccltune.measure.instrument import find_instrument
    from rccltune.measure.request import merge_request
    from rccltune.measure.sweep_schema import PERF

    site = None
    try:
        request = merge_request(None, options, runner=PERF).site
        site = find_instrument(request, Path(defaults.COMPARISON), None).site
    except MachineError as error:
        console.say(f"What exists here is not known: {error.message}")
    rows = list(list_sides(known, site))
    lines = [
        (one.name, _here(one, is_known=site is not None), one.why_not or one.needs or one.summary)
        for one in rows
    ]
    text = table(("side", "here", "what it needs, or why it is not here"), lines, ())
    console.result({"format": 1, "sides": rows}, text)


def _here(one: CatalogRow, *, is_known: bool) -> str:
    return "no" if one.why_not else "yes" if is_known else "–"


def _measure_rest(console: Console, request: ComparisonRequest) -> ComparisonResult:
    """Measure what is left of a comparison."""
    from rccltune.compare.comparison import compare, prepare

    console.say(f"Comparison: {request.folder}")
    prepared = prepare(request)
    for said in prepared.remarks:
        console.say(said)
    with shown_progress(console) as reporter:
        return compare(prepared, reporter)


def _show_bits(console: Console, request: ComparisonRequest, context: click.Context) -> None:
    """Probe both sides, show where their bits differ, and end."""
    from rccltune.compare.bits_comparison import BitsRow, compare_bits, ranges_of
    from rccltune.compare.comparison import prepare

    console.say(f"Comparison: {request.folder}")
    with shown_progress(console) as reporter:
        done = compare_bits(prepare(request), reporter)
    by_name: dict[str, list[BitsRow]] = {}
    for one in done.rows:
        by_name.setdefault(one.collective, []).append(one)
    columns = ("collective", "bytes", "bits", "from element", "A: trees", "ran", "B: trees", "ran")
    rows = [
        (
            one.collective,
            format_size(one.nbytes),
            one.verdict,
            "–" if one.first_element is None else str(one.first_element),
            *(str(one.a_trees), one.a_ran or "?", str(one.b_trees), one.b_ran or "?"),
        )
        for one in done.rows
    ]
    lines = [table(columns, rows, numeric=(1, 3, 4, 6)), *ranges_of(by_name)]
    lines += ["SIMULATED: nothing of this was measured on hardware"] * done.simulated
    console.result(done, join_lines(lines))
    if n_differing := len(done.differing):
        console.fail(
            f"bits differ at {n_differing} of {len(done.rows)} sizes",
            where=done.folder,
            hint="sizes says at which.",
        )
    context.exit(done.exit_code)


def _write(path: Path, text: str) -> None:
    from rccltune.session.files import write_atomically

    write_atomically(path, text)


def text_of(done: ComparisonResult) -> JoinedLines:
    """What was found, by ranges of sizes."""
    from rccltune.compare.reasons import ran_words

    lines = [f"A: {done.a}", f"B: {done.b}", ""]
    rows = [
        (
            one.collective,
            format_size(one.min_nbytes),
            format_size(one.max_nbytes),
            one.verdict.value,
            one.ratio,
            ran_words(one.a_ran),
            ran_words(one.b_ran),
        )
        for one in done.ranges
    ]
    names = ("collective", "from", "to", "B is", "time B / A", "A ran", "B ran")
    lines.append(table(names, rows, numeric=(1, 2)))
    lines += done.explanations
    lines += [str(one) for one in done.bounds]
    lines += done.remarks
    where = f", in {done.folder}" if done.folder else ""
    lines.append(f"{_counts(done)}; {done.how}{where}")
    if done.simulated:
        lines.append("SIMULATED: nothing of this was measured on hardware")
    return join_lines(lines)
