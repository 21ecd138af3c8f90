"""Answer at one size from a job's logs: the first question that the files settle decides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rccltune.logs.messages import plugin_reasons
from rccltune.model.choice import Rule, is_not_beaten
from rccltune.model.settings import Setting
from rccltune.overwritten import Overwrite
from rccltune.why import remedies
from rccltune.why.causes import cause
from rccltune.why.knowledge import JobKnowledge, conditions_of
from rccltune.why.records import (
    AnswerKind,
    CommunicatorScale,
    JobLogs,
    Key,
    Reason,
    SizeRecord,
    TunerAnswer,
    is_ours,
)
from rccltune.why.remedies import (
    as_asked,
    bypassed,
    cell_of,
    is_offered,
    not_selectable,
    tell_rules,
    unmet,
)

_OVERRIDES: Final = ("RCCL_OVERRIDE_ALGO", "RCCL_OVERRIDE_PROTO")


class TunerAnswerCheck:
    """Judges answers of one job."""

    def __init__(self, job: JobLogs, known: JobKnowledge) -> None:
        """Begin with nothing judged.

        Args:
            job: all evidence.
            known: what other packages know.
        """
        self._job = job
        self._known = known

    def at(self, key: Key, record: SizeRecord, answers: Sequence[TunerAnswer]) -> Reason:
        """The answer where the plugin's own word is there.

        Args:
            key: scale, collective and size.
            record: what the files say of it.
            answers: settings that were answered, the first most of all; at least one.
        """
        answer = answers[0]
        if answer.setting is None:
            return Reason(
                AnswerKind.HOLE, f"rule of line {answer.line} leaves this size to the library"
            )
        if len(answers) > 1 or None in {one.setting for one in record.said}:
            return self._apart(record)
        rule = (
            f"rule of line {answer.line}" if answer.line else f"a rule of {self._job.table_named}"
        )
        if not record.ran:
            return self._unseen(key, answer, rule)
        other = [ran for ran in record.ran if ran is None or differs(answer.setting, ran)]
        if len(other) == len(record.ran):
            return self.overwritten(key, answer, rule, other[0])
        # Other types, or calls of a group, whose sum the tuner was asked about.
        words = ", ".join(sorted(map(str, other)))
        more = f"; other calls ran {words}" if other else ""
        return self.hit(f"{rule} answered {answer.setting}, and that ran{more}")

    def _unseen(self, key: Key, said: TunerAnswer, rule: str) -> Reason:
        """Answer by the release, where it is known and nothing says what ran."""
        row = self._overwrite(key, said)
        if row is not None:
            return Reason(
                AnswerKind.OVERWRITTEN,
                f"{rule} answered {said.setting}, and nothing here says what ran: "
                f"{self._of_release(row, key)}",
                f"{row.remedy}; or see what runs: export NCCL_DEBUG=INFO "
                "NCCL_DEBUG_SUBSYS=INIT,ENV,TUNING",
            )
        return self.hit(f"{rule} answered {said.setting}; nothing here says what ran")

    def hit(self, text: str, kind: AnswerKind = AnswerKind.HIT) -> Reason:
        """Answer where the setting of a rule ran; another one if it is of another library."""
        measured, loaded = self._known.file_libraries, self._job.library
        if measured and loaded is not None and not any(_is_same(one, loaded) for one in measured):
            names = ", ".join(measured)
            return Reason(
                AnswerKind.OTHER_LIBRARY,
                f"{text}, but the rules were measured with {names} and the job loads {loaded}",
                remedies.CHECK_LIBRARY,
            )
        return Reason(kind, text, remedies.TELL_PLUGIN if kind is AnswerKind.AS_RULE else None)

    def _apart(self, seen: SizeRecord) -> Reason:
        """Several answers at one size: numPipeOps and regBuff differ, or the ranks do."""
        words = sorted({"none" if s.setting is None else str(s.setting) for s in seen.said})
        ran = sorted({str(one) for one in seen.ran})
        more = f"; what ran: {', '.join(ran)}" if ran else ""
        return Reason(
            AnswerKind.HIT,
            f"rules answered, not always alike: {', '.join(words)}{more}",
            "compare ranks and calls in the plugin's own files: " + remedies.TELL_PLUGIN,
        )

    def overwritten(self, key: Key, said: TunerAnswer, rule: str, ran: Setting | None) -> Reason:
        """Something else ran than was answered, and what is known to do that."""
        name = "an algorithm without a name here" if ran is None else str(ran)
        text = f"{rule} answered {said.setting}, and {name} ran"
        forced = [name for name in _OVERRIDES if name in self._job.variables]
        if forced:
            values = ", ".join(f"{n}={'|'.join(sorted(self._job.variables[n]))}" for n in forced)
            return Reason(
                AnswerKind.OVERWRITTEN, f"{text}: {values} is applied last", remedies.unset(*forced)
            )
        row = self._overwrite(key, said)
        if row is not None:
            return Reason(
                AnswerKind.OVERWRITTEN, f"{text}: {self._of_release(row, key)}", row.remedy
            )
        return Reason(
            AnswerKind.OVERWRITTEN,
            f"{text}: {self._job.library or 'the library'} changed it after the tuner",
            "see whether other variables force it, with: export NCCL_DEBUG=INFO "
            "NCCL_DEBUG_SUBSYS=INIT,ENV,TUNING",
        )

    def _overwrite(self, key: Key, said: TunerAnswer) -> Overwrite | None:
        """What the job's library is known to make of an answer."""
        if said.setting is None:
            return None
        return self._known.overwrite(self._job.library, key, said.setting)

    def _of_release(self, row: Overwrite, key: Key) -> str:
        """``RCCL 2.26.6: the library chooses …``, and whether every build does."""
        builds = "" if row.all_builds else ", some builds"
        return f"{self._job.library}{builds}: {row.words((key[1],), key[0].n_ranks or 0)}"

    def compared(
        self, rule: Rule, ran: Sequence[Setting], where: CommunicatorScale
    ) -> Reason | None:
        """No word of the plugin's on a size, and what ran is what a rule asks for; else None."""
        if any(differs(rule.setting, one) for one in ran):
            return None
        if was_hit(where, rule, self._job):
            return self.hit(f"the rule of line {rule.line} was hit, and {ran[0]} ran")
        text = f"{ran[0]} ran, which is what the rule of line {rule.line} asks for"
        if self._job.table is not None:
            return self.hit(text)
        # The library may have chosen it by itself; only the plugin's own word is proof.
        return self.hit(f"{text}; nothing here says that the plugin answered", AnswerKind.AS_RULE)


