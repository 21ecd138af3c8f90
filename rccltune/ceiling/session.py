"""TransferBench's rates in a session, and what they let its collectives reach.

The raw output is kept like a launch's, in a folder of its own (``ceiling/``); the record beside it
is derived from it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from rccltune.analyse.fit import FitResult
from rccltune.ceiling import bounds, transferbench
from rccltune.launch import process, signals, variables
from rccltune.launch.process import LaunchCommand, LaunchEnd
from rccltune.machine import detection, software
from rccltune.model import schema
from rccltune.model.curves import Curve
from rccltune.model.errors import (
    CommandLineError,
    LaunchError,
    MachineError,
    OutputError,
    SessionError,
)
from rccltune.model.links import Ceiling, LinkRate, LinkRates
from rccltune.model.reporter import Reporter
from rccltune.model.settings import RankLocation, Scale, Setting
from rccltune.model.vocabulary import Collective, busbw
from rccltune.session import files, store
from rccltune.session.place import stored_place
from rccltune.session.store import CEILING_FILE, NODE_FILE, Session

_Target = tuple[Collective, Scale, str | None]
FOLDER: Final = "ceiling"


_FORMAT: Final = 1
_OUTPUT: Final = "stdout.log"
_ENDED: Final = "outcome.json"
# As AMD's article on xGMI runs it: copies of 64 MiB by 8 compute units each (2025-03-02).
_ARGUMENTS: Final = ("a2a", "64M", "8")
# Whatever the site sets of these, the table must be one of copies over direct links.
_ASKED: Final = (
    ("A2A_DIRECT", "1"),
    ("A2A_LOCAL", "0"),
    ("A2A_MODE", "0"),
    ("NUM_QUEUE_PAIRS", "0"),
    ("OUTPUT_TO_CSV", "0"),
)
_LAST_LINE: Final = b"Aggregate bandwidth (CPU Timed)"
_TIMEOUT_S: Final = 300.0
_APART: Final = "simulated and measured figures are never put together."
_PROGRAM_STARTS: Final = (b"\x7fELF", b"#!")


@dataclass(frozen=True, slots=True, kw_only=True)
class AttainedBandwidth:
    """The best bus bandwidth of a target, beside its ceiling."""

    ceiling: Ceiling
    setting: Setting
    nbytes: int
    gb_per_s: float

    @property
    def fraction(self) -> float:
        """1 is the ceiling."""
        return self.gb_per_s / self.ceiling.gb_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class CeilingComparison:
    """Best bandwidths of a session's targets beside their ceilings.

    Attributes:
        reached: for each target that has a ceiling, in the order of the curves.
        without: why the others have none, one sentence each.
        slow: links out of line.
        middle: median over all links in GB/s.
    """

    rates: LinkRates
    reached: tuple[AttainedBandwidth, ...]
    without: tuple[str, ...]
    slow: tuple[LinkRate, ...]
    middle: float

    def as_plain(self) -> dict[str, Any]:
        """Plain form for --json; GB/s is 1e9 B/s."""
        return {
            "source": self.rates.source,
            "sha256": self.rates.sha256,
            "transferbench": self.rates.version,
            "simulated": self.rates.simulated,
            "median_link_gb_per_s": self.middle,
            "slow_links": schema.to_plain(self.slow),
            "targets": [
                {
                    "collective": one.ceiling.collective.value,
                    "scale": schema.to_plain(one.ceiling.scale),
                    "rank_placement": one.ceiling.rank_placement,
                    "ceiling_gb_per_s": one.ceiling.gb_per_s,
                    "n_links": one.ceiling.n_links,
                    "slowest_link": schema.to_plain(one.ceiling.slowest),
                    "all_links_gb_per_s": one.ceiling.all_links_gb_per_s,
                    "reached_gb_per_s": one.gb_per_s,
                    "fraction": one.fraction,
                    "nbytes": one.nbytes,
                    "setting": str(one.setting),
                }
                for one in self.reached
            ],
            "without": list(self.without),
        }


def _check_file(file: Path, *, simulated: bool) -> None:
    """Whether a file can give the rates of such a session.

    Raises:
        CommandLineError: there is no such file, or it may not be run.
        MachineError: a stand-in for hardware, or hardware for a simulated node.
        OutputError: an output that is not understood.
        SessionError: an output of the other kind.
    """
    if not file.is_file():
        raise CommandLineError(
            "there is no such file",
            where=str(file),
            hint="--transferbench names TransferBench, or a file with what its a2a printed.",
        )
    if _is_program(file):
        _check_kind_of(file, simulated=simulated)
        return
    _check_rates(_read(file, file.name), file, simulated=simulated)


def take_rates(folder: Path, file: Path, *, reporter: Reporter) -> LinkRates:
    """Keep TransferBench's rates in a session: read them from its output, or run it.

    A program that ran well in this session is not run again.

    Args:
        folder: the session.
        file: TransferBench itself, or the text that its ``a2a`` printed.
        reporter: told what is worth telling.

    Raises:
        CommandLineError: there is no such file, or it may not be run.
        MachineError: the program is not for what the session measures.
        SessionError: no session, or one of another machine.
        LaunchError: TransferBench failed.
        OutputError: what it printed is not understood.
    """
    opened = store.open_session(folder)
    _check_file(file, simulated=opened.simulated)
    with files.writing(folder, reporter), signals.interruptible():
        if _is_program(file):
            _check_machine(opened)
            output = _ran(opened, file, reporter)
        else:
            output = _kept(folder, file)
        rates = _read(output, file.name)
        _check_rates(rates, file, simulated=opened.simulated)
        plain = {"format": _FORMAT, "output": output.parent.name, **schema.to_plain(rates)}
        store.write_derived(folder, CEILING_FILE, plain)
    return rates


def stored_rates(folder: Path) -> LinkRates | None:
    """The rates that a session has, None where it has none.

    Raises:
        SessionError: another format, or values that do not fit.
    """
    again = "give TransferBench's output again with --transferbench."
    return store.read_derived(
        folder, CEILING_FILE, LinkRates, number=_FORMAT, hint=again, beside=("output",)
    )


def compare_with_ceiling(done: FitResult) -> CeilingComparison | None:
    """Compare the best bandwidths with the ceilings; None where the session has no rates.

    Raises:
        SessionError: the record cannot be read.
    """
    rates = stored_rates(done.session.path)
    if rates is None or not rates.links:
        return None
    place = stored_place(done.session.path)
    by_target: dict[_Target, list[Curve]] = {}
    for curve in done.curves:
        key = curve.key
        by_target.setdefault((key.collective, key.scale, key.rank_placement), []).append(curve)
    reached: list[AttainedBandwidth] = []
    without: list[str] = []
    for target, curves in by_target.items():
        ceiling = _bound(rates, target, _devices(place, target), done.session)
        if isinstance(ceiling, str):
            without.append(f"{target[0].value}, {target[1]}: {ceiling}")
        else:
            reached.append(_best(ceiling, curves))
    return CeilingComparison(
        rates=rates,
        reached=tuple(reached),
        without=tuple(without),
        slow=bounds.slow_links(rates),
        middle=bounds.median_rate(rates),
    )


def _bound(
    rates: LinkRates, target: _Target, devices: tuple[int, ...], opened: Session
) -> Ceiling | str:
    """The ceiling of a target, or why it has none."""
    collective, scale, placement = target
    mode = opened.fingerprint.mode
    reason = bounds.why_no_ceiling(rates, collective, scale, devices=devices, mode=mode)
    if reason is not None:
        return reason
    return bounds.ceiling_of(rates, collective, scale, rank_placement=placement, devices=devices)


def _devices(place: RankLocation | None, target: _Target) -> tuple[int, ...]:
    """Devices of the ranks of one communicator; groups side by side have none of their own here."""
    _, scale, name = target
    if place is None or (place.scale, place.name) != (scale, name):
        return ()
    return place.devices if len(place.devices) == scale.n_ranks else ()


def _best(bound: Ceiling, curves: Iterable[Curve]) -> AttainedBandwidth:
    return max(
        (
            AttainedBandwidth(
                ceiling=bound,
                setting=curve.key.setting,
                nbytes=point.nbytes,
                gb_per_s=busbw(bound.collective, bound.scale.n_ranks, point.nbytes, point.time_us),
            )
            for curve in curves
            for point in curve.points
        ),
        key=lambda one: one.gb_per_s,
    )


def _check_rates(rates: LinkRates, file: Path, *, simulated: bool) -> None:
    """Simulated and measured figures are never put together.

    Raises:
        SessionError: they would be.
    """
    if rates.simulated != simulated:
        raise SessionError(
            f"the rates are {_word(rates.simulated)}, the session is {_word(simulated)}",
            where=str(file),
            hint=_APART,
        )


def _check_kind_of(program: Path, *, simulated: bool) -> None:
    """The stand-in for simulated nodes, and for those alone.

    Raises:
        MachineError: it is the other one.
    """
    is_stand_in = software.SIMULATED_MARK in program.read_bytes()
    if is_stand_in != simulated:
        raise MachineError(
            f"this is {'the stand-in' if is_stand_in else 'no stand-in'}, and the session is "
            f"{_word(simulated)}",
            where=str(program),
            hint=_APART,
        )


def _word(simulated: bool) -> str:
    return "simulated" if simulated else "measured"


def _is_program(file: Path) -> bool:
    """Whether a file is a program, by its first bytes: some disks mark everything executable.

    Raises:
        CommandLineError: a program that is not marked so.
    """
    with file.open("rb") as stream:
        start = stream.read(4)
    is_program = start.startswith(_PROGRAM_STARTS)
    if is_program and not os.access(file, os.X_OK):
        raise CommandLineError(
            "this is a program that may not be run", where=str(file), hint=f"chmod +x {file}"
        )
    return is_program


def _kept(folder: Path, file: Path) -> Path:
    """A copy of somebody's output in the session."""
    content = file.read_bytes()
    output = folder / FOLDER / hashlib.sha256(content).hexdigest()[:10] / _OUTPUT
    files.write_atomically(output, content)
    return output


