"""The library's own log: what it loads, reads and chooses, for which communicators.

Which lines are known, and of which releases, is in ``rccltune/data/messages.yaml``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from rccltune.logs.library import (
    LOG_HEAD,
    LOG_LEVELS,
    collective_named,
    model_rows,
    setting_named,
    without_bandwidth,
)
from rccltune.logs.messages import KnownLine, known_lines
from rccltune.model.settings import Setting
from rccltune.model.vocabulary import DTYPE_BYTES, REDOPS, TUNABLE, Collective
from rccltune.why.collector import MAX_KEYS, LogCollector, total_of
from rccltune.why.records import (
    ASKED_OF_RANKS,
    MAX_SCALES,
    MAX_WORDS,
    NOWHERE,
    Call,
    CommunicatorScale,
    LoadedRule,
    NoSettingLeft,
    TunerAnswer,
    TunerLoading,
    TypeAndOperation,
)
from rccltune.why.remedies import DIRECT_GATHER, SYMMETRIC

_HEAD: Final = re.compile(rf"{LOG_HEAD}(?:{LOG_LEVELS}) ")
_DEVICE: Final = re.compile(r"\[(-?\d+)\]")
_LIMIT: Final = re.compile(r"\b(NCCL_\w+) was set to (\S+?)\.?(?=\s|$)")
_DTYPES: Final = (
    *("int8", "uint8", "int32", "uint32", "int64", "uint64", "half", "float", "double"),
    *("bfloat16", "fp8_e4m3", "fp8_e5m2"),
)
_MAX_MEMBERS: Final = 65536
_LOADING: Final = {"opened": TunerLoading.NAMED} | {one.value: one for one in TunerLoading}
# What a network plugin and others of its lines show, so that an answer can point to them.
_SHOWN: Final = ("skipped", "loaded", "lost", "applied", "shut out", "choice")


class LogProcess(NamedTuple):
    """Process and device that wrote a message."""

    host: str
    pid: int
    device: int


class Member(NamedTuple):
    """A rank of a communicator, as its process tells of it."""

    rank: int
    where: CommunicatorScale
    comm_id: str


class Members:
    """Ranks of communicators by the processes that play them."""

    def __init__(self) -> None:
        """Begin with no process met."""
        # By process and address; one that was given up may give another its address.
        self._members: dict[LogProcess, dict[str, Member]] = {}
        # Hosts and ranks by the communicator's id.
        self._hosts: dict[tuple[str, int], dict[int, str]] = {}

    def see(self, process: LogProcess, address: str, member: Member) -> Member:
        """Take a line that says which rank a process is; what all such lines say of it."""
        known = self._members.get(process, {}).get(address)
        if known is not None and known.where.n_ranks == member.where.n_ranks:
            # One line has the nodes, another one the id.
            whole = known.where if member.where.n_nodes is None else member.where
            member = Member(member.rank, whole, member.comm_id or known.comm_id)
        if process in self._members or len(self._members) < _MAX_MEMBERS:
            self._members.setdefault(process, {})[address] = member
        if member.comm_id and len(self._hosts) < _MAX_MEMBERS:
            hosts = self._hosts.setdefault((member.comm_id, member.where.n_ranks or 0), {})
            hosts[member.rank] = process.host
        return member

    def at(self, process: LogProcess | None, address: str) -> Member | None:
        """The rank that a process plays in one of its communicators."""
        return self._members.get(process, {}).get(address) if process else None

    def choosing(self, process: LogProcess | None) -> Member | None:
        """The rank whose choice a line is: it names no communicator, and rank 0 writes it alone."""
        members = list(self._members.get(process, {}).values()) if process else []
        first = [one for one in members if one.rank == 0] or members
        scales = {one.where for one in first}
        if len(scales) != 1:
            return None
        ids = {one.comm_id for one in first}
        return first[0] if len(ids) == 1 else first[0]._replace(comm_id="")

    def nodes_by_ranks(self) -> dict[int, int]:
        """Nodes by ranks, where every communicator of that size that was seen whole agrees."""
        counts: dict[int, set[int]] = {}
        for (_, n_ranks), hosts in self._hosts.items():
            if len(hosts) == n_ranks:
                counts.setdefault(n_ranks, set()).add(len(set(hosts.values())))
        return {n_ranks: nodes.pop() for n_ranks, nodes in counts.items() if len(nodes) == 1}


@dataclass(slots=True)
class _Sends:
    """Messages of one size that a rank sent."""

    where: CommunicatorScale
    peers: set[int] = field(default_factory=set)
    buffers: set[str] = field(default_factory=set)


class LibraryLog:
    """Takes messages of any number of processes."""

    def __init__(self, evidence: LogCollector) -> None:
        """Begin with nothing read."""
        self._evidence = evidence
        self._job = evidence.job
        self._members = Members()
        # By process: the first row of each name; further ones are other algorithms'.
        self._models: dict[LogProcess, dict[str, str]] = {}
        self._sends: dict[tuple[LogProcess, str, int, TypeAndOperation], _Sends] = {}
        self._process: LogProcess | None = None
        self._take: dict[str, Callable[[re.Match[str], str], None]] = {
            "choice": self._choice,
            "symmetric": self._symmetric,
            "call": self._call,
            "stuck": self._stuck,
            "communicator": self._communicator,
            "scale": self._scale,
            "variable": self._variable,
            "version": self._version,
            "path": lambda match, _: self._job.paths.see(match["file"]),
            "rule": self._rule,
            "loaded": self._loaded,
            "lost": lambda match, _: self._job.lost.see(match["file"]),
            "skipped": lambda match, _: self._job.skipped.see((int(match["line"]), match["why"])),
            "applied": self._applied,
            "added": self._added,
            "simple": lambda match, _: self._job.simple.see(match["why"]),
            "model": self._model,
        }

    def at(self, place: str) -> None:
        """Say where the next line stands."""
        self._evidence.place = place

    def line(self, text: str) -> None:
        """Take one line; of several messages on it only the last is whole."""
        self._process, body = None, text
        for n, head in enumerate(_HEAD.finditer(text)):
            device = _DEVICE.search(head[0])
            self._process = LogProcess(head[1], int(head[2][:18]), int(device[1]) if device else 0)
            body = text[head.end() :]
            self._job.torn += n == 1
        for known in known_lines():
            if known.word in body and (match := known.pattern.search(body)) is not None:
                self._known(known, match, body)
                return

    def _known(self, known: KnownLine, match: re.Match[str], body: str) -> None:
        if known.tells == "remark":
            words = {name: value or "" for name, value in match.groupdict().items()}
            text, remedy = known.means.format(**words), known.remedy
            self._job.said.see((text, remedy.format(**words) if remedy else None))
            self._evidence.show(text, body)
            return
        if known.tells in _LOADING:
            self._tuner(_LOADING[known.tells], match["name"].strip()[:300], body)
        elif known.tells in self._take:
            self._take[known.tells](match, body)
        if known.tells in _SHOWN:
            self._evidence.show(known.tells, body)

    # --- start ------------------------------------------------------------------------------------

    def _version(self, match: re.Match[str], body: str) -> None:
        name = f"{match['family']} {match['version']}"
        self._job.versions.see(name)
        self._evidence.show(f"version {name}", body)

    def _variable(self, match: re.Match[str], body: str) -> None:
        name, value = match["name"], match["value"]
        # Numbers are printed with a full stop behind them.
        plain = value[:-1] if value[-1:] == "." and value[:-1].lstrip("-").isdigit() else value
        self._evidence.variable(name, plain)
        self._evidence.show(f"variable {name}", body)
        if name in ASKED_OF_RANKS:
            self._evidence.show(f"variable {name}={plain}", body)

    def _added(self, match: re.Match[str], body: str) -> None:
        """A network plugin changes the environment for everybody."""
        self._job.added[match["name"]] = match["value"]
        self._evidence.show(f"added {match['name']}", body)

    def _tuner(self, loading: TunerLoading, name: str, body: str) -> None:
        self._job.loading.see((loading, name))
        if loading is TunerLoading.USING:
            self._evidence.show(f"using {name}", body)
        self._evidence.show(f"loading {loading.value}", body)

    def _loaded(self, match: re.Match[str], _: str) -> None:
        if len(self._job.loaded) < MAX_WORDS:
            self._job.loaded[match["file"]] = int(match["rules"])

    def _rule(self, match: re.Match[str], body: str) -> None:
        """NVIDIA's example says what it read, rule by rule."""
        collective = collective_named(match["collective"])
        setting = _setting(match)
        if collective is not None and setting is not None and len(self._job.rules) < MAX_WORDS:
            sizes = int(match["first"]), int(match["last"])
            scale = [None if int(match[name]) < 0 else int(match[name]) for name in _SCALE]
            rule = LoadedRule(collective, *sizes, setting, CommunicatorScale(*scale))
            self._job.rules.setdefault(rule, self._evidence.told(body))

    def _scale(self, match: re.Match[str], _: str) -> None:
        """A tuner begins for a communicator."""
        self._job.scales.see(_where(match), MAX_SCALES)

    def _communicator(self, match: re.Match[str], _: str) -> None:
        member = Member(int(match["rank"]), _where(match), match.groupdict().get("id") or "")
        if self._process is not None:
            member = self._members.see(self._process, match["comm"], member)
        self._job.scales.see(member.where, MAX_SCALES)

    def _model(self, match: re.Match[str], _: str) -> None:
        process = self._process
        if process is not None and (process in self._models or len(self._models) < _MAX_MEMBERS):
            rows = self._models.setdefault(process, {})
            if len(rows) < MAX_WORDS:
                rows.setdefault(match["row"], match["cells"])

    def _stuck(self, match: re.Match[str], body: str) -> None:
        """The end of a job; frameworks repeat the message, without a head, in their traces."""
        if self._process is None:
            return
        collective = collective_named(match["collective"]) if match["collective"] else None
        limits = tuple((one[1], one[2]) for one in _LIMIT.finditer(body))
        member = self._members.choosing(self._process)
        self._evidence.stuck(
            member.where if member else NOWHERE,
            NoSettingLeft(collective, match["dtype"] or "", limits),
        )

    # --- calls ------------------------------------------------------------------------------------

    def _symmetric(self, match: re.Match[str], _: str) -> None:
        collective = collective_named(match["collective"])
        if collective is not None:
            member = self._members.choosing(self._process)
            where, nbytes = member.where if member else NOWHERE, int(match["nbytes"])
            total = total_of(collective, nbytes, where.n_ranks)
            record = self._evidence.at(where, collective, nbytes if total is None else total)
            record.paths.add(SYMMETRIC)
            record.called = True

    def _choice(self, match: re.Match[str], body: str) -> None:
        collective = collective_named(match["collective"]) if match["collective"] else None
        if match["collective"] and collective is None:
            return
        member, nbytes = self._members.choosing(self._process), int(match["nbytes"])
        ran = setting_named(match["algorithm"], match["protocol"])
        n_channels = int(match["last"]) - int(match["first"]) + 1 if match["last"] else None
        where = member.where if member else NOWHERE
        # A line with a time gives the size as a tuner sees it.
        is_share = match["total"] is None
        self._evidence.ran(where, (collective, nbytes, is_share), ran, n_channels, body)
        if member and member.comm_id and collective in TUNABLE and ran is not None:
            process = self._process
            name = f"rank {member.rank}" + (f" ({process.host}:{process.pid})" if process else "")
            chosen = Setting(algorithm=ran.algorithm, protocol=ran.protocol, channels=n_channels)
            total = total_of(collective, nbytes, where.n_ranks) if is_share else nbytes
            call = Call(f"0x{member.comm_id}", where, collective, total or nbytes)
            self._evidence.chose(call, name, chosen, body)

    def _call(self, match: re.Match[str], _: str) -> None:
        # RCCL makes alltoall and the like of these two, and says only them.
        name = match["name"]
        collective = Collective.SENDRECV if name in ("Send", "Recv") else collective_named(name)
        number, op, count = int(match["dtype"]), int(match["op"]), int(match["count"])
        if collective is None or number >= len(_DTYPES):
            return
        member = self._members.at(self._process, match["comm"])
        where = member.where if member else CommunicatorScale(None, int(match["ranks"]))
        kindred = TypeAndOperation(_DTYPES[number], REDOPS[op] if op < len(REDOPS) else None)
        nbytes = count * DTYPE_BYTES[_DTYPES[number]]
        self._job.has_calls = True
        if collective is not Collective.SENDRECV:
            total = total_of(collective, nbytes, where.n_ranks)
            self._called(where, collective, total or 0, kindred)
        elif self._process is None or len(self._sends) >= MAX_KEYS:
            self._called(where, collective, nbytes, kindred)
        else:
            key = (self._process, match["comm"], count, kindred)
            sent = self._sends.setdefault(key, _Sends(where))
            if name == "Send" and len(sent.peers) < _MAX_MEMBERS:
                sent.peers.add(int(match["root"]))
                sent.buffers.add(match["buffer"] if len(sent.buffers) < 2 else "")

    def _called(
        self,
        where: CommunicatorScale,
        collective: Collective,
        nbytes: int,
        kindred: TypeAndOperation,
        path: str | None = None,
    ) -> None:
        record = self._evidence.at(where, collective, nbytes)
        record.called = True
        if path is not None:
            record.paths.add(path)
        if len(record.kindred) < MAX_WORDS:
            record.kindred.add(kindred)

    def _applied(self, match: re.Match[str], _: str) -> None:
        """A reader of rule files answers a call."""
        name = match["collective"]
        collective = TUNABLE[int(name)] if name.isdigit() else collective_named(name)
        setting = _setting(match)
        if collective is not None and setting is not None:
            self._job.table_applied = True
            member = self._members.choosing(self._process)
            where = member.where if member else NOWHERE
            record = self._evidence.at(where, collective, int(match["nbytes"]))
            record.said[TunerAnswer(setting, 0)] += 1

    # --- end --------------------------------------------------------------------------------------

    def finish(self) -> dict[int, int]:
        """Put down what only the whole tells.

        RCCL makes small all_gathers of sends and receives and, on that path, has no line for the
        call itself: rank by rank it sends one buffer to every rank, itself among them (2.27.7,
        measured: up to 4 MiB on one node). A program's alltoall sends every rank another part.

        Returns:
            number of nodes by number of ranks, where all communicators of that size agree.
        """
        is_rccl = not any(version.startswith("NCCL") for version in self._job.versions)
        for (_, _, count, kindred), sent in self._sends.items():
            nbytes, n_ranks = count * DTYPE_BYTES[kindred.dtype or "int8"], sent.where.n_ranks or 0
            if is_rccl and 1 < n_ranks == len(sent.peers) and len(sent.buffers) == 1:
                total = nbytes * n_ranks
                self._called(sent.where, Collective.ALL_GATHER, total, kindred, DIRECT_GATHER)
            else:
                self._called(sent.where, Collective.SENDRECV, nbytes, kindred)
        self._job.refused |= {
            (collective, setting)
            for rows in self._models.values()
            for name, collective in model_rows(rows).items()
            for setting in without_bandwidth(rows[name])
        }
        return self._members.nodes_by_ranks()


_SCALE: Final = ("nodes", "ranks")


def _where(match: re.Match[str]) -> CommunicatorScale:
    nodes = match.groupdict().get("nodes")
    return CommunicatorScale(int(nodes) if nodes else None, int(match["ranks"]))


def _setting(match: re.Match[str]) -> Setting | None:
    """Algorithm, protocol and channels; numbers of channels below 1 leave them to the library."""
    setting = setting_named(match["algorithm"], match["protocol"])
    channels = match["channels"]
    if setting is None or not channels.isdigit() or int(channels) < 1:
        return setting
    return Setting(algorithm=setting.algorithm, protocol=setting.protocol, channels=int(channels))
