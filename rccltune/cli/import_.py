"""``rccltune import``: other people's logs become a session."""

from __future__ import annotations

from pathlib import Path

import click

from rccltune.cli.console import DEFAULT_SESSION, Console, common
from rccltune.cli.help import verb
from rccltune.cli.shared_options import COLLECTIVE, FILE, FOLDER, MODE, PAIR, then_choose
from rccltune.model.errors import CommandLineError
from rccltune.model.measurement import StatedFacts
from rccltune.model.settings import BASELINE, Mode, Setting
from rccltune.model.text import join_lines
from rccltune.model.vocabulary import Algorithm, Collective, Protocol


@verb("import")
@click.argument("files", nargs=-1, required=True, type=FILE, metavar="FILE...")
@click.option("-o", "--output", type=FOLDER, default=DEFAULT_SESSION, help="Session folder.")
@click.option(
    "--collective", type=COLLECTIVE, help="Collective that ran: all_reduce, all_gather, …"
)
@click.option("--algorithm", metavar="A", help="Algorithm that ran: tree, ring, …")
@click.option("--protocol", metavar="P", help="Protocol that ran: ll, ll128, simple.")
@click.option("--channels", type=click.IntRange(min=1), metavar="N", help="Channels that ran.")
@click.option(
    "--baseline", is_flag=True, help="The files show the library's own choice: nothing was forced."
)
@click.option("--ranks", type=click.IntRange(min=1), metavar="N", help="Number of ranks that ran.")
@click.option(
    "--nodes", type=click.IntRange(min=1), metavar="N", help="Number of nodes that they ran on."
)
@click.option("--mode", type=MODE, help="Mode of the GPUs: cpx-nps4, spx-nps1, … or none.")
@click.option("--dtype", metavar="T", help="Data type as rccl-tests prints it.")
@click.option(
    "--assume",
    type=PAIR,
    multiple=True,
    metavar="KEY=VALUE",
    help="Fill what neither file nor option says (product, arch, op, graph, …); "
    "machine=same: an anonymous file is from the session's machine.",
)
@common
def import_(
    *,
    console: Console,
    files: tuple[Path, ...],
    output: Path,
    collective: Collective | None,
    algorithm: str | None,
    protocol: str | None,
    channels: int | None,
    baseline: bool,
    ranks: int | None,
    nodes: int | None,
    mode: Mode | None,
    dtype: str | None,
    assume: tuple[tuple[str, str], ...],
) -> None:
    """Turn existing logs, CSV or JSON into a session.

    Reads what nccl-tests and rccl-tests print or write in every release since 2019,
    optimize_config.py's tables and plain long tables. Options fill what a file does not say.

    \b
    Example:
      rccltune import default.log --baseline && rccltune import tree-ll.log \\
          --algorithm tree --protocol ll

    Exit codes: 0 done, 2 an option contradicts a file, 6 a file is not understood, 7 the session
    is of another machine or held by another process.
    """
    from rccltune.session import imports

    stated = StatedFacts(
        setting=_setting(algorithm, protocol, channels, baseline=baseline),
        collective=collective,
        n_ranks=ranks,
        n_nodes=nodes,
        mode=mode,
        dtype=dtype,
        assume=tuple(sorted(assume)),
    )
    console.say(f"Session: {output}")
    done = imports.import_files(output, files, stated, reporter=console)
    console.warn(done.notices)
    text = (
        f"{done.n_new} new timings from {done.n_files} file{'' if done.n_files == 1 else 's'}, "
        f"{done.n_doubted} of them left out; {done.n_samples} in {output}"
    )
    text = join_lines([text, *(f"  {n} left out: {doubt.meaning}" for doubt, n in done.doubts)])
    console.result(done, text)
    if done.n_usable:
        console.say(then_choose(output))
    else:
        console.say(
            "Next: import a file with timings that can be used, or this one again with what it "
            f"does not say (rccltune import --help-all): nothing in {output} can be chosen from."
        )


def _setting(
    algorithm: str | None, protocol: str | None, channels: int | None, *, baseline: bool
) -> Setting | None:
    has_setting = algorithm or protocol or channels
    if baseline and has_setting:
        raise CommandLineError(
            "--baseline says that nothing was forced; --algorithm, --protocol and --channels do",
            hint="leave out one or the other.",
        )
    if not has_setting:
        return BASELINE if baseline else None
    try:
        return Setting(
            algorithm=Algorithm.parse(algorithm) if algorithm else None,
            protocol=Protocol.parse(protocol) if protocol else None,
            channels=channels,
        )
    except ValueError as error:
        raise CommandLineError(
            f"{error}", hint="write e.g. --algorithm tree --protocol ll."
        ) from None
