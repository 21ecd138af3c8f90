"""The vendor's own table as base of a rule file: found, read, put behind ours, and asked about."""

from __future__ import annotations

import hashlib
import os
import tempfile
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from rccltune import plugin
from rccltune.machine import files
from rccltune.machine.vendor_table import vendor_table
from rccltune.model import grammar
from rccltune.model.choice import Rule
from rccltune.model.errors import InputFileError, MachineError, VerificationError
from rccltune.model.measurement import Fingerprint
from rccltune.model.reporter import Reporter
from rccltune.model.settings import Scale
from rccltune.model.vocabulary import TUNABLE, Algorithm, Collective, Protocol, join_lines
from rccltune.releases import READING_RULES
from rccltune.rules import decision, line_format, reader, refusals, vendor_rules, writer
from rccltune.rules.decision import Decision
from rccltune.rules.documents import RuleDocument, VendorRules
from rccltune.rules.plugin_library import PluginLibrary
from rccltune.rules.reader import RuleFile

AUTO: Final = Path("auto")
_Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorTable:
    """A vendor's table, read for one machine.

    Attributes:
        name: of its file, or of what is compiled into the library.
        place: where it was found.
        sha256: of its text.
        rules: that may apply on this machine, in the file's order.
        left_out: (line, why) of the others.
    """

    name: str
    place: str
    sha256: str
    file: RuleFile
    rules: tuple[Rule, ...]
    left_out: tuple[tuple[int, str], ...]

    def as_plain(self) -> dict[str, Any]:
        """Plain form for --json."""
        return {"path": self.place, "sha256": self.sha256, "rows": len(self.rules)}


def read_vendor_table(wanted: Path, fingerprint: Fingerprint, *, reporter: Reporter) -> VendorTable:
    """Read the table that was named, or the one that this machine's RCCL brings.

    Args:
        wanted: its file; ``auto`` looks where RCCL looks.
        fingerprint: of the machine that the rules are for.
        reporter: told which file was taken, and what of it is not understood.

    Raises:
        MachineError: there is none; the message says where it was looked for.
        InputFileError: it cannot be read, is refused, is one of ours, or is for another machine.
    """
    place, content = _found(fingerprint.arch) if wanted == AUTO else _named(wanted)
    file, left_out = _read(content, place)
    if wanted == AUTO and grammar.text_of(content).lstrip(f"{grammar.BLANKS}\n").startswith("#@"):
        raise InputFileError(
            "what stands where the vendor's table should be was written by rccltune",
            where=place,
            hint="name the vendor's own file with --base FILE.",
        )
    others = {r.line or 0: _why_not(r, fingerprint, place) for r in file.rules}
    left_out += tuple((line, why) for line, why in others.items() if why is not None)
    for lines, why in vendor_rules.by_reason(left_out):
        reporter.say(f"{place}:{lines}: left out: {why}")
    vendor_table_read = VendorTable(
        name=place.rpartition("/")[2],
        place=place,
        sha256=hashlib.sha256(content).hexdigest(),
        file=file,
        rules=tuple(rule for rule in file.rules if others[rule.line or 0] is None),
        left_out=left_out,
    )
    reporter.say(f"{len(vendor_table_read.rules)} rows of {place} stand behind the rules")
    return vendor_table_read


def _named(path: Path) -> tuple[str, bytes]:
    hint = "name the vendor's rule file, or let --base auto look for it."
    return str(path), refusals.content_of(path, "the base", hint)


def _found(arch: str | None) -> tuple[str, bytes]:
    tables = vendor_table(files.SystemRoot(), os.environ, arch)
    if tables.place is not None:
        return tables.place, tables.content
    which = arch or "this architecture"
    none = f"this machine's RCCL brings no table of rules for {which}; looked for:"
    raise MachineError(
        join_lines([none, *(f"  {place}" for place in tables.looked)]),
        hint=f"name it with --base FILE; releases before {READING_RULES} and architectures that "
        "the vendor did not tune have none, and then nothing is lost.",
    )


def _read(content: bytes, place: str) -> tuple[RuleFile, vendor_rules.LeftOut]:
    """Read what every reader takes alike of a vendor's table, and what is left out of it.

    Raises:
        InputFileError: it has mistakes that RCCL does not skip, or nothing is left of it.
    """
    file, left_out = vendor_rules.read_base(content)
    if file.errors:
        raise refusals.refusal(
            "the base has mistakes:",
            (finding.at(place) for finding in file.errors),
            place,
            "correct a copy of it; sizes are plain bytes.",
        )
    if left_out and not file.rules:
        raise refusals.refusal(
            "no row of the base means the same to every reader:",
            (f"{place}:{line}: {why}" for line, why in left_out),
            place,
            "correct a copy of it; names are lower case, and a rule names both an algorithm and a "
            "protocol.",
        )
    return file, left_out


