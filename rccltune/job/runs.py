"""Runs of the user's command: what they differ by, and each in a folder of its own, ended whole.

FOLDER/job.json                     what is tried
FOLDER/rules.csv control.csv        what each kind gets
FOLDER/runs/007-rules/              stdout.log stderr.log steps-*.json plugin-*.log record-*.csv
                                    outcome.json (written last), and what the job writes there
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Final

from rccltune.job.measures import Measured, measured
from rccltune.launch import process
from rccltune.model import schema, vocabulary
from rccltune.model.curves import Curve
from rccltune.model.errors import CommandLineError, OutputError, reason_of
from rccltune.model.schema import Line, Number, Whole
from rccltune.model.settings import Role, Scale, Setting
from rccltune.model.vocabulary import MAX_NBYTES, TUNABLE, Algorithm, Collective, Protocol
from rccltune.session import files
from rccltune.why import trace
from rccltune.why.evidence import Evidence

LOG: Final = "plugin-%h-%p.log"
RECORD: Final = "record-%h-%p.csv"
STEPS: Final = "steps-%h-%p.json"
RUN: Final = "{run}"
# What every library offers for every collective; one channel of it is what a wrong tuner once
# asked for by mistake, and cost a factor of 14.
_ONE_CHANNEL: Final = Setting(algorithm=Algorithm.RING, protocol=Protocol.SIMPLE, channels=1)
# Variables that choose by themselves, so that rules cannot.
CHOOSING: Final = ("NCCL_ALGO", "NCCL_PROTO", "RCCL_OVERRIDE_ALGO", "RCCL_OVERRIDE_PROTO")


class Arm(Enum):
    """One way to run the job; the value is its name for people and folders."""

    AS_IS = "as-is"
    RULES = "rules"
    CONTROL = "control"

    @property
    def words(self) -> str:
        """In a sentence."""
        return {"as-is": "as it is", "rules": "with the rules", "control": "with bad rules"}[
            self.value
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """A rule file for a kind of run.

    Attributes:
        needs: (name, value) that the ranks get beside it.
    """

    path: Path
    needs: tuple[tuple[str, str], ...] = ()


def turn(round_number: int, arms: Sequence[Arm]) -> tuple[Arm, ...]:
    """The kinds of a round in order: each is first, in the middle and last equally often."""
    at = round_number % len(arms)
    turned = (*arms[at:], *arms[:at])
    return turned if (round_number // len(arms)) % 2 == 0 else turned[::-1]


def environment(
    site: Mapping[str, str], run: Path, rules: Rules | None, library: Path
) -> dict[str, str]:
    """All variables of one run.

    The site's own stay, those that choose included: the job is tried as it is.

    Args:
        site: what rccltune itself was started with.
        run: the run's own folder, absolute.
        rules: of the kind; None for the job as it is, which gets nothing of ours but where its
            steps go.
        library: the plugin.
    """
    made = {
        **site,
        "RCCLTUNE_JOB_RUN": str(run),
        "RCCLTUNE_JOB_STEPS": str(run / STEPS),
    }
    if rules is not None:
        made |= {
            "NCCL_TUNER_PLUGIN": str(library),
            "NCCL_TUNER_CONFIG_FILE": str(rules.path),
            "RCCLTUNE_LOG": f"summary:{run / LOG}",
            "RCCLTUNE_RECORD": str(run / RECORD),
            **dict(rules.needs),
        }
    return made


def check_site(site: Mapping[str, str]) -> None:
    """Stop where a variable of ours would make kinds alike.

    Raises:
        CommandLineError: RCCLTUNE_SCHEDULE goes before any rule.
    """
    if site.get("RCCLTUNE_SCHEDULE"):
        raise CommandLineError(
            "RCCLTUNE_SCHEDULE is set, and wins over the rules of every run",
            hint="unset RCCLTUNE_SCHEDULE, then run the same command again.",
        )


def command_of(words: Sequence[str], run: Path) -> tuple[str, ...]:
    """The user's command with the run's folder in the place of ``{run}``."""
    return tuple(word.replace(RUN, str(run)) for word in words)


def bad_rules(curves: Sequence[Curve]) -> str:
    """A rule file that is bad on purpose: on one channel, and by the slowest measured cell.

    Around each measured size the slowest of what was measured there; one channel of ring/simple
    for all else. Settings that gave wrong results once are in none of them.

    Args:
        curves: of a session; without any, one channel of ring/simple for everything.
    """
    lines = ["# Deliberately bad rules: the control of rccltune job. Not for use."]
    for (collective, scale), mine in sorted(_by_target(curves).items(), key=lambda p: str(p[0])):
        lines += _worst_rows(collective, scale, mine)
    lines += [_row(one, 0, MAX_NBYTES, _ONE_CHANNEL, None) for one in TUNABLE]
    return "\n".join(lines) + "\n"


def _by_target(curves: Sequence[Curve]) -> dict[tuple[Collective, Scale], list[Curve]]:
    found: dict[tuple[Collective, Scale], list[Curve]] = {}
    for curve in curves:
        key, setting = curve.key, curve.key.setting
        is_usable = setting.role is Role.FORCED and setting.is_complete and not curve.n_wrong
        if is_usable and key.variant.name == "default" and key.collective in TUNABLE:
            found.setdefault((key.collective, key.scale), []).append(curve)
    return found


def _worst_rows(collective: Collective, scale: Scale, curves: Sequence[Curve]) -> list[str]:
    worst: dict[int, tuple[float, Setting]] = {}
    for curve in curves:
        for point in curve.points:
            known = worst.get(point.nbytes)
            if known is None or point.time_us > known[0]:
                worst[point.nbytes] = (point.time_us, curve.key.setting)
    rows, begin = [], 0
    sizes = sorted(worst)
    for at, nbytes in enumerate(sizes):
        # Half-way to the next size, in the logarithm; the last one holds to the end.
        is_last = at + 1 == len(sizes)
        end = MAX_NBYTES if is_last else max(nbytes, int((nbytes * sizes[at + 1]) ** 0.5))
        slowest = worst[nbytes][1]
        setting = Setting(algorithm=slowest.algorithm, protocol=slowest.protocol, channels=1)
        rows.append(_row(collective, begin, end, setting, scale))
        begin = end + 1
    return rows


def _row(
    collective: Collective, least: int, most: int, setting: Setting, scale: Scale | None
) -> str:
    if setting.algorithm is None or setting.protocol is None:
        raise ValueError(f"{setting} is no answer")
    where = f"{scale.n_nodes},{scale.n_ranks}" if scale else "-1,-1"
    cell = f"{setting.algorithm.value},{setting.protocol.value},{setting.channels or -1}"
    return f"{collective.csv_name},{least},{most},{cell},{where},-1,-1"


def set_in(site: Mapping[str, str]) -> tuple[str, ...]:
    """``NAME=VALUE`` of what chooses in every kind, rules or not."""
    return tuple(f"{name}={site[name]}" for name in CHOOSING if site.get(name))


def site_variables() -> dict[str, str]:
    """The environment of this process, without the command line's own twins."""
    return {n: v for n, v in os.environ.items() if not n.startswith("RCCLTUNE_CLI_")}


