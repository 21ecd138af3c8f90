"""Remedies: what takes a path or a cell away, and the line to export where there is one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from rccltune.logs.environment import allowed_names
from rccltune.model.choice import Rule
from rccltune.model.settings import Setting
from rccltune.model.vocabulary import Algorithm, Collective, Protocol
from rccltune.releases import CHOOSING_FREELY, release_of
from rccltune.why.knowledge import JobKnowledge, conditions_of
from rccltune.why.records import (
    AnswerKind,
    BypassingPath,
    JobLogs,
    Key,
    Reason,
    SizeRecord,
    TypeAndOperation,
)

# What the library's own lines call them by; no variable is known that takes them away.
SYMMETRIC: Final = "symmetric kernels"
# As the catalog of variants calls it.
DIRECT_GATHER: Final = "direct AllGather"


def bypassed(
    key: Key, seen: SizeRecord, named: Collection[str], job: JobLogs, known: JobKnowledge
) -> Reason:
    """The answer where a call was made and no tuner asked.

    Args:
        key: scale, collective and size.
        seen: what the files say of it.
        named: paths that the files name; empty where they only show that nothing was asked.
        job: all evidence.
        known: has the paths that there are.
    """
    around = list(_around(key, seen, job, known))
    if named:
        return _by_name(named, around)
    # A library asks once for calls of a group, with their sum; its own lines would show them.
    alone = key[0] in job.tuning or job.tables
    grouped = "" if alone else " (or grouped with others, and asked about as their sum)"
    if not around:
        return Reason(
            AnswerKind.BYPASSED,
            f"the plugin was never asked about this size: {job.library or 'the library'} takes a "
            f"path before the tuner that rccltune knows no name of{grouped}",
            "see which one: export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=ALL",
        )
    names = " or ".join(one.name for one in around)
    remedy = _measured([one.export for one in around if one.export])
    return Reason(AnswerKind.BYPASSED, f"by {names}, which asks no tuner{grouped}", remedy)


def _by_name(named: Collection[str], around: Sequence[BypassingPath]) -> Reason:
    remedy = _measured([one.export for one in around if one.name in named and one.export])
    if SYMMETRIC in named:
        remedy = "leave the buffers out of symmetric windows, or take the path as it is"
    return Reason(
        AnswerKind.BYPASSED, f"by {', '.join(sorted(named))}, which asks no tuner", remedy
    )


def _around(
    key: Key, seen: SizeRecord, job: JobLogs, known: JobKnowledge
) -> Iterator[BypassingPath]:
    where, collective, nbytes = key
    names: set[str] = set()
    for kindred in sorted(seen.kindred, key=str) or [TypeAndOperation(None, None)]:
        for path in known.paths.of(collective, nbytes, where, kindred, job.library):
            if path.name not in names:
                names.add(path.name)
                yield path


def _measured(exports: Sequence[str]) -> str | None:
    """A path may well be faster than every rule."""
    return f"{export(exports[0])}, and measure whether that is faster" if exports else None


TELL_LIBRARY: Final = (
    "run the job with: export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,TUNING,COLL "
    "NCCL_DEBUG_FILE=/path/nccl.%h.%p"
)
LOG: Final = "RCCLTUNE_LOG=decisions:/path/plugin.%h.%p"
TELL_PLUGIN: Final = f"run the job with: export {LOG}"
TELL_ALL: Final = f"{TELL_LIBRARY} {LOG}"
USE_PLUGIN: Final = 'set on every rank: export NCCL_TUNER_PLUGIN="$(rccltune plugin --path)"'
SAME_FILE: Final = (
    "put the same rule file on every host and set: export NCCL_TUNER_CONFIG_FILE=/path/rules.csv"
)
CHECK_LIBRARY: Final = (
    "see which library the job loads (grep ccl /proc/PID/maps), and name the one that was measured "
    "in its LD_LIBRARY_PATH"
)


KEEP_SIMPLE: Final = (
    "leave NCCL_PROTO as the network plugin set it, since LL and LL128 are not safe there, and use "
    "rules for simple alone"
)


def export(text: str) -> str:
    """Set a variable everywhere: choices must be alike on all ranks."""
    return f"set on every rank: export {text}"


def tell_rules(path: str | None) -> str:
    """Answers at single sizes need the file; the plugin says which one it read."""
    return f"give the job's rule file as well: {path or 'FILE'}"


def unset(*names: str) -> str:
    """Take variables away everywhere."""
    return f"take away on every rank: unset {' '.join(names)}"


def lift(limits: Iterable[tuple[str, str]], library: str | None) -> str:
    """Take away variables that leave a collective nothing, and say what serves one collective.

    Args:
        limits: names and values.
        library: what the job loads, None where that is not known.
    """
    taken = unset(*dict(limits))
    release = release_of(library)
    if release is not None and release.limits_by_name:
        return f"{taken}, or name the one collective that it is meant for: NCCL_ALGO=allreduce:tree"
    return (
        f"{taken} (what stands there is for every collective), and give what is meant for one of "
        'them to the plugin as a rule: export NCCL_TUNER_PLUGIN="$(rccltune plugin --path)" '
        "NCCL_TUNER_CONFIG_FILE=/path/rules.csv"
    )


_FORCE_LL128: Final = "RCCL_LL128_FORCE_ENABLE"
_MULTICAST: Final = (Algorithm.NVLS, Algorithm.NVLS_TREE)
_OLD_HOST: Final = (
    ": a library that looks for version 2 takes answers unchecked, so only ring/ll, ring/simple "
    "and tree/ll are given there"
)
# Algorithms that libraries offer where a variable asks for them.
_SWITCHES: Final = {
    Algorithm.PAT: "NCCL_PAT_ENABLE=1",
    Algorithm.COLLNET_CHAIN: "NCCL_COLLNET_ENABLE=1",
    Algorithm.COLLNET_DIRECT: "NCCL_COLLNET_ENABLE=1",
}


def not_selectable(
    rule: Rule, key: Key, seen: SizeRecord, job: JobLogs, known: JobKnowledge
) -> Reason:
    """The answer where a rule matches and its cell is not offered."""
    text = f"rule of line {rule.line} asks for {rule.setting}, which the library does not offer"
    if seen.offered:
        text += f" (it offers {', '.join(sorted(map(str, seen.offered)))})"
    reason, remedy = _why(rule.setting, key, job, known)
    return Reason(AnswerKind.NOT_SELECTABLE, f"{text}{reason}", remedy)


def unmet(job: JobLogs) -> str | None:
    """The variable that the job's own plugin says it lacks."""
    needs = {one.needs for counted in job.started.values() for one in counted if one.needs}
    return export(min(needs)) if needs else None


