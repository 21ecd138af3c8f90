"""The answer at one size: the first question that the files settle decides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from rccltune.logs.messages import plugin_reasons
from rccltune.model.choice import Rule, is_not_beaten
from rccltune.model.settings import Setting
from rccltune.model.vocabulary import Algorithm, Protocol
from rccltune.overwritten import Overwrite
from rccltune.releases import CHOOSING_FREELY
from rccltune.why import remedies
from rccltune.why.causes import cause
from rccltune.why.job_logs import JobLogs, SizeRecord
from rccltune.why.job_report import (
    AnswerKind,
    CommunicatorScale,
    Key,
    Reason,
    TunerAnswer,
    TypeAndOperation,
)
from rccltune.why.knowledge import JobKnowledge, conditions_of, find_paths_around
from rccltune.why.lines import SYMMETRIC

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


class SizeAnswers:
    """Answers for one job."""

    def __init__(self, job: JobLogs, known: JobKnowledge) -> None:
        """Begin with nothing judged.

        Args:
            job: all facts.
            known: what other packages know.
        """
        self._job = job
        self._known = known
        self._causes: dict[CommunicatorScale, Reason | None] = {}
        self._old_hosts = {
            CommunicatorScale(int(words["nodes"]), int(words["ranks"]))
            for how in ("rules", "without rules")
            for words, _ in job.told(how)
            if words["abi"] == "2"
        }

    def cause(self, where: CommunicatorScale) -> Reason | None:
        """Cause that holds for every size of a scale."""
        if where not in self._causes:
            self._causes[where] = cause(self._job, where, self._known)
        return self._causes[where]

    def at(self, key: Key) -> Reason:
        """The answer at one size."""
        seen, reason = self._job.seen[key], self.cause(key[0])
        if not key[1].is_tunable:
            text = f"{key[1].value} is made of sends and receives in every release"
            return Reason(AnswerKind.NOT_TUNABLE, text)
        if seen.paths:
            return self._by_name(key, seen)
        if reason is not None and reason.kind is AnswerKind.OTHER_FILE:
            return reason
        answers = [one for one in seen.said if one.setting is not None or one.line]
        if answers:
            return self._answered(key, seen, answers)
        return reason or (self._unanswered if seen.said else self._unasked)(key, seen)

    # --- answered by a tuner ----------------------------------------------------------------------

    def _answered(self, key: Key, seen: SizeRecord, answers: Sequence[TunerAnswer]) -> Reason:
        """The answer, and the rule before it that would have answered if it could be chosen."""
        answer = answers[0]
        reason = self._what_ran(key, seen, answer, len(answers))
        before = [one for one in self._rules(key) or () if (one.line or 0) < answer.line]
        if not before or conditions_of(before[0]) or before[0].setting == answer.setting:
            return reason
        shut = self._shut(before[0], key, seen)
        return Reason(reason.kind, f"{reason.text}; {shut.text}", reason.remedy or shut.remedy)

    def _what_ran(self, key: Key, seen: SizeRecord, answer: TunerAnswer, n_answers: int) -> Reason:
        if answer.setting is None:
            text = f"rule of line {answer.line} leaves this size to the library"
            return Reason(AnswerKind.HOLE, text)
        if n_answers > 1 or None in {one.setting for one in seen.said}:
            # numPipeOps and regBuff differ, or the ranks do.
            words = sorted({"none" if s.setting is None else str(s.setting) for s in seen.said})
            more = f"; what ran: {', '.join(sorted(map(str, seen.ran)))}" if seen.ran else ""
            return Reason(
                AnswerKind.HIT,
                f"rules answered, not always alike: {', '.join(words)}{more}",
                "compare ranks and calls in the plugin's own files: " + remedies.TELL_PLUGIN,
            )
        named = f"of line {answer.line}" if answer.line else f"of {self._job.table_named}"
        said = f"{'' if answer.line else 'a '}rule {named} answered {answer.setting}"
        if not seen.ran:
            return self._unseen(key, answer.setting, said)
        other = [ran for ran in seen.ran if ran is None or _differs(answer.setting, ran)]
        if len(other) == len(seen.ran):
            return self._overwritten(key, answer.setting, said, other[0])
        # Other types, or calls of a group, whose sum the tuner was asked about.
        more = f"; other calls ran {', '.join(sorted(map(str, other)))}" if other else ""
        return self._hit(f"{said}, and that ran{more}")

    def _unseen(self, key: Key, setting: Setting, said: str) -> Reason:
        """Answer by the release, where it is known and nothing says what ran."""
        row = self._known.overwrite(self._job.library, key, setting)
        if row is None:
            return self._hit(f"{said}; nothing here says what ran")
        return Reason(
            AnswerKind.OVERWRITTEN,
            f"{said}, and nothing here says what ran: {self._of_release(row, key)}",
            f"{row.remedy}; or see what runs: {remedies.SEE_ALL}",
        )

    def _overwritten(self, key: Key, setting: Setting, said: str, ran: Setting | None) -> Reason:
        """Something else ran than was answered, and what is known to do that."""
        name = "an algorithm without a name here" if ran is None else str(ran)
        text, variables = f"{said}, and {name} ran", self._job.variables
        forced = [name for name in remedies.FORCING if name in variables and "OVERRIDE" in name]
        if forced:
            values = ", ".join(f"{n}={'|'.join(sorted(variables[n]))}" for n in forced)
            text, remedy = f"{text}: {values} is applied last", remedies.unset(*forced)
            return Reason(AnswerKind.OVERWRITTEN, text, remedy)
        row = self._known.overwrite(self._job.library, key, setting)
        if row is not None:
            return Reason(
                AnswerKind.OVERWRITTEN, f"{text}: {self._of_release(row, key)}", row.remedy
            )
        return Reason(
            AnswerKind.OVERWRITTEN,
            f"{text}: {self._job.library or 'the library'} changed it after the tuner",
            f"see whether other variables force it, with: {remedies.SEE_ALL}",
        )

    def _of_release(self, row: Overwrite, key: Key) -> str:
        """``RCCL 2.26.6: the library chooses …``, and whether every build does."""
        builds = "" if row.all_builds else ", some builds"
        return f"{self._job.library}{builds}: {row.words((key[1],), key[0].n_ranks or 0)}"

    def _hit(self, text: str, kind: AnswerKind = AnswerKind.HIT) -> Reason:
        """The setting of a rule ran, which may have been measured with another library."""
        measured, loaded = self._known.file_libraries, self._job.library
        if measured and loaded is not None and not any(_is_same(one, loaded) for one in measured):
            names = ", ".join(measured)
            return Reason(
                AnswerKind.OTHER_LIBRARY,
                f"{text}, but the rules were measured with {names} and the job loads {loaded}",
                remedies.CHECK_LIBRARY,
            )
        return Reason(kind, text, remedies.TELL_PLUGIN if kind is AnswerKind.AS_RULE else None)

    # --- asked, and no answer ---------------------------------------------------------------------

    def _unanswered(self, key: Key, seen: SizeRecord) -> Reason:
        rules = self._rules(key)
        if rules is None:
            return self._by_code(seen)
        if not rules:
            return self._hole(key)
        shut = next((rule for rule in rules if not _is_offered(rule, seen)), None)
        if shut is not None:
            return self._shut(shut, key, seen)
        rule = next(filter(conditions_of, rules), None)
        if rule is not None:
            remedy = plugin_reasons()["R25"].remedy
            if rule.reg_buff == 0:
                remedy = "with captured graphs, set NCCL_GRAPH_REGISTER=0 to get it"
            return Reason(
                AnswerKind.HOLE,
                f"rule of line {rule.line} asks for {conditions_of(rule)}, and calls had others",
                remedy,
            )
        return Reason(
            AnswerKind.OTHER_FILE,
            f"{self._known.file_name} has a rule here (line {rules[0].line}), and the job's plugin "
            "answered nothing: the job read another file",
            remedies.SAME_FILE,
        )

    def _by_code(self, seen: SizeRecord) -> Reason:
        """The plugin's own reason for no answer, where no rule file is at hand."""
        asked = remedies.tell_rules(self._job.rule_file)
        if len(seen.codes) != 1:
            text = (
                "the plugin was asked and gave no answer: there is no rule, or none that can be "
                "chosen"
            )
            return Reason(AnswerKind.UNKNOWN, text, asked)
        reason, needs = plugin_reasons()[next(iter(seen.codes))], self._job.needs
        kind = AnswerKind(reason.answer)
        lacking = remedies.export(needs[0]) if needs and kind is AnswerKind.NOT_SELECTABLE else None
        return Reason(kind, reason.means, lacking or reason.remedy or asked)

    def _hole(self, key: Key) -> Reason:
        stated = self._known.hole(key[1], key[2], key[0])
        if stated is not None and is_not_beaten(stated):
            return Reason(AnswerKind.HOLE, stated)
        name = key[1].value
        remedy = f"rccltune sweep --collective {name}, rccltune emit-config"
        rules = self._known.file_rules or ()
        if stated is None and not any(one.collective is key[1] for one in rules):
            return Reason(
                AnswerKind.HOLE,
                f"the file has none for {name} at all",
                f"if its calls take long enough to matter, measure it: {remedy}",
            )
        return Reason(
            AnswerKind.HOLE,
            stated or plugin_reasons()["R22"].means,
            f"measure these sizes and choose anew: {remedy}",
        )

    def _shut(self, rule: Rule, key: Key, seen: SizeRecord) -> Reason:
        """A rule matches, and its cell is not offered."""
        text = f"rule of line {rule.line} asks for {rule.setting}, which the library does not offer"
        if seen.offered:
            text += f" (it offers {', '.join(sorted(map(str, seen.offered)))})"
        reason, remedy = self._why_shut(rule.setting, key)
        return Reason(AnswerKind.NOT_SELECTABLE, f"{text}{reason}", remedy)

    def _why_shut(self, setting: Setting, key: Key) -> tuple[str, str | None]:
        """Reason a cell is out, nearest first: the job's variables, the host, the file, RCCL."""
        job = self._job
        for name in ("NCCL_ALGO", "NCCL_PROTO"):
            values = job.variables.get(name)
            if values and not any(remedies.admits(name, v, setting, key[1]) for v in values):
                # What a network plugin set is needed by its fabric.
                remedy = remedies.KEEP_SIMPLE if name in job.added else remedies.unset(name)
                return f": {name}={'|'.join(sorted(values))} shuts it out", remedy
        if key[0] in self._old_hosts:
            return _OLD_HOST, f"use {CHOOSING_FREELY}, or later, or rules for these three"
        if job.needs:
            needed = remedies.export(job.needs[0])
            return ": the file needs a variable that the job lacks", needed
        is_nvidia = any(version.startswith("NCCL") for version in job.versions)
        is_rccl = any(version.startswith("RCCL") for version in job.versions)
        why = None if is_nvidia else self._known.why_not(setting, key[1], key[0], is_rccl=is_rccl)
        if why is None:
            return self._why_off(setting, is_amd=not is_nvidia and (is_rccl or self._known.is_amd))
        if setting.algorithm is Algorithm.TREE and setting.protocol is Protocol.SIMPLE:
            patched = remedies.export("RCCL_FORCE_TREE_SIMPLE=1")
            return f": {why}", f"build RCCL as docs/measuring.md says, and {patched}"
        return f": {why}", None

    def _why_off(self, setting: Setting, *, is_amd: bool) -> tuple[str, str | None]:
        """A cell that libraries have, and do not offer here."""
        variables = self._job.variables
        if setting.protocol is Protocol.LL128 and is_amd:
            why = ": LL128 is off here unless forced"
            if "1" in variables.get(_FORCE_LL128, ()):
                why = (
                    f": {_FORCE_LL128}=1 is set, yet some rank lacks it or a pair of GPUs has no "
                    "XGMI"
                )
            return why, remedies.export(f"{_FORCE_LL128}=1")
        if setting.algorithm in (Algorithm.NVLS, Algorithm.NVLS_TREE):
            # Who set NCCL_NVLS_ENABLE=0 may have had to: on some machines more than jobs suffer.
            off = "0" in variables.get("NCCL_NVLS_ENABLE", ())
            why = ": NCCL_NVLS_ENABLE=0 is set" if off else ""
            return why, f"take the rules for {setting.algorithm.value} out of the file"
        switch = _SWITCHES.get(setting.algorithm) if setting.algorithm else None
        return "", remedies.export(switch) if switch else remedies.TELL_LIBRARY

    # --- not asked, or nobody wrote it down -------------------------------------------------------

    def _unasked(self, key: Key, seen: SizeRecord) -> Reason:
        job, where = self._job, key[0]
        if not seen.ran and (where in job.recorded or (seen.called and where in job.tuning)):
            return self._bypassed(key, seen)
        if where in job.recorded:
            return Reason(
                AnswerKind.UNKNOWN,
                "the library chose here, and the plugin's files have no question of this size: "
                "they are of other ranks or were cut off, or the call was one of a group, about "
                "whose sum it was asked",
                remedies.TELL_PLUGIN,
            )
        if seen.ran and "applied" in job.first:
            if self._rules(key) is not None:
                return self._unanswered(key, seen)
            ran = ", ".join(str(one) for one in seen.ran if one is not None)
            return Reason(
                AnswerKind.HOLE, f"{job.table_named} has none here; {ran or 'another'} ran"
            )
        return self._by_what_ran(key, seen)

    def _by_what_ran(self, key: Key, seen: SizeRecord) -> Reason:
        """No word of a tuner on this size: what ran is compared with the file."""
        rules = self._rules(key)
        if rules is not None and not rules:
            return self._hole(key)
        ran = [one for one in seen.ran if one is not None]
        if rules is None or not ran:
            return (self._is_one_way(key[0]) and by_sums(key[0], self._job, ran)) or self._untold(
                ran
            )
        asked = rules[0].setting
        if any(_differs(asked, one) for one in ran):
            return self._other_ran(key, seen, rules[0], ran[0])
        return self._same_ran(key, rules[0], ran[0])

    def _is_one_way(self, where: CommunicatorScale) -> bool:
        """Whether summaries say the same of all calls of a scale."""
        sums = self._job.totals.get(where, Counter[str]())
        return 0 < sums["calls"] in (sums["hits"], sums["misses"], sums["shut"])

    def _is_hit(self, where: CommunicatorScale, rule: Rule) -> bool:
        """Whether summaries count hits of a rule."""
        return any(said.line == rule.line for said in self._job.hits.get(where, ()))

    def _is_shut(self, where: CommunicatorScale) -> bool:
        """Whether summaries count calls whose rules could not be chosen."""
        return self._job.totals.get(where, Counter[str]())["shut"] > 0

    def _same_ran(self, key: Key, rule: Rule, ran: Setting) -> Reason:
        if self._is_hit(key[0], rule) and not self._is_shut(key[0]):
            return self._hit(f"the rule of line {rule.line} was hit, and {ran} ran")
        text = f"{ran} ran, which is what the rule of line {rule.line} asks for"
        if self._job.table is not None:
            return self._hit(text)
        # The library may have chosen it by itself; only the plugin's own word is proof.
        text = f"{text}; nothing here says that the plugin answered"
        return self._hit(text, AnswerKind.AS_RULE)

    def _other_ran(self, key: Key, seen: SizeRecord, rule: Rule, ran: Setting) -> Reason:
        job, asked = self._job, rule.setting
        was_hit, shuts = self._is_hit(key[0], rule), self._is_shut(key[0])
        if (key[1], _cell_of(asked)) in job.refused or (shuts and not was_hit):
            return self._shut(rule, key, seen)
        if (was_hit and not shuts) or self._known.overwrite(job.library, key, asked) is not None:
            said = f"rule of line {rule.line} answered {asked}"
            return self._overwritten(key, asked, said, ran)
        return Reason(
            AnswerKind.UNKNOWN,
            f"{ran} ran, and the rule of line {rule.line} asks for {asked}; nothing here says what "
            "the plugin answered",
            remedies.TELL_PLUGIN,
        )

    def _untold(self, ran: Sequence[Setting]) -> Reason:
        job = self._job
        asked = remedies.as_asked(job.variables, ran[0]) if len(ran) == 1 else ""
        told = f"{', '.join(map(str, ran))} ran{asked}, and " if ran else ""
        remedy = remedies.TELL_PLUGIN if job.has_our_plugin else remedies.TELL_LIBRARY
        if self._known.file_rules is None and job.rule_file:
            # What ran, held against what each rule asks for, tells as much without another run.
            remedy = remedies.tell_rules(job.rule_file)
        text = f"{told}nothing here says what a rule answered"
        return Reason(AnswerKind.UNKNOWN, text, remedy)

    # --- past the tuner ---------------------------------------------------------------------------

    def _by_name(self, key: Key, seen: SizeRecord) -> Reason:
        """Lines name the path."""
        around = self._around(key, seen)
        remedy = remedies.measured(around.get(name) for name in seen.paths)
        if SYMMETRIC in seen.paths:
            remedy = "leave the buffers out of symmetric windows, or take the path as it is"
        names = ", ".join(sorted(seen.paths))
        return Reason(AnswerKind.BYPASSED, f"by {names}, which asks no tuner", remedy)

    def _bypassed(self, key: Key, seen: SizeRecord) -> Reason:
        """A call was made and no tuner asked."""
        around = self._around(key, seen)
        # A library asks once for calls of a group, with their sum; its own lines would show them.
        alone = key[0] in self._job.tuning or self._job.tables
        grouped = "" if alone else " (or grouped with others, and asked about as their sum)"
        if around:
            text = f"by {' or '.join(around)}, which asks no tuner{grouped}"
            return Reason(AnswerKind.BYPASSED, text, remedies.measured(around.values()))
        return Reason(
            AnswerKind.BYPASSED,
            f"the plugin was never asked about this size: {self._job.library or 'the library'} "
            f"takes a path before the tuner that rccltune knows no name of{grouped}",
            "see which one: export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=ALL",
        )

    def _around(self, key: Key, seen: SizeRecord) -> dict[str, str | None]:
        kindred = sorted(seen.kindred, key=str) or [TypeAndOperation(None, None)]
        return find_paths_around(key, kindred, self._job)

    def _rules(self, key: Key) -> tuple[Rule, ...] | None:
        return self._known.rules(key[1], key[2], key[0])


