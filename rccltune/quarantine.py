"""The quarantine room: which settings failed too often to be tried again, from the outcomes alone.

A setting that hangs or crashes here would do so in a job. One failure may be the machine's, so it
is tried once more, alone; the second makes it a quarantined setting of this session: nothing more
is started for it, what it measured before is not used, and everybody says why. Pure: whatever is
lost can be derived again from the launches' outcomes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from rccltune.model import (
    Caution,
    Failure,
    Launch,
    Notice,
    Outcome,
    Quarantine,
    Role,
    Sample,
    Scale,
    Setting,
    Status,
)
from rccltune.vocab import Collective, Doubt

Ended = tuple[Launch, Outcome]
_Arm = tuple[Collective, Setting, str, Scale | None, str | None]

# A second failure is the setting's own. SIGKILL comes from outside (somebody, or the kernel where
# memory is short), so one more of those is borne; a GPU's memory fault is not tried again at all,
# since it may take the GPU with it.
_TRIES: Final = 2
_TRIES_KILLED: Final = 3


def failure_of(outcome: Outcome) -> Failure | None:
    """How a launch failed; None where it did not, or where that was forgiven."""
    if outcome.lifted:
        return None
    if outcome.failure is None and outcome.status is Status.FAILED:
        return Failure.CRASH
    if outcome.failure is None and outcome.status is Status.TIMED_OUT:
        return Failure.HANG
    return outcome.failure


def is_hopeless(failures: Iterable[Failure]) -> bool:
    """Whether these failures are enough to try no more."""
    found = list(failures)
    own = [failure for failure in found if failure is not Failure.KILLED]
    return Failure.MEMORY_FAULT in own or len(own) >= _TRIES or len(found) >= _TRIES_KILLED


def quarantines(ended: Iterable[Ended]) -> tuple[Quarantine, ...]:
    """Every quarantined setting, in the order in which the settings first failed.

    Args:
        ended: all launches of a session that ended, in any order; imported ones never count.
    """
    failed: dict[_Arm, list[Ended]] = {}
    for launch, outcome in ended:
        if _forced(launch) is not None and failure_of(outcome) is not None:
            failed.setdefault(_arm(launch), []).append((launch, outcome))
    return tuple(
        _quarantine(found)
        for found in failed.values()
        if is_hopeless(failure for _, o in found if (failure := failure_of(o)) is not None)
    )


def covers(quarantine: Quarantine, launch: Launch) -> bool:
    """Whether a launch measures a quarantined setting."""
    return _forced(launch) is not None and _arm(launch) == (
        quarantine.collective,
        quarantine.setting,
        quarantine.variant.name,
        quarantine.scale,
        quarantine.rank_placement,
    )


def doubted(samples: Iterable[Sample], ended: Iterable[Ended]) -> list[Sample]:
    """The same samples; those of quarantined settings carry a doubt."""
    pairs = tuple(ended)
    found = quarantines(pairs)
    if not found:
        return list(samples)
    barred = {launch.id for launch, _ in pairs if any(covers(one, launch) for one in found)}
    return [
        replace(sample, doubt=Doubt.QUARANTINED)
        if sample.doubt is None and sample.launch.partition(".")[0] in barred
        else sample
        for sample in samples
    ]


def notices(found: Iterable[Quarantine]) -> tuple[Notice, ...]:
    """One warning for each, with its logs."""
    return tuple(
        Notice(
            caution=Caution.QUARANTINED,
            message=f"{one} is quarantined and not measured: {one.reason}",
            remedy="look into its log; rccltune sweep … --lift-quarantine tries it again.",
            where=", ".join(f"launches/{name}/" for name in one.launches),
        )
        for one in found
    )


def _forced(launch: Launch) -> Setting | None:
    """The setting that a launch forces; baselines, imported files and walks force no single one."""
    if not launch.argv or launch.schedule is None or not launch.collectives:
        return None
    if launch.schedule.questions is not None:
        return None
    setting = launch.schedule.settings[0]
    return None if setting.role is Role.BASELINE else setting


def _arm(launch: Launch) -> _Arm:
    setting = launch.schedule.settings[0] if launch.schedule else Setting(role=Role.UNSTATED)
    return (
        launch.collectives[0],
        setting,
        launch.variant.name,
        launch.scale,
        launch.rank_placement,
    )


def _quarantine(failed: list[Ended]) -> Quarantine:
    ordered = sorted(failed, key=lambda pair: (pair[0].repeat, pair[0].attempt))
    first = ordered[0][0]
    collective, setting, _, scale, placement = _arm(first)
    return Quarantine(
        collective=collective,
        setting=setting,
        variant=first.variant,
        scale=scale,
        rank_placement=placement,
        launches=tuple(launch.id for launch, _ in ordered),
        failures=tuple(f for _, outcome in ordered if (f := failure_of(outcome)) is not None),
    )
