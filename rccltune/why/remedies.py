"""What to do: one imperative sentence each, with the line to export where there is one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rccltune.releases import release_of

TELL_LIBRARY: Final = (
    "run the job with: export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,TUNING,COLL "
    "NCCL_DEBUG_FILE=/path/nccl.%h.%p"
)
TELL_PLUGIN: Final = (
    "run the job with: export RCCLTUNE_LOG=decisions:/path/plugin.%h.%p RCCLTUNE_TRACE=/path/"
    "trace-%h-%p-%c-%n.csv"
)
TELL_ALL: Final = (
    f"{TELL_LIBRARY} RCCLTUNE_LOG=decisions:/path/plugin.%h.%p "
    "RCCLTUNE_TRACE=/path/trace-%h-%p-%c-%n.csv"
)
USE_PLUGIN: Final = 'set on every rank: export NCCL_TUNER_PLUGIN="$(rccltune plugin --path)"'
USE_RULES: Final = "set on every rank: export NCCL_TUNER_CONFIG_FILE=/path/rules.csv"
MEASURE_SCALE: Final = (
    "measure this scale with rccltune sweep --np, as many ranks as it has, and add its rules"
)
NAME_FILE: Final = (
    "name the file itself on every rank: export NCCL_TUNER_CONFIG_FILE=/path/rules.csv"
)
SAME_FILE: Final = (
    "put the same rule file on every host and set: export NCCL_TUNER_CONFIG_FILE=/path/rules.csv"
)
NO_SCHEDULE: Final = "take the schedule away on every rank: unset RCCLTUNE_SCHEDULE"
MODE: Final = (
    "set the machine's real mode on every rank: export RCCLTUNE_MODE=cpx-nps4 (rccltune detect "
    "shows it)"
)
CHECK_LIBRARY: Final = (
    "see which library the job loads with rccltune plugin --check --pid PID (or --python EXE), and "
    "name the one that was measured in its LD_LIBRARY_PATH"
)


def export(text: str) -> str:
    """Set a variable everywhere: choices must be alike on all ranks."""
    return f"set on every rank: export {text}"


def tell_rules(path: str | None) -> str:
    """Answers at single sizes need the file; the plugin says which one it read."""
    return f"give the job's rule file as well: --rules {path or 'FILE'}"


def unset(*names: str) -> str:
    """Take variables away everywhere."""
    return f"take away on every rank: unset {' '.join(names)}"


def lift(limits: Iterable[tuple[str, str]], library: str | None) -> str:
    """Take away variables that leave a collective nothing, and say what serves one collective.

    Args:
        limits: names and values.
        library: what the job loads, None where that is not known.
    """
    taken = unset(*dict(limits))
    release = release_of(library)
    if release is not None and release.limits_by_name:
        return f"{taken}, or name the one collective that it is meant for: NCCL_ALGO=allreduce:tree"
    return (
        f"{taken} (what stands there is for every collective), and give what is meant for one of "
        'them to the plugin as a rule: export NCCL_TUNER_PLUGIN="$(rccltune plugin --path)" '
        "NCCL_TUNER_CONFIG_FILE=/path/rules.csv"
    )
