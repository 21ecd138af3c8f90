"""One start of the rank program: ranks that stay, make what they are sent, and certainly end.

On one node the program starts its ranks itself; over several a launcher does. Its folder holds
what was started (run.json), the plan as it was sent, a file of rows for each rank, what all said
(log.txt), and last how it ended (ending.json): a folder without one is of a run that goes on, or
was interrupted.
"""

from __future__ import annotations

import os
import secrets
import shlex
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, TypeAlias

from rccltune import plugin
from rccltune.launch import launch_processes, process
from rccltune.launch.launchers import Launcher
from rccltune.launch.process import RunningLaunch
from rccltune.launch.variables import CHANNELS, CLEARED, LaunchEnvironment, launch_environment
from rccltune.measure.connection import (
    Answer,
    ConnectionLostError,
    HungError,
    RankConnection,
    connect,
)
from rccltune.model.errors import MachineError
from rccltune.model.settings import RankLocation
from rccltune.ranks import plan, runs
from rccltune.ranks.hangs_and_crashes import (
    HUNG_AFTER_S,
    communicator_limit_s,
    describe_end,
    step_limit_s,
)
from rccltune.ranks.plan import Communicators
from rccltune.ranks.runs import Run, RunFile
from rccltune.session import files, store

# How long ranks may take to end by themselves, and a launcher to see that they have.
_LEAVE_S: Final = 10.0
_LOOK_S: Final = 0.002
_SHOW_EACH_S: Final = 0.1
_TIME_COLUMN: Final = runs.COLUMNS.split(",").index("time_us")
# Rules that our plugin answers by, in the folder of the run.
RULES_FILE: Final = "rules.csv"
_NO_RULES: Final = "# No rules yet.\n"
_ALL_RANKS: Final = "RCCLTUNE_PERF_TOKEN"
# The first would join two sessions of one host by its port; the others are ours to say.
_NEVER: Final = ("NCCL_COMM_ID", "RCCLTUNE_SIM_*", "RCCLTUNE_PERF_*")


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryUnderTest:
    """The library that is measured, and the runtime under it.

    Attributes:
        runtime: None where the library brings its own.
        version: ``RCCL 2.27.7``, None where the file does not say.
        what: where it was found, for people.
        starts: what stands before the rank program on its command line: the library's own loader.
        needs: variables without which it does not run.
    """

    file: Path
    runtime: Path | None = None
    version: str | None = None
    what: str = ""
    starts: tuple[str, ...] = ()
    needs: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSetup:
    """Setup of ranks: where they run, and with what.

    Attributes:
        place: of the ranks of a communicator.
        launcher: with no program of its own, ranks are started here by the rank program.
        added: variables of every run, baseline included.
        beside_plugin: variables of runs with our plugin.
        cleared: names that would count within the placement of ranks.
        simulated: noise and times are a node file's.
        bind: whether ranks bind themselves to their GPU's NUMA node.
        hung_after_s: how long no rank may finish a step.
        hosts: of the host file, those that ranks are put on; empty without one.
        host_ids: of each rank, where one host plays several; empty otherwise.
    """

    library: LibraryUnderTest
    place: RankLocation
    launcher: Launcher
    hostfile: Path | None = None
    added: tuple[tuple[str, str], ...] = ()
    beside_plugin: tuple[tuple[str, str], ...] = ()
    cleared: tuple[str, ...] = ()
    simulated: bool = False
    bind: bool = True
    hung_after_s: float = HUNG_AFTER_S
    hosts: tuple[str, ...] = ()
    host_ids: tuple[str, ...] = ()

    @property
    def n_ranks(self) -> int:
        """Ranks of the communicator."""
        return self.place.scale.n_ranks


def program() -> Path:
    """Absolute path of the rank program.

    Raises:
        MachineError: it is not in this install.
    """
    path = plugin.native_folder() / runs.PROGRAM
    if not path.is_file():
        raise MachineError(
            "the rank program is missing", where=str(path), hint="install rccltune again."
        )
    return path.resolve()


