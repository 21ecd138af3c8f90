"""Gathering: what lines say is put down once, however often they say it, in bounded memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from rccltune.model.settings import Setting
from rccltune.model.vocabulary import Collective
from rccltune.why.records import (
    MAX_SCALES,
    MAX_WORDS,
    NOWHERE,
    BoundedCounts,
    Call,
    CommunicatorScale,
    JobLogs,
    Key,
    NoSettingLeft,
    PluginStart,
    SizeRecord,
    SummaryTotals,
)

# Collective, bytes, and whether these are a rank's share of them.
_Choice = tuple[Collective | None, int, bool]
# A job of varying sizes may ask of millions; the first ones tell what goes wrong.
MAX_KEYS: Final = 65536


class LogCollector:
    """Takes what readers understood."""

    def __init__(self) -> None:
        """Begin with nothing read."""
        self.job = JobLogs()
        # Where the line stands that is read now.
        self.place = ""
        # Choices whose collective or communicator nothing names yet, and releases before 2.23 never
        # name: the collective, its bytes, whether these are a rank's share.
        self._unplaced: dict[tuple[CommunicatorScale, _Choice], SizeRecord] = {}

    def show(self, fact: str, text: str) -> None:
        """A line shows a fact; the first one is kept."""
        if fact not in self.job.shown and len(self.job.shown) < MAX_WORDS:
            self.job.shown[fact] = self.told(text)

    def told(self, text: str) -> str:
        """A line with its file and number."""
        return f"{self.place}: {text.strip()[:200]}"

    def at(self, where: CommunicatorScale, collective: Collective, nbytes: int) -> SizeRecord:
        """The place for what is said of one size; a place that is thrown away when all are full."""
        key: Key = (where, collective, nbytes)
        record = self.job.seen.get(key)
        if record is None:
            record = SizeRecord()
            if len(self.job.seen) < MAX_KEYS:
                self.job.seen[key] = record
            else:
                self.job.dropped += 1
        return record

    def start(self, where: CommunicatorScale, started: PluginStart) -> None:
        """The plugin said how it began."""
        if where in self.job.started or len(self.job.started) < MAX_SCALES:
            self.job.started.setdefault(where, BoundedCounts()).see(started)

    def total(self, where: CommunicatorScale, numbers: tuple[int, int, int, int, int]) -> None:
        """The plugin summed up a communicator."""
        if where not in self.job.totals and len(self.job.totals) >= MAX_SCALES:
            return
        sums = self.job.totals.setdefault(where, SummaryTotals())
        sums.calls += numbers[0]
        sums.hits += numbers[1]
        sums.misses += numbers[2]
        sums.not_selectable += numbers[3]
        sums.fallbacks += numbers[4]

    def variable(self, name: str, value: str) -> None:
        """A variable that a library read."""
        if name in self.job.variables or len(self.job.variables) < MAX_WORDS:
            values = self.job.variables.setdefault(name, set())
            if len(values) < MAX_WORDS:
                values.add(value)

    def stuck(self, where: CommunicatorScale, stuck: NoSettingLeft) -> None:
        """A library found nothing to run a call with."""
        if where in self.job.stuck or len(self.job.stuck) < MAX_SCALES:
            self.job.stuck.setdefault(where, BoundedCounts()).see(stuck)

    def ran(
        self,
        where: CommunicatorScale,
        choice: _Choice,
        ran: Setting | None,
        n_channels: int | None,
        text: str,
    ) -> None:
        """A library chose a setting: None where it has no name today."""
        collective, nbytes, is_share = choice
        total = total_of(collective, nbytes, where.n_ranks) if is_share and collective else nbytes
        self.job.tuning.add(where)
        self.show("choice", text)
        if where is not NOWHERE and collective is not None and total is not None:
            record = self.at(where, collective, total)
        elif (where, choice) in self._unplaced or len(self._unplaced) < MAX_KEYS:
            record = self._unplaced.setdefault((where, choice), SizeRecord())
        else:
            self.job.dropped += 1
            return
        record.ran[ran] += 1
        record.shown = record.shown or self.told(text)
        if n_channels is not None:
            record.n_channels.add(n_channels)

    def chose(self, call: Call, rank: str, setting: Setting | None, text: str) -> None:
        """A rank of a known communicator took a setting for a call."""
        choices = self.job.choices
        if call in choices or len(choices) < MAX_KEYS:
            mine = choices.setdefault(call, {})
            if rank in mine or len(mine) < MAX_WORDS:
                told = mine.setdefault(rank, {})
                if setting not in told and len(told) < MAX_WORDS:
                    told[setting] = self.told(text)

    def finish(self, nodes: Mapping[int, int]) -> JobLogs:
        """All files were read: put together what was said in parts.

        Args:
            nodes: number of nodes by number of ranks, where nothing else says it.
        """
        self._widen(nodes)
        for (where, choice), record in self._unplaced.items():
            self._place(where, choice, record)
        return self.job

    def _place(self, where: CommunicatorScale, choice: _Choice, record: SizeRecord) -> None:
        """Put a choice where it must be from, if the whole job has but one such place."""
        collective, nbytes, is_share = choice
        if collective is None:
            mine = {key for key in self.job.seen if key[2] == nbytes and _fits(key[0], where)}
            names = {key[1] for key in mine} or {key[1] for key in self.job.seen}
            collective = names.pop() if len(names) == 1 else None
            where = mine.pop()[0] if mine and collective else where
        if where is NOWHERE or where.n_ranks is None:
            scales = {one for one in self.job.scales if (one.n_ranks or 0) > 1}
            whole = {one for one in scales if one.n_nodes is not None} or scales
            where = whole.pop() if len(whole) == 1 else where
        self.job.tuning.add(where)
        if collective is None:
            _merge(self.job.nameless.setdefault((where, nbytes), SizeRecord()), record)
            return
        total = total_of(collective, nbytes, where.n_ranks) if is_share else nbytes
        # Without the number of ranks it stays what it is: a rank's own bytes.
        _merge(self.at(where, collective, nbytes if total is None else total), record)

    def _widen(self, nodes: Mapping[int, int]) -> None:
        """Scales of which a part is not known become those that are, where only one fits."""
        job = self.job
        scales = {*job.started, *job.scales, *job.totals, *job.stuck, *(key[0] for key in job.seen)}
        whole = {
            where for where in scales if where.n_nodes is not None and (where.n_ranks or 0) > 1
        }
        for where in sorted(scales - whole, key=str):
            fitting = {other for other in whole if _fits(other, where)}
            if where.n_ranks is None and len(fitting) != 1:
                continue
            if len(fitting) == 1:
                self._move(where, fitting.pop())
            elif not fitting and (where.n_ranks or 0) in nodes:
                self._move(where, CommunicatorScale(nodes[where.n_ranks or 0], where.n_ranks))

    def _move(self, old: CommunicatorScale, new: CommunicatorScale) -> None:
        job = self.job
        for key in [key for key in job.seen if key[0] == old]:
            _merge(self.at(new, key[1], key[2]), job.seen.pop(key))
        job.scales[new] += job.scales.pop(old, 0)
        if old in job.started:
            job.started.setdefault(new, BoundedCounts()).update(job.started.pop(old))
        if old in job.hit_rules:
            job.hit_rules.setdefault(new, Counter()).update(job.hit_rules.pop(old))
        if old in job.stuck:
            job.stuck.setdefault(new, BoundedCounts()).update(job.stuck.pop(old))
        if old in job.totals:
            sums = job.totals.pop(old)
            numbers = (sums.calls, sums.hits, sums.misses, sums.not_selectable, sums.fallbacks)
            self.total(new, numbers)
        for marks in (job.recorded, job.tuning, job.old_hosts):
            if old in marks:
                marks.discard(old)
                marks.add(new)


def _fits(whole: CommunicatorScale, part: CommunicatorScale) -> bool:
    """Whether a scale may be the other one, of which not all is known."""
    return part.n_ranks in (None, whole.n_ranks) and part.n_nodes in (None, whole.n_nodes)


def _merge(into: SizeRecord, other: SizeRecord) -> None:
    into.said.update(other.said)
    into.reasons.update(other.reasons)
    into.ran.update(other.ran)
    into.host |= other.host
    into.n_channels |= other.n_channels
    into.paths |= other.paths
    into.kindred |= other.kindred
    into.called |= other.called
    into.shown = into.shown or other.shown
    if other.offered is not None:
        into.offered = other.offered | (into.offered or frozenset())


def total_of(collective: Collective, nbytes: int, n_ranks: int | None) -> int | None:
    """A rank's own buffer as a tuner sees it; None where that needs what is not known."""
    if not collective.is_shared:
        return nbytes
    return None if n_ranks is None else nbytes * n_ranks


def read_setting(text: str) -> Setting | None:
    """``tree/ll128/16`` of the plugin's files; None for a name that is not known today."""
    parts = text.split("/")
    plain = "/".join("-" if part == "-1" else part for part in parts)
    try:
        return Setting.parse(plain)
    except ValueError:
        return None
