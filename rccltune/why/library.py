"""The library's own log: what it loads, reads and chooses, for which processes, by which model."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from rccltune.logs.library import collective_named, model_rows, setting_named, without_bandwidth
from rccltune.model.settings import Setting
from rccltune.model.vocabulary import DTYPE_BYTES, REDOPS, Collective
from rccltune.why.collector import MAX_KEYS, LogCollector, total_of
from rccltune.why.library_messages import (
    ADDED,
    APPLIED,
    CALL,
    CHOICE,
    DTYPES,
    ENV,
    FILE,
    INIT,
    LIMIT,
    LOADED,
    LOADING,
    LOST,
    MODEL,
    NODES,
    OLD_ENV,
    SHUT_OUT,
    SIMPLE,
    SKIPPED,
    STUCK,
    SYMMETRIC_CALL,
    VERSION,
    LogProcess,
    P2pCalls,
    P2pMessage,
    ProcessScales,
    messages,
)
from rccltune.why.records import (
    ASKED_OF_RANKS,
    MAX_SCALES,
    MAX_WORDS,
    NOWHERE,
    CommunicatorScale,
    NoSettingLeft,
    TunerAnswer,
    TunerLoading,
    TypeAndOperation,
)
from rccltune.why.remedies import SYMMETRIC

_MAX_COMMS: Final = 65536


class CommunicatorHosts:
    """Hosts of communicators by their ids, as ranks tell of them."""

    def __init__(self) -> None:
        """Begin with no host met."""
        self._hosts: dict[str, tuple[int, set[str], set[int]]] = {}

    def see(self, comm: str, host: str, rank: int, n_ranks: int) -> None:
        """A rank of a communicator spoke."""
        if comm not in self._hosts and len(self._hosts) >= _MAX_COMMS:
            return
        size, hosts, ranks = self._hosts.setdefault(comm, (n_ranks, set(), set()))
        hosts.add(host)
        if len(ranks) < size:
            ranks.add(rank)

    def by_ranks(self) -> dict[int, int]:
        """Nodes by ranks, where every communicator of that size that was seen whole agrees."""
        nodes_by_ranks: dict[int, set[int]] = {}
        for size, hosts, ranks in self._hosts.values():
            if len(ranks) == size:
                nodes_by_ranks.setdefault(size, set()).add(len(hosts))
        return {size: counts.pop() for size, counts in nodes_by_ranks.items() if len(counts) == 1}


_MAX_PROCESSES: Final = 65536
# Names of rows, beside which there may be torn ones.
_MAX_ROWS: Final = 16


class ModelTables:
    """Takes rows of any number of processes; what they are of is known from all of them."""

    def __init__(self) -> None:
        """Begin with nothing read."""
        # By process: the first row of each name.
        self._rows: dict[LogProcess, dict[str, str]] = {}

    def take(self, process: LogProcess, body: str) -> None:
        """Take a line that may be a row."""
        match = MODEL.match(body)
        if match is None or (process not in self._rows and len(self._rows) >= _MAX_PROCESSES):
            return
        # Further rows of a collective are other algorithms', or another communicator's.
        rows = self._rows.setdefault(process, {})
        if len(rows) < _MAX_ROWS:
            rows.setdefault(match[1], match[2])

    def refused(self) -> set[tuple[Collective, Setting]]:
        """Cells that some model leaves out."""
        return {
            (collective, setting)
            for rows in self._rows.values()
            for name, collective in model_rows(rows).items()
            for setting in without_bandwidth(rows[name])
        }


class LibraryLog:
    """Takes messages of any number of processes."""

    def __init__(self, evidence: LogCollector) -> None:
        """Begin with nothing read."""
        self._evidence = evidence
        self._writers = ProcessScales()
        self._models = ModelTables()
        self._nodes = CommunicatorHosts()
        self._sends = P2pCalls(evidence)
        # Choices of processes of whose communicators nothing is known yet: bytes of a rank's own
        # buffer where the last part says so.
        self._homeless: dict[tuple[Collective, int, bool], tuple[str, Counter[Setting | None]]] = {}

    def at(self, place: str) -> None:
        """Say where the next line stands."""
        self._evidence.place = place

    def line(self, text: str) -> None:
        """Take one line: any number of messages, or none."""
        for process, body in messages(text):
            self._message(process, body)

    def _message(self, process: LogProcess | None, body: str) -> None:
        if "NET/OFI" in body:
            self._network(body)
        elif "opCount" in body and " Bytes -> " not in body:
            self._call(process, body)
        else:
            self._told(process, body)

    def _told(self, process: LogProcess | None, body: str) -> None:
        if " Bytes -> " in body:
            self._choice(process, body)
        elif "no algorithm/protocol" in body:
            self._stuck(process, body)
        elif " rank " in body and "comm" in body:
            self._communicator(process, body)
        elif "set by environment to" in body or " set to " in body:
            self._variable(body)
        elif "Tuner" in body or "tuner" in body or "TUNER" in body:
            self._tuner(process, body)
        elif " version" in body or " path" in body:
            self._library(body)
        elif process is not None and "/" in body and "|" in body:
            self._models.take(process, body)

    # --- start ------------------------------------------------------------------------------------

    def _library(self, body: str) -> None:
        match = VERSION.search(body)
        if match is not None:
            self._evidence.job.versions.see(f"{match[1]} {match[2]}")
            self._evidence.show(f"version {match[1]} {match[2]}", body)
        file = FILE.search(body)
        if file is not None:
            self._evidence.job.paths.see(file[1])

    def _variable(self, body: str) -> None:
        match = ENV.search(body) or OLD_ENV.search(body)
        if match is not None:
            value = match[2]
            # Numbers are printed with a full stop behind them.
            plain = value[:-1] if value[-1:] == "." and value[:-1].lstrip("-").isdigit() else value
            self._evidence.variable(match[1], plain)
            self._evidence.show(f"variable {match[1]}", body)
            if match[1] in ASKED_OF_RANKS:
                self._evidence.show(f"variable {match[1]}={plain}", body)

    def _network(self, body: str) -> None:
        """Take a network plugin's line: what it changes for everybody, and why."""
        job = self._evidence.job
        if (match := ADDED.search(body)) is not None:
            job.added[match[1]] = match[2]
            self._evidence.show(f"added {match[1]}", body)
        elif (match := SIMPLE.search(body)) is not None:
            job.simple.see(match[1])
        elif SHUT_OUT.search(body) is not None:
            self._evidence.show("shut out", body)

    def _own_reader(self, body: str) -> None:
        """Take a line of the library's own reader of rule files: what it took or passed over."""
        job = self._evidence.job
        if (match := SKIPPED.search(body)) is not None:
            job.skipped.see((int(match[1]), " ".join(filter(None, (match[2].strip(), match[3])))))
            self._evidence.show("skipped", body)
        elif (match := LOADED.search(body)) is not None and len(job.loaded) < MAX_WORDS:
            job.loaded[match[2]] = int(match[1])
            self._evidence.show("loaded", body)
        elif (match := LOST.search(body)) is not None:
            job.lost.see(match[1] or match[2])
            self._evidence.show("lost", body)

    def _tuner(self, process: LogProcess | None, body: str) -> None:
        self._own_reader(body)
        applied = APPLIED.search(body)
        if applied is not None:
            self._applied(process, applied)
            return
        for pattern, loading in LOADING:
            match = pattern.search(body)
            if match is not None:
                self._evidence.job.loading.see((loading, match[1].strip()[:300]))
                if loading is TunerLoading.USING:
                    self._evidence.show(f"using {match[1].strip()[:300]}", body)
                self._evidence.show(f"loading {loading.value}", body)
                return

    def _communicator(self, process: LogProcess | None, body: str) -> None:
        match = NODES.search(body)
        if match is not None:
            where = CommunicatorScale(int(match[4][:9]), int(match[3][:9]))
            self._evidence.job.scales.see(where, MAX_SCALES)
            self._writers.see(process, match[1], int(match[2][:9]), where)
            return
        match = INIT.search(body)
        if match is not None:
            rank, n_ranks = int(match[2][:9]), int(match[3][:9])
            where = self._writers.of(process, match[1]) or CommunicatorScale(None, n_ranks)
            self._evidence.job.scales.see(where, MAX_SCALES)
            self._writers.see(process, match[1], rank, where)
            if process is not None:
                self._nodes.see(match[4], process.host, rank, n_ranks)

    def _stuck(self, process: LogProcess | None, body: str) -> None:
        """The end of a job; frameworks repeat the message, without a head, in their traces."""
        match = STUCK.search(body)
        if match is None or process is None:
            return
        collective = collective_named(match[1]) if match[1] else None
        limits = tuple((one[1], one[2]) for one in LIMIT.finditer(body))
        self._evidence.stuck(
            self._writers.only(process), NoSettingLeft(collective, match[2] or "", limits)
        )

    # --- calls ------------------------------------------------------------------------------------

    def _choice(self, process: LogProcess | None, body: str) -> None:
        match = SYMMETRIC_CALL.search(body)
        if match is not None:
            collective = collective_named(match[1])
            if collective is not None:
                where = self._writers.choosing(process)
                total = total_of(collective, int(match[2]), where.n_ranks)
                record = self._evidence.at(
                    where, collective, int(match[2]) if total is None else total
                )
                record.paths.add(SYMMETRIC)
                record.called = True
            return
        match = CHOICE.search(body)
        if match is None:
            return
        # Releases before 2.23 name no collective: all_reduce is what is asked about most.
        collective = collective_named(match[1]) if match[1] else None
        if collective is None:
            self._nameless(process, match)
            return
        self._evidence.show("choice", body)
        own = not match[5].startswith(" time")
        self._ran(
            self._writers.choosing(process),
            (collective, int(match[2]), own),
            setting_named(match[3], match[4]),
            body,
        )

    def _nameless(self, process: LogProcess | None, match: re.Match[str]) -> None:
        """A choice that names no collective: the one of the last call, if calls are told."""
        if not match[1]:
            self._evidence.nameless(
                self._writers.choosing(process), int(match[2]), setting_named(match[3], match[4])
            )

    def _ran(
        self,
        where: CommunicatorScale,
        call: tuple[Collective, int, bool],
        ran: Setting | None,
        body: str,
    ) -> None:
        collective, nbytes, own = call
        total = total_of(collective, nbytes, where.n_ranks) if own else nbytes
        if where is NOWHERE or total is None:
            if call in self._homeless or len(self._homeless) < MAX_KEYS:
                _, counted = self._homeless.setdefault(call, (self._evidence.told(body), Counter()))
                counted[ran] += 1
            return
        record = self._evidence.at(where, collective, total)
        record.ran[ran] += 1
        record.shown = record.shown or self._evidence.told(body)
        self._evidence.job.tuning.add(where)

    def _call(self, process: LogProcess | None, body: str) -> None:
        match = CALL.search(body)
        collective = _called(match["name"]) if match else None
        number = int(match["dtype"][:9]) if match else len(DTYPES)
        if match is None or collective is None or number >= len(DTYPES):
            return
        n_ranks, dtype, op = int(match["n_ranks"]), DTYPES[number], int(match["op"][:9])
        count = int(match["count"])
        kindred = TypeAndOperation(dtype, REDOPS[op] if op < len(REDOPS) else None)
        where = self._writers.of(process, match["comm"]) or CommunicatorScale(None, n_ranks)
        self._evidence.job.has_calls = True
        if collective is Collective.SENDRECV:
            one = P2pMessage(kindred, count, int(match["root"]), match["buffer"])
            is_send = match["name"] == "Send"
            self._sends.take(process, match["comm"], where, one, is_send=is_send)
            return
        nbytes = total_of(collective, count * DTYPE_BYTES[dtype], n_ranks)
        record = self._evidence.at(where, collective, nbytes or 0)
        record.called = True
        if len(record.kindred) < 64:
            record.kindred.add(kindred)

    def _applied(self, process: LogProcess | None, match: re.Match[str]) -> None:
        collective = collective_named(match[1])
        setting = setting_named(match[3], match[4])
        if collective is None or setting is None:
            return
        channels = int(match[5])
        if channels >= 1:
            setting = Setting(
                algorithm=setting.algorithm, protocol=setting.protocol, channels=channels
            )
        self._evidence.job.table_applied = True
        self._evidence.show("applied", match[0])
        where = self._writers.only(process)
        self._evidence.at(where, collective, int(match[2])).said[TunerAnswer(setting, 0)] += 1

    # --- end --------------------------------------------------------------------------------------

    def finish(self) -> dict[int, int]:
        """Put down what only the whole tells: nodes of communicators by their hosts' names.

        Returns:
            number of nodes by number of ranks, where all communicators of that size agree.
        """
        job = self._evidence.job
        self._sends.finish()
        job.refused |= self._models.refused()
        found = self._nodes.by_ranks()
        for (collective, nbytes, own), (shown, counted) in self._homeless.items():
            where = self._only_scale()
            total = total_of(collective, nbytes, where.n_ranks) if own else nbytes
            # Without the number of ranks it stays what it is: a rank's own bytes.
            record = self._evidence.at(where, collective, nbytes if total is None else total)
            record.ran.update(counted)
            record.shown = record.shown or shown
            job.tuning.add(where)
        self._homeless.clear()
        return found

    def _only_scale(self) -> CommunicatorScale:
        scales = {where for where in self._evidence.job.scales if (where.n_ranks or 0) > 1}
        whole = {where for where in scales if where.n_nodes is not None} or scales
        return whole.pop() if len(whole) == 1 else NOWHERE


def _called(name: str) -> Collective | None:
    """RCCL makes alltoall and the like of these two, and says only them."""
    return Collective.SENDRECV if name in ("Send", "Recv") else collective_named(name)
