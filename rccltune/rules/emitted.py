"""What emit-config is asked for, and what it wrote."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rccltune import model
from rccltune.fit import FitDone
from rccltune.model import Environment, LeftOut, Notice, RuleCount, Scale, Zone
from rccltune.rules import documents
from rccltune.rules.base import Vendor

if TYPE_CHECKING:
    from rccltune.zones import ChoiceOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class EmitWish:
    """What emit-config was asked for.

    Attributes:
        options: for each session, since a baseline is found in its own curves.
        home: the folder of the default name, None for the first session.
        output: None is the default name; ``-`` writes no file.
        formats: ``rccl`` for the rule file, ``ncclx`` for NCCLX's, ``env`` for exports.
        scales: for which rules are predicted where they were not measured.
        base: the vendor's table that stands behind the rules; ``auto`` looks for it.
        span: rules of NCCLX may reach over scales between measured ones that agree.
        allowed: variables beyond the harmless ones that rules may need.
    """

    folders: tuple[Path, ...]
    options: Callable[[FitDone], ChoiceOptions]
    home: Path | None = None
    output: Path | None = None
    overwrite: bool = False
    formats: tuple[str, ...] = ("rccl",)
    scales: tuple[Scale, ...] = ()
    base: Path | None = None
    span: bool = False
    allowed: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Translated:
    """The same choices for another consumer.

    Attributes:
        variable: of the environment, which names the file to the consumer.
        said: what was gained and lost, in sentences.
        path: None where the text goes to stdout.
    """

    form: str
    variable: str
    text: str
    n_rules: int
    said: tuple[str, ...]
    path: Path | None = None

    def as_plain(self) -> dict[str, Any]:
        """For --json."""
        path = str(self.path) if self.path else None
        return {"format": self.form, "path": path, "rules": self.n_rules, "said": list(self.said)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Emitted:
    """What was written.

    Attributes:
        path: None where the text goes to stdout.
        text: of the rule file; of the exports where no rule file was asked for.
        environment_path: of the exports that use it, None where all goes to stdout.
        environment_text: of the exports.
        environments: variants that were measured beside the untouched site, judged.
        needs: what the rules need to be exported.
        placement: the only one that the rules are for, None where they are for any.
        beside: files for one placement of ranks each, where there are more files than one.
        base: the vendor's table behind the rules, None where none was asked for.
        translated: files in the dialects of other consumers.
    """

    path: Path | None
    text: str
    zones: tuple[Zone, ...]
    environment_path: Path | None = None
    environment_text: str = ""
    environments: tuple[Environment, ...] = ()
    needs: tuple[tuple[str, str], ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    notices: tuple[Notice, ...] = ()
    placement: str | None = None
    beside: tuple[Emitted, ...] = ()
    base: Vendor | None = None
    translated: tuple[Translated, ...] = ()

    @property
    def count(self) -> RuleCount:
        """Rules in the file for RCCL and the plugin, whether it is written or not."""
        return documents.counted(
            [rule for s in documents.sections_of(self.zones) for rule in s.rules]
        )

    def as_plain(self) -> dict[str, Any]:
        """For --json."""
        return {
            "path": str(self.path) if self.path else None,
            "environment_path": str(self.environment_path) if self.environment_path else None,
            "environments": model.to_plain(self.environments),
            "needs": dict(self.needs),
            **self.count.as_plain(),
            "zones": model.to_plain(self.zones),
            "left_out": model.to_plain(self.left_out),
            "notices": model.to_plain(self.notices),
            "text": self.text,
            "placement": self.placement,
            "beside": [one.as_plain() for one in self.beside],
            "base": self.base.as_plain() if self.base else None,
            "translated": [one.as_plain() for one in self.translated],
        }
