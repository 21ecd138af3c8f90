"""Resolution of file, options and assumptions into keys; and advice where they contradict.

A file is trusted; an option fills what it leaves unsaid and must not contradict it; an
assumption fills what neither says. What is still missing and needed is asked for by name.

Texts and causes: RCCL 2.28.3 ``src/init.cc``, ``src/misc``; rccl-tests ``src/common.cu``; Open MPI
5.0.11 and MPICH 5.0.2 as run; ROCm's troubleshooting pages. The first match of the table wins, so
specific texts stand before general ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeVar

from rccltune.logs.columns import dtype_named, placement_of, yes_or_no
from rccltune.logs.facts import LogFacts
from rccltune.model.errors import CommandLineError, OutputError
from rccltune.model.measurement import Caution, Notice, StatedFacts
from rccltune.model.settings import (
    UNSTATED,
    CurveKey,
    Mode,
    Role,
    Scale,
    Setting,
)
from rccltune.model.vocabulary import DTYPE_BYTES, Collective, Placement

T = TypeVar("T")
_ASSUMABLE: Final = (
    "arch", "binding", "cus", "dtype", "graph", "host", "mode", "placement", "product",
    "rank_placement", "redop",
)  # fmt: skip


# Somebody asked for these in this job; a plugin without them is the site's own.
_ASKED: Final = re.compile(r"(?:TUNER_\w+|CONFIG_DIR|ALGO|PROTO)=|our plugin")


class Resolver:
    """Turns what a file says into keys of curves, with one user's options beside it."""

    def __init__(self, name: str, stated: StatedFacts) -> None:
        """Check the assumptions.

        Args:
            name: file name for messages.
            stated: options and assumptions.

        Raises:
            CommandLineError: an assumption that nothing can be made of.
        """
        self.name = name
        self.stated = stated
        self.notices: list[Notice] = []
        self.assumed = dict(stated.assume)
        for key in self.assumed:
            if key not in _ASSUMABLE:
                raise CommandLineError(
                    f"--assume {key}=… is not known",
                    hint=f"assume one of {', '.join(_ASSUMABLE)}.",
                )
        self._placement = self._assumption("placement", placement_of)
        self._graph = self._assumption("graph", yes_or_no)
        self.mode = self._assumption("mode", Mode.parse)
        self.cu_count = self._assumption("cus", int)
        self._dtype = None if stated.dtype is None else dtype_named(stated.dtype)
        if self._dtype not in (None, *DTYPE_BYTES):
            raise CommandLineError(
                f"--dtype {stated.dtype} is no data type of a benchmark",
                hint=f"write one of {', '.join(DTYPE_BYTES)}.",
            )
        self.is_mixed = False
        # Whoever started the benchmark knows what ran.
        self.is_trusted = False
        self._keys: dict[LogFacts, CurveKey] = {}
        self._shared: dict[CurveKey, CurveKey] = {}

    def key(self, facts: LogFacts) -> CurveKey:
        """Key of the curve that a timing lies on; the same object for the same key.

        Raises:
            CommandLineError: an option contradicts the file.
            OutputError: collective, ranks or nodes are said nowhere.
        """
        key = self._keys.get(facts)
        if key is None:
            new = self._key(facts)
            key = self._keys[facts] = self._shared.setdefault(new, new)
        return key

    def of_one_group(self, facts: LogFacts) -> LogFacts:
        """Facts without a number of ranks that is of all groups together."""
        stated = self.stated
        is_all = stated.n_started is not None and facts.n_ranks == stated.n_started
        return replace(facts, n_ranks=None) if is_all and stated.n_ranks is not None else facts

    def agreed(self, option: str, given: T | None, in_file: T | None, line: int) -> T | None:
        """The one of two that is there.

        Raises:
            CommandLineError: both are there and differ.
        """
        if given is not None and in_file is not None and given != in_file:
            raise CommandLineError(
                f"{option} {option_text(given)} contradicts the file, which says "
                f"{option_text(in_file)}",
                where=self.where(line),
                hint=f"leave out {option}, or import the file that it belongs to.",
            )
        return given if in_file is None else in_file

    def where(self, line: int) -> str:
        """File and line, as editors read it."""
        return f"{self.name}:{line}" if line else self.name

    def notice(self, caution: Caution, message: str, remedy: str, line: int = 0) -> None:
        """Note a weakness, once for a file however many rows have it."""
        if not any(each.message == message for each in self.notices):
            self.notices.append(
                Notice(caution=caution, message=message, remedy=remedy, where=self.where(line))
            )

    def _key(self, facts: LogFacts) -> CurveKey:
        stated, line = self.stated, facts.line
        collective = self.agreed(
            "--collective", stated.collective, facts.collective, facts.at("collective")
        )
        self.ask(facts)
        if collective is None:
            raise AssertionError("asked for above")
        return CurveKey(
            collective=collective,
            setting=self._setting(facts),
            placement=self._placed(facts),
            scale=self._scale(facts),
            dtype=self.agreed("--dtype", self._dtype, facts.dtype, line)
            or self.assumed.get("dtype"),
            redop=facts.redop or self.assumed.get("redop"),
            graph=self._graph if facts.graph is None else facts.graph,
            rank_placement=facts.rank_placement or self.assumed.get("rank_placement"),
        )

    def _placed(self, facts: LogFacts) -> Placement:
        placement = facts.placement or self._placement
        if placement is None:
            placement = Placement.OUT_OF_PLACE
            self.notice(
                Caution.ASSUMED,
                "the file does not say whether it measured in place; out of place is assumed",
                "say it with --assume placement=out or placement=in.",
                facts.line,
            )
        return placement

    def _scale(self, facts: LogFacts) -> Scale:
        stated, line = self.stated, facts.line
        own = self.of_one_group(facts)
        ranks = self.agreed("--ranks", stated.n_ranks, own.n_ranks, facts.at("n_ranks"))
        if ranks is None:
            raise AssertionError("asked for in ask")
        nodes = facts.n_nodes
        if facts.nodes_unsure and stated.n_nodes not in (None, nodes):
            self.notice(
                Caution.FILE_OVERRULED,
                f"the file says {nodes} node{'' if nodes == 1 else 's'}, --nodes says "
                f"{stated.n_nodes}: the option wins, since rccl-tests writes this column "
                "wrongly when several nodes run",
                "nothing, if --nodes is right.",
                line,
            )
            nodes = None
        nodes = self.agreed("--nodes", stated.n_nodes, nodes, facts.at("n_ranks"))
        if not 1 <= (nodes or 1) <= ranks:
            raise OutputError(
                f"{ranks} ranks on {nodes} nodes is no scale",
                where=self.where(line),
                hint="check --ranks and --nodes against the file.",
            )
        return Scale(n_nodes=nodes or 1, n_ranks=ranks)

    def _setting(self, facts: LogFacts) -> Setting:
        given, in_file = self.stated.setting, facts.setting
        if in_file is None and facts.chosen_by:
            given = self._beside_tuner(facts, given)
        if given is None and in_file is None:
            self.notice(
                Caution.UNSTATED_SETTING,
                "nothing says which setting ran",
                "import it again with --baseline if nothing was forced, or with --algorithm and "
                "--protocol if NCCL_ALGO and NCCL_PROTO were set.",
                facts.line,
            )
            return UNSTATED
        if given is None or in_file is None:
            return given or in_file or UNSTATED
        if self.is_mixed and given.role is Role.BASELINE:
            return in_file
        if given.role is not Role.FORCED or in_file.role is not Role.FORCED:
            option = "--baseline" if given.role is Role.BASELINE else "--algorithm/--protocol"
            return self.agreed(option, given, in_file, facts.line) or UNSTATED
        line = facts.line
        return Setting(
            algorithm=self.agreed("--algorithm", given.algorithm, in_file.algorithm, line),
            protocol=self.agreed("--protocol", given.protocol, in_file.protocol, line),
            channels=self.agreed("--channels", given.channels, in_file.channels, line),
        )

    def _beside_tuner(self, facts: LogFacts, given: Setting | None) -> Setting | None:
        """Setting that the user states for rows that a tuner, or a list in a variable, chose among.

        Raises:
            CommandLineError: they are called the baseline, and somebody asked for the tuner.
        """
        if self.is_trusted or (given is not None and given.role is not Role.BASELINE):
            return given
        asked = _ASKED.search(facts.chosen_by or "") is not None
        if given is not None and not self.is_mixed and asked:
            raise CommandLineError(
                f"--baseline says that nothing was forced, but these rows ran under "
                f"{facts.chosen_by}",
                where=self.where(facts.line),
                hint="leave out --baseline; measure the site as it is, and import that log.",
            )
        is_site = given is not None and not self.is_mixed
        self.notice(
            Caution.ASSUMED if is_site else Caution.UNSTATED_SETTING,
            f"rows ran under {facts.chosen_by}"
            + ("; the baseline is the site with it" if is_site else "; they are no baseline"),
            "nothing, if every job of this site runs so."
            if is_site
            else "measure without it, and import that log with --baseline.",
            facts.line,
        )
        return given if is_site else None

    def _assumption(self, key: str, read: Callable[[str], T]) -> T | None:
        text = self.assumed.get(key)
        try:
            return None if text is None else read(text)
        except ValueError as error:
            raise CommandLineError(
                f"--assume {key}={text}: {error}", hint=f"correct the value of {key}."
            ) from error

    def ask(self, facts: LogFacts, proposed: str = "") -> None:
        """Ask once for all that samples need and nothing says.

        Args:
            facts: by the file.
            proposed: options that the rows fit, for the hint.

        Raises:
            OutputError: collective, ranks or nodes are said nowhere.
        """
        stated, lacking, options = self.stated, [], []
        if (facts.collective or stated.collective) is None:
            lacking.append("which collective it measured")
            options.append("--collective C")
        n_ranks = self.of_one_group(facts).n_ranks or stated.n_ranks
        if n_ranks is None:
            lacking.append("how many ranks took part")
            options.append("--ranks N")
        if (facts.n_nodes or stated.n_nodes) is None and n_ranks != 1:
            lacking.append("how many nodes took part")
            options.append("--nodes N")
        if lacking:
            raise OutputError(
                f"the file does not say {', '.join(lacking)}",
                where=self.where(facts.line),
                hint=f"add {' '.join(options)}{f': {proposed}' if proposed else ''}.",
            )


