"""What is deployed, before and after it is files, and the sentences that several files share."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

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
