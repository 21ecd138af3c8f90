"""A baseline that nobody measured: what the library chooses, with the times of what it chose.

It is kept as a table of its own among the session's raw logs, in the variant ``derived``, so that
it is never pooled with what was measured and proves nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Final

from rccltune import logs, machine
from rccltune.model import (
    BASELINE,
    DEFAULT_VARIANT,
    DERIVED,
    Collective,
    CommandLineError,
    CurveKey,
    Fingerprint,
    OutputError,
    Role,
    Sample,
    Scale,
    Setting,
    Stated,
    base_variant,
    format_size,
)

_Place = tuple[Collective, Scale]
_Choices = Mapping[tuple[Collective, Scale, int], Setting]
FILE_NAME: Final = "derived-baseline.csv"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoicesFrom:
    """Where the library's choices come from: one of two.

    Attributes:
        file: a log or table of untouched runs that names what ran.
        library: a real RCCL that is asked now.
        site: the environment in which it is asked.
    """

    file: Path | None = None
    library: Path | None = None
    site: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedTable:
    """A derived baseline as :func:`rccltune.logs.read` reads it.

    Attributes:
        remarks: where there is one, and where there is none.
    """

    text: str
    remarks: tuple[str, ...]


def derived_table(
    asked: ChoicesFrom, samples: Sequence[Sample], known: Fingerprint, origin: str, folder: Path
) -> DerivedTable:
    """Give every size that the library's choice is known at the time of the setting it chose.

    Args:
        asked: where the choices come from.
        samples: of the session and of the files; those without a flag are used.
        known: the machine that they were measured on.
        origin: whose times they are.
        folder: where a file may be kept for a moment.

    Raises:
        CommandLineError: a baseline was measured, so that none is derived beside it.
        OutputError: the file names no choice, or nothing of what was chosen was measured.
        MachineError: the library cannot be asked for this machine.
        LaunchError: it failed.
    """
    good = [s for s in samples if s.doubt is None and s.time_us and s.key.variant != DERIVED]
    own = [s for s in good if _is_usable(s)]
    for sample in good:
        if sample.key.setting.role is Role.BASELINE and sample.key.variant == DEFAULT_VARIANT:
            raise CommandLineError(
                f"the library's own choice was measured for {sample.key.collective.value}, "
                f"{sample.key.scale}",
                hint="leave --baseline-choices out: a measured baseline is better than a derived "
                "one.",
            )
    path = asked.file
    if asked.library is not None:
        wanted: dict[_Place, set[int]] = defaultdict(set)
        for sample in own:
            wanted[sample.key.collective, sample.key.scale].add(sample.nbytes)
        path = folder / "choices.csv"
        path.write_text(
            machine.live_choices(asked.library, known, wanted, asked.site or {}), encoding="utf-8"
        )
    if path is None:
        raise AssertionError("choices come from a file or from a library")
    reading = logs.read(path, Stated(), "")
    choices = _choices(reading.samples, str(asked.file or asked.library))
    said = reading.origin or f"choices in {path.name}"
    return _table(choices, own, f"derived: {said}; times: {origin}".replace('"', "'"))


def _is_usable(sample: Sample) -> bool:
    """Measured in the site's environment, or in one that only widens the choice there."""
    key = sample.key
    plain = base_variant(key.variant).name == DEFAULT_VARIANT.name and not key.variant.patched
    return plain and key.setting.is_complete


def _choices(samples: Iterable[Sample], where: str) -> _Choices:
    """What ran at each size, where all that was seen of it agrees.

    Raises:
        OutputError: nothing says what ran untouched.
    """
    seen: dict[tuple[Collective, Scale, int], set[Setting]] = defaultdict(set)
    for sample in samples:
        is_own = sample.key.setting.role in (Role.BASELINE, Role.UNSTATED)
        if is_own and sample.executed is not None and sample.executed.is_complete:
            seen[sample.key.collective, sample.key.scale, sample.nbytes].add(sample.executed)
    found = {at: ran.pop() for at, ran in seen.items() if len(ran) == 1}
    if not found:
        raise OutputError(
            "the file does not say what the library chose",
            where=where,
            hint="give a log with the benchmark's algo and proto columns (-A 1), or a table with "
            "the columns collective, nodes, ranks, setting (baseline), algorithm, protocol, "
            "channels, nbytes and time_us (may be empty).",
        )
    return found


