"""Options and sweep.yaml, joined into one wish."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from rccltune import config, session, simnode
from rccltune.errors import CommandLineError, InputFileError
from rccltune.model import LONGEST_S, Scale, Setting, Sweep
from rccltune.pipeline import torching
from rccltune.pipeline.site import SiteWish
from rccltune.presets import PRESETS
from rccltune.vocab import TUNABLE, Collective, Placement, RankPlacement

_PLACEMENTS = {
    "out": (Placement.OUT_OF_PLACE,),
    "in": (Placement.IN_PLACE,),
    "both": (Placement.OUT_OF_PLACE, Placement.IN_PLACE),
}
# Which collectives matter most in training comes first, so that an early stop keeps them.
_DEFAULT_ORDER = tuple(reversed(TUNABLE))


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What to measure, where, and how long a launch may take.

    Attributes:
        variants: as typed; what they are here is known when the site is.
        variants_file: the user's own.
        scales: each measured in a session of its own; empty for the one that the site says.
        workload: a recorded job, whose sizes at the site's scale are the only ones to measure.
        named_collectives: the user named the collectives.
    """

    sweep: Sweep
    site: SiteWish
    timeout_s: float | None
    budget_s: float | None = None
    variants: tuple[str, ...] = ()
    variants_file: Path | None = None
    scales: tuple[Scale, ...] = ()
    workload: Path | None = None
    named_collectives: bool = False


def merge_wishes(path: Path | None, options: Mapping[str, Any]) -> Wishes:
    """Read the file, let options win, fill in defaults.

    Raises:
        InputFileError: mistakes in the file, all at once.
        CommandLineError: wishes that do not fit together.
    """
    said = {} if path is None else _read(path)
    # A flag that is not given says nothing; 0 does.
    said |= {n: v for n, v in options.items() if v is not False and v not in (None, ())}
    said = {**PRESETS.get(said.get("preset", ""), {}), **said}
    placement = said.get("placement_of_ranks")
    is_torch = said.get("runner") == "torch"
    sweep = Sweep(
        collectives=_collectives(said),
        settings=_settings(said),
        min_nbytes=said.get("min_bytes", 8),
        max_nbytes=said.get("max_bytes", 1 << 30),
        factor=said.get("factor", 2),
        step_nbytes=said.get("step"),
        rank_placement=placement or RankPlacement.NODE.value,
        dtypes=_many(said.get("dtype", "float")),
        redop=said.get("op", "sum"),
        placements=_PLACEMENTS[said.get("placement", "in" if is_torch else "both")],
        graph=said.get("graph", 0),
        iterations=said.get("iters", 20),
        warmup=said.get("warmup", 5),
        check=str(said.get("check", "1")) not in ("0", "False"),
        repeats=said.get("repeats", 3),
        mode=said.get("mode"),
        seed=said.get("seed", 0),
        method=said.get("method", "auto"),
        longest_s=said.get("longest", LONGEST_S),
        exhaustive=bool(said.get("exhaustive", False)),
        counts=() if said.get("setting") else _counts(said.get("channels", ())),
        wanted=_wanted(said.get("sizes", ())),
    )
    _check(sweep)
    _check_sizes(said)
    _check_runner(said, sweep, is_torch=is_torch)
    site = SiteWish(
        mode=sweep.mode,
        simulate=said.get("simulate"),
        rccl_tests=_path(said.get("rccl_tests")),
        librccl=_path(said.get("librccl")),
        runner=said.get("runner", "rccl-tests"),
        python=said.get("python"),
        backend=said.get("backend", "nccl"),
        launcher=said.get("launcher", "auto"),
        hostfile=_path(said.get("hostfile")),
        n_ranks=said.get("np"),
        placement=RankPlacement(placement) if placement else None,
        added=tuple(said.get("env", ())),
        cleared=tuple(said.get("clear", ())),
        seed=sweep.seed,
    )
    return Wishes(
        sweep=sweep,
        site=site,
        timeout_s=said.get("timeout"),
        budget_s=said.get("budget"),
        variants=_many(said.get("variant", ())),
        variants_file=_path(said.get("variants")),
        scales=tuple(said.get("scales", ())),
        workload=_path(said.get("workload")),
        named_collectives="collective" in said,
    )


def site_keys(site: SiteWish) -> dict[str, Any]:
    """What was said about where to run, by the keys of sweep.yaml; paths are made absolute."""
    paths = {
        "rccl_tests": site.rccl_tests,
        "librccl": site.librccl,
        "hostfile": site.hostfile,
    }
    simulate = site.simulate
    if simulate is not None and Path(simulate).is_file():
        simulate = str(Path(simulate).resolve())
    return {
        "simulate": simulate,
        "runner": None if site.runner == "rccl-tests" else site.runner,
        "python": site.python,
        "backend": None if site.backend == "nccl" else site.backend,
        "launcher": None if site.launcher == "auto" else site.launcher,
        "np": site.n_ranks,
        "env": dict(site.added),
        "clear": list(site.cleared),
        **{name: str(path.resolve()) if path else None for name, path in paths.items()},
    }


# Keys of a sweep.yaml that name programs, files and variables.
_ORDERS: Final = (
    *("rccl_tests", "librccl", "runner", "python", "backend", "launcher", "hostfile"),
    *("env", "clear", "simulate", "variants", "workload"),
)


