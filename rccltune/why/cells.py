"""Why a rule's cell cannot be chosen, and the variable that opens it."""

from __future__ import annotations

from typing import Final

from rccltune.model import Algorithm, Protocol, Setting
from rccltune.releases import CHOOSING_FREELY
from rccltune.why import remedies
from rccltune.why.answers import Kind, Known, Reason, RuleHere
from rccltune.why.records import Job, Key, Seen

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


def not_selectable(rule: RuleHere, key: Key, seen: Seen, job: Job, known: Known) -> Reason:
    """The answer where a rule matches and its cell is not offered."""
    text = f"rule of line {rule.line} asks for {rule.setting}, which the library does not offer"
    if seen.offered:
        text += f" (it offers {', '.join(sorted(map(str, seen.offered)))})"
    reason, remedy = _why(rule.setting, key, job, known)
    return Reason(Kind.NOT_SELECTABLE, f"{text}{reason}", remedy)


def unmet(job: Job) -> str | None:
    """The variable that the job's own plugin says it lacks."""
    needs = {one.needs for counted in job.started.values() for one in counted if one.needs}
    return remedies.export(min(needs)) if needs else None


def is_offered(rule: RuleHere, seen: Seen) -> bool:
    """Whether a cell could be chosen; without a trace, no answer says that it could not."""
    if rule.setting.algorithm is None:
        return True
    if seen.offered is None:
        return bool(rule.conditions)
    return cell_of(rule.setting) in seen.offered


def cell_of(setting: Setting) -> Setting:
    """Algorithm and protocol of a setting; one of channels alone has no cell."""
    if setting.algorithm is None and setting.protocol is None:
        return setting
    return Setting(algorithm=setting.algorithm, protocol=setting.protocol)


def _why(setting: Setting, key: Key, job: Job, known: Known) -> tuple[str, str | None]:
    """What shuts a cell out, nearest first: the job's own variables, the host, the file, RCCL."""
    for name, word in (("NCCL_ALGO", setting.algorithm), ("NCCL_PROTO", setting.protocol)):
        values = job.variables.get(name)
        if values and word is not None and not any(admits(v, word.value) for v in values):
            return f": {name}={'|'.join(sorted(values))} shuts it out", remedies.unset(name)
    if key[0] in job.old_hosts:
        return _OLD_HOST, f"use {CHOOSING_FREELY}, or later, or rules for these three"
    needed = unmet(job)
    if needed is not None:
        return ": the file needs a variable that the job lacks", needed
    is_nvidia = any(version.startswith("NCCL") for version in job.versions)
    is_rccl = any(version.startswith("RCCL") for version in job.versions)
    structural = None if is_nvidia else known.why_not(setting, key[1], key[0], is_rccl)
    if structural is None:
        return _why_off(setting, job, is_amd=not is_nvidia and (is_rccl or known.is_amd))
    if setting.algorithm is Algorithm.TREE and setting.protocol is Protocol.SIMPLE:
        patched = remedies.export("RCCL_FORCE_TREE_SIMPLE=1")
        return f": {structural}", f"build RCCL as docs/tree-simple.md says, and {patched}"
    return f": {structural}", None


def _why_off(setting: Setting, job: Job, *, is_amd: bool) -> tuple[str, str | None]:
    """A cell that libraries have, and do not offer here."""
    if setting.protocol is Protocol.LL128 and is_amd:
        if "1" in job.variables.get(_FORCE_LL128, ()):
            why = f": {_FORCE_LL128}=1 is set, yet some rank lacks it or a pair of GPUs has no XGMI"
            return why, remedies.export(f"{_FORCE_LL128}=1")
        return ": LL128 is off here unless forced", remedies.export(f"{_FORCE_LL128}=1")
    if setting.algorithm in _MULTICAST:
        # Who set NCCL_NVLS_ENABLE=0 may have had to: on some machines more than the job suffers.
        off = "0" in job.variables.get("NCCL_NVLS_ENABLE", ())
        why = ": NCCL_NVLS_ENABLE=0 is set" if off else ""
        return why, f"take the rules for {setting.algorithm.value} out of the file"
    switch = _SWITCHES.get(setting.algorithm) if setting.algorithm else None
    return "", remedies.export(switch) if switch else remedies.TELL_LIBRARY


def admits(value: str, word: str) -> bool:
    """Whether NCCL_ALGO or NCCL_PROTO leaves a name in; lists for one collective are let pass."""
    plain = value.split(";", maxsplit=1)[0]
    if ":" in plain:
        return True
    names = {name.strip().lower().replace("_", "") for name in plain.lstrip("^").split(",")}
    return (word.replace("_", "") in names) != plain.startswith("^")
