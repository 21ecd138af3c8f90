"""sweep.yaml: what a user asks for, with every mistake found at once and placed.

In comes the text of a YAML file, out come typed values under the names of the command line's own
options (:mod:`rccltune.measure.sweep_schema`), so that an option overrides a key of the same name.
Options become a :class:`Sweep` here, and a sweep becomes the options that a session keeps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from rccltune.measure.sweep_schema import SweepOptions, default_of
from rccltune.model import defaults, yamlfile
from rccltune.model.measurement import Sweep
from rccltune.model.settings import Setting
from rccltune.model.vocabulary import TUNABLE, Collective, Placement, RankPlacement

_PLACEMENTS: Final = {
    "out": (Placement.OUT_OF_PLACE,),
    "in": (Placement.IN_PLACE,),
    "both": (Placement.OUT_OF_PLACE, Placement.IN_PLACE),
}
# What a session's file says at its default too, for a reader.
_PINNED: Final = frozenset(
    (
        *("min_bytes", "max_bytes", "factor", "dtype", "op", "placement"),
        *("rank_placement", "seed"),
    )
)
# Which collectives matter most in training comes first, so that an early stop keeps them.
_DEFAULT_ORDER: Final = tuple(reversed(TUNABLE))


def read_sweep_file(text: str, name: str) -> dict[str, Any]:
    """Typed values by option name, of what the file says; lists become tuples.

    Args:
        text: the file's text.
        name: its path, for messages.

    Raises:
        InputFileError: every mistake, one a line, each with line and column.
    """
    file = yamlfile.read(
        SweepOptions,
        text,
        name,
        "see docs/measuring.md.",
        rename=lambda key: key.replace("-", "_"),
    )
    return {key: getattr(file.value, key) for key in file.keys if key in SweepOptions.model_fields}


def sweep_of(options: SweepOptions) -> Sweep:
    """Sweep that these options ask for."""
    return Sweep(
        mode=options.mode,
        collectives=_collectives(options),
        settings=_settings(options),
        counts=() if options.setting else options.channels,
        min_nbytes=options.min_bytes,
        max_nbytes=options.max_bytes,
        factor=options.factor,
        wanted=_sizes_by_collective(options.sizes),
        dtypes=options.dtype,
        op=options.op,
        placements=_PLACEMENTS[options.placement],
        rank_placement=options.rank_placement or defaults.RANK_PLACEMENT,
        graph=int(options.timing == "graph"),
        seed=options.seed,
        same_bits=options.same_bits,
    )


def options_of(sweep: Sweep) -> dict[str, Any]:
    """The options that say this sweep, in the order of a session's file."""
    placements = [placement.value for placement in sweep.placements]
    # The first devices are a placement only with their number.
    is_first = sweep.rank_placement == RankPlacement.FIRST.value and sweep.scales
    return {
        "mode": sweep.mode,
        "collective": sweep.collectives,
        "setting": sweep.settings,
        "min_bytes": sweep.min_nbytes,
        "max_bytes": sweep.max_nbytes,
        "factor": sweep.factor,
        "dtype": sweep.dtypes,
        "op": sweep.op,
        "placement": placements[0] if len(placements) == 1 else "both",
        "rank_placement": sweep.rank_placement,
        "np": sweep.scales[0].n_ranks if is_first else None,
        "seed": sweep.seed,
        "same_bits": sweep.same_bits,
        "channels": sweep.counts,
        "sizes": tuple((one, nbytes) for one, sizes in sweep.wanted for nbytes in sizes),
    }


def dump_sweep(sweep: Sweep, site: Mapping[str, Any] | None = None) -> str:
    """A sweep as resolved, in the form that :func:`read_sweep_file` reads.

    Args:
        sweep: what is measured.
        site: what the user said about where, by the same keys, so that the session can be gone on
            with or verified without saying it again.
    """
    import yaml

    # What is unsaid of where leaves what the sweep knows: how many of the first devices.
    where = {name: value for name, value in (site or {}).items() if value is not None}
    words = options_in_words({**options_of(sweep), **where})
    text: str = yaml.safe_dump(words, sort_keys=False, allow_unicode=True)
    return text


def _collectives(options: SweepOptions) -> tuple[Collective, ...]:
    """Collectives that are named, or whose sizes are; all that ask a tuner otherwise."""
    sized = tuple(dict.fromkeys(collective for collective, _ in options.sizes))
    return options.collective or sized or _DEFAULT_ORDER


def _settings(options: SweepOptions) -> tuple[Setting, ...]:
    """Settings, each with every channel count where counts are given."""
    if not options.channels:
        return options.setting
    return tuple(replace(s, channels=n) for s in options.setting for n in options.channels)


def _sizes_by_collective(
    sizes: tuple[tuple[Collective, int], ...],
) -> tuple[tuple[Collective, tuple[int, ...]], ...]:
    """Sizes by collective, rising."""
    by_collective: dict[Collective, set[int]] = {}
    for collective, nbytes in sizes:
        by_collective.setdefault(collective, set()).add(nbytes)
    return tuple((collective, tuple(sorted(some))) for collective, some in by_collective.items())


def options_in_words(values: Mapping[str, Any]) -> dict[str, Any]:
    """Options as a session's sweep.yaml has them, without those that say nothing."""
    names = {
        name
        for name, value in values.items()
        if value not in (None, (), {}) and (name in _PINNED or value != default_of(name))
    }
    plain = SweepOptions.model_construct(**values).model_dump(mode="json", include=names)
    return {name: plain[name] for name in values if name in names}
