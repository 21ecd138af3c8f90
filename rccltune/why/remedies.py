"""Remedies: one imperative sentence each, with the line to export where there is one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rccltune.logs.forced_variables import allowed_names
from rccltune.model.settings import Setting
from rccltune.model.vocabulary import Algorithm, Collective, Protocol
from rccltune.releases import release_of

TELL_LIBRARY: Final = (
    "run the job with: export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,TUNING,COLL "
    "NCCL_DEBUG_FILE=/path/nccl.%h.%p"
)
SEE_ALL: Final = "export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,TUNING"
LOG: Final = "RCCLTUNE_LOG=decisions:/path/plugin.%h.%p"
TELL_PLUGIN: Final = f"run the job with: export {LOG}"
TELL_ALL: Final = f"{TELL_LIBRARY} {LOG}"
USE_PLUGIN: Final = 'set on every rank: export NCCL_TUNER_PLUGIN="$(rccltune plugin --path)"'
SAME_FILE: Final = (
    "put the same rule file on every host and set: export NCCL_TUNER_CONFIG_FILE=/path/rules.csv"
)
CHECK_LIBRARY: Final = (
    "see which library the job loads (grep ccl /proc/PID/maps), and name the one that was measured "
    "in its LD_LIBRARY_PATH"
)
KEEP_SIMPLE: Final = (
    "leave NCCL_PROTO as the network plugin set it, since LL and LL128 are not safe there, and use "
    "rules for simple alone"
)
SAME_ON_RANKS: Final = (
    "give every rank the same rule file, variables and library: source the same env.sh in the "
    "job's script"
)
# Variables that choose, and must be alike on all ranks.
FORCING: Final = ("NCCL_ALGO", "NCCL_PROTO", "RCCL_OVERRIDE_ALGO", "RCCL_OVERRIDE_PROTO")


def export(text: str) -> str:
    """Set a variable everywhere: choices must be alike on all ranks."""
    return f"set on every rank: export {text}"


def measure_without(exports: Iterable[str | None]) -> str | None:
    """Take a path away with the first of these: it may well be faster than every rule."""
    first = next(filter(None, exports), None)
    return f"{export(first)}, and measure whether that is faster" if first else None


def ask_for_rules(path: str | None) -> str:
    """Answers at single sizes need the file; the plugin says which one it read."""
    return f"give the job's rule file as well: {path or 'FILE'}"


def unset(*names: str) -> str:
    """Take variables away everywhere."""
    return f"take away on every rank: unset {' '.join(names)}"


def lift(limits: Iterable[tuple[str, str]], library: str | None) -> str:
    """Take away variables that leave a collective nothing, and say what serves one collective.

    Args:
        limits: names and values.
        library: what the job loads, None where that is not known.
    """
    unset_all = unset(*dict(limits))
    release = release_of(library)
    if release is not None and release.limits_by_name:
        one = "name the one collective that it is meant for: NCCL_ALGO=allreduce:tree"
        return f"{unset_all}, or {one}"
    return (
        f"{unset_all} (what stands there is for every collective), and give what is meant for one "
        'of them to the plugin as a rule: export NCCL_TUNER_PLUGIN="$(rccltune plugin --path)" '
        "NCCL_TUNER_CONFIG_FILE=/path/rules.csv"
    )


def admits(name: str, value: str, setting: Setting, collective: Collective | None) -> bool:
    """Whether a variable of :data:`FORCING` leaves a setting in; what is not known is let pass."""
    if name.endswith("ALGO"):
        algorithms = allowed_names(value, Algorithm, collective)
        return setting.algorithm is None or algorithms is None or setting.algorithm in algorithms
    protocols = allowed_names(value, Protocol, collective)
    return setting.protocol is None or protocols is None or setting.protocol in protocols


def describe_request(variables: dict[str, list[str]], ran: Setting) -> str:
    """``, as NCCL_PROTO=Simple asks``, where the job's environment leaves nothing else."""
    asking = [
        f"{name}={value}"
        for name in FORCING
        for value in sorted(variables.get(name, ()))
        if (left := _find_allowed(name, value)) is not None
        and len(left) == 1
        and left <= {ran.algorithm, ran.protocol}
    ]
    return f", as {' and '.join(asking)} ask{'s'[: len(asking) == 1]}" if asking else ""


def _find_allowed(name: str, value: str) -> frozenset[Algorithm] | frozenset[Protocol] | None:
    if name.endswith("ALGO"):
        return allowed_names(value, Algorithm, None)
    return allowed_names(value, Protocol, None)