def is_offered(rule: Rule, seen: SizeRecord) -> bool:
    """Whether a cell could be chosen; where nobody said, no answer says that it could not."""
    if rule.setting.algorithm is None:
        return True
    if seen.offered is None:
        return bool(conditions_of(rule))
    return cell_of(rule.setting) in seen.offered


def cell_of(setting: Setting) -> Setting:
    """Algorithm and protocol of a setting; one of channels alone has no cell."""
    if setting.algorithm is None and setting.protocol is None:
        return setting
    return Setting(algorithm=setting.algorithm, protocol=setting.protocol)


def _why(setting: Setting, key: Key, job: JobLogs, known: JobKnowledge) -> tuple[str, str | None]:
    """Reason a cell is out, nearest first: the job's variables, the host, the file, RCCL."""
    for name in ("NCCL_ALGO", "NCCL_PROTO"):
        values = job.variables.get(name)
        if values and not any(admits(name, value, setting, key[1]) for value in values):
            # What a network plugin set is needed by its fabric.
            remedy = KEEP_SIMPLE if name in job.added else unset(name)
            return f": {name}={'|'.join(sorted(values))} shuts it out", remedy
    if key[0] in job.old_hosts:
        return _OLD_HOST, f"use {CHOOSING_FREELY}, or later, or rules for these three"
    needed = unmet(job)
    if needed is not None:
        return ": the file needs a variable that the job lacks", needed
    is_nvidia = any(version.startswith("NCCL") for version in job.versions)
    is_rccl = any(version.startswith("RCCL") for version in job.versions)
    structural = None if is_nvidia else known.why_not(setting, key[1], key[0], is_rccl=is_rccl)
    if structural is None:
        return _why_off(setting, job, is_amd=not is_nvidia and (is_rccl or known.is_amd))
    if setting.algorithm is Algorithm.TREE and setting.protocol is Protocol.SIMPLE:
        patched = export("RCCL_FORCE_TREE_SIMPLE=1")
        return f": {structural}", f"build RCCL as docs/measuring.md says, and {patched}"
    return f": {structural}", None


def _why_off(setting: Setting, job: JobLogs, *, is_amd: bool) -> tuple[str, str | None]:
    """A cell that libraries have, and do not offer here."""
    if setting.protocol is Protocol.LL128 and is_amd:
        if "1" in job.variables.get(_FORCE_LL128, ()):
            why = f": {_FORCE_LL128}=1 is set, yet some rank lacks it or a pair of GPUs has no XGMI"
            return why, export(f"{_FORCE_LL128}=1")
        return ": LL128 is off here unless forced", export(f"{_FORCE_LL128}=1")
    if setting.algorithm in _MULTICAST:
        # Who set NCCL_NVLS_ENABLE=0 may have had to: on some machines more than the job suffers.
        off = "0" in job.variables.get("NCCL_NVLS_ENABLE", ())
        why = ": NCCL_NVLS_ENABLE=0 is set" if off else ""
        return why, f"take the rules for {setting.algorithm.value} out of the file"
    switch = _SWITCHES.get(setting.algorithm) if setting.algorithm else None
    return "", export(switch) if switch else TELL_LIBRARY


_CHOOSING: Final = (
    (("NCCL_ALGO", "RCCL_OVERRIDE_ALGO"), Algorithm),
    (("NCCL_PROTO", "RCCL_OVERRIDE_PROTO"), Protocol),
)


def admits(name: str, value: str, setting: Setting, collective: Collective | None) -> bool:
    """Whether NCCL_ALGO or NCCL_PROTO leaves a setting in; what is not known is let pass."""
    if name in _CHOOSING[0][0]:
        algorithms = allowed_names(value, Algorithm, collective)
        return setting.algorithm is None or algorithms is None or setting.algorithm in algorithms
    protocols = allowed_names(value, Protocol, collective)
    return setting.protocol is None or protocols is None or setting.protocol in protocols


def as_asked(job: JobLogs, ran: Setting) -> str:
    """``, as NCCL_PROTO=Simple asks``, where the job's environment leaves nothing else."""
    asking = [
        f"{name}={value}"
        for names, kind in _CHOOSING
        for name in names
        for value in sorted(job.variables.get(name, ()))
        if (left := allowed_names(value, kind, None)) is not None
        and len(left) == 1
        and left <= {ran.algorithm, ran.protocol}
    ]
    return f", as {' and '.join(asking)} ask{'s'[: len(asking) == 1]}" if asking else ""