def environment_of(
    ground: LaunchSetup, folder: Path, site: Mapping[str, str], token: str, *, with_plugin: bool
) -> LaunchEnvironment:
    """Environment of every rank of a run.

    Where our plugin answers, what chooses is cleared, but for channels and threads, which no tuner
    can give back; without it nothing is. All else passes, so that interfaces and transports
    are those of the site.

    Args:
        ground: where.
        folder: absolute, of the run.
        site: the environment of rccltune itself.
        token: by which ranks of this run know each other.
        with_plugin: whether our plugin answers; otherwise the site is as it is.
    """
    added = [*ground.library.needs, *ground.added, (_ALL_RANKS, token)]
    if with_plugin:
        added += [("NCCL_TUNER_CONFIG_FILE", str(folder / RULES_FILE)), *ground.beside_plugin]
    if ground.simulated:
        added.append(("RCCLTUNE_SIM_LAUNCH", f"{'tuned' if with_plugin else 'site'} {folder.name}"))
    return launch_environment(
        site,
        added,
        clear=(*_NEVER, *ground.cleared),
        keep=CHANNELS if with_plugin else CLEARED,
    )


def argv_of(
    ground: LaunchSetup, folder: Path, environment: LaunchEnvironment, *, with_plugin: bool
) -> tuple[tuple[str, ...], Mapping[str, str]]:
    """Command line of a run, and the environment that it is started with.

    Args:
        ground: where.
        folder: absolute, of the run.
        environment: what every rank is to see.
        with_plugin: whether our plugin answers.
    """
    n_ranks = ground.n_ranks
    here = ground.launcher.program is None
    words = [*ground.library.starts, str(program())]
    words += ["--start", str(n_ranks)] if here and not ground.host_ids else []
    words += ["--folder", str(folder), "--library", str(ground.library.file)]
    if ground.library.runtime is not None:
        words += ["--runtime", str(ground.library.runtime)]
    if with_plugin:
        words += ["--plugin", str(plugin.library())]
    words += [] if ground.bind else ["--bind", "none"]
    if ground.host_ids:
        script = folder / "start.sh"
        files.write_atomically(script, _one_by_one(words, ground.host_ids))
        # The script has all of it; the words are for whoever reads run.json.
        return ("/bin/sh", str(script), *words), environment.variables
    if here:
        return tuple(words), environment.variables
    names = {name for name, _ in (*environment.added, *environment.passed)}
    options, variables = ground.launcher.carry(
        {*names, launch_processes.TAG}, {**environment.variables, launch_processes.TAG: ""}
    )
    argv = ground.launcher.argv(n_ranks, tuple(words), bind="none", hostfile=ground.hostfile)
    return (argv[0], *options, *argv[1:]), variables


def _one_by_one(words: Sequence[str], host_ids: Sequence[str]) -> str:
    """A script that starts each rank with the host that it plays on, and fails where one does."""
    lines = ["ranks="]
    locals_: Counter[str] = Counter()
    for rank, host in enumerate(host_ids):
        numbered = (*words, "--rank", str(rank), "--ranks", str(len(host_ids)))
        command = shlex.join((*numbered, "--local-rank", str(locals_[host])))
        lines.append(f'NCCL_HOSTID={shlex.quote(host)} {command} & ranks="$ranks $!"')
        locals_[host] += 1
    lines.append("code=0; for rank in $ranks; do wait $rank || code=$?; done; exit $code")
    return "\n".join([*lines, ""])


# Looks at what ranks wrote, and the variables set for them, before anything is timed; raises where
# nothing must be.
Check: TypeAlias = "Callable[[Sequence[Sequence[str]], Mapping[str, str]], None]"