def _read(output: Path, name: str) -> LinkRates:
    text = output.read_bytes().decode("utf-8", "replace")
    try:
        return replace(transferbench.read_rates(text, name), sha256=files.sha256_of(output))
    except OutputError as error:
        line = (error.where or "").rpartition(":")[2]
        where = f"{output}:{line}" if line.isdigit() else str(output)
        raise OutputError(error.message, where=where, hint=error.hint) from error


def _ran(opened: Session, program: Path, reporter: Reporter) -> Path:
    """Run TransferBench once and for all."""
    digest = files.sha256_of(program)
    what = json.dumps([digest, _ARGUMENTS, _ASKED])
    folder = (opened.path / FOLDER / hashlib.sha256(what.encode()).hexdigest()[:10]).resolve()
    if (folder / _ENDED).exists():
        reporter.say("TransferBench ran in this session already, and is not run again")
        return folder / _OUTPUT
    added = list(_ASKED)
    if opened.simulated:
        added.append(("RCCLTUNE_SIM_NODE", str((opened.path / NODE_FILE).resolve())))
    environment = variables.launch_environment(dict(os.environ), added)
    argv = (str(program.resolve()), *_ARGUMENTS)
    reporter.say(f"Running {' '.join(argv)}")
    plain = {"argv": list(argv), "sha256": digest, "environment": dict(environment.added)}
    files.write_atomically(folder / "launch.json", store.dump_json(plain))
    ending = process.run(
        LaunchCommand(
            argv=argv,
            variables=environment.variables,
            folder=folder,
            timeout_s=_TIMEOUT_S,
            is_complete=_is_complete,
        )
    )
    files.check_room(opened.path)
    _check_end(folder, ending)
    ended = {"exit_code": ending.exit_code, "duration_s": round(ending.duration_s, 3)}
    files.write_atomically(folder / _ENDED, store.dump_json(ended))
    return folder / _OUTPUT


