"""Where a rule answered, or ran what a rule asks for: whether that is what ran in the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rccltune.model import Setting
from rccltune.releases import KEEPING_PROTOCOLS
from rccltune.why import remedies
from rccltune.why.answers import Kind, Known, Reason, RuleHere
from rccltune.why.cells import cell_of
from rccltune.why.records import Job, Key, Said, Seen, Where
from rccltune.why.summary import was_hit

_OVERRIDES: Final = ("RCCL_OVERRIDE_ALGO", "RCCL_OVERRIDE_PROTO")


class Answered:
    """Judges answers of one job."""

    def __init__(self, job: Job, known: Known) -> None:
        """Nothing is judged yet.

        Args:
            job: all evidence.
            known: what other packages know.
        """
        self._job = job
        self._known = known

    def at(self, key: Key, seen: Seen, answers: Sequence[Said]) -> Reason:
        """The answer where the plugin's own word is there.

        Args:
            key: scale, collective and size.
            seen: what the files say of it.
            answers: settings that were answered, the first most of all; at least one.
        """
        said = answers[0]
        if said.setting is None:
            return Reason(Kind.HOLE, f"rule of line {said.line} leaves this size to the library")
        if len(answers) > 1 or None in {one.setting for one in seen.said}:
            return self._apart(seen)
        rule = f"rule of line {said.line}" if said.line else "a rule of the library's own table"
        if not seen.ran:
            return self._unseen(key, said, rule)
        other = [ran for ran in seen.ran if ran is None or differs(said.setting, ran)]
        if len(other) == len(seen.ran):
            return self.overwritten(key, said, rule, other[0])
        # Other types, or calls of a group, whose sum the tuner was asked about.
        words = ", ".join(sorted(map(str, other)))
        more = f"; other calls ran {words}" if other else ""
        return self.hit(f"{rule} answered {said.setting}, and that ran{more}")

    def _unseen(self, key: Key, said: Said, rule: str) -> Reason:
        """Nothing says what ran: the library's release does, where it is known for that."""
        if self._known.overwrites(self._job.library, key[1], key[0]):
            return Reason(
                Kind.OVERWRITTEN,
                f"{rule} answered {said.setting}; {self._job.library} sets the protocol of "
                f"{key[1].value} again on several nodes, and nothing here says what ran",
                f"use {KEEPING_PROTOCOLS} or later, or see what runs: export NCCL_DEBUG=INFO "
                "NCCL_DEBUG_SUBSYS=INIT,ENV,TUNING",
            )
        return self.hit(f"{rule} answered {said.setting}; nothing here says what ran")

    def hit(self, text: str) -> Reason:
        """It ran; whether the rules were measured with what the job loads."""
        measured, loaded = self._known.file_libraries, self._job.library
        if measured and loaded is not None and not any(_is_same(one, loaded) for one in measured):
            names = ", ".join(measured)
            return Reason(
                Kind.OTHER_LIBRARY,
                f"{text}, but the rules were measured with {names} and the job loads {loaded}",
                remedies.CHECK_LIBRARY,
            )
        return Reason(Kind.HIT, text)

    def _apart(self, seen: Seen) -> Reason:
        """Several answers at one size: numPipeOps and regBuff differ, or the ranks do."""
        words = sorted({"none" if s.setting is None else str(s.setting) for s in seen.said})
        ran = sorted({str(one) for one in seen.ran})
        more = f"; what ran: {', '.join(ran)}" if ran else ""
        return Reason(
            Kind.HIT,
            f"rules answered, not always alike: {', '.join(words)}{more}",
            "compare ranks and calls in the plugin's own files: " + remedies.TELL_PLUGIN,
        )

    def overwritten(self, key: Key, said: Said, rule: str, ran: Setting | None) -> Reason:
        """Something else ran than was answered, and what is known to do that."""
        name = "an algorithm without a name here" if ran is None else str(ran)
        text = f"{rule} answered {said.setting}, and {name} ran"
        forced = [name for name in _OVERRIDES if name in self._job.variables]
        if forced:
            values = ", ".join(f"{n}={'|'.join(sorted(self._job.variables[n]))}" for n in forced)
            return Reason(
                Kind.OVERWRITTEN, f"{text}: {values} is applied last", remedies.unset(*forced)
            )
        if self._known.overwrites(self._job.library, key[1], key[0]):
            return Reason(
                Kind.OVERWRITTEN,
                f"{text}: {self._job.library} sets the protocol again on several nodes",
                f"use {KEEPING_PROTOCOLS} or later, which leaves a tuner's answer as it is",
            )
        return Reason(
            Kind.OVERWRITTEN,
            f"{text}: {self._job.library or 'the library'} changed it after the tuner",
            "see whether other variables force it, with: export NCCL_DEBUG=INFO "
            "NCCL_DEBUG_SUBSYS=INIT,ENV,TUNING",
        )

    def compared(self, rule: RuleHere, ran: Sequence[Setting], where: Where) -> Reason | None:
        """No word of the plugin's on a size, and what ran is what a rule asks for; else None."""
        if any(differs(rule.setting, one) for one in ran):
            return None
        if was_hit(where, rule, self._job):
            return self.hit(f"the rule of line {rule.line} was hit, and {ran[0]} ran")
        # The library may have chosen it by itself; only the plugin's own word is proof.
        return self.hit(f"{ran[0]} ran, which is what the rule of line {rule.line} asks for")


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
