"""The answer at one size: the first question that the files settle decides.

A size is answered by what a tuner said of it; else by what ran there, held against the rule file;
else it went past every tuner. What no line tells is *unknown*, with the variable that makes the job
tell it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rccltune.logs.messages import plugin_reasons
from rccltune.model.rule import Rule
from rccltune.model.settings import Setting
from rccltune.model.zone import is_not_beaten
from rccltune.overwritten import Overwrite
from rccltune.why import remedies
from rccltune.why.causes import find_cause
from rccltune.why.job_logs import JobLogs, SizeRecord
from rccltune.why.job_report import (
    AnswerKind,
    CommunicatorScale,
    Key,
    Reason,
    TunerAnswer,
    TypeAndOperation,
)
from rccltune.why.knowledge import JobKnowledge, describe_conditions, find_paths_around
from rccltune.why.lines import SYMMETRIC
from rccltune.why.not_selectable import cell_of, explain_not_selectable, is_offered


class SizeAnswers:
    """Answers for one job."""

    def __init__(self, job: JobLogs, knowledge: JobKnowledge) -> None:
        """Begin with nothing answered.

        Args:
            job: all facts.
            knowledge: of other packages.
        """
        self._job = job
        self._knowledge = knowledge
        self._causes: dict[CommunicatorScale, Reason | None] = {}

    def find_cause(self, where: CommunicatorScale) -> Reason | None:
        """Cause that holds for every size of a scale."""
        if where not in self._causes:
            self._causes[where] = find_cause(self._job, where, self._knowledge)
        return self._causes[where]

    def answer(self, key: Key) -> Reason:
        """The answer at one size."""
        record, cause = self._job.sizes[key], self.find_cause(key.where)
        answers = [one for one in record.answers if one.setting is not None or one.line]
        if not key.collective.is_tunable:
            text = f"{key.collective.value} is made of sends and receives in every release"
            reason = Reason(AnswerKind.NOT_TUNABLE, text)
        elif record.paths:
            reason = self._explain_named_path(key, record)
        elif cause is not None and (cause.kind is AnswerKind.OTHER_FILE or not answers):
            reason = cause
        elif answers:
            reason = self._explain_answered(key, record, answers)
        elif record.answers:
            reason = self._explain_unanswered(key, record)
        else:
            reason = self._explain_unasked(key, record)
        return reason

    # --- answered by a tuner ----------------------------------------------------------------------

    def _explain_answered(
        self, key: Key, record: SizeRecord, answers: Sequence[TunerAnswer]
    ) -> Reason:
        """The answer, and the rule before it that would have answered if it could be chosen."""
        answer = answers[0]
        reason = self._explain_what_ran(key, record, answer, len(answers))
        before = [
            one for one in self._knowledge.find_rules(key) or () if (one.line or 0) < answer.line
        ]
        if not before or describe_conditions(before[0]) or before[0].setting == answer.setting:
            return reason
        first = explain_not_selectable(before[0], key, record, self._job, self._knowledge)
        return Reason(reason.kind, f"{reason.text}; {first.text}", reason.remedy or first.remedy)

    def _explain_what_ran(
        self, key: Key, record: SizeRecord, answer: TunerAnswer, n_answers: int
    ) -> Reason:
        if answer.setting is None:
            text = f"rule of line {answer.line} leaves this size to the library"
            return Reason(AnswerKind.HOLE, text)
        settings = {one.setting for one in record.answers}
        if n_answers > 1 or None in settings:
            # numPipeOps and regBuff differ, or the ranks do.
            words = sorted("none" if one is None else str(one) for one in settings)
            more = f"; what ran: {', '.join(sorted(map(str, record.ran)))}" if record.ran else ""
            return Reason(
                AnswerKind.HIT,
                f"rules answered, not always alike: {', '.join(words)}{more}",
                "compare ranks and calls in the plugin's own files: " + remedies.TELL_PLUGIN,
            )
        rule = f"rule of line {answer.line}" if answer.line else f"a rule of {self._job.table_name}"
        text = f"{rule} answered {answer.setting}"
        if not record.ran:
            return self._explain_unseen(key, answer.setting, text)
        other = [ran for ran in record.ran if ran is None or _differs(answer.setting, ran)]
        if len(other) == len(record.ran):
            return self._explain_overwritten(key, answer.setting, text, other[0])
        # Other types, or calls of a group, whose sum the tuner was asked about.
        more = f"; other calls ran {', '.join(sorted(map(str, other)))}" if other else ""
        return self._check_library(f"{text}, and that ran{more}")

    def _explain_unseen(self, key: Key, setting: Setting, text: str) -> Reason:
        """The answer by the release, where it is known and nothing says what ran."""
        row = self._knowledge.find_overwrite(self._job.library, key, setting)
        if row is None:
            return self._check_library(f"{text}; nothing here says what ran")
        return Reason(
            AnswerKind.OVERWRITTEN,
            f"{text}, and nothing here says what ran: {self._describe_overwrite(row, key)}",
            f"{row.remedy}; or see what runs: {remedies.SEE_ALL}",
        )

    def _explain_overwritten(
        self, key: Key, setting: Setting, text: str, ran: Setting | None
    ) -> Reason:
        """Something else ran than was answered, and what is known to do that."""
        job = self._job
        forcing = [one for one in remedies.FORCING if one in job.variables and "OVERRIDE" in one]
        row = self._knowledge.find_overwrite(job.library, key, setting)
        if forcing:
            values = ", ".join(f"{n}={'|'.join(sorted(job.variables[n]))}" for n in forcing)
            cause, remedy = f"{values} is applied last", remedies.unset(*forcing)
        elif row is not None:
            cause, remedy = self._describe_overwrite(row, key), row.remedy
        else:
            cause = f"{job.library or 'the library'} changed it after the tuner"
            remedy = f"see whether other variables force it, with: {remedies.SEE_ALL}"
        name = "an algorithm without a name here" if ran is None else str(ran)
        return Reason(AnswerKind.OVERWRITTEN, f"{text}, and {name} ran: {cause}", remedy)

    def _describe_overwrite(self, row: Overwrite, key: Key) -> str:
        """``RCCL 2.26.6: the library chooses …``, and whether every build does."""
        builds = "" if row.all_builds else ", some builds"
        words = row.words((key.collective,), key.where.n_ranks or 0)
        return f"{self._job.library}{builds}: {words}"

    def _check_library(self, text: str, kind: AnswerKind = AnswerKind.HIT) -> Reason:
        """A rule that took effect, unless it was measured with another library than this one."""
        loaded = self._job.library
        if self._knowledge.is_of_another_library(loaded):
            names = ", ".join(self._knowledge.file_libraries)
            return Reason(
                AnswerKind.OTHER_LIBRARY,
                f"{text}, but the rules were measured with {names} and the job loads {loaded}",
                remedies.CHECK_LIBRARY,
            )
        return Reason(kind, text, remedies.TELL_PLUGIN if kind is AnswerKind.AS_RULE else None)

    # --- asked, and no answer ---------------------------------------------------------------------

    def _explain_unanswered(self, key: Key, record: SizeRecord) -> Reason:
        rules = self._knowledge.find_rules(key)
        if rules is None:
            return self._explain_code(record)
        if not rules:
            return self._explain_hole(key)
        out = next((rule for rule in rules if not is_offered(rule, record)), None)
        if out is not None:
            return explain_not_selectable(out, key, record, self._job, self._knowledge)
        rule = next(filter(describe_conditions, rules), None)
        if rule is not None:
            remedy = plugin_reasons()["R25"].remedy
            if rule.reg_buff == 0:
                remedy = "with captured graphs, set NCCL_GRAPH_REGISTER=0 to get it"
            conditions = describe_conditions(rule)
            return Reason(
                AnswerKind.HOLE,
                f"rule of line {rule.line} asks for {conditions}, and calls had others",
                remedy,
            )
        return Reason(
            AnswerKind.OTHER_FILE,
            f"{self._knowledge.file_name} has a rule here (line {rules[0].line}), and the job's "
            "plugin answered nothing: the job read another file",
            remedies.SAME_FILE,
        )

    def _explain_code(self, record: SizeRecord) -> Reason:
        """The plugin's own reason for no answer, where no rule file is at hand."""
        ask_file = remedies.ask_for_rules(self._job.rule_file)
        if len(record.codes) != 1:
            text = (
                "the plugin was asked and gave no answer: there is no rule, or none that can be "
                "chosen"
            )
            return Reason(AnswerKind.UNKNOWN, text, ask_file)
        reason, needs = plugin_reasons()[next(iter(record.codes))], self._job.needs
        kind = AnswerKind(reason.answer)
        if needs and kind is AnswerKind.NOT_SELECTABLE:
            return Reason(kind, reason.means, remedies.export(needs[0]))
        return Reason(kind, reason.means, reason.remedy or ask_file)

    def _explain_hole(self, key: Key) -> Reason:
        cause = self._knowledge.find_hole(key)
        if cause is not None and is_not_beaten(cause):
            return Reason(AnswerKind.HOLE, cause)
        name = key.collective.value
        commands = f"rccltune sweep --collective {name}, rccltune emit-config"
        rules = self._knowledge.file_rules or ()
        if cause is None and not any(one.collective is key.collective for one in rules):
            return Reason(
                AnswerKind.HOLE,
                f"the file has none for {name} at all",
                f"if its calls take long enough to matter, measure it: {commands}",
            )
        return Reason(
            AnswerKind.HOLE,
            cause or plugin_reasons()["R22"].means,
            f"measure these sizes and choose anew: {commands}",
        )

    # --- not asked, or nobody wrote it down -------------------------------------------------------

    def _explain_unasked(self, key: Key, record: SizeRecord) -> Reason:
        job, where = self._job, key.where
        is_recorded = where in job.recorded_scales
        is_seen_call = record.is_called and where in job.scales_with_choices
        if not record.ran and (is_recorded or is_seen_call):
            return self._explain_bypassed(key, record)
        if is_recorded:
            return Reason(
                AnswerKind.UNKNOWN,
                "the library chose here, and the plugin's files have no question of this size: "
                "they are of other ranks or were cut off, or the call was one of a group, about "
                "whose sum it was asked",
                remedies.TELL_PLUGIN,
            )
        if record.ran and "applied" in job.first_lines:
            if self._knowledge.find_rules(key) is not None:
                return self._explain_unanswered(key, record)
            ran = ", ".join(str(one) for one in record.ran if one is not None)
            text = f"{job.table_name} has none here; {ran or 'another'} ran"
            return Reason(AnswerKind.HOLE, text)
        return self._explain_by_file(key, record)

    def _explain_by_file(self, key: Key, record: SizeRecord) -> Reason:
        """No word of a tuner on this size: what ran is compared with the file."""
        rules = self._knowledge.find_rules(key)
        ran = [one for one in record.ran if one is not None]
        if rules is not None and not rules:
            return self._explain_hole(key)
        if rules and ran:
            if any(_differs(rules[0].setting, one) for one in ran):
                return self._explain_other_ran(key, record, rules[0], ran[0])
            return self._explain_same_ran(key, rules[0], ran[0])
        sums = self._job.summaries.get(key.where, Counter[str]())
        # Where summaries say the same of all calls of a scale, they say it of this size.
        is_one_way = 0 < sums["calls"] in (sums["hits"], sums["misses"], sums["not_selectable"])
        by_summary = answer_by_summary(key.where, self._job, ran) if is_one_way else None
        return by_summary or self._explain_unknown(ran)

    def _explain_same_ran(self, key: Key, rule: Rule, ran: Setting) -> Reason:
        if self._has_hits(key.where, rule) and not self._has_unselectable(key.where):
            return self._check_library(f"the rule of line {rule.line} was hit, and {ran} ran")
        text = f"{ran} ran, which is what the rule of line {rule.line} asks for"
        if self._job.table is not None:
            return self._check_library(text)
        # The library may have chosen it by itself; only the plugin's own word is proof.
        text = f"{text}; nothing here says that the plugin answered"
        return self._check_library(text, AnswerKind.AS_RULE)

    def _explain_other_ran(self, key: Key, record: SizeRecord, rule: Rule, ran: Setting) -> Reason:
        job, setting = self._job, rule.setting
        is_hit, is_out = self._has_hits(key.where, rule), self._has_unselectable(key.where)
        is_without_bandwidth = (key.collective, cell_of(setting)) in job.unselectable_cells
        if is_without_bandwidth or (is_out and not is_hit):
            return explain_not_selectable(rule, key, record, self._job, self._knowledge)
        overwrite = self._knowledge.find_overwrite(job.library, key, setting)
        if (is_hit and not is_out) or overwrite is not None:
            text = f"rule of line {rule.line} answered {setting}"
            return self._explain_overwritten(key, setting, text, ran)
        return Reason(
            AnswerKind.UNKNOWN,
            f"{ran} ran, and the rule of line {rule.line} asks for {setting}; nothing here says "
            "what the plugin answered",
            remedies.TELL_PLUGIN,
        )

    def _has_hits(self, where: CommunicatorScale, rule: Rule) -> bool:
        """Whether summaries count hits of a rule."""
        return any(one.line == rule.line for one in self._job.hits.get(where, ()))

    def _has_unselectable(self, where: CommunicatorScale) -> bool:
        """Whether summaries count calls whose rules could not be chosen."""
        return self._job.summaries.get(where, Counter[str]())["not_selectable"] > 0

    def _explain_unknown(self, ran: Sequence[Setting]) -> Reason:
        job = self._job
        request = remedies.describe_request(job.variables, ran[0]) if len(ran) == 1 else ""
        text = f"{', '.join(map(str, ran))} ran{request}, and " if ran else ""
        remedy = remedies.TELL_PLUGIN if job.has_our_plugin else remedies.TELL_LIBRARY
        if self._knowledge.file_rules is None and job.rule_file:
            # What ran, held against what each rule asks for, tells as much without another run.
            remedy = remedies.ask_for_rules(job.rule_file)
        return Reason(AnswerKind.UNKNOWN, f"{text}nothing here says what a rule answered", remedy)

    # --- past the tuner ---------------------------------------------------------------------------

    def _explain_named_path(self, key: Key, record: SizeRecord) -> Reason:
        """Lines name the path."""
        switches = self._find_paths(key, record)
        remedy = remedies.measure_without(switches.get(name) for name in record.paths)
        if SYMMETRIC in record.paths:
            remedy = "leave the buffers out of symmetric windows, or take the path as it is"
        names = ", ".join(sorted(record.paths))
        return Reason(AnswerKind.BYPASSED, f"by {names}, which asks no tuner", remedy)

    def _explain_bypassed(self, key: Key, record: SizeRecord) -> Reason:
        """A call was made and no tuner asked."""
        switches = self._find_paths(key, record)
        # A library asks once for calls of a group, with their sum; its own lines would show them.
        is_alone = key.where in self._job.scales_with_choices or self._job.n_tables
        grouped = "" if is_alone else " (or grouped with others, and asked about as their sum)"
        if switches:
            text = f"by {' or '.join(switches)}, which asks no tuner{grouped}"
            remedy = remedies.measure_without(switches.values())
            return Reason(AnswerKind.BYPASSED, text, remedy)
        return Reason(
            AnswerKind.BYPASSED,
            f"the plugin was never asked about this size: {self._job.library or 'the library'} "
            f"takes a path before the tuner that rccltune knows no name of{grouped}",
            "see which one: export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=ALL",
        )

    def _find_paths(self, key: Key, record: SizeRecord) -> dict[str, str | None]:
        types = sorted(record.call_types, key=str) or [TypeAndOperation(None, None)]
        return find_paths_around(key, types, self._job)


