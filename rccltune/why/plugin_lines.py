"""The plugin's own lines.

Every line that ``native_plugin/src/watch.c``, ``plugin.c``, ``record.c`` and ``settings.c`` write
is understood; docs/plugin.md has their meaning.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from typing import Final

from rccltune.logs.library import collective_named
from rccltune.logs.messages import plugin_reasons
from rccltune.model.settings import Setting
from rccltune.why.collector import LogCollector, read_setting
from rccltune.why.records import (
    MAX_WORDS,
    NOWHERE,
    Call,
    CommunicatorScale,
    PluginStart,
    TunerAnswer,
)

MARK: Final = "rccltune: "
_START: Final = re.compile(r"rccltune: comm=(\w+) nodes=(\d+) ranks=(\d+) abi=v(\d+) (.+)")
_RULES: Final = re.compile(
    r"rules=(\d+) of=(\d+) skipped-rows=(\d+) file=(.*) sha256=([0-9a-f]{64})(.*)"
)
_NEEDS: Final = re.compile(r" needs=(\S+) \(not set")
_RELEASE: Final = r"[RN]CCL \d+\.\d+\.\d+"
_LIBRARY: Final = re.compile(rf" library=({_RELEASE}) \(its rules are for ({_RELEASE})\)")
_UNCHECKED: Final = re.compile(r" unchecked=(\w+)(?:,(\w+))? \(not known here\)")
_WARNED: Final = re.compile(
    rf"rccltune: warning: R16 \S+: .+ has rules for ({_RELEASE}), and this job runs ({_RELEASE}): "
)
_DECISION: Final = re.compile(
    r"rccltune: comm=(\w+) decision collective=(\w+) nbytes=(\d{1,20}) answer=(\S+) line=(\d+) "
    r"host=([\w/-]+)(?: offered=(\S+))?(?: reason=(R\d\d) [\w-]+)?"
)
_SUMMARY: Final = re.compile(
    r"rccltune: comm=(\w+) summary calls=(\d{1,20}) hits=(\d{1,20}) misses=(\d{1,20}) "
    r"not-selectable=(\d{1,20}) fallbacks=(\d{1,20})\b"
)
_RULE: Final = re.compile(
    r"rccltune: comm=(\w+) rule line=(\d{1,9}) setting=(\S+) channels=(-?\d+) hits=(\d{1,20})\b"
)
_ERROR: Final = re.compile(r"rccltune: error: communicator of (\d+) ranks on (\d+) nodes: (.+)")
# As Open MPI ([1,0]<stdout>:), MPICH ([0] ) and Slurm ( 0: ) name ranks.
_RANK: Final = re.compile(r"(?:(?<=\d,)|(?<![\w.:-]))\d+(?=\] ?(?:<|$)|: ?$)")
_UNWRITTEN: Final = re.compile(
    r"rccltune: error: comm=\w+: (\S.*?)\s*$"  # of a record or a log
)
# A refused file's mistakes stand on lines of their own below the error.
FINDING: Final = re.compile(r"^\s*(line \d+: .+ \[[a-z0-9-]+\])\s*$")


class PluginLines:
    """Takes the plugin's lines of any number of processes."""

    def __init__(self, evidence: LogCollector) -> None:
        """Begin with nothing read."""
        self._evidence = evidence
        self._scales: dict[tuple[str, str], set[CommunicatorScale]] = {}
        self._rank = ""

    def line(self, source: str, text: str, label: str = "") -> None:
        """Take one line.

        Args:
            source: who wrote it, as far as that is known: file and rank's label.
            text: with or without anything around it.
            label: what a launcher put before it.
        """
        rank = _RANK.search(label)
        self._rank = f"rank {rank[0]}" if rank else source
        # Torn writes may leave several on a line.
        for piece in text.split(MARK)[1:]:
            self._one(source, MARK + piece.strip())

    def finding(self, text: str) -> None:
        """Take a line that may be a refused file's mistake."""
        match = FINDING.match(text)
        if match is not None:
            self._evidence.job.findings.see(match[1])

    def _one(self, source: str, text: str) -> None:
        if (match := _DECISION.match(text)) is not None:
            self._decision(source, match)
        elif (match := _START.match(text)) is not None:
            self._start(source, match)
        elif (match := _SUMMARY.match(text)) is not None:
            where = self._where(source, match[1])
            numbers = [int(digits) for digits in match.groups()[1:]]
            self._evidence.total(
                where, (numbers[0], numbers[1], numbers[2], numbers[3], numbers[4])
            )
            if numbers[0] == 0:
                # Not one question: whatever was called went another way.
                self._evidence.job.recorded.add(where)
        elif (match := _RULE.match(text)) is not None:
            self._rule(source, match)
        elif (match := _ERROR.match(text)) is not None:
            where = CommunicatorScale(int(match[2][:9]), int(match[1][:9]))
            self._evidence.start(where, PluginStart("error", match[3].strip()))
            self._evidence.show("rules", text)
        elif (match := _UNWRITTEN.match(text)) is not None:
            self._evidence.job.unwritten.see(match[1])
        elif (match := _WARNED.match(text)) is not None:
            self._evidence.job.other_library.see((match[1], match[2]))

    def _start(self, source: str, match: re.Match[str]) -> None:
        where = CommunicatorScale(int(match[2][:9]), int(match[3][:9]))
        if len(self._scales) < MAX_WORDS * MAX_WORDS:
            self._scales.setdefault(_named(source, match[1]), set()).add(where)
        rest = match[5]
        if match[4] == "2":
            self._evidence.job.old_hosts.add(where)
        if rest.startswith("inert: "):
            started = PluginStart("inert", rest.removeprefix("inert: "))
        elif (rules := _RULES.match(rest)) is not None:
            needs = _NEEDS.search(rules[6])
            if (library := _LIBRARY.search(rules[6])) is not None:
                self._evidence.job.other_library.see((library[2], library[1]))
            if (unchecked := _UNCHECKED.search(rules[6])) is not None:
                for what in filter(None, unchecked.groups()):
                    self._evidence.job.unchecked.see(what)
            started = PluginStart(
                "rules",
                f"{rules[1]} of {rules[2]} rules, {rules[3]} rows skipped",
                path=rules[4],
                sha256=rules[5],
                needs=needs[1] if needs else "",
            )
        else:
            return
        self._evidence.start(where, started)
        self._evidence.show("rules", match[0])
        self._evidence.show(f"started {started.how} {started.sha256}", match[0])

    def _decision(self, source: str, match: re.Match[str]) -> None:
        collective = collective_named(match[2])
        if collective is None:
            return
        where = self._where(source, match[1])
        record = self._evidence.at(where, collective, int(match[3]))
        self._evidence.show("decision", match[0])
        record.said[TunerAnswer(answer_of(match[4]), int(match[5][:9]))] += 1
        if match[8] in plugin_reasons():
            record.reasons[match[8]] += 1
        host = None if match[6] == "-" else read_setting(match[6])
        if host is not None:
            record.host.add(host)
        chosen = answer_of(match[4]) or host
        if chosen is not None and not match[1].startswith("local"):
            call = Call(match[1], where, collective, int(match[3]))
            self._evidence.chose(call, self._rank, chosen, match[0])
        if match[7]:
            offered = frozenset() if match[7] == "-" else _cells(match[7])
            record.offered = offered | (record.offered or frozenset())
        self._evidence.job.recorded.add(where)

    def _rule(self, source: str, match: re.Match[str]) -> None:
        where = self._where(source, match[1])
        channels = f"/{match[4]}" if int(match[4]) >= 1 else ""
        said = TunerAnswer(answer_of(f"{match[3]}{channels}"), int(match[2]))
        self._evidence.job.hit_rules.setdefault(where, Counter())[said] += int(match[5])

    def _where(self, source: str, comm: str) -> CommunicatorScale:
        scales = self._scales.get(_named(source, comm), set())
        return next(iter(scales)) if len(scales) == 1 else NOWHERE


def _named(source: str, comm: str) -> tuple[str, str]:
    """Older hosts give communicators no id: such a name is only its writer's own."""
    return (source if comm.startswith("local") else "", comm)


@lru_cache(maxsize=1024)
def _cells(text: str) -> frozenset[Setting]:
    """Cells with a name; a library may have more."""
    settings = (read_setting(cell) for cell in text.split(","))
    return frozenset(setting for setting in settings if setting is not None)


def answer_of(text: str) -> Setting | None:
    """Setting behind ``answer=``; None for nothing."""
    return None if text == "none" else read_setting(text)
