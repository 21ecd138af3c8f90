"""NPKit: one setting at one size, what the library dumped of it, and what makes a trace of that."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rccltune.launch import overrides, signals
from rccltune.machine.files import has_any
from rccltune.measure import rccl_tests, rccl_tests_sweep
from rccltune.measure.rccl_tests import BenchmarkCall, BenchmarkResult, RcclTestsSetup
from rccltune.measure.site import Site
from rccltune.model.errors import CommandLineError, LaunchError, MachineError
from rccltune.model.measurement import Sweep
from rccltune.model.reporter import Reporter
from rccltune.model.settings import LL128_FORCED, Setting
from rccltune.model.vocabulary import Collective, Protocol, UnusableReason, format_size
from rccltune.session import files, store

FOLDER: Final = "npkit"
# RCCL's own trace generator leaves out the first five calls.
_N_WARMUP: Final = 5
_EVENT_BYTES: Final = 16
_EVENTS: Final = re.compile(
    r"(?:gpu_events_rank_\d+_(?:buf|channel)|cpu_events_rank_\d+_channel)_\d+"
)
_GPU_CLOCK: Final = re.compile(r"gpu_clock_rate_rank_(\d+)")
_SHOWN: Final = 8
# RCCL's src/init.cc asks for the variable, and warns where it is missing, only under ENABLE_NPKIT.
# The bare name may be the end of MSCCLPP_NPKIT_DUMP_DIR, another library's variable, so it counts
# as a whole string only.
_WARNS: Final = b"NPKIT_DUMP_DIR is empty"
_ASKS: Final = b"\0NPKIT_DUMP_DIR\0"
GENERATOR: Final = "npkit_trace_generator.py"
# Where RCCL's sources have the two, and where an install may.
_GENERATORS: Final = (f"tools/scripts/{GENERATOR}", f"share/rccl/{GENERATOR}", GENERATOR)
_HEADERS: Final = (
    "src/include/npkit/npkit_event.h",
    "include/npkit/npkit_event.h",
    "include/rccl/npkit/npkit_event.h",
)
_UP: Final = 4
_ROCM: Final = Path("/opt/rocm")


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpPlan:
    """Plan of a launch with NPKit's events."""

    collective: Collective
    setting: Setting
    nbytes: int

    def __str__(self) -> str:
        """``all_reduce tree/ll128 at 4 MiB``."""
        return f"{self.collective.value} {self.setting} at {format_size(self.nbytes)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dump:
    """NPKit dump that a launch left.

    Attributes:
        ranks: that wrote their clock, which is written last.
        n_gpu_events: over all ranks and buffers.
        damaged: files of events whose length is no whole number of them.
    """

    ranks: tuple[int, ...]
    n_files: int
    n_gpu_events: int
    damaged: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpResult:
    """Result of a launch with NPKit's events.

    Attributes:
        launch: folder of the launch.
        folder: where the library wrote.
        generator: npkit_trace_generator.py, None where it was not found.
        header: npkit_event.h, None where it was not found.
        command: makes a trace of them.
    """

    chosen: DumpPlan
    simulated: bool
    launch: Path
    folder: Path
    dump: Dump
    generator: Path | None
    header: Path | None
    command: str


