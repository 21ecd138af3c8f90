"""Gathering: what lines say is put down once, however often they say it, in bounded memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from rccltune.model.settings import Setting
from rccltune.model.vocabulary import Collective
from rccltune.why.records import (
    MAX_SCALES,
    MAX_WORDS,
    BoundedCounts,
    CommunicatorScale,
    JobLogs,
    Key,
    NoSettingLeft,
    PluginStart,
    SizeRecord,
    SummaryTotals,
    TunerLoading,
)

# A job of varying sizes may ask of millions; the first ones tell what goes wrong.
MAX_KEYS: Final = 65536


class LogCollector:
    """Takes what readers understood."""

    def __init__(self) -> None:
        """Begin with nothing read."""
        self.job = JobLogs()
        # Where the line stands that is read now.
        self.place = ""
        # Releases before 2.23 name no collective where they say what they chose.
        self._nameless: dict[tuple[CommunicatorScale, int], Counter[Setting | None]] = {}

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

    def nameless(self, where: CommunicatorScale, nbytes: int, ran: Setting | None) -> None:
        """A choice was made at a size, for a collective that is not named."""
        if (where, nbytes) in self._nameless or len(self._nameless) < MAX_KEYS:
            self._nameless.setdefault((where, nbytes), Counter())[ran] += 1
            self.job.tuning.add(where)

    def finish(self, nodes: Mapping[int, int]) -> JobLogs:
        """All files were read: put together what was said in parts.

        Args:
            nodes: number of nodes by number of ranks, where nothing else says it.
        """
        _drop_torn(self.job)
        self._widen(nodes)
        for (where, nbytes), counted in self._nameless.items():
            mine = {key for key in self.job.seen if key[2] == nbytes and _fits(key[0], where)}
            names = {key[1] for key in mine} or {key[1] for key in self.job.seen}
            if len(names) == 1:
                at = mine.pop()[0] if mine else where
                self.at(at, names.pop(), nbytes).ran.update(counted)
                self.job.tuning.add(at)
        return self.job

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
    into.paths |= other.paths
    into.kindred |= other.kindred
    into.called |= other.called
    into.shown = into.shown or other.shown
    if other.offered is not None:
        into.offered = other.offered | (into.offered or frozenset())


def _drop_torn(job: JobLogs) -> None:
    """Take out what another text begins with: it was cut where lines of two ranks met."""
    for name, values in job.variables.items():
        job.variables[name] = set(_whole(values))
    versions = set(_whole(job.versions))
    for text in [text for text in job.versions if text not in versions]:
        del job.versions[text]
    for loading in TunerLoading:
        names = _whole(name for kind, name in job.loading if kind is loading)
        for key in [k for k in job.loading if k[0] is loading and k[1] not in names]:
            del job.loading[key]
    for counted in job.started.values():
        texts = _whole(one.text for one in counted)
        for one in [one for one in counted if one.text and one.text not in texts]:
            del counted[one]


def _whole(texts: Iterable[str]) -> list[str]:
    texts_seen = list(texts)
    return [
        one for one in texts_seen if not any(o != one and o.startswith(one) for o in texts_seen)
    ]


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
