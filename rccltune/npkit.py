"""NPKit: one setting at one size, what the library dumped of it, and what makes a trace of that."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from rccltune.launch import signals
from rccltune.machine.installed_software import contains_any
from rccltune.measure import instrument
from rccltune.measure.rank_program import waiting_ranks
from rccltune.measure.request import Request
from rccltune.model.errors import CommandLineError, LaunchError, MachineError
from rccltune.model.reporter import Reporter
from rccltune.model.settings import LL128_FORCED, Setting
from rccltune.model.units import format_size
from rccltune.model.vocabulary import Collective, Protocol, UnusableReason
from rccltune.ranks import plan, runs
from rccltune.ranks.plan import CollectiveCall, Label, Step, TimingEffort
from rccltune.ranks.rows import rows_of_runs
from rccltune.ranks.runs import Run
from rccltune.session import files, lock, store

FOLDER: Final = "npkit"
# RCCL's own trace generator leaves out the first five calls.
_N_WARMUP: Final = 5
_EFFORT: Final = TimingEffort(least_us=0, least_calls=20, most_us=1_000_000)
_EVENT_BYTES: Final = 16
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
    """

    ranks: tuple[int, ...]
    n_files: int
    n_gpu_events: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpResult:
    """Result of a launch with NPKit's events.

    Attributes:
        run: its folder.
        folder: where the library wrote.
        generator: npkit_trace_generator.py, None where it was not found.
        header: npkit_event.h, None where it was not found.
        command: makes a trace of them.
    """

    chosen: DumpPlan
    simulated: bool
    run: Path
    folder: Path
    dump: Dump
    generator: Path | None
    header: Path | None
    command: str


def dump_setting(
    folder: Path, into: Path, chosen: DumpPlan, wanted: Request, *, reporter: Reporter
) -> DumpResult:
    """Run a setting at one size, with NPKit's dump.

    Args:
        folder: the session.
        into: where the library writes; a folder that every host has.
        chosen: what is run.
        wanted: the session's own sweep, which says where, and of which type.
        reporter: told what is worth telling.

    Raises:
        CommandLineError: the folder is not empty.
        MachineError: no NPKit.
        LaunchError: it failed, another setting ran, or the dump is of no use.
    """
    home = (folder / FOLDER).resolve()
    here = instrument.find_instrument(wanted.site, home, None)
    library = here.ground.library.file
    check_dump(into, library)
    into.mkdir(parents=True, exist_ok=True)
    into = into.resolve()
    sweep = wanted.sweep
    call = CollectiveCall(
        chosen.collective, sweep.dtypes[0], sweep.op, sweep.placements[0], chosen.nbytes
    )
    steps = [
        *[Step(plan.CALL, chosen.setting, call)] * _N_WARMUP,
        Step(plan.MEASURE, chosen.setting, call, plan.LOOP, _EFFORT),
    ]
    is_forced = chosen.setting.protocol is Protocol.LL128 and here.site.is_gated
    added = [*([LL128_FORCED] if is_forced else []), ("NPKIT_DUMP_DIR", str(into))]
    ground = replace(here.ground, added=(*here.ground.added, *added))
    with lock.lock_session(folder, reporter), signals.interruptible():
        if here.site.node is not None:
            files.write_atomically(home / store.NODE_FILE, (folder / store.NODE_FILE).read_bytes())
        with waiting_ranks(
            ground, home, site=os.environ, with_plugin=True, largest=chosen.nbytes
        ) as ranks:
            ranks.make({Label(plan.FIRST, 0): steps})
            run = ranks.end()
    _check_ran(run, chosen)
    dump = read_dump(into)
    useless = why_useless(dump, ground.n_ranks)
    if useless is not None:
        raise LaunchError(f"NPKit's dump is of no use: {useless}", where=str(into))
    generator, header = find_tools([library, _ROCM])
    return DumpResult(
        chosen=chosen,
        simulated=here.site.node is not None,
        run=run.folder,
        folder=into,
        dump=dump,
        generator=generator,
        header=header,
        command=next_command(generator, header, into, run.folder / "trace"),
    )


def check_dump(folder: Path, library: Path) -> None:
    """Whether a dump can be made here, before anything is started.

    Args:
        folder: where the library is to write.
        library: that would run.

    Raises:
        CommandLineError: the folder holds something already.
        MachineError: the library has no NPKit.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise CommandLineError(
            "the folder for NPKit's dump is not empty",
            where=str(folder),
            hint="events of several launches have the same names; name an empty or a new folder.",
        )
    if not has_npkit(library):
        raise MachineError(
            "this library was built without NPKit",
            where=str(library),
            hint="build RCCL with ./install.sh --npkit-enable (cmake -DENABLE_NPKIT=ON in newer "
            "releases; those of June 2026 and later have none) and sweep with it: --librccl FILE.",
        )


def has_npkit(library: Path) -> bool:
    """Whether the file has NPKit in it; raises OSError where it cannot be read."""
    return contains_any(library, _WARNS, _ASKS)


def _check_ran(run: Run, chosen: DumpPlan) -> None:
    """Check that the ranks ended well, and that what ran is what was asked for.

    Raises:
        LaunchError: not so.
    """
    if run.ended is not None and run.ended.failure is not None:
        raise LaunchError(
            f"{chosen} failed with NPKit's dump: it {run.ended.failure.words}: {run.ended.words}",
            where=str(run.folder / runs.LOG_FILE),
            hint="NPKit needs memory for its events on every GPU.",
        )
    reasons = {UnusableReason(word) for word in rows_of_runs([run])["unusable"] if word}
    if reasons:
        reasons_text = ", ".join(sorted(reason.meaning for reason in reasons))
        raise LaunchError(
            f"NPKit's dump is not of {chosen}: {reasons_text}",
            where=str(run.folder),
            hint="the dump stays where it was written.",
        )


def read_dump(folder: Path) -> Dump:
    """Look at every file; raises OSError where the folder cannot be read."""
    sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
    clocks = (_GPU_CLOCK.fullmatch(name) for name in sizes)
    on_gpu = sum(size for name, size in sizes.items() if name.startswith("gpu_events_rank_"))
    return Dump(
        ranks=tuple(sorted(int(match[1]) for match in clocks if match)),
        n_files=len(sizes),
        n_gpu_events=on_gpu // _EVENT_BYTES,
    )


def why_useless(dump: Dump, n_ranks: int) -> str | None:
    """Why no trace can be made of it, and what would help; None where one can."""
    missing = sorted(set(range(n_ranks)) - set(dump.ranks))
    if missing:
        ranks = ", ".join(map(str, missing[:_SHOWN])) + (", …" if len(missing) > _SHOWN else "")
        return f"there is no dump of rank {ranks}: the folder must be one that every host writes to"
    if not dump.n_gpu_events:
        return (
            "it holds no event of a GPU: the library has NPKit without the switches that record "
            "this call (ENABLE_NPKIT_EVENT_…)"
        )
    return None


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
    paths = (folder / name for folder in folders for name in names)
    return next((path.resolve() for path in paths if path.is_file()), None)


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