def answer_by_summary(
    where: CommunicatorScale, job: JobLogs, ran: Sequence[Setting] = ()
) -> Reason | None:
    """Answer by the plugin's sums of a scale; None without them.

    Args:
        where: the scale.
        job: all facts.
        ran: settings that are known to have run there.
    """
    sums = job.summaries.get(where)
    if sums is None:
        return None
    calls, misses, not_selectable = (sums[name] for name in ("calls", "misses", "not_selectable"))
    if not calls:
        return Reason(
            AnswerKind.BYPASSED,
            "the plugin was not asked once: every call went a path before the tuner, or there was "
            "none of the five collectives",
            remedies.TELL_LIBRARY,
        )
    if misses and not_selectable:
        kind = AnswerKind.UNKNOWN
        text = (
            f"{misses} of {calls} calls met no rule, {not_selectable} one that cannot be chosen; "
            "the summary does not say which sizes"
        )
    elif misses:
        kind, text = AnswerKind.HOLE, f"{misses} of {calls} calls: the file has no rule for them"
    elif not_selectable:
        kind = AnswerKind.NOT_SELECTABLE
        text = (
            f"{not_selectable} of {calls} calls: a rule matched, and the library does not offer "
            "what it asks for"
        )
    else:
        text = f"rules answered {sums['hits']} of {calls} calls of this scale"
        return Reason(AnswerKind.HIT, f"{text}{_list_ran(ran)}")
    is_whole = calls in (misses, not_selectable)
    remedy = remedies.ask_for_rules(job.rule_file) if is_whole else remedies.TELL_PLUGIN
    return Reason(kind, f"{text}{_list_ran(ran)}", remedy)


def _list_ran(ran: Sequence[Setting]) -> str:
    return f"; {', '.join(map(str, ran))} ran" if ran else ""


def _differs(requested: Setting, ran: Setting) -> bool:
    """Whether another algorithm or protocol ran; channels are an upper bound and tell nothing."""
    return requested.contradicts(cell_of(ran))
