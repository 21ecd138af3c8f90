"""``rccltune detect``: what this machine is."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rccltune.cli.console import DEFAULT_SESSION, Console, common, table
from rccltune.cli.help import verb
from rccltune.cli.shared_options import FOLDER, PathToRead
from rccltune.model.errors import CommandLineError
from rccltune.model.text import JoinedLines, join_lines

if TYPE_CHECKING:
    from rccltune.machine.system import Gpu, Oam, System


@verb("detect")
@click.argument("session", required=False, type=FOLDER)
@click.option(
    "--root",
    type=PathToRead(path_type=Path, file_okay=False, exists=True),
    envvar="RCCLTUNE_SYSROOT",
    help="Look at the captured machine in this folder instead of this one.",
)
@click.option("--links", is_flag=True, help="Measure the links between devices, once a session.")
@common
def detect(*, console: Console, session: Path | None, root: Path | None, links: bool) -> None:
    """Show what this machine is: GPUs, partition mode, libraries, benchmarks, launcher.

    Every value says where it was read (-v, --json): KFD's topology, then PCI sysfs, then amdsmi in
    a process of its own. Sources that disagree are shown. Nothing is changed.

    With --links the answer is a link map instead: latency and bandwidth of sendrecv between a few
    pairs of devices of one IOD, of one OAM, and of two. It is measured once, kept and drawn in
    the session, and shown from there when asked for again. A session that was swept says with
    which library, or on which simulated node.

    \b
    Example:
      rccltune detect --json | jq .mode
      rccltune detect --links
      rccltune detect --links my-session

    Exit codes: 0 done, also where there is no GPU (rccltune doctor says what that means). With
    --links also 2 command line, 4 the machine cannot run it, 5 pairs failed, 7 session.
    """
    from rccltune.machine import gpu_findings, this_machine
    from rccltune.machine.system import export_system

    if links:
        _ask_for_links(console, root, session or DEFAULT_SESSION)
        return
    if session is not None:
        raise CommandLineError("a session is for the link map alone", hint="add --links.")
    system = this_machine.detect_this_machine(root)
    findings = gpu_findings.find_gpu_findings(system, os.environ)
    console.result(export_system(system, findings), _text(system, console))
    for finding in findings:
        console.say(
            join_lines([f"{finding.severity.value}: {finding.message}", f"  {finding.remedy}"])
        )
    console.say("Next: rccltune doctor says what would spoil a measurement here.")


def _ask_for_links(console: Console, root: Path | None, session: Path) -> None:
    from rccltune.cli.detect_links import show_links
    from rccltune.machine.this_machine import detect_this_machine
    from rccltune.measure.request import session_request
    from rccltune.measure.site import SiteRequest
    from rccltune.session.store import SWEEP_FILE

    if root is not None:
        raise CommandLineError(
            "a captured machine cannot be measured", hint="leave --root out (or RCCLTUNE_SYSROOT)."
        )
    is_swept = (session / SWEEP_FILE).exists()
    site = session_request(session, {}).site if is_swept else SiteRequest()
    show_links(console, site, session, lambda: detect_this_machine(None))


def _text(system: System, console: Console) -> JoinedLines:
    parts = [_headline(system), _oams(system), _links(system), *_software(system)]
    if console.verbosity > 0:
        parts += [_devices(system.gpus) if system.oams else "", _sources(system)]
    return join_lines((part for part in parts if part), gap="\n\n")


def _headline(system: System) -> JoinedLines:
    from rccltune.machine.system import format_mode

    product = system.product or system.arch or ("unknown GPUs" if system.oams else "no GPU")
    n_oams = len([oam for oam in system.oams if oam.n_gpus])
    lines = [
        f"{system.host or 'this machine'}: {product}, mode {format_mode(system.mode)}"
        + (f" ({system.reason})" if system.reason else "")
    ]
    if system.gpus:
        where = f" on {n_oams} OAM{'' if n_oams == 1 else 's'}" if n_oams else ""
        each = f", {system.cu_count} compute units each" if system.cu_count else ""
        lines.append(f"{_count(len(system.gpus), 'device')}{where}{each}")
    maker = "nvidia" if system.vendor == "nvidia" else "amdgpu"
    pairs = ((f"driver {maker}", system.driver), ("Linux", system.kernel), ("ROCm", system.rocm))
    lines.append(", ".join(f"{name} {value}" for name, value in pairs if value))
    answer = system.amdsmi
    if answer.status != "not asked":
        about = answer.detail or (f"{len(answer.gpus)} devices, {answer.source}")
        lines.append(f"amdsmi: {answer.status}" + (f" ({about})" if answer.source else ""))
    return join_lines(line for line in lines if line)


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _oams(system: System) -> str:
    if not system.oams:
        return _devices(system.gpus)
    columns = ("OAM", "product", "arch", "mode", "devices", "CUs", "NUMA", "render nodes")
    return table(columns, (_oam_row(system, oam) for oam in system.oams), numeric=(4, 5, 6))


def _oam_row(system: System, oam: Oam) -> tuple[str, ...]:
    minors = [g.render_minor for g in system.gpus if g.oam == oam.address and g.render_minor]
    return (
        oam.address,
        oam.product or (f"0x{oam.device_id:x}" if oam.device_id else "?"),
        oam.arch or "?",
        oam.mode_text,
        f"{oam.n_gpus} of {oam.n_expected or '?'}" if oam.n_gpus else "0",
        _or_dash(oam.cu_count),
        _or_dash(oam.numa_node),
        "-".join(map(str, sorted({min(minors), max(minors)}))) if minors else "–",
    )


def _devices(gpus: Iterable[Gpu]) -> str:
    columns = ("device", "address", "product", "partition", "XCDs", "IODs", "CUs", "render")
    rows = [
        (
            str(gpu.index),
            gpu.address,
            gpu.product or "?",
            _or_dash(gpu.partition),
            ",".join(map(str, gpu.xcds)) or "–",
            ",".join(map(str, gpu.iods)) or "–",
            _or_dash(gpu.cu_count),
            _or_dash(gpu.render_minor),
        )
        for gpu in gpus
    ]
    return table(columns, rows, numeric=(0, 3, 6, 7)) if rows else ""


def _or_dash(value: int | None) -> str:
    return "–" if value is None else str(value)


def _links(system: System) -> str:
    counts = Counter(link.hops for link in system.links)
    words = {0: "inside an OAM", 1: "one link between OAMs", None: "of unknown length"}
    said = [
        f"{count} {words.get(hops, f'over {hops} links')}"
        for hops, count in sorted(counts.items(), key=lambda pair: (pair[0] is None, pair[0] or 0))
    ]
    return f"XGMI paths from device to device: {', '.join(said)}" if said else ""


def _tuner(version: str | None) -> str:
    """Tuner of a library: the newest interface that it looks up, or its own reader."""
    from rccltune.releases import release_of

    release = release_of(version)
    if release is None:
        return "?"
    rules = ", reads rules" if release.reads_rules else ""
    return (f"v{release.abi}" if release.abi else "none") + rules


def _software(system: System) -> Iterator[str]:
    rows = [
        (
            lib.owner,
            lib.version or "?",
            _tuner(lib.version),
            (lib.sha256 or "?")[:12],
            str(lib.path),
        )
        for lib in system.libraries
    ]
    if rows:
        yield table(("library of", "version", "tuner", "sha256", "file"), rows, numeric=())
    tests = [
        (
            benchmark.name,
            "simulated, refused" if benchmark.simulated else benchmark.version or "?",
            benchmark.mpi or "?",
            (benchmark.sha256 or "?")[:12],
            str(benchmark.path),
        )
        for benchmark in system.benchmarks
    ]
    yield (
        table(("benchmark", "version", "MPI", "sha256", "file"), tests, numeric=())
        if tests
        else f"No {system.tests_word} were found; sweep and tune take --rccl-tests DIR."
    )
    for one in system.launchers or ():
        about = f"{one.flavour} {one.version}" if one.flavour else f"{one.detail}"
        yield f"Launcher: {one.path} ({about})"


def _sources(system: System) -> JoinedLines:
    sources = {f"  {key}: {source}" for oam in system.oams for key, source in oam.sources.items()}
    sources |= {f"  device {gpu.index}: {gpu.source}" for gpu in system.gpus if not system.oams}
    return join_lines(["Where it was read:", *sorted(sources)] if sources else [])