def _is_complete(own: Path) -> bool:
    return _LAST_LINE in (own / _OUTPUT).read_bytes()


def _check_end(folder: Path, ending: LaunchEnd) -> None:
    """Stop where it did not end well.

    Raises:
        LaunchError: it did not.
    """
    if ending.exit_code == 0 and _is_complete(folder):
        return
    how = f"no end after {ending.duration_s:.0f} s" if ending.timed_out else ending.how
    lines = [
        line
        for name in (_OUTPUT, "stderr.log")
        for line in (folder / name).read_text(errors="replace").splitlines()
        if line.strip()
    ]
    said = f"; its last line: {lines[-1].strip()}" if lines else ""
    raise LaunchError(
        f"TransferBench failed with {how}{said}",
        where=str(folder),
        hint="run the command of launch.json by hand until it works; nothing else was lost.",
    )


def _check_machine(opened: Session) -> None:
    """TransferBench must measure the machine that the session is of.

    Raises:
        SessionError: the session is of another machine, or does not say of which.
    """
    if opened.simulated:
        return
    here = detection.fingerprint(detection.detect_system(variables=os.environ, deep=False))
    if not opened.fingerprint.devices or here.devices != opened.fingerprint.devices:
        raise SessionError(
            "the session is of another machine than this one, or does not say of which",
            where=str(opened.path),
            hint="run TransferBench a2a where it was measured and give its output instead.",
        )
