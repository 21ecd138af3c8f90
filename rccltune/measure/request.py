"""Options and sweep.yaml, joined into one request."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rccltune.measure import sweep_file
from rccltune.measure.ownership import is_own_session
from rccltune.measure.real_rccl import real_library
from rccltune.measure.site import SiteRequest
from rccltune.measure.sweep_schema import PERF, PRESETS, SweepOptions, flag
from rccltune.model import defaults
from rccltune.model.errors import CommandLineError, InputFileError, SessionError, reason_of
from rccltune.model.measurement import Sweep
from rccltune.model.vocabulary import RankPlacement
from rccltune.session import store
from rccltune.session.store import SWEEP_FILE
from rccltune.simulate.sources import shipped_nodes

# What names programs, files or variables, so that nobody else's session may say it.
ORDERS: Final = frozenset(
    (
        *("simulate", "runner", "librccl", "rccl_tests", "launcher", "hostfile"),
        *("env", "workload"),
    )
)
# What rccltune-perf alone understands.
OF_PERF: Final = ("communicators",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Request of a user: what to measure, where, and how long a launch may take.

    Attributes:
        workload: a recorded job, whose sizes at the site's scale are the only ones to measure.
        named_collectives: the user named the collectives.
        named_sizes: the user said which sizes, or up to which.
        communicators: in which the rank program measures what could win.
        timing: by which mode it does.
    """

    sweep: Sweep
    site: SiteRequest
    timeout_s: float | None
    budget_s: float | None = None
    workload: Path | None = None
    named_collectives: bool = False
    named_sizes: bool = False
    communicators: int = defaults.COMMUNICATORS
    timing: str = defaults.TIMING