def dump_setting(
    folder: Path, into: Path, chosen: DumpPlan, wanted: Sweep, site: Site, *, reporter: Reporter
) -> DumpResult:
    """Run a setting once at one size, with NPKit's dump.

    Args:
        folder: the session.
        into: where the library writes; a folder that every host has.
        chosen: what is run.
        wanted: the sweep, whose calls and type count.
        site: where.
        reporter: told what is worth telling.

    Raises:
        CommandLineError: the folder is not empty.
        MachineError: no NPKit, or several GPUs in a process.
        LaunchError: it failed, another setting ran, or the dump is of no use.
    """
    check_dump(into, site)
    own = (
        folder
        / FOLDER
        / f"{chosen.collective.value}-{str(chosen.setting).replace('/', '-')}-{chosen.nbytes}"
    )
    into.mkdir(parents=True, exist_ok=True)
    with files.writing(folder, reporter), signals.interruptible():
        node = None if site.node is None else folder / FOLDER / store.NODE_FILE
        if node is not None:
            files.write_atomically(node, (folder / store.NODE_FILE).read_bytes())
        with files.disk_errors(own):
            shutil.rmtree(own, ignore_errors=True)
        ran = rccl_tests.launch(
            RcclTestsSetup(site=site, node=node),
            _command(chosen, wanted, site),
            own,
            rccl_tests.stated_of(site, chosen.collective, chosen.setting),
            added=_variables(chosen, site, into),
        )
        _check_ran(ran, chosen)
        dump = read_dump(into)
        useless = why_useless(dump, site.scale.n_ranks)
        if useless is not None:
            raise LaunchError(
                f"NPKit's dump is of no use: {useless}",
                where=str(into),
                hint="docs/measuring.md says how RCCL is built with it; the sweep is kept.",
            )
    generator, header = find_tools(_places(site))
    return DumpResult(
        chosen=chosen,
        simulated=site.node is not None,
        launch=own,
        folder=into.resolve(),
        dump=dump,
        generator=generator,
        header=header,
        command=next_command(generator, header, into.resolve(), own.resolve() / "trace"),
    )


def check_dump(folder: Path, site: Site) -> None:
    """Whether a dump can be made here, before anything is measured.

    Args:
        folder: where the library is to write.
        site: where it would run.

    Raises:
        CommandLineError: the folder holds something already.
        MachineError: the library has no NPKit, or a process would have several GPUs.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise CommandLineError(
            "the folder for NPKit's dump is not empty",
            where=str(folder),
            hint="events of several launches have the same names; name an empty or a new folder.",
        )
    reason = None
    if site.launcher.flavour == "none" and site.scale.n_ranks > 1:
        reason = "without a launcher all ranks are in one"
    elif site.seating.n_started != site.scale.n_ranks:
        reason = "groups side by side write files of the same names"
    if reason is not None:
        raise MachineError(
            f"NPKit supports one GPU in a process, and {reason}",
            hint="sweep without --launcher none and NCCL_TESTS_SPLIT, so that every rank is a "
            "process of its own in one communicator.",
        )
    library = site.library_file
    if library is None and site.node is not None:
        # The stand-in for the benchmark is that for the library as well.
        library = Path(next(iter(site.programs.values())))
    if library is not None and not has_npkit(library):
        raise MachineError(
            "this library was built without NPKit",
            where=str(library),
            hint="build RCCL with ./install.sh --npkit-enable (cmake -DENABLE_NPKIT=ON in newer "
            "releases; those of June 2026 and later have none) and sweep with it: --librccl FILE.",
        )


def has_npkit(library: Path) -> bool:
    """Whether the file has NPKit in it; raises OSError where it cannot be read."""
    return has_any(library, _WARNS, _ASKS)


def _command(chosen: DumpPlan, wanted: Sweep, site: Site) -> tuple[str, ...]:
    """The command line: one size, one pass.

    Raises:
        MachineError: the setting cannot run here.
    """
    reason = rccl_tests_sweep.why_left_out(chosen.setting, site, is_named=True)
    if reason is not None:
        raise MachineError(f"{chosen} cannot run: {reason}")
    call = BenchmarkCall(
        collective=chosen.collective,
        min_nbytes=chosen.nbytes,
        max_nbytes=chosen.nbytes,
        dtype=wanted.dtypes[0],
        op=wanted.redop,
        placements=wanted.placements,
        warmup=_N_WARMUP,
    )
    return rccl_tests.command(site, call)


def _variables(chosen: DumpPlan, site: Site, into: Path) -> list[tuple[str, str]]:
    """Variables that force the setting and have its events written."""
    is_forced = chosen.setting.protocol is Protocol.LL128 and rccl_tests_sweep.is_gated(site)
    return [
        *overrides.switches(chosen.setting),
        *([LL128_FORCED] if is_forced else []),
        ("NPKIT_DUMP_DIR", str(into.resolve())),
    ]


def _check_ran(ran: BenchmarkResult, chosen: DumpPlan) -> None:
    """Check that the launch ended well, and that what ran is what was asked for.

    Raises:
        LaunchError: not so.
    """
    if ran.table is None or ran.failure is not None:
        raise LaunchError(
            f"{chosen} failed with NPKit's dump: {ran.words}",
            where=str(ran.folder),
            hint="NPKit needs memory for its events on every GPU.",
        )
    reasons = {UnusableReason(word) for word in ran.table["unusable"].unique() if word}
    if reasons or ran.table.empty:
        said = ", ".join(sorted(reason.meaning for reason in reasons)) or "no row"
        raise LaunchError(
            f"NPKit's dump is not of {chosen}: {said}",
            where=str(ran.folder),
            hint="its log and trace are there; the dump stays where it was written.",
        )


def read_dump(folder: Path) -> Dump:
    """Look at every file; raises OSError where the folder cannot be read."""
    sizes = {path.name: path.stat().st_size for path in sorted(folder.iterdir()) if path.is_file()}
    events = {name: size for name, size in sizes.items() if _EVENTS.fullmatch(name)}
    clocks = (_GPU_CLOCK.fullmatch(name) for name in sizes)
    on_gpu = sum(size for name, size in events.items() if name.startswith("gpu"))
    return Dump(
        ranks=tuple(sorted(int(found[1]) for found in clocks if found)),
        n_files=len(sizes),
        n_gpu_events=on_gpu // _EVENT_BYTES,
        damaged=tuple(name for name, size in events.items() if size % _EVENT_BYTES),
    )


def why_useless(dump: Dump, n_ranks: int) -> str | None:
    """Why no trace can be made of it, and what would help; None where one can."""
    if not dump.n_files:
        return (
            "the dump folder is empty: the library did not write there, so it is built without "
            "NPKit or the folder is not the same on every host"
        )
    missing = sorted(set(range(n_ranks)) - set(dump.ranks))
    if missing:
        named = ", ".join(map(str, missing[:_SHOWN])) + (", …" if len(missing) > _SHOWN else "")
        return f"there is no dump of rank {named}: the folder must be one that every host writes to"
    if dump.damaged:
        return f"{dump.damaged[0]} ends within an event: the disk may be full"
    if not dump.n_gpu_events:
        return (
            "it holds no event of a GPU: the library has NPKit without the switches that record "
            "this call (ENABLE_NPKIT_EVENT_…)"
        )
    return None


def _places(site: Site) -> list[Path]:
    """Folders where RCCL's tools may be: its sources are mostly beside those of rccl-tests."""
    library = site.library_file
    folder = Path(next(iter(site.programs.values()))).parent
    beside = [above.parent / "rccl" for above in (folder, *folder.parents[:2])]
    return [*([library] if library is not None else []), *beside, _ROCM]


