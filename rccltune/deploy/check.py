"""check.sh: whether a node is ready, asked without Python and without rccltune.

POSIX sh; sha256sum for the files; ldd, getconf and readelf are used where they are. ``--root``
looks at a machine below a folder, as everywhere in rccltune.
"""

from __future__ import annotations

import shlex
from typing import Final

from rccltune.deploy.check_job import OVERRIDING, VARIABLES
from rccltune.deploy.check_node import FILES, GPUS, LIBRARY
from rccltune.deploy.records import Delivery
from rccltune.deploy.words import header, remark

_START: Final = r"""
# zsh, where somebody names it, splits no words without this.
[ -z "${ZSH_VERSION:-}" ] || emulate sh
root='' quiet=0 sourced=0
while [ $# -gt 0 ]; do
    case $1 in
    --root) root=${2:?--root names a folder}; shift ;;
    -q) quiet=1 ;;
    --sourced) sourced=1 ;;
    *)
        echo "usage: check.sh [-q] [--sourced] [--root DIR]" >&2
        echo "Is this node ready? Exit code 0 or 1." >&2
        exit 2
        ;;
    esac
    shift
done
host=$(uname -n)
bad=0
say() { printf '%s: %s\n' "$host" "$1"; }
fail() { bad=1; say "FAIL: $1"; }
warn() { [ "$quiet" = 1 ] || say "warning: $1"; }

# Slurm may run a copy of this file from elsewhere.
case $0 in
*/*) at=${0%/*}/ ;;
*) at=. ;;
esac
at=$(CDPATH='' cd "$at" 2>/dev/null && pwd) || at=''
here=$written/versions/$version
for try in "$at/versions/$version" "${at%/*}/$version" "${at%/*}/versions/$version" "$at"; do
    if [ -e "$try/MANIFEST" ]; then here=$try; break; fi
done
"""
_END: Final = r"""
check_files
check_rights
check_library
check_glibc
check_gpus
check_variables
told="version $version"
[ $n_gpus = 0 ] || told="$told, $n_gpus GPUs"
[ -z "$remark" ] || warn "$remark"
if [ $bad = 1 ]; then
    say "NOT ready: $told, in $here"
else
    say "ready: $told${mode:+, rules for $mode}"
fi
exit $bad
"""


def check_script(delivery: Delivery, version: str, expected: tuple[str, ...]) -> str:
    """The text of check.sh.

    Args:
        delivery: what is deployed.
        version: its name.
        expected: files that MANIFEST must list.
    """
    requires = delivery.requires
    compute = requires.get("compute", "").upper()
    memory = requires.get("memory", "").upper()
    is_whole = compute not in ("", "NONE")
    values = {
        "version": version,
        "written": str(delivery.directory),
        "plugin": delivery.library.name,
        "abis": " ".join(map(str, delivery.abi_versions)),
        "glibc": ".".join(map(str, delivery.glibc)),
        "arch": requires.get("arch", ""),
        "device": _device(requires.get("device", "")),
        "compute": compute if is_whole else "",
        "memory": memory if is_whole else "",
        "mode": f"{compute}-{memory}".lower().strip("-") if is_whole else "",
        "expected": " ".join(expected),
        "passes": "Slurm: unset SLURM_EXPORT_ENV, or srun --export=ALL; containers: container.sh",
        "needed": " ".join(name for name, _ in delivery.environment),
        "remark": remark(delivery),
    }
    lines = [
        "#!/bin/sh",
        *header(delivery, version),
        "# Is this node ready for a job with these rules? One line for each finding; exit code 0",
        f"# or 1. On every node: srun --ntasks-per-node=1 -N NODES {delivery.directory}/check.sh",
        "# In a job, after env.sh, with --sourced: then its variables must be there.",
        "set -u",
        *(f"{name}={shlex.quote(value)}" for name, value in values.items()),
        "wanted() {",
        "    want=''",
        "    case $1 in",
        *(f"    {name}) want={shlex.quote(value)} ;;" for name, value in delivery.environment),
        "    esac",
        "}",
    ]
    # An empty pattern would be none: no variable is called so.
    needs = " | ".join(name for name, _ in delivery.environment) or "-"
    variables = VARIABLES.replace("@NEEDS@", needs)
    named = {*OVERRIDING, *(name for name, _ in delivery.environment)}
    choosing = [pattern for pattern in delivery.choosing if pattern not in named]
    variables = variables.replace("@OVERRIDING@", " | ".join(OVERRIDING))
    variables = variables.replace("@CHOOSING@", " | ".join(choosing) or "-")
    return "\n".join(lines) + _START + FILES + LIBRARY + GPUS + variables + _END


def _device(text: str) -> str:
    """As sysfs writes it; a rule file may say a plain number."""
    return f"0x{int(text, 0):04x}" if text else ""