def named_options(values: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a command line that say something; click has None and () for the others."""
    return {name: value for name, value in values.items() if value not in (None, (), {})}


def merge_request(
    path: Path | None, options: Mapping[str, Any], *, runner: str = defaults.RUNNER
) -> Request:
    """Read the file, let options win, fill in defaults.

    Args:
        path: of the file, None without one.
        options: of the command line.
        runner: that measures where neither says one.

    Raises:
        InputFileError: mistakes in the file, all at once.
        CommandLineError: options that do not fit together.
    """
    values = {} if path is None else _read_file(path)
    return _make_request(_merge(values, named_options(options)), runner)


def _merge(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Options with others that win over them; of the environment each variable by itself."""
    env = {**under.get("env", {}), **over.get("env", {})}
    return {**under, **over} | ({"env": env} if env else {})


def _make_request(values: Mapping[str, Any], runner: str) -> Request:
    """Values of file and options as a request."""
    values = {"runner": runner, **_merge(PRESETS.get(values.get("preset", ""), {}), values)}
    # Each was held to its field where it was read.
    options = SweepOptions.model_construct(**values)
    sweep = sweep_file.sweep_of(options)
    _check_sizes(values, sweep)
    _check_runner(values)
    return Request(
        sweep=sweep,
        site=_site_request(options),
        timeout_s=options.timeout,
        budget_s=options.budget,
        workload=options.workload,
        named_collectives=bool(options.collective),
        named_sizes=any(name in values for name in ("max_bytes", "sizes", "workload")),
        communicators=options.communicators,
        timing=options.timing,
    )


def _site_request(options: SweepOptions) -> SiteRequest:
    placement = options.rank_placement
    return SiteRequest(
        mode=options.mode,
        simulate=options.simulate,
        runner=options.runner,
        launcher=options.launcher,
        n_ranks=options.np,
        placement=RankPlacement(placement) if placement else None,
        added=tuple(options.env.items()),
        seed=options.seed,
        rccl_tests=options.rccl_tests,
        librccl=_library(options),
        hostfile=options.hostfile,
    )


def _library(options: SweepOptions) -> Path | None:
    """On a simulated node ``real`` is the one that was downloaded; a session keeps its file."""
    if options.librccl is None or options.simulate is None or options.runner == PERF:
        return options.librccl
    return real_library(options.librccl, os.environ)


def refuse_simulated(request: Request, folder: Path) -> None:
    """Stop where this machine would be measured into a session of a simulated node.

    Args:
        request: of this command line.
        folder: the session that it measures into, which need not be there.

    Raises:
        SessionError: it would, or the session cannot be read.
    """
    if request.site.simulate is not None or not (folder / store.HEADER).exists():
        return
    session = store.open_session(folder)
    if session.simulated:
        again = f"'{session.command}' goes on with it; " if session.command else ""
        raise SessionError(
            "this session is of a SIMULATED node, and no --simulate is given",
            where=str(folder),
            hint=f"{again}-o DIR measures this machine, into another session.",
        )


def site_keys(site: SiteRequest, folder: Path | None = None) -> dict[str, Any]:
    """Options that say where to run, as a sweep has them; paths are made absolute.

    Args:
        site: what was said.
        folder: the session that it is kept in, whose own node is named without its folder.
    """
    simulate = site.simulate
    if folder is not None and simulate == str(folder / store.NODE_FILE):
        simulate = store.NODE_FILE
    elif simulate is not None and Path(simulate).is_file():
        simulate = str(Path(simulate).resolve())
    return {
        "simulate": simulate,
        "runner": site.runner,
        "launcher": site.launcher,
        "np": site.n_ranks,
        "env": dict(site.added),
        "rccl_tests": _absolute(site.rccl_tests),
        "librccl": site.librccl if str(site.librccl) in _WORDS else _absolute(site.librccl),
        "hostfile": _absolute(site.hostfile),
    }


# Libraries that are no file.
_WORDS: Final = ("real", "torch")


def _absolute(path: Path | None) -> Path | None:
    return None if path is None else path.resolve()


def session_request(folder: Path, options: Mapping[str, Any]) -> Request:
    """The request of a session's own sweep, with options of this command line before them.

    What a session of somebody else says about where to run is never followed: programs, libraries
    and variables come from this command line or from this machine's detection.

    Args:
        folder: the session.
        options: of this command line.

    Raises:
        CommandLineError: the session is not ours and says what to run; one line names it.
        InputFileError: mistakes in the file, all at once.
        SessionError: no session.
    """
    path = folder / SWEEP_FILE
    if not is_own_session(folder):
        followed = ORDERS - set(named_options(options))
        orders = {
            name: value
            for name, value in _read_file(path).items()
            if name in followed and not _is_harmless(name, value, folder)
        }
        if orders:
            raise CommandLineError(
                f"this session was not made by you, or its sweep.yaml was changed since; it would "
                f"have this machine use {_listed(orders)}",
                where=str(path),
                hint=f"take {', '.join(orders)} out of your copy of that file, and what is found "
                "here is used; or say what to use, where this verb has the option.",
            )
    return _make_request(_merge(_read_file(path), named_options(options)), defaults.RUNNER)


def _is_harmless(name: str, value: object, folder: Path) -> bool:
    """Whether it names our own program, or a simulated node of rccltune's or of the session."""
    if name == "runner":
        return value == PERF
    return name == "simulate" and (
        value == str(folder / store.NODE_FILE)
        or any(value == node or node.startswith(f"{value}-") for node in shipped_nodes())
    )


def _listed(orders: Mapping[str, Any]) -> str:
    parts = []
    for name, value in orders.items():
        words = [f"{n}={v}" for n, v in value.items()] if name == "env" else [str(value)]
        parts.append(f"{name}: {' '.join(words)}")
    return "; ".join(parts)


def _read_file(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputFileError(
            f"the sweep file cannot be read: {reason_of(error)}", where=str(path)
        ) from error
    values = sweep_file.read_sweep_file(text, str(path))
    if values.get("simulate") == store.NODE_FILE:
        values["simulate"] = str(path.parent / store.NODE_FILE)
    return values


def _check_sizes(values: Mapping[str, Any], sweep: Sweep) -> None:
    """Stop where a range is empty, beside a workload that says the sizes, or types are several."""
    if sweep.max_nbytes < sweep.min_nbytes:
        raise CommandLineError(
            f"--max-bytes {sweep.max_nbytes} is below --min-bytes {sweep.min_nbytes}",
            hint="give a larger --max-bytes, or a smaller --min-bytes.",
        )
    if len(sweep.dtypes) > 1:
        raise CommandLineError(
            "one data type at a time can be measured",
            hint="sweep each type into a session of its own.",
        )
    ranged = [name for name in ("min_bytes", "max_bytes", "factor") if values.get(name)]
    if values.get("workload") and ranged:
        raise CommandLineError(
            f"--workload says which sizes to measure, and so does {flag(ranged[0])}",
            hint="say one of the two.",
        )


def _check_runner(values: Mapping[str, Any]) -> None:
    """Stop where the runner lacks what an option asks for."""
    runner = values["runner"]
    flags = [flag(name) for name in OF_PERF if runner != PERF and values.get(name)]
    if runner != PERF and str(values.get("librccl")) == "torch":
        raise CommandLineError(
            "rccl-tests take a library by its file, and 'torch' is none",
            hint="name it, --librccl …/librccl.so; sweep --librccl torch says where it is.",
        )
    if runner != PERF and values.get("launcher") in ("torchrun", "local"):
        flags.append(f"--launcher {values['launcher']}")
    if flags:
        raise CommandLineError(
            f"{flags[0]} is rccltune-perf's", hint=f"say --runner {PERF} with it."
        )