OUTCOME: Final = "outcome.json"
_NAME: Final = re.compile(r"([0-9]{3,})-(as-is|rules|control)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run ended; written when it has.

    Attributes:
        began: seconds since 1970.
        limit_s: it would have been ended after so long.
        exit_code: None where a signal or we ended it.
    """

    began: Number
    duration_s: Number
    limit_s: Number
    exit_code: Whole | None
    signal: Whole | None = None
    timed_out: bool = False

    @property
    def is_good(self) -> bool:
        """Whether it ended as a job should."""
        return self.exit_code == 0

    @property
    def words(self) -> str:
        """How it ended, for people."""
        if self.timed_out:
            return f"was ended after {self.limit_s:.0f} s"
        if self.signal:
            return f"ended with signal {self.signal}"
        return f"ended with exit code {self.exit_code}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What the plugin says of its calls, over all processes of a run.

    Attributes:
        n_processes: that wrote a log.
        hits: calls that a rule answered.
        by_rule: line and setting of a rule, and the calls that it answered.
    """

    n_processes: int = 0
    calls: int = 0
    hits: int = 0
    misses: int = 0
    not_selectable: int = 0
    by_rule: tuple[tuple[int, Line, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run, as its folder says.

    Attributes:
        measured: None where it did not end well.
        answers: of the plugin, None where no process loaded it.
    """

    number: int
    arm: Arm
    folder: Path
    outcome: Outcome
    measured: Measured | None = None
    answers: Answers | None = field(default=None)


def folder_of(job: Path, number: int, arm: Arm) -> Path:
    """Where a run lies."""
    return job / "runs" / f"{number:03d}-{arm.value}"


def run(
    folder: Path, command: Sequence[str], variables: Mapping[str, str], limit_s: float
) -> Outcome:
    """Run a command to its end, or end it and all that it started.

    Args:
        folder: of the run; what is left of a run that was interrupted there is thrown away.
        command: with nothing left to put in.
        variables: all of them.
        limit_s: how long it may take.

    Raises:
        MachineError: the program cannot be started.
        LaunchError: a process cannot be killed.
        KeyboardInterrupt: after everything that was started is gone.
    """
    process.end_leftovers([folder])
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    began = time.time()
    ending = process.run(
        process.Job(
            argv=tuple(command),
            variables=variables,
            folder=folder,
            timeout_s=limit_s,
            is_complete=_never,
        )
    )
    outcome = Outcome(
        began=began,
        duration_s=ending.duration_s,
        limit_s=limit_s,
        exit_code=ending.exit_code,
        signal=ending.signal,
        timed_out=ending.timed_out,
    )
    files.write_atomically(folder / OUTCOME, vocabulary.json_text(schema.to_plain(outcome)))
    return outcome


def _never(_folder: Path) -> bool:
    return False


def read_runs(job: Path, pattern: str | None) -> list[Run]:
    """All runs that have ended, by their number.

    Raises:
        OutputError: what one says is not understood.
        SessionError: an outcome that cannot be read.
    """
    found = []
    for folder in sorted((job / "runs").glob("*")):
        named = _NAME.fullmatch(folder.name)
        if named is not None and (folder / OUTCOME).is_file():
            found.append(_read(folder, int(named[1]), Arm(named[2]), pattern))
    return sorted(found, key=lambda one: one.number)


def _read(folder: Path, number: int, arm: Arm, pattern: str | None) -> Run:
    path = folder / OUTCOME
    outcome = schema.read_json(
        Outcome, path.read_bytes(), str(path), "remove its folder; the run is then made again."
    )
    return Run(
        number=number,
        arm=arm,
        folder=folder,
        outcome=outcome,
        measured=measured(folder, pattern, outcome.duration_s) if outcome.is_good else None,
        answers=answers(folder),
    )


def answers(folder: Path) -> Answers | None:
    """What the plugin's logs of a run sum up; None where no process wrote one.

    Raises:
        OutputError: a log cannot be read.
    """
    logs = sorted(path for path in folder.glob("plugin-*.log") if path.is_file())
    if not logs:
        return None
    evidence = Evidence()
    own = trace.OwnLines(evidence)
    for path in logs:
        try:
            with path.open(encoding="utf-8", errors="replace") as stream:
                for line in stream:
                    own.line(path.name, line)
        except OSError as error:
            raise OutputError(
                f"the plugin's log cannot be read: {reason_of(error)}", where=str(path)
            ) from error
    job = evidence.finish({})
    totals = job.totals.values()
    by_rule: dict[tuple[int, str], int] = {}
    for counted in job.hit_rules.values():
        for said, hits in counted.items():
            key = (said.line, str(said.setting))
            by_rule[key] = by_rule.get(key, 0) + hits
    return Answers(
        n_processes=len(logs),
        calls=sum(one.calls for one in totals),
        hits=sum(one.hits for one in totals),
        misses=sum(one.misses for one in totals),
        not_selectable=sum(one.not_selectable for one in totals),
        by_rule=tuple((line, setting, hits) for (line, setting), hits in sorted(by_rule.items())),
    )