def session_wishes(folder: Path, options: Mapping[str, Any], *, trusted: bool) -> Wishes:
    """The wishes of a session's own sweep, with options of this command line before them.

    What a session of somebody else says about where to run is never followed: programs, libraries
    and variables come from this command line or from this machine's detection.

    Args:
        folder: the session.
        options: of this command line.
        trusted: the user says that the session's own words may be followed.

    Raises:
        CommandLineError: the session is not ours and says what to run; one line names it.
        InputFileError: mistakes in the file, all at once.
        SessionError: no session.
    """
    path = folder / session.SWEEP_FILE
    if not trusted and not session.is_ours(folder):
        given = {name for name, value in options.items() if value not in (None, (), False)}
        orders = {
            name: value
            for name, value in _read(path).items()
            if name in _ORDERS and name not in given and not _is_shipped(name, value)
        }
        if orders:
            raise CommandLineError(
                f"this session was not made by you, or its sweep.yaml was changed since; it would "
                f"have this machine use {_listed(orders)}",
                where=str(path),
                hint="say yourself what to use (--rccl-tests DIR, --librccl FILE, --env …); or, if "
                "you know that it does no harm, --trust-session.",
            )
    return merge_wishes(path, options)


def _is_shipped(name: str, value: object) -> bool:
    """Whether it names a simulated node that comes with rccltune, and no file."""
    return name == "simulate" and any(
        value == node or node.startswith(f"{value}-") for node in simnode.shipped_nodes()
    )


def _listed(orders: Mapping[str, Any]) -> str:
    said = []
    for name, value in orders.items():
        words = [f"{n}={v}" for n, v in value] if name == "env" else [str(value)]
        said.append(f"{name}: {' '.join(words)}")
    return "; ".join(said)


def _read(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputFileError(f"the sweep file cannot be read: {error}", where=str(path)) from error
    return config.read_sweep_file(text, str(path))


def _settings(said: Mapping[str, Any]) -> tuple[Setting, ...]:
    """Settings, each with every channel count where counts are given."""
    settings: tuple[Setting, ...] = tuple(said.get("setting", ()))
    counts = _counts(said.get("channels", ()))
    if not counts:
        return settings
    return tuple(replace(s, channels=n) for s in settings for n in counts)


def _counts(said: str | tuple[int, ...]) -> tuple[int, ...]:
    if not isinstance(said, str):
        return said
    parts = said.split(",")
    if not all(part.strip().isdigit() and int(part) > 0 for part in parts):
        raise CommandLineError(f"'{said}' is no list of channel counts", hint="write 8,16,32.")
    return tuple(int(part) for part in parts)


def _collectives(said: Mapping[str, Any]) -> tuple[Collective, ...]:
    """Those that are named, or whose sizes are; all that ask a tuner otherwise."""
    sized = dict.fromkeys(collective for collective, _ in said.get("sizes", ()))
    return tuple(said.get("collective", tuple(sized) or _DEFAULT_ORDER))


def _wanted(
    sizes: tuple[tuple[Collective, int], ...],
) -> tuple[tuple[Collective, tuple[int, ...]], ...]:
    """Sizes by collective, rising."""
    found: dict[Collective, set[int]] = {}
    for collective, nbytes in sizes:
        found.setdefault(collective, set()).add(nbytes)
    return tuple((collective, tuple(sorted(own))) for collective, own in found.items())


def _many(value: str | tuple[str, ...]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else value


def _path(value: str | Path | None) -> Path | None:
    return None if value is None else Path(value)


def _check(sweep: Sweep) -> None:
    if sweep.max_nbytes < sweep.min_nbytes:
        raise CommandLineError(
            f"--max-bytes {sweep.max_nbytes} is below --min-bytes {sweep.min_nbytes}"
        )
    if len(sweep.dtypes) > 1:
        raise CommandLineError(
            "one data type at a time can be measured",
            hint="sweep each type into a session of its own.",
        )
    for collective in sweep.collectives:
        if not isinstance(collective, Collective):
            raise CommandLineError(f"'{collective}' is no collective")


_RANGE = ("min_bytes", "max_bytes", "factor", "step")


def _check_sizes(said: Mapping[str, Any]) -> None:
    """A workload says the sizes, and a range would say others."""
    ranged = [name for name in _RANGE if said.get(name)]
    if said.get("workload") and ranged:
        raise CommandLineError(
            f"--workload says which sizes to measure, and so does --{ranged[0].replace('_', '-')}",
            hint="say one of the two.",
        )


def _check_runner(said: Mapping[str, Any], sweep: Sweep, *, is_torch: bool) -> None:
    """What the PyTorch runner has not, and what it alone has."""
    if is_torch:
        backend = said.get("backend", "nccl")
        torching.check_wish(sweep, backend, [name for name in _NOT_TORCHS if said.get(name)])
        return
    alone = [name for name in ("python", "backend") if said.get(name)]
    alone += ["launcher torchrun"] if said.get("launcher") == "torchrun" else []
    if alone:
        raise CommandLineError(
            f"--{alone[0]} is the PyTorch runner's", hint="say --runner torch with it."
        )


_NOT_TORCHS = ("simulate", "librccl")