def _why_not(rule: Rule, fingerprint: Fingerprint, place: str) -> str | None:
    """Why a row is not for this machine, None where it is."""
    if rule.only_mode is None:
        return None
    if fingerprint.mode is None:
        raise InputFileError(
            f"row {rule.line} of the base is for {rule.only_mode} only, and this session does not "
            "say which mode was measured",
            where=place,
            hint="import with --mode, or take such rows out of a copy of the base.",
        )
    if rule.only_mode.compute == fingerprint.mode.compute:
        return None
    return f"it is for {rule.only_mode}, and this machine is {fingerprint.mode}"


def with_vendor_rules(document: RuleDocument, base: VendorTable) -> RuleDocument:
    """The document with the vendor's rows behind it, checked as text and by the plugin.

    Raises:
        InputFileError: the base requires another machine.
        VerificationError: what was made is not ours before the vendor's; a bug of ours.
    """
    rules = tuple(replace(rule, only_mode=None) for rule in base.rules)
    made = vendor_rules.with_base(
        replace(
            document,
            requires=_agreed(document.requires, base),
            needs=tuple(dict.fromkeys((*document.needs, *base.file.needs))),
        ),
        VendorRules(name=base.name, sha256=base.sha256, rules=rules, left_out=base.left_out),
    )
    ours = vendor_rules.rules_of(document)
    merged = reader.read_rules(writer.render(made).encode()).rules
    vendor_rules.check_with_base(ours, rules, merged)
    _ask_plugin(ours, rules, merged)
    return made


def _agreed(ours: _Pairs, base: VendorTable) -> _Pairs:
    mine = dict(ours)
    for key, value in base.file.requires:
        wanted, own = (
            line_format.requirement(key, v) for v in (value, mine.setdefault(key, value))
        )
        if wanted != own:
            raise InputFileError(
                f"the base is for {key}={value}, and the rules are for {key}={mine[key]}",
                where=base.place,
                hint="name the table of this machine.",
            )
    return tuple(mine.items())


def _ask_plugin(ours: Sequence[Rule], base: Sequence[Rule], merged: Sequence[Rule]) -> None:
    """Let the real plugin answer for the three, at every version of its interface."""
    host = PluginLibrary(plugin.library())
    hints = {b for r in (*ours, *base, *merged) for b in (r.min_nbytes, r.max_nbytes)}
    with tempfile.TemporaryDirectory(prefix="rccltune-") as folder:
        paths = []
        for number, rules in enumerate((ours, base, merged)):
            paths.append(Path(folder) / f"{number}.csv")
            paths[-1].write_text(writer.render_rules("to be asked about", rules), encoding="utf-8")
        named = tuple(c for c in TUNABLE if any(rule.collective is c for rule in merged))
        for abi in host.abi_versions:
            for scale in _named_scales(merged):
                asked = _PluginQuestion(
                    host=host, abi=abi, scale=scale, collectives=named, hints=hints
                )
                own, theirs, both = (_answers(asked, path) for path in paths)
                _compare(own, theirs, both, f"{scale}, tuner ABI {abi}")


def _named_scales(rules: Sequence[Rule]) -> list[Scale]:
    """One node of eight ranks stands for any, as in explain."""
    found = ((r.n_nodes or 1, r.n_ranks or 8 * (r.n_nodes or 1)) for r in rules)
    pairs = sorted({(n, r) for n, r in found if r >= n})
    return [Scale(n_nodes=n, n_ranks=r) for n, r in pairs]


@dataclass(frozen=True, slots=True, kw_only=True)
class _PluginQuestion:
    """Questions that the plugin is asked about each file."""

    host: PluginLibrary
    abi: int
    scale: Scale
    collectives: tuple[Collective, ...]
    hints: set[int]


def _answers(asked: _PluginQuestion, path: Path) -> dict[Collective, tuple[Decision, ...]]:
    table = decision.cost_table((a, p) for a in Algorithm for p in Protocol)
    with asked.host.communicator(
        abi=asked.abi,
        n_nodes=asked.scale.n_nodes,
        n_ranks=asked.scale.n_ranks,
        env={"NCCL_TUNER_CONFIG_FILE": str(path)},
    ) as communicator:
        return {
            collective: decision.decisions(communicator, collective, table, asked.hints)
            for collective in asked.collectives
        }


def _compare(
    own: dict[Collective, tuple[Decision, ...]],
    theirs: dict[Collective, tuple[Decision, ...]],
    both: dict[Collective, tuple[Decision, ...]],
    where: str,
) -> None:
    for collective in both:
        sets = [found[collective] for found in (own, theirs, both)]
        for nbytes in sorted({one.min_nbytes for found in sets for one in found}):
            mine, vendors, merged = (_at(found, nbytes) for found in sets)
            wanted = vendors if mine.setting is None else mine
            if merged.setting != wanted.setting:
                raise VerificationError(
                    f"the plugin answers {merged.setting} for {collective.value} of {nbytes} "
                    f"bytes, {where}, where it should be {wanted.setting}",
                    hint="please report this with session and base file: it is a bug.",
                )


def _at(found: Sequence[Decision], nbytes: int) -> Decision:
    # They cover all sizes in order.
    return found[bisect_right(found, nbytes, key=lambda one: one.min_nbytes) - 1]