_HEAD: Final = (
    "# DERIVED by rccltune import --baseline-choices: what the library chooses by itself,",
    "# with the times that were imported for that setting. Nobody measured this baseline.",
)
_COLUMNS: Final = (
    "collective,nodes,ranks,rank_placement,setting,variant,placement,dtype,redop,graph,"
    "algorithm,protocol,channels,nbytes,time_us"
)


def _table(choices: _Choices, samples: Sequence[Sample], source: str) -> DerivedTable:
    times: dict[tuple[CurveKey, int], list[Sample]] = defaultdict(list)
    for sample in samples:
        # All settings of one view together, whatever widened the choice.
        view = replace(sample.key, setting=BASELINE, variant=DERIVED)
        times[view, sample.nbytes].append(sample)
    lines = [
        *_HEAD,
        f'# rccltune: source="{source}"',
        _COLUMNS,
    ]
    had: dict[_Place, list[int]] = defaultdict(list)
    missing: dict[tuple[_Place, str], set[int]] = defaultdict(set)
    for (view, nbytes), there in sorted(
        times.items(), key=lambda item: (str(item[0][0]), item[0][1])
    ):
        place = (view.collective, view.scale)
        choice = choices.get((*place, nbytes))
        if choice is None:
            missing[place, "no choice of a setting is known"].add(nbytes)
            continue
        found = _of_choice(there, choice)
        if not found:
            missing[place, f"{replace(choice, channels=None)} was not measured"].add(nbytes)
            continue
        had[place].append(nbytes)
        lines.append(_row(view, choice, nbytes, median(s.time_us or 0.0 for s in found)))
    remarks = [
        f"Baseline of {_words(place)} derived at {len(set(sizes))} sizes, {_range(sizes)}: "
        f"{source.removeprefix('derived: ')}. Not measured"
        for place, sizes in had.items()
    ]
    remarks += [
        f"No baseline of {_words(place)} at {len(sizes)} sizes, {_range(sizes)}: {why}"
        for (place, why), sizes in missing.items()
    ]
    if not had:
        raise OutputError(
            "; ".join(remarks) or "there are no timings to derive a baseline from",
            where=FILE_NAME,
            hint="give choices for the collectives, ranks and sizes that were measured.",
        )
    return DerivedTable(text="\n".join(lines) + "\n", remarks=tuple(remarks))


def _of_choice(there: Sequence[Sample], choice: Setting) -> list[Sample]:
    """Samples of the setting chosen: with channels left to the library, else with as many."""
    cell = replace(choice, channels=None)
    for wanted in (cell, choice):
        own = [s for s in there if s.key.setting == wanted]
        plain = [s for s in own if s.key.variant == DEFAULT_VARIANT]
        if own:
            return plain or own
    return []


def _row(view: CurveKey, choice: Setting, nbytes: int, time_us: float) -> str:
    graph = "" if view.graph is None else str(int(view.graph))
    cells = (
        view.collective.value,
        view.scale.n_nodes,
        view.scale.n_ranks,
        view.rank_placement or "",
        "baseline",
        DERIVED.name,
        view.placement.value,
        view.dtype or "",
        view.redop or "",
        graph,
        choice.algorithm.value if choice.algorithm else "",
        choice.protocol.value if choice.protocol else "",
        choice.channels or "",
        nbytes,
        f"{time_us:.6g}",
    )
    return ",".join(str(cell) for cell in cells)


def _words(place: _Place) -> str:
    return f"{place[0].value}, {place[1]}"


def _range(sizes: Iterable[int]) -> str:
    found = sorted(set(sizes))
    first, last = format_size(found[0]), format_size(found[-1])
    return first if first == last else f"{first} to {last}"
