"""Why the library does not offer what a rule asks for, and what would make it."""

from __future__ import annotations

from typing import Final

from rccltune.model.rule import Rule
from rccltune.model.settings import Setting
from rccltune.model.vocabulary import Algorithm, Protocol
from rccltune.releases import CHOOSING_FREELY
from rccltune.why import remedies
from rccltune.why.job_logs import JobLogs, SizeRecord
from rccltune.why.job_report import AnswerKind, CommunicatorScale, Key, Reason
from rccltune.why.knowledge import JobKnowledge, describe_conditions

_FORCE_LL128: Final = "RCCL_LL128_FORCE_ENABLE"
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


def is_offered(rule: Rule, record: SizeRecord) -> bool:
    """Whether a cell could be chosen; where nobody said, no answer says that it could not."""
    if rule.setting.algorithm is None:
        return True
    if record.offered is None:
        return bool(describe_conditions(rule))
    return cell_of(rule.setting) in record.offered


def cell_of(setting: Setting) -> Setting:
    """Algorithm and protocol of a setting; one of channels alone has no cell."""
    if setting.algorithm is None and setting.protocol is None:
        return setting
    return Setting(algorithm=setting.algorithm, protocol=setting.protocol)


def explain_not_selectable(
    rule: Rule, key: Key, record: SizeRecord, job: JobLogs, knowledge: JobKnowledge
) -> Reason:
    """The answer where a rule matches, and its cell is not offered.

    Args:
        rule: the first that matches.
        key: scale, collective and size.
        record: what the files say of that size.
        job: all facts.
        knowledge: of other packages.
    """
    text = f"rule of line {rule.line} asks for {rule.setting}, which the library does not offer"
    if record.offered:
        text += f" (it offers {', '.join(sorted(map(str, record.offered)))})"
    cause, remedy = _find_cause(rule.setting, key, job, knowledge)
    return Reason(AnswerKind.NOT_SELECTABLE, f"{text}{cause}", remedy)


def _find_cause(
    setting: Setting, key: Key, job: JobLogs, knowledge: JobKnowledge
) -> tuple[str, str | None]:
    """Cause and remedy, nearest first: the job's variables, the host, the file, the library."""
    for name in ("NCCL_ALGO", "NCCL_PROTO"):
        values = job.variables.get(name)
        if values and not any(remedies.admits(name, v, setting, key.collective) for v in values):
            # What a network plugin set is needed by its fabric.
            is_added = name in job.added_variables
            remedy = remedies.KEEP_SIMPLE if is_added else remedies.unset(name)
            return f": {name}={'|'.join(sorted(values))} shuts it out", remedy
    if key.where in _find_old_hosts(job):
        return _OLD_HOST, f"use {CHOOSING_FREELY}, or later, or rules for these three"
    if job.needs:
        return ": the file needs a variable that the job lacks", remedies.export(job.needs[0])
    is_nvidia = any(version.startswith("NCCL") for version in job.versions)
    is_rccl = any(version.startswith("RCCL") for version in job.versions)
    never = None
    if not is_nvidia:
        never = knowledge.explain_never(setting, key.collective, key.where, is_rccl=is_rccl)
    if never is None:
        is_amd = not is_nvidia and (is_rccl or knowledge.is_amd)
        return _find_switch(setting, job, is_amd=is_amd)
    is_tree_simple = setting.algorithm is Algorithm.TREE and setting.protocol is Protocol.SIMPLE
    patch = "build RCCL as docs/measuring.md says, and "
    patch += remedies.export("RCCL_FORCE_TREE_SIMPLE=1")
    return f": {never}", patch if is_tree_simple else None


def _find_old_hosts(job: JobLogs) -> set[CommunicatorScale]:
    """Scales of which the library asks by version 2 of the tuner interface."""
    return {
        CommunicatorScale(int(words["nodes"]), int(words["ranks"]))
        for how in ("rules", "without rules")
        for words, _ in job.facts(how)
        if words["abi"] == "2"
    }


def _find_switch(setting: Setting, job: JobLogs, *, is_amd: bool) -> tuple[str, str | None]:
    """Cause and remedy for a cell that libraries have, and do not offer here."""
    variables = job.variables
    if setting.protocol is Protocol.LL128 and is_amd:
        cause = ": LL128 is off here unless forced"
        if "1" in variables.get(_FORCE_LL128, ()):
            cause = (
                f": {_FORCE_LL128}=1 is set, yet some rank lacks it or a pair of GPUs has no XGMI"
            )
        return cause, remedies.export(f"{_FORCE_LL128}=1")
    if setting.algorithm in (Algorithm.NVLS, Algorithm.NVLS_TREE):
        # Who set NCCL_NVLS_ENABLE=0 may have had to: on some machines more than jobs suffer.
        is_off = "0" in variables.get("NCCL_NVLS_ENABLE", ())
        cause = ": NCCL_NVLS_ENABLE=0 is set" if is_off else ""
        return cause, f"take the rules for {setting.algorithm.value} out of the file"
    switch = _SWITCHES.get(setting.algorithm) if setting.algorithm else None
    return "", remedies.export(switch) if switch else remedies.TELL_LIBRARY