def find_tools(places: Iterable[Path]) -> tuple[Path | None, Path | None]:
    """The trace generator, and the header that names the events; None where one was not found.

    The first place wins, since event numbers move between releases; a library lies inside the tree
    that it was built in.

    Args:
        places: files or folders, in and above which they may be: the library, a checkout, ROCm.
    """
    above = [
        folder for place in places for folder in (place, *place.parents[:_UP]) if folder.is_dir()
    ]
    generator = _first(above, _GENERATORS)
    beside = [] if generator is None else [generator.parent, *generator.parents[:_UP]]
    return generator, _first([*above, *beside], _HEADERS)


def _first(folders: Iterable[Path], names: Sequence[str]) -> Path | None:
    found = (folder / name for folder in folders for name in names)
    return next((path.resolve() for path in found if path.is_file()), None)


def next_command(generator: Path | None, header: Path | None, dump: Path, output: Path) -> str:
    """The command that makes a trace, to be copied; what was not found stands in capitals."""
    words = [
        "python3",
        str(generator or GENERATOR),
        f"--npkit_dump_dir={dump}",
        f"--npkit_event_header_path={header or 'NPKIT_EVENT_H'}",
        f"--output_dir={output}",
    ]
    # Options of the generator differ between releases.
    if generator and "--warmup_runs" in generator.read_text(encoding="utf-8", errors="replace"):
        words.append(f"--warmup_runs={_N_WARMUP}")
    return shlex.join(words)