def option_text(value: object) -> str:
    """A value as the command line spells it."""
    return value.value if isinstance(value, Collective) else str(value)


_MEANINGS: Final = {
    r"HSA_NO_SCRATCH_RECLAIM=1 must be set": (
        "this RCCL wants newer firmware or HIP; add --env HSA_NO_SCRATCH_RECLAIM=1 or "
        "update the firmware"
    ),
    r"(create|extend|map) shared memory|No space left on device": (
        "shared memory is too small (a container's default is 64 MB): start it with "
        "--ipc=host or --shm-size=16g, and remove stale /dev/shm/nccl-*"
    ),
    r"no socket interface found": (
        "no network interface fits: set NCCL_SOCKET_IFNAME in your environment"
    ),
    r"out of memory": (
        "a device's memory is full: lower --max-bytes, or end other jobs (24 GiB for each"
        " CPX partition)"
    ),
    r"The number of requested GPUs|invalid device ordinal|hipErrorInvalidDevice": (
        "fewer GPUs are visible than ranks were started: lower --np, check "
        "*_VISIBLE_DEVICES; a node that shows 63 of 64 partitions needs its ast display "
        "driver unloaded"
    ),
    r"no ROCm-capable device|Unable to open /dev/kfd": (
        "no GPU can be opened: check /dev/kfd and /dev/dri, and that you are in the "
        "groups render and video"
    ),
    r"Duplicate GPU detected|Multiple Ranks are using the same GPU": (
        "two ranks use one GPU: check --np against the devices and *_VISIBLE_DEVICES"
    ),
    r"Mismatched NCCL version": ("ranks load different libraries: use one --librccl everywhere"),
    r"Memory access fault by GPU|illegal memory access|hipErrorIllegalAddress": (
        "a GPU memory fault: the setting, the driver or the firmware is at fault; see dmesg"
    ),
    r"invalid option|invalid argument": ("the benchmark or library refused an option"),
    r"There are not enough slots": (
        "the launcher has fewer slots than ranks: check the hostfile or the allocation"
    ),
    r"PMIX_ERR_SYS_LIMITS_PIPES|Too many open files": (
        "too few open files are allowed: ulimit -n 65536"
    ),
    r"unsupported PMI version|not compatible with PMI1|OPAL ERROR: Unreachable|"
    r"Fatal error in internal_Init": (
        "the benchmark was built with another MPI than this launcher's; under srun set "
        "SLURM_MPI_TYPE (srun --mpi=list): pmix for Open MPI, pmi2 for MPICH"
    ),
    r"more processes than (cpus|ranks)|bind-to": ("binding failed: add --launcher none or fix it"),
    r"remote process exited or there was a network error": (
        "another rank failed first: its error is further up in the log"
    ),
    r"Out of bounds values : [1-9]\d* FAILED": ("results were WRONG: the setting is not usable"),
    r"unhandled (cuda|hip) error|Test (HIP|CUDA) failure": ("the GPU runtime failed"),
    r"unhandled system error": ("RCCL's system call failed: NCCL_DEBUG=INFO says which"),
    r"Test timeout": ("a collective did not finish"),
    r"exited\s+on\s+signal\s+9\b|Killed \(signal 9\)|Signal 9 \(SIGKILL\)": (
        "a rank was killed (out of host memory?)"
    ),
    r"exited\s+on\s+signal\s+11|Signal 11 \(SIGSEGV\)|Segmentation\s+fault": ("a rank crashed"),
    r"exited\s+on\s+signal\s+6\b|Aborted": ("a rank aborted"),
}
_MEMORY_FAULT: Final = re.compile(
    r"Memory access fault by GPU|illegal memory access|hipErrorIllegalAddress"
)
# Open MPI breaks its sentences at any blank.
_KILLED: Final = re.compile(
    r"exited\s+on\s+signal\s+9\b|Killed\s+\(signal\s+9\)|signal\s+9\s+\(Killed\)|"
    r"Signal\s+9\s+\(SIGKILL\)"
)
_CRASHED: Final = re.compile(
    r"Segmentation\s+fault|Aborted|Bus\s+error|[Ss]ignal:?\s+(4|6|7|8|11)\b"
)
_TABLE: Final = tuple((re.compile(text), meaning) for text, meaning in _MEANINGS.items())


def meaning_of(text: str) -> str | None:
    """Usual cause and remedy of an error; None where nothing in the text is known."""
    return next((meaning for pattern, meaning in _TABLE if pattern.search(text)), None)


def is_memory_fault(text: str) -> bool:
    """Whether a GPU touched memory that is not its own; ROCm's and CUDA's texts."""
    return _MEMORY_FAULT.search(text) is not None


def was_killed(text: str) -> bool:
    """Whether a launcher says that a rank got SIGKILL, and none of them crashed before.

    Launchers kill the others when one rank crashes. Texts as Open MPI 5.0.11, MPICH 5.0.2 and
    torchrun of PyTorch 2.13 printed them.
    """
    return _KILLED.search(text) is not None and _CRASHED.search(text) is None
