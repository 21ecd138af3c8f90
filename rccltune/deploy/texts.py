"""What is deployed, and the text files of a version: a template each, filled with it.

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
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from rccltune.model import RuleCount


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """One file of a version.

    Attributes:
        name: relative to the version's folder.
        run: whether it is a program; libraries are too, for ldd warns about others.
    """

    name: str
    content: bytes
    run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """One rule file.

    Attributes:
        requires: (key, value) of ``#@ requires``.
        needs: (name, value) of ``#@ needs``.
        verified: what its comment ``# verified:`` says; None where it has none.
        n_unproven: rules whose gain nothing proves.
        misread: lines that a host takes for something else where it reads the file by itself.
    """

    name: str
    content: bytes
    count: RuleCount
    requires: Mapping[str, str] = field(default_factory=dict)
    needs: tuple[tuple[str, str], ...] = ()
    verified: str | None = None
    n_unproven: int = 0
    misread: tuple[str, ...] = ()

    @property
    def placement(self) -> str | None:
        """The only placement of ranks that it is for."""
        return self.requires.get("placement")


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """Everything that a version is made of.

    Attributes:
        directory: absolute; as nodes see it, so links in it are left as they are.
        library: the plugin.
        abi_versions: that the plugin exports.
        glibc: the newest symbol version that the plugin asks for, (2, 17) and the like.
        rules: at least one file.
        environment: (name, value) of everything that the rules need, each name once.
        choosing: patterns (``NCCL_ALGO``, ``RCCL_OVERRIDE_*``) of variables that choose, which
            were cleared when the rules were measured.
        provenance: lines that say where all of it comes from.
        simulated: whether the rules come from a stand-in benchmark.
    """

    directory: Path
    library: File
    abi_versions: tuple[int, ...]
    glibc: tuple[int, int]
    rules: tuple[Rules, ...]
    environment: tuple[tuple[str, str], ...]
    choosing: tuple[str, ...]
    provenance: tuple[str, ...]
    simulated: bool = False

    @property
    def by_folder(self) -> bool:
        """Whether the plugin finds the file for a job itself, in the folder."""
        return len(self.rules) > 1

    @property
    def rules_variable(self) -> str:
        """What names the rules to the plugin."""
        return "RCCLTUNE_CONFIG_DIR" if self.by_folder else "NCCL_TUNER_CONFIG_FILE"

    def rules_path(self, folder: str) -> str:
        """The value of :attr:`rules_variable` in a folder."""
        return folder if self.by_folder else f"{folder}/{self.rules[0].name}"

    @property
    def placements(self) -> tuple[str, ...]:
        """Which placement must be declared before any rule holds; empty where none must."""
        named = tuple(one.placement for one in self.rules)
        return tuple(name for name in named if name is not None) if all(named) else ()

    @property
    def requires(self) -> Mapping[str, str]:
        """What every rule file requires of a machine."""
        first = self.rules[0].requires
        return {
            key: value
            for key, value in first.items()
            if all(one.requires.get(key) == value for one in self.rules)
        }

    def variables(self, folder: str) -> tuple[tuple[str, str], ...]:
        """Everything that a job needs to have set, with the version in ``folder``."""
        return (
            ("NCCL_TUNER_PLUGIN", f"{folder}/{self.library.name}"),
            (self.rules_variable, self.rules_path(folder)),
            *self.environment,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A finished version: the same delivery gives the same name and the same bytes."""

    name: str
    files: tuple[File, ...]


_WIDTH: Final = 98
SIMULATED: Final = (
    "SIMULATED: these rules come from a stand-in benchmark, not from hardware; not for production"
)
NOT_VERIFIED: Final = "NOT VERIFIED on this machine (rccltune verify)"


def remark(delivery: Delivery) -> str:
    """What everybody must know about the rules; empty where nothing speaks against them."""
    said = [SIMULATED] if delivery.simulated else []
    if any(one.verified is None for one in delivery.rules):
        said.append(NOT_VERIFIED)
    said += [unproven_words(one) for one in delivery.rules if one.n_unproven]
    return "; ".join(said)


def header(delivery: Delivery, version: str, mark: str = "#") -> list[str]:
    """The first lines of every text: what it is of, and what speaks against it."""
    lines = [f"{mark} rccltune deployment, version {version}"]
    if delivery.simulated:
        lines.append(f"{mark} {SIMULATED}")
    # A backslash at its end makes Tcl take the next line into a comment.
    lines += [f"{mark} {text}".rstrip("\\") for text in textwrap.wrap(verdict(delivery), _WIDTH)]
    return lines


def verdict(delivery: Delivery) -> str:
    """Whether the rules were verified, in a sentence."""
    said = [
        f"{one.name}: {f'verified: {one.verified}' if one.verified else NOT_VERIFIED}"
        for one in delivery.rules
    ]
    return "; ".join([*said, *(unproven_words(one) for one in delivery.rules if one.n_unproven)])


def unproven_words(rules: Rules) -> str:
    """How many rules of a file are unproven."""
    n = rules.n_unproven
    return f"{n} rule{'' if n == 1 else 's'} of {rules.name} UNPROVEN: nothing proves the gain"


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