def by_sums(where: CommunicatorScale, job: JobLogs, ran: Sequence[Setting] = ()) -> Reason | None:
    """What the plugin's sums say of a scale; None without them."""
    sums = job.totals.get(where)
    if sums is None:
        return None
    calls, hits, misses, shut = (sums[name] for name in ("calls", "hits", "misses", "shut"))
    if not calls:
        return Reason(
            AnswerKind.BYPASSED,
            "the plugin was not asked once: every call went a path before the tuner, or there was "
            "none of the five collectives",
            remedies.TELL_LIBRARY,
        )
    kind, text = AnswerKind.HIT, f"rules answered {hits} of {calls} calls of this scale"
    if misses and shut:
        kind = AnswerKind.UNKNOWN
        text = f"{misses} of {calls} calls met no rule, {shut} one that cannot be chosen; "
        text += "the summary does not say which sizes"
    elif misses:
        kind, text = AnswerKind.HOLE, f"{misses} of {calls} calls: the file has no rule for them"
    elif shut:
        kind = AnswerKind.NOT_SELECTABLE
        text = f"{shut} of {calls} calls: a rule matched, and the library does not offer what it "
        text += "asks for"
    more = f"; {', '.join(map(str, ran))} ran" if ran else ""
    whole = calls in (misses, shut)
    told = remedies.tell_rules(job.rule_file) if whole else remedies.TELL_PLUGIN
    return Reason(kind, f"{text}{more}", None if kind is AnswerKind.HIT else told)


def _is_offered(rule: Rule, seen: SizeRecord) -> bool:
    """Whether a cell could be chosen; where nobody said, no answer says that it could not."""
    if rule.setting.algorithm is None:
        return True
    if seen.offered is None:
        return bool(conditions_of(rule))
    return _cell_of(rule.setting) in seen.offered


def _cell_of(setting: Setting) -> Setting:
    """Algorithm and protocol of a setting; one of channels alone has no cell."""
    if setting.algorithm is None and setting.protocol is None:
        return setting
    return Setting(algorithm=setting.algorithm, protocol=setting.protocol)


def _differs(asked: Setting, ran: Setting) -> bool:
    """Whether another algorithm or protocol ran; channels are an upper bound and tell nothing."""
    return Setting.contradicts(asked, _cell_of(ran))


def _is_same(measured: str, loaded: str) -> bool:
    """Whether two libraries are of one family and release; builds of one release count as one."""
    one, other = measured.split(), loaded.split()
    same_family = len(one) < 2 or one[0] == other[0]
    return same_family and _release(one[-1]) == _release(other[-1])


def _release(text: str) -> tuple[str, ...]:
    return tuple(text.replace("-", "+").split("+")[0].split(".")[:3])
