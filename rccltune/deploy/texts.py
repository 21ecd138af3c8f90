"""The text files of a version: a template each, filled with what is deployed.

The templates are what they become, in their own languages, so that a reader, and shellcheck, sees
scripts and not strings. Two of them read best with this in mind:

- ``env.sh`` names its own version's folder, never ``current``: all ranks of a job that is started
  while the link is switched must read the same rules. The module files have its policy.
- ``check.sh`` asks without Python and without rccltune: POSIX sh; sha256sum for the files; ldd,
  getconf and readelf are used where they are.
"""

from __future__ import annotations

import re
import shlex
from functools import cache
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from rccltune.deploy.records import Delivery, header, remark

# Name in a version, its template, and whether it is a program.
_TEXTS: Final = (
    ("env.sh", "env.sh", False),
    ("check.sh", "check.sh", True),
    ("slurm.sh", "slurm.sh", False),
    ("container.sh", "container.sh", False),
    ("container.env", "container.env", False),
    ("modulefiles/rccltune", "modulefile.tcl", False),
    ("modulefiles/rccltune.lua", "modulefile.lua", False),
)
# Where a version is seen in a container, whatever its path outside.
_MOUNT: Final = "/opt/rccltune"
# Docker takes a value as it stands and Apptainer has a shell read it: alike for these alone.
# Others go to Docker by --env. Apptainer's has them split at commas and evaluated inside; what
# is in its own environment it passes on as it stands.
_PLAIN: Final = re.compile(r"[\w./:,+=@%-]*")
_OVERRIDING: Final = ("NCCL_ALGO", "NCCL_PROTO", "RCCL_OVERRIDE_*", "RCCLTUNE_SCHEDULE")


def texts(
    delivery: Delivery, version: str, expected: tuple[str, ...]
) -> tuple[tuple[str, str, bool], ...]:
    """Each text file of a version: its name there, its content, whether it is a program.

    Args:
        delivery: what is deployed.
        version: its name.
        expected: files that MANIFEST must list.
    """
    known = _known(delivery, version) | _node(delivery) | {"expected": expected}
    return tuple(
        (name, _templates().get_template(template).render(known), run)
        for name, template, run in _TEXTS
    )


@cache
def _templates() -> Environment:
    """Every value that is not plain by its nature goes through ``sh``, ``tcl`` or ``lua``."""
    templates = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=False,  # noqa: S701 - none of it is HTML
        keep_trailing_newline=True,
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    templates.filters.update(sh=shlex.quote, tcl=_tcl, lua=_lua)
    return templates


def _known(delivery: Delivery, version: str) -> dict[str, object]:
    """What several of the texts say."""
    by_name = ("NCCL_TUNER_CONFIG_FILE", "RCCLTUNE_CONFIG_DIR")
    inside = delivery.variables(_MOUNT)
    folder = f"{delivery.directory}/versions/{version}"
    noted = f" ({remark(delivery)})" if remark(delivery) else ""
    whatis = f"Tuned settings for RCCL and NCCL collectives, version {version}{noted}"
    names = [name for name, _ in inside]
    return {
        "by_folder": delivery.by_folder,
        "directory": str(delivery.directory),
        "environment": delivery.environment,
        "folder": folder,
        "header": lambda mark: "\n".join(header(delivery, version, mark)),
        "help": (
            f"{whatis}.\nSets {', '.join(names)}; a value of the user's own stays. "
            f"What they are: {folder}/MANIFEST"
        ),
        "inside": inside,
        "mount": _MOUNT,
        "names": names,
        "odd": [pair for pair in inside if not _PLAIN.fullmatch(pair[1])],
        "other_variable": by_name[not delivery.by_folder],
        "placements": delivery.placements,
        "plain": [pair for pair in inside if _PLAIN.fullmatch(pair[1])],
        "plugin": delivery.library.name,
        "remark": remark(delivery),
        "rules_name": delivery.rules[0].name,
        "rules_path": delivery.rules_path,
        "rules_variable": delivery.rules_variable,
        "said": _said(delivery),
        "simulated": delivery.simulated,
        "version": version,
        "whatis": whatis,
    }


def _node(delivery: Delivery) -> dict[str, object]:
    """What check.sh looks for on a node."""
    requires = delivery.requires
    compute = requires.get("compute", "").upper()
    memory = requires.get("memory", "").upper()
    if compute in ("", "NONE"):
        compute = memory = ""
    device = requires.get("device", "")
    named = {*_OVERRIDING, *(name for name, _ in delivery.environment)}
    return {
        "abi_versions": delivery.abi_versions,
        "arch": requires.get("arch", ""),
        "choosing": [pattern for pattern in delivery.choosing if pattern not in named],
        "compute": compute,
        # As sysfs writes it; a rule file may say a plain number.
        "device": f"0x{int(device, 0):04x}" if device else "",
        "glibc": delivery.glibc,
        "memory": memory,
        "mode": f"{compute}-{memory}".lower().strip("-"),
        "overriding": _OVERRIDING,
    }


def _said(delivery: Delivery) -> str:
    """What loading a module says: nothing where rules hold for every job and are real."""
    said = [f"rccltune: {remark(delivery)}"] if delivery.simulated else []
    if delivery.placements:
        name = delivery.placements[0]
        said.append(f"rccltune: set RCCLTUNE_PLACEMENT={name} where a job's ranks lie so")
    return "; ".join(said)


def _tcl(text: str) -> str:
    """A text as one Tcl word."""
    for letter in ("\\", '"', "$", "[", "]", "{", "}"):
        text = text.replace(letter, f"\\{letter}")
    return f'"{text}"'


def _lua(text: str) -> str:
    """A text as a Lua string."""
    for letter, written in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n")):
        text = text.replace(letter, written)
    return f'"{text}"'