def differs(asked: Setting, ran: Setting) -> bool:
    """Whether another algorithm or protocol ran; channels are an upper bound and tell nothing."""
    return Setting.contradicts(asked, cell_of(ran))


def _is_same(measured: str, loaded: str) -> bool:
    """Whether two libraries are of one family and release; builds of one release count as one."""
    one, other = measured.split(), loaded.split()
    same_family = len(one) < 2 or one[0] == other[0]
    return same_family and _release(one[-1]) == _release(other[-1])


def _release(text: str) -> tuple[str, ...]:
    return tuple(text.replace("-", "+").split("+")[0].split(".")[:3])


def by_summary(where: CommunicatorScale, ran: Sequence[Setting], job: JobLogs) -> Reason | None:
    """The answer where all calls of a scale went one way; None where they did not."""
    sums = job.totals.get(where)
    if sums is None or not sums.calls:
        return None
    more = f"; {', '.join(map(str, ran))} ran" if ran else ""
    if sums.hits == sums.calls:
        return Reason(AnswerKind.HIT, f"a rule answered every call of this scale{more}")
    if sums.misses == sums.calls:
        return Reason(
            AnswerKind.HOLE,
            f"none of the {sums.calls} calls of this scale met a rule{more}",
            tell_rules(job.rule_file),
        )
    if sums.not_selectable == sums.calls:
        return Reason(
            AnswerKind.NOT_SELECTABLE,
            f"rules matched every call of this scale, and the library offers none of them{more}",
            tell_rules(job.rule_file),
        )
    return None