class WaitingRanks:
    """All ranks of one start, which wait for steps.

    Args:
        ground: where they run.
        folder: of the run.
        file: what was started.
        launch: their processes.
        token: by which they know each other, and us.
        largest: bytes of the largest step that they have buffers for.
        check: of what they wrote, made when all have their devices, and once more when the first
            communicator is made.

    Attributes:
        first_us: µs that the first communicator took, None before it is made.
    """

    def __init__(
        self,
        ground: LaunchSetup,
        folder: Path,
        file: RunFile,
        launch: RunningLaunch,
        *,
        token: str,
        largest: int,
        check: Check | None,
    ) -> None:
        """Nothing was sent yet."""
        self.largest = largest
        self.first_us: float | None = None
        self._ground, self._folder, self._file, self._launch = ground, folder, file, launch
        self._token, self._check = token, check
        self._plan = (folder / runs.PLAN_FILE).open("ab", buffering=0)
        self._connection: RankConnection | None = None
        # As rows_open() of the program begins each file; all that follows comes in answers.
        self._lines = [["# rccltune-perf 1"] for _ in range(ground.n_ranks)]
        self._ended: Run | None = None

    @property
    def is_over(self) -> bool:
        """Whether they have ended."""
        return self._ended is not None

    @property
    def seconds(self) -> float:
        """How long ago they were started."""
        return self._launch.seconds

    @property
    def run(self) -> Run:
        """Run of these ranks, as far as they have measured.

        Raises:
            OutputError: a line that is none of theirs.
        """
        if self._ended is not None:
            return self._ended
        text = (self._folder / runs.PLAN_FILE).read_text(encoding="utf-8")
        steps = plan.read_plan(text, str(self._folder / runs.PLAN_FILE))
        return runs.run_of(self._folder, self._file, steps, self._lines)

    def answer_by(self, rules: str) -> None:
        """Let communicators that are made from now on answer by a rule file.

        Args:
            rules: its text.

        Raises:
            SessionError: the disk refuses.
        """
        _write_over(self._folder / RULES_FILE, rules)

    def make(
        self,
        communicators: Communicators,
        *,
        until: float | None = None,
        show: Callable[[int], None] = lambda _: None,
    ) -> Run:
        """Let them make communicators with their steps.

        Args:
            communicators: steps of each.
            until: time of ``time.monotonic`` from which on nothing more is sent.
            show: told now and then how many steps are made.

        Returns:
            All that they have measured; ended where a step failed.

        Raises:
            SessionError: the disk refuses.
            LaunchError: a process cannot be killed (it hangs in the driver).
            RccltuneError: as the check does.
        """
        n_made, shown = 0, time.monotonic()
        try:
            lines = self._send(plan.plan_lines(communicators), until)
            connection = self._connect()
            # The first communicator alone: the check of it may stop before anything is timed.
            parts = [islice(lines, 1), lines] if self.first_us is None else [lines]
            answers = (connection.exchange(part, self._limit_of) for part in parts)
            for answer in chain.from_iterable(answers):
                self._keep(answer)
                n_made += 1
                if time.monotonic() - shown >= _SHOW_EACH_S:
                    shown = time.monotonic()
                    show(n_made)
        except ConnectionLostError:
            return self._end()
        except HungError:
            return self._end(hung=True)
        return self.run

    def _connect(self) -> RankConnection:
        """The connection, once all ranks have their devices."""
        if self._connection is None:
            self._connection = connect(
                self._folder,
                self._token,
                self._ground.n_ranks,
                limit_s=communicator_limit_s(None, self._ground.n_ranks),
                is_over=lambda: self._launch.is_over,
            )
            first = self._send([plan.first_line(self.largest)], None)
            for answer in self._connection.exchange(first, self._limit_of):
                self._keep(answer)
            self._check_lines()
        return self._connection

    def _send(self, lines: Iterable[str], until: float | None) -> Iterator[str]:
        """Lines that are sent, each of which plan.txt has first."""
        for line in lines:
            if until is not None and time.monotonic() >= until:
                return
            with files.disk_errors(self._folder / runs.PLAN_FILE):
                self._plan.write(f"{line}\n".encode())
            yield line

    def _keep(self, answer: Answer) -> None:
        """Keep what came back."""
        for lines, more in zip(self._lines, answer.ranks, strict=True):
            lines.extend(more)
        if self.first_us is None and answer.line.startswith(plan.COMMUNICATOR):
            row = next(line for line in answer.ranks[0] if line[:1].isdigit())
            self.first_us = float(row.split(",")[_TIME_COLUMN])
            self._check_lines()

    def _check_lines(self) -> None:
        if self._check is not None:
            self._check(self._lines, dict(self._file.added))

    def _limit_of(self, line: str) -> float:
        """Longest time in seconds that a line may take."""
        ground = self._ground
        return step_limit_s(line, self.first_us, ground.n_ranks, ground.hung_after_s)

    def end(self) -> Run:
        """Let them end by themselves, where they have not ended yet.

        Raises:
            SessionError: the disk refuses.
            LaunchError: a process cannot be killed (it hangs in the driver).
        """
        if self._ended is None and self._connection is not None:
            self._connection.end()
        return self._end()

    def _end(self, *, hung: bool = False) -> Run:
        """End what is left, and write how it ended."""
        if self._ended is not None:
            return self._ended
        deadline = time.monotonic() + (0 if hung else _LEAVE_S)
        while not self._launch.is_over and time.monotonic() < deadline:
            time.sleep(_LOOK_S)
        ending = self._launch.end(timed_out=hung)
        if self._connection is not None:
            self._connection.close()
        self._plan.close()
        run = runs.read_run(self._folder)
        end = describe_end(run, ending, hung=hung)
        files.write_atomically(self._folder / runs.END_FILE, store.dump_json(end))
        self._ended = replace(run, ended=end)
        return self._ended


