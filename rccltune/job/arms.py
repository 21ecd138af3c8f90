"""What runs of a job differ by: nothing of ours, the rules, or rules that are bad on purpose."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from rccltune.model import (
    MAX_NBYTES,
    TUNABLE,
    Algorithm,
    Collective,
    CommandLineError,
    Curve,
    Protocol,
    Role,
    Scale,
    Setting,
)

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
