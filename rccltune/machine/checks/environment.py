"""Variables, and the hidden files that set more of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from rccltune.machine.checks.facts import Circumstances, notes, stops, warns
from rccltune.machine.hidden import hidden_files as files_of
from rccltune.machine.records import Finding
from rccltune.machine.situation import VISIBLE

_OURS: Final = re.compile(r"(NCCL|RCCL)_\w+")
_RUNTIME: Final = re.compile(r"(HSA|ROCR|AMD)_\w+")


def visible_devices(facts: Circumstances) -> Iterator[Finding]:
    """Lists of devices: one at most, each device once, none that is not there."""
    given = {name: facts.variables[name] for name in VISIBLE if name in facts.variables}
    where = ", ".join(given)
    unset = f"unset {' '.join(given)}"
    if len(given) > 1:
        yield warns(
            "several-visible-devices",
            f"{' and '.join(given)} are both set; each counts within what the one before left",
            where,
            expected="one of them at most",
            remedy=unset,
            spoils=True,
        )
    for name, value in given.items():
        tokens = [token.strip() for token in value.split(",")]
        if name == "ROCR_VISIBLE_DEVICES" and not value.strip():
            yield stops(
                "no-visible-devices",
                f"{name} is empty, which hides every GPU",
                name,
                remedy=unset,
            )
            continue
        wrong = _wrong_tokens(tokens, len(facts.system.gpus))
        if wrong:
            yield warns(
                "bad-visible-devices",
                f"{name}={value}: {wrong}; HIP ends the list there without a word",
                name,
                expected="each device once, by number",
                remedy=unset,
                spoils=True,
            )


def _wrong_tokens(tokens: list[str], n_gpus: int) -> str | None:
    twice = sorted({token for token in tokens if tokens.count(token) > 1})
    if twice:
        return f"'{twice[0]}' is there twice"
    outside = [
        t for t in tokens if t.isascii() and t.isdecimal() and n_gpus and int(t[:9]) >= n_gpus
    ]
    return f"there is no device {outside[0]}" if outside else None


def strays(facts: Circumstances) -> Iterator[Finding]:
    """Variables of the library: some are cleared by a sweep, the others reach every rank."""
    names = sorted(name for name in facts.variables if _OURS.fullmatch(name))
    cleared = [name for name in names if facts.chooses(name)]
    passed = [name for name in names if name not in cleared]
    if cleared:
        yield warns(
            "choosing-variables",
            f"{', '.join(cleared)} choose settings: a sweep clears them, a job keeps them, so the "
            "job will not run what was tuned",
            "environment",
            expected="not set",
            remedy=f"unset {' '.join(cleared)}",
            spoils=True,
        )
    if passed:
        yield notes(
            "library-variables",
            f"{', '.join(passed)} reach every rank of every launch, and are recorded",
            "environment",
            remedy="set the same in the job that will use the rules.",
        )


def runtime_variables(facts: Circumstances) -> Iterator[Finding]:
    """What ROCr and HIP read."""
    if facts.variables.get("HIP_FORCE_DEV_KERNARG") == "0":
        yield warns(
            "kernarg",
            "HIP_FORCE_DEV_KERNARG=0 puts kernel arguments into host memory: 2 to 3 µs a kernel",
            "HIP_FORCE_DEV_KERNARG",
            expected="1, the default since ROCm 6.2",
            remedy="export HIP_FORCE_DEV_KERNARG=1",
            spoils=True,
        )
    names = sorted(n for n in facts.variables if _RUNTIME.fullmatch(n) and n not in VISIBLE)
    if names:
        yield notes(
            "runtime-variables",
            f"{', '.join(f'{n}={facts.variables[n]}' for n in names)} change the runtime, and are "
            "recorded",
            "environment",
            remedy="set the same in the job that will use the rules.",
            spoils=True,
        )


def bypass(facts: Circumstances) -> Iterator[Finding]:
    """MSCCL++ answers without asking a tuner."""
    names = [n for n in facts.variables if n.startswith(("RCCL_MSCCLPP_", "MSCCLPP_"))]
    if facts.variables.get("RCCL_MSCCLPP_ENABLE", "1") != "0" and names:
        threshold = facts.variables.get("RCCL_MSCCLPP_THRESHOLD", "1 MiB by default")
        yield warns(
            "mscclpp",
            f"{', '.join(sorted(names))}: all_reduce and all_gather up to {threshold} take MSCCL++ "
            "where the library has it, which asks no tuner",
            "environment",
            expected="not set while tuning",
            remedy=f"unset {' '.join(sorted(names))}, or measure it as a variant of its own.",
            spoils=True,
        )


def hidden_files(facts: Circumstances) -> Iterator[Finding]:
    """Files that set variables nobody sees; they fill only what the environment leaves open."""
    for hidden in files_of(facts.root, facts.variables, facts.home, amd=facts.has_amd):
        won, path = hidden.fills(facts.variables), hidden.path
        yield warns(
            "hidden-file",
            f"{path} ({hidden.whose}) sets "
            + (", ".join(f"{n}={v}" for n, v in won) if won else "nothing that is still open"),
            str(path),
            expected="no such file",
            remedy=f"mv {path} {path}.off while measuring, or set the same in every job.",
            spoils=True,
        )


CHECKS: Final = (visible_devices, strays, runtime_variables, bypass, hidden_files)