@contextmanager
def waiting_ranks(
    ground: LaunchSetup,
    session: Path,
    *,
    site: Mapping[str, str],
    with_plugin: bool,
    largest: int,
    check: Check | None = None,
) -> Iterator[WaitingRanks]:
    """Start all ranks; they have certainly ended behind the block.

    Args:
        ground: where.
        session: in which the run gets a folder.
        site: the environment of rccltune itself.
        with_plugin: whether our plugin is loaded; otherwise the site is as it is.
        largest: bytes of the largest step that they get.
        check: as of :class:`WaitingRanks`.

    Raises:
        MachineError: the program cannot be started.
        SessionError: the disk refuses.
        LaunchError: a process cannot be killed (it hangs in the driver).
    """
    token = secrets.token_hex(16)
    folder = _make_folder(session, max(runs.numbers(session), default=0) + 1)
    environment = environment_of(ground, folder, site, token, with_plugin=with_plugin)
    argv, variables = argv_of(ground, folder, environment, with_plugin=with_plugin)
    file = RunFile(
        process=token[:12],
        plugin=with_plugin,
        n_nodes=ground.place.scale.n_nodes,
        n_ranks=ground.n_ranks,
        rank_placement=ground.place.name,
        library=str(ground.library.file),
        library_version=ground.library.version,
        runtime=None if ground.library.runtime is None else str(ground.library.runtime),
        argv=argv,
        added=_public_variables(environment.added),
        started=datetime.now(timezone.utc).isoformat(timespec="seconds"),
    )
    files.write_atomically(folder / runs.PLAN_FILE, "")
    if with_plugin:
        files.write_atomically(folder / RULES_FILE, _NO_RULES)
    files.write_atomically(folder / runs.ENVIRONMENT_FILE, store.dump_json(_recorded(environment)))
    files.write_atomically(folder / runs.RUN_FILE, store.dump_json(file))
    command = process.LaunchCommand(
        argv=argv,
        variables=variables,
        folder=folder,
        timeout_s=0,
        is_complete=lambda _: False,
        log=runs.LOG_FILE,
    )
    with process.running(command) as launch:
        ranks = WaitingRanks(
            ground, folder, file, launch, token=token, largest=largest, check=check
        )
        yield ranks
        ranks.end()


def _public_variables(pairs: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Variables that may be told: who knows the ranks' word could join them."""
    return tuple(pair for pair in pairs if pair[0] != _ALL_RANKS)


def _recorded(environment: LaunchEnvironment) -> dict[str, Any]:
    """Content of environment.json, as launches have it."""
    return {
        "cleared": dict(environment.cleared),
        "passed": dict(environment.passed),
        "added": dict(_public_variables(environment.added)),
        "files": [],
    }


def _make_folder(session: Path, number: int) -> Path:
    """A new folder; one that a run left before it said what it was is taken over."""
    folder = (session / runs.FOLDER / str(number)).resolve()
    with files.disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.iterdir():
            path.unlink()
    return folder


def _write_over(path: Path, text: str) -> None:
    """Write the same file anew: other hosts see that when they open it next."""
    with files.disk_errors(path), path.open("r+", encoding="utf-8") as stream:
        stream.truncate()
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
