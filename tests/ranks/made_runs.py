"""Runs of the rank program made by hand: files as it writes them, without it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rccltune.model.settings import Setting
from rccltune.model.vocabulary import Collective, Placement
from rccltune.ranks import plan, runs
from rccltune.ranks.plan import CollectiveCall, Step

HEAD: Final = runs.COLUMNS
FIRST: Final = plan.Label(plan.FIRST, 0)
RUN: Final[Mapping[str, Any]] = {
    "format": 2,
    "process": "0123456789ab",
    "plugin": True,
    "n_nodes": 1,
    "n_ranks": 2,
    "rank_placement": "node",
    "library": "/opt/rocm/lib/librccl.so.1",
    "library_version": "RCCL 2.27.7",
    "runtime": None,
    "argv": ["rccltune-perf", "--plugin", "/opt/plugin.so"],
    "added": [],
    "started": "2026-11-27T00:00:00+00:00",
}


def call(nbytes: int = 1024, placement: Placement = Placement.OUT_OF_PLACE) -> CollectiveCall:
    """An all_reduce of floats."""
    return CollectiveCall(Collective.ALL_REDUCE, "float", "sum", placement, nbytes)


def step(kind: str, setting: str, nbytes: int = 1024, timing: str = "") -> Step:
    """A step of one."""
    return Step(kind, Setting.parse(setting), call(nbytes), timing)


# What a program says of a step: fields by name, of one rank.
Told = Callable[[Step, int], Mapping[str, Any]]


def as_asked(one: Step, rank: int) -> dict[str, Any]:
    """Everything went as it was asked for; the second rank is slower by 2 µs."""
    forced = one.setting.is_complete
    told: dict[str, Any] = {
        "calls": 10 if one.kind == plan.MEASURE else 0,
        "time_us": 10.0 + 2 * rank if one.kind == plan.MEASURE else "",
        "made": 12,
        "asked": 12,
        "told_bytes": one.call.nbytes,
        "library": "ring/ll",
        "answer": str(one.setting) if forced else "none",
        "registered": 0,
        "selectable": "3f",
    }
    if one.kind != plan.MEASURE and rank == 0:
        told["ran"] = f"{one.setting}/8" if forced else "ring/ll/8"
    if one.kind == plan.CHECK:
        told |= {"checked": 256, "wrong": 0}
    return told


def row(line: int, one: Step | None, told: Mapping[str, Any]) -> str:
    """A line of a rank's file."""
    fields = dict.fromkeys(HEAD.split(","), "")
    kind, nbytes = (plan.COMMUNICATOR, 0) if one is None else (one.kind, one.call.nbytes)
    fields |= {"line": line, "communicator": 0, "step": kind, "nbytes": nbytes, "calls": 0}
    return ",".join(str(value) for value in {**fields, **told}.values())


def make(
    session: Path,
    steps: Sequence[Step],
    *,
    number: int = 1,
    told: Told = as_asked,
    done: Sequence[int] | None = None,
    remarks: Sequence[str] = (),
    ending: Mapping[str, Any] | None = None,
    label: plan.Label = FIRST,
    **file: object,
) -> Path:
    """A run of two ranks with one communicator.

    Args:
        session: the folder.
        steps: of the plan.
        number: of the run.
        told: what each rank says of each step.
        done: rows that each rank has; all where None.
        remarks: of each rank.
        ending: what ending.json says beside a good end; {} for a good one, None for none.
        label: of its communicator.
        file: what run.json says otherwise.
    """
    own = session / runs.FOLDER / str(number)
    own.mkdir(parents=True)
    text = plan.plan_text({label: steps})
    (own / runs.PLAN_FILE).write_text(text)
    (own / runs.RUN_FILE).write_text(json.dumps({**RUN, **file}))
    placed = plan.read_plan(text, "plan.txt")
    for rank in range(2):
        rows = [
            row(one.line, one.step, {"time_us": 50} if one.step is None else told(one.step, rank))
            for one in placed
        ]
        rows = rows[: None if done is None else done[rank]]
        lines = ["# rccltune-perf 1", *(f"# {said}" for said in remarks), HEAD, *rows]
        (own / f"rank-{rank}.csv").write_text("\n".join([*lines, ""]))
    if ending is not None:
        good = {"exit_code": 0, "signal": None, "duration_s": 1.5}
        (own / runs.END_FILE).write_text(json.dumps({**good, **ending}))
    return own