def was_shut(where: CommunicatorScale, rule: Rule, job: JobLogs) -> bool:
    """Whether a rule that matches was never hit, and calls met rules that cannot be chosen."""
    sums = job.totals.get(where)
    return sums is not None and sums.not_selectable > 0 and not _is_hit(where, rule, job)


def was_hit(where: CommunicatorScale, rule: Rule, job: JobLogs) -> bool:
    """Whether a rule was hit, and no call met one that cannot be chosen."""
    sums = job.totals.get(where)
    return sums is not None and not sums.not_selectable and _is_hit(where, rule, job)


def _is_hit(where: CommunicatorScale, rule: Rule, job: JobLogs) -> bool:
    return any(said.line == rule.line for said in job.hit_rules.get(where, ()))


class SizeAnswers:
    """Answers for one job."""

    def __init__(self, job: JobLogs, known: JobKnowledge) -> None:
        """Begin with nothing judged.

        Args:
            job: all evidence.
            known: what other packages know.
        """
        self._job = job
        self._known = known
        self._answered = TunerAnswerCheck(job, known)
        self._causes: dict[CommunicatorScale, Reason | None] = {}

    def cause(self, where: CommunicatorScale) -> Reason | None:
        """Cause that holds for every size of a scale."""
        if where not in self._causes:
            self._causes[where] = cause(self._job, where, self._known)
        return self._causes[where]

    def at(self, key: Key) -> Reason:
        """The answer at one size."""
        record = self._job.seen[key]
        around = self._around_any(key, record)
        if around is not None:
            return around
        reason = self.cause(key[0])
        if reason is not None and reason.kind is AnswerKind.OTHER_FILE:
            return reason
        answers = [said for said in record.said if said.setting is not None or said.line]
        if answers:
            return self._behind(key, record, answers[0], self._answered.at(key, record, answers))
        return reason or (self._unanswered if record.said else self._unasked)(key, record)

    def _around_any(self, key: Key, record: SizeRecord) -> Reason | None:
        """Answer that needs no look at rules: no tuner is asked."""
        if not key[1].is_tunable:
            return Reason(
                AnswerKind.NOT_TUNABLE,
                f"{key[1].value} is made of sends and receives in every release",
            )
        if record.paths:
            return self._bypassed(key, record, named=record.paths)
        return None

    def _behind(self, key: Key, seen: SizeRecord, said: TunerAnswer, reason: Reason) -> Reason:
        """Add the rule before it that would have answered if it could be chosen."""
        before = [one for one in self._rules(key) or () if (one.line or 0) < said.line]
        if not before or conditions_of(before[0]) or before[0].setting == said.setting:
            return reason
        shut = self._shut(before[0], key, seen)
        return Reason(reason.kind, f"{reason.text}; {shut.text}", reason.remedy or shut.remedy)

    # --- asked, and no answer

    def _unanswered(self, key: Key, seen: SizeRecord) -> Reason:
        rules = self._rules(key)
        if rules is None:
            return self._by_code(seen)
        if not rules:
            return self._hole(key)
        shut = [rule for rule in rules if not is_offered(rule, seen)]
        if shut:
            return self._shut(shut[0], key, seen)
        with_conditions = [rule for rule in rules if conditions_of(rule)]
        if with_conditions:
            rule = with_conditions[0]
            remedy = "leave numPipeOps and regBuff at -1 in the rule file"
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
        asked = tell_rules(self._job.rule_file)
        if len(seen.reasons) == 1:
            reason = plugin_reasons()[next(iter(seen.reasons))]
            kind = AnswerKind(reason.answer)
            lacking = unmet(self._job) if kind is AnswerKind.NOT_SELECTABLE else None
            return Reason(kind, reason.means, lacking or reason.remedy or asked)
        return Reason(
            AnswerKind.UNKNOWN,
            "the plugin was asked and gave no answer: there is no rule, or none that can be chosen",
            asked,
        )

    def _hole(self, key: Key) -> Reason:
        stated = self._known.hole(key[1], key[2], key[0])
        if stated is not None and is_not_beaten(stated):
            return Reason(AnswerKind.HOLE, stated)
        name = key[1].value
        remedy = f"rccltune sweep --collective {name}, rccltune emit-config"
        if stated is None and self._has_none(key):
            return Reason(
                AnswerKind.HOLE,
                f"the file has none for {name} at all",
                f"if its calls take long enough to matter, measure it: {remedy}",
            )
        return Reason(
            AnswerKind.HOLE,
            stated or "the file has none here",
            f"measure these sizes and choose anew: {remedy}",
        )

    def _has_none(self, key: Key) -> bool:
        """Whether a whole collective is left out, rather than some of its sizes."""
        return not any(one.collective is key[1] for one in self._known.file_rules or ())

    def _shut(self, rule: Rule, key: Key, seen: SizeRecord) -> Reason:
        return not_selectable(rule, key, seen, self._job, self._known)

    # --- not asked, or nobody wrote it down

    def _unasked(self, key: Key, record: SizeRecord) -> Reason:
        where = key[0]
        if where in self._job.recorded and not record.ran:
            return self._bypassed(key, record, named=set())
        if record.called and not record.ran and where in self._job.tuning:
            return self._bypassed(key, record, named=set())
        if where in self._job.recorded:
            return Reason(
                AnswerKind.UNKNOWN,
                "the library chose here, and the plugin's files have no question of this size: "
                "they are of other ranks or were cut off, or the call was one of a group, about "
                "whose sum it was asked",
                remedies.TELL_PLUGIN,
            )
        if record.ran and self._job.table_applied:
            if self._rules(key) is None:
                ran = ", ".join(str(one) for one in record.ran if one is not None)
                return Reason(
                    AnswerKind.HOLE,
                    f"{self._job.table_named} has none here; {ran or 'another'} ran",
                )
            return self._unanswered(key, record)
        return self._by_what_ran(key, record)

    def _by_what_ran(self, key: Key, seen: SizeRecord) -> Reason:
        """No word of the plugin's on this size: what ran is compared with the file."""
        rules = self._rules(key)
        if rules is not None and not rules:
            return self._hole(key)
        ran = [one for one in seen.ran if one is not None]
        if rules is None or not ran:
            return by_summary(key[0], ran, self._job) or self._untold(ran)
        rule = rules[0]
        same = self._answered.compared(rule, ran, key[0])
        if same is not None:
            return same
        if (key[1], cell_of(rule.setting)) in self._job.refused or was_shut(
            key[0], rule, self._job
        ):
            return self._shut(rule, key, seen)
        if was_hit(key[0], rule, self._job) or self._known.overwrite(
            self._job.library, key, rule.setting
        ):
            said = TunerAnswer(rule.setting, rule.line or 0)
            return self._answered.overwritten(key, said, f"rule of line {rule.line}", ran[0])
        return Reason(
            AnswerKind.UNKNOWN,
            f"{ran[0]} ran, and the rule of line {rule.line} asks for {rule.setting}; nothing here "
            "says what the plugin answered",
            remedies.TELL_PLUGIN,
        )

    def _untold(self, ran: Sequence[Setting]) -> Reason:
        asked = as_asked(self._job, ran[0]) if len(ran) == 1 else ""
        told = f"{', '.join(map(str, ran))} ran{asked}, and " if ran else ""
        remedy = remedies.TELL_PLUGIN if self._is_loaded() else remedies.TELL_LIBRARY
        if self._known.file_rules is None and self._job.rule_file:
            # What ran, held against what each rule asks for, tells as much without another run.
            remedy = tell_rules(self._job.rule_file)
        return Reason(AnswerKind.UNKNOWN, f"{told}nothing here says what a rule answered", remedy)

    def _is_loaded(self) -> bool:
        return bool(self._job.started or self._job.recorded) or any(
            is_ours(name) for _, name in self._job.loading
        )

    def _bypassed(self, key: Key, seen: SizeRecord, named: set[str]) -> Reason:
        return bypassed(key, seen, named, self._job, self._known)

    def _rules(self, key: Key) -> tuple[Rule, ...] | None:
        return self._known.rules(key[1], key[2], key[0])
