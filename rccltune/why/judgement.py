"""From evidence to an answer at one size: the first question that the files settle decides."""

from __future__ import annotations

from collections.abc import Sequence

from rccltune.model import Setting
from rccltune.why import remedies
from rccltune.why.answered import Answered
from rccltune.why.answers import Kind, Known, Reason, RuleHere
from rccltune.why.causes import cause
from rccltune.why.cells import cell_of, is_offered, not_selectable, unmet
from rccltune.why.paths import bypassed
from rccltune.why.records import Job, Key, Said, Seen, Where, is_ours
from rccltune.why.summary import by_summary, was_hit, was_shut


class Judge:
    """Answers for one job."""

    def __init__(self, job: Job, known: Known) -> None:
        """Nothing is judged yet.

        Args:
            job: all evidence.
            known: what other packages know.
        """
        self._job = job
        self._known = known
        self._answered = Answered(job, known)
        self._causes: dict[Where, Reason | None] = {}

    def cause(self, where: Where) -> Reason | None:
        """What holds for every size of a scale."""
        if where not in self._causes:
            self._causes[where] = cause(self._job, where, self._known)
        return self._causes[where]

    def at(self, key: Key) -> Reason:
        """The answer at one size."""
        seen = self._job.seen[key]
        around = self._around_any(key, seen)
        if around is not None:
            return around
        reason = self.cause(key[0])
        if reason is not None and reason.kind is Kind.OTHER_FILE:
            return reason
        answers = [said for said in seen.said if said.setting is not None or said.line]
        if answers:
            return self._behind(key, seen, answers[0], self._answered.at(key, seen, answers))
        return reason or (self._unanswered if seen.said else self._unasked)(key, seen)

    def _around_any(self, key: Key, seen: Seen) -> Reason | None:
        """What needs no look at rules: no tuner is asked, or a schedule answers."""
        if not key[1].is_tunable:
            return Reason(
                Kind.NOT_TUNABLE, f"{key[1].value} is made of sends and receives in every release"
            )
        if seen.paths:
            return self._bypassed(key, seen, named=seen.paths)
        steps = any(one.how == "schedule" for one in self._job.started.get(key[0], ()))
        if seen.scheduled or (steps and seen.said):
            return Reason(
                Kind.SCHEDULE,
                "RCCLTUNE_SCHEDULE is set: its steps answered, and no rule file is read",
                remedies.NO_SCHEDULE,
            )
        return None

    def _behind(self, key: Key, seen: Seen, said: Said, reason: Reason) -> Reason:
        """The same, with the rule before it that would have answered if it could be chosen."""
        before = [one for one in self._rules(key) or () if one.line < said.line]
        if not before or before[0].conditions or before[0].setting == said.setting:
            return reason
        shut = self._shut(before[0], key, seen)
        return Reason(reason.kind, f"{reason.text}; {shut.text}", reason.remedy or shut.remedy)

    # --- asked, and no answer

    def _unanswered(self, key: Key, seen: Seen) -> Reason:
        rules = self._rules(key)
        if rules is None:
            return self._unanswered_without_rules(key)
        if not rules:
            return self._hole(key)
        shut = [rule for rule in rules if not is_offered(rule, seen)]
        if shut:
            return self._shut(shut[0], key, seen)
        with_conditions = [rule for rule in rules if rule.conditions]
        if with_conditions:
            rule = with_conditions[0]
            return Reason(
                Kind.HOLE,
                f"rule of line {rule.line} asks for {rule.conditions}, and the calls had others",
                "leave numPipeOps and regBuff at -1 in the rule file",
            )
        return Reason(
            Kind.OTHER_FILE,
            f"{self._known.file_name} has a rule here (line {rules[0].line}), and the job's plugin "
            "answered nothing: the job read another file",
            remedies.SAME_FILE,
        )

    def _unanswered_without_rules(self, key: Key) -> Reason:
        sums = self._job.totals.get(key[0])
        if sums is not None and sums.calls and not sums.not_selectable:
            return Reason(
                Kind.HOLE, "the file has none here", "see where it has none: rccltune explain RULES"
            )
        if sums is not None and sums.not_selectable and not sums.misses:
            return Reason(
                Kind.NOT_SELECTABLE,
                "a rule matched, and the library does not offer what it asks for",
                unmet(self._job) or remedies.tell_rules(self._job.rule_file),
            )
        return Reason(
            Kind.UNKNOWN,
            "the plugin was asked and gave no answer: there is no rule, or none that can be chosen",
            remedies.tell_rules(self._job.rule_file),
        )

    def _hole(self, key: Key) -> Reason:
        stated = self._known.hole(key[1], key[2], key[0]) if self._known.hole else None
        if stated is not None and "not beaten" in stated:
            return Reason(Kind.HOLE, stated)
        name = key[1].value
        remedy = f"rccltune sweep --collective {name}, rccltune emit-config"
        if stated is None and self._has_none(key):
            return Reason(
                Kind.HOLE,
                f"the file has none for {name} at all",
                f"if its calls take long enough to matter, measure it: {remedy}",
            )
        return Reason(
            Kind.HOLE,
            stated or "the file has none here",
            f"measure these sizes and choose anew: {remedy}",
        )

    def _has_none(self, key: Key) -> bool:
        """Whether a whole collective is left out, rather than some of its sizes."""
        return not any(one.collective is key[1] for one in self._known.file_rules)

    def _shut(self, rule: RuleHere, key: Key, seen: Seen) -> Reason:
        return not_selectable(rule, key, seen, self._job, self._known)

    # --- not asked, or nobody wrote it down

    def _unasked(self, key: Key, seen: Seen) -> Reason:
        where = key[0]
        if where in self._job.recorded and not seen.ran:
            return self._bypassed(key, seen, named=set())
        if seen.called and not seen.ran and where in self._job.tuning:
            return self._bypassed(key, seen, named=set())
        if where in self._job.recorded:
            return Reason(
                Kind.UNKNOWN,
                "the library chose here, and the plugin's files have no question of this size: "
                "they are of other ranks or were cut off, or the call was one of a group, about "
                "whose sum it was asked",
                remedies.TELL_PLUGIN,
            )
        if seen.ran and self._job.table_applied:
            return self._unanswered(key, seen)
        return self._by_what_ran(key, seen)

    def _by_what_ran(self, key: Key, seen: Seen) -> Reason:
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
        if was_hit(key[0], rule, self._job) or self._known.overwrites(
            self._job.library, key[1], key[0]
        ):
            said = Said(rule.setting, rule.line)
            return self._answered.overwritten(key, said, f"rule of line {rule.line}", ran[0])
        return Reason(
            Kind.UNKNOWN,
            f"{ran[0]} ran, and the rule of line {rule.line} asks for {rule.setting}; nothing here "
            "says what the plugin answered",
            remedies.TELL_PLUGIN,
        )

    def _untold(self, ran: Sequence[Setting]) -> Reason:
        told = f"{', '.join(map(str, ran))} ran, and " if ran else ""
        remedy = remedies.TELL_PLUGIN if self._is_loaded() else remedies.TELL_LIBRARY
        if self._known.rules is None and self._job.rule_file:
            # What ran, held against what each rule asks for, tells as much without another run.
            remedy = remedies.tell_rules(self._job.rule_file)
        return Reason(Kind.UNKNOWN, f"{told}nothing here says what a rule answered", remedy)

    def _is_loaded(self) -> bool:
        return bool(self._job.started or self._job.recorded) or any(
            is_ours(name) for _, name in self._job.loading
        )

    def _bypassed(self, key: Key, seen: Seen, named: set[str]) -> Reason:
        return bypassed(key, seen, named, self._job, self._known)

    def _rules(self, key: Key) -> tuple[RuleHere, ...] | None:
        return self._known.rules(key[1], key[2], key[0]) if self._known.rules else None
