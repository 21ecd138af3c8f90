"""What the plugin did in launches of a verification: which sizes rules answered, what failed."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rccltune.logs import reader
from rccltune.logs.trace import Asked, agree, read_trace
from rccltune.logs.walk import read_walk
from rccltune.measure.site import Site
from rccltune.model.chosen import Judgement, Rule
from rccltune.model.errors import LaunchError, RccltuneError, VerificationError
from rccltune.model.measured import Launch, Outcome, Sample, Stated
from rccltune.model.settings import RULES, SILENT, Setting, Target
from rccltune.model.vocabulary import Collective
from rccltune.session.launches import is_walk, of_all_ranks
from rccltune.verify.evidence import Weighed


@dataclass(frozen=True, slots=True)
class Answered:
    """Whether it was the rule for a size that answered, and no path, fallback or nobody."""

    rules: Sequence[Rule]
    proven: Proven

    def at(self, one: Weighed) -> bool:
        """Of a size that was weighed."""
        return self(one.verdict.target, one.verdict.nbytes)

    def __call__(self, target: Target, nbytes: int) -> bool:
        """Of calls of so many bytes."""
        collective = target.collective
        first = next((r for r in self.rules if r.matches(collective, nbytes, target.scale)), None)
        if first is None or first.vendor or nbytes in self.proven.bypassed.get(collective, ()):
            return False
        return nbytes not in self.proven.skipped.get((collective, first.setting), ())


def stop_where_untouched_is_wrong(
    folder: Path, answered: Answered, weighed: Iterable[Weighed]
) -> None:
    """Wrong results at a size that no rule answered are the library's own.

    Raises:
        VerificationError: there are some.
    """
    for one in weighed:
        if one.verdict.judgement is Judgement.WRONG and not answered.at(one):
            raise wrong_without_rules(folder)


_SHA: Final = re.compile(r"\bfile=.* sha256=([0-9a-f]+)")


@dataclass(slots=True)
class Proven:
    """What the plugin said that it did.

    Attributes:
        hits: calls answered by each rule, by its line.
        misses: calls for which no rule was meant and none answered.
        skipped: sizes at which a setting was not selectable that the first rule there names.
        bypassed: sizes at which a path went past the tuner.
        own: sizes at which a rule names what the library's table chooses by itself.
        hashes: of the rule file, as every rank read it.
    """

    hits: Counter[int] = field(default_factory=Counter)
    misses: int = 0
    skipped: dict[tuple[Collective, Setting], set[int]] = field(default_factory=dict)
    bypassed: dict[Collective, set[int]] = field(default_factory=dict)
    own: dict[tuple[Collective, Setting], set[int]] = field(default_factory=dict)
    hashes: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A launch that hangs or fails with the rules, twice.

    Attributes:
        rule: that was in force at the size that did not come back.
        why: how it failed.
    """

    rule: Rule
    nbytes: int
    why: str


def wrong_without_rules(own: Path) -> VerificationError:
    """Nothing can be held against a library that computes wrongly by itself."""
    return VerificationError(
        "the library gives WRONG RESULTS by itself: nothing can be compared with it",
        where=f"{own}/stdout.log",
        hint="the machine, its driver or this RCCL is at fault, and no rule: see dmesg.",
    )


def fails_with_rules(own: Path, why: str) -> VerificationError:
    """Where no rule can be blamed, or all of them and none ever worked, something else is wrong."""
    return VerificationError(
        f"with the rules the benchmark fails, and without them it works: {why}",
        where=f"{own}/",
        hint="ranks that do not all have plugin, file and environment hang like this: see "
        "the plugin's log there. Nothing was written.",
    )


def prove(
    folder: Path,
    site: Site,
    one: Launch,
    found: tuple[Sequence[Rule], Sequence[Sample]],
    proven: Proven,
) -> None:
    """Hold what every rank's plugin answered against the file.

    Args:
        folder: of the verification.
        site: where it ran.
        one: the launch with the rules.
        found: the rules of this scale, and its samples.
        proven: is added to.

    Raises:
        VerificationError: it is not what the file says, or a rank had no plugin.
    """
    own = folder / "launches" / one.id
    rules, samples = found
    try:
        traces = of_all_ranks(own, read_trace, agree)
    except LaunchError as error:
        raise VerificationError(error.message, where=error.where, hint=error.hint) from error
    _check_ranks(len(traces), site, own)
    for log in own.glob("plugin-*.log"):
        proven.hashes |= set(_SHA.findall(log.read_text(errors="replace")))
    rows = _really_asked(next(iter(traces.values())), one, samples)
    for row in rows:
        _hold(row, one, rules, site, proven)
    asked = {(row.collective, row.nbytes) for row in rows}
    for sample in samples:
        key = (sample.key.collective, sample.nbytes)
        if sample.nbytes and key not in asked:
            proven.bypassed.setdefault(key[0], set()).add(key[1])


def _check_ranks(n_traces: int, site: Site, own: Path) -> None:
    wanted = site.seating.n_started if site.launcher.program else 1
    if n_traces < wanted:
        raise VerificationError(
            f"{wanted - n_traces} of {wanted} ranks did not load the plugin",
            where=str(own),
            hint="plugin, rules and environment must be the same on every rank and host.",
        )


def _hold(row: Asked, one: Launch, rules: Sequence[Rule], site: Site, proven: Proven) -> None:
    """One size of one step against the file."""
    arm = RULES
    if is_walk(one) and one.schedule is not None:
        steps = one.schedule.settings
        # Behind the last step there is silence.
        arm = steps[row.step] if row.step < len(steps) else SILENT
    matching = [rule for rule in rules if rule.matches(row.collective, row.nbytes, site.scale)]
    hit = next((rule for rule in matching if rule.setting == row.answer), None)
    if row.answer is not None and (hit is None or arm == SILENT):
        where = "in a step without rules" if arm == SILENT else "where the file has no such rule"
        raise VerificationError(
            f"the plugin answered {row.answer} to {row.collective.value} of {row.nbytes} bytes, "
            f"{where}",
            where=one.id,
            hint="please report this with the session: it is a bug.",
        )
    if arm == SILENT:
        return
    if matching and hit is not matching[0]:
        skipped = proven.skipped.setdefault((row.collective, matching[0].setting), set())
        skipped.add(row.nbytes)
    if hit is not None:
        proven.hits[hit.line or 0] += row.calls
        if hit.setting == row.host_choice:
            proven.own.setdefault((row.collective, hit.setting), set()).add(row.nbytes)
    else:
        proven.misses += row.calls


def _really_asked(trace: Sequence[Asked], one: Launch, samples: Iterable[Sample]) -> list[Asked]:
    """Rows of a trace that calls asked, and not only what prints the columns of ``-A``."""
    if "-A" not in one.argv:
        return list(trace)
    if is_walk(one):
        return [row for row in trace if row.calls > 1]
    lines = Counter(nbytes for nbytes, _ in {(s.nbytes, s.line) for s in samples})
    return [row for row in trace if row.calls > lines[row.nbytes]]


def where_it_failed(
    own: Path, site: Site, one: Launch, rules: Sequence[Rule], outcome: Outcome
) -> Failed:
    """Which rule was in force when a launch hung or failed.

    Raises:
        VerificationError: ranks without the plugin, or no rule is to blame.
    """
    why = outcome.notices[-1].message if outcome.notices else "no reason given"
    walks = []
    for path in own.glob("trace-*.csv"):
        with suppress(RccltuneError, OSError):
            walks.append(read_walk(path.read_text(encoding="utf-8"), str(path)))
    if walks:
        _check_ranks(len(walks), site, own)
    furthest = max(walks, key=lambda walk: walk.n_begun, default=None)
    nbytes = _next_size(own, one) if furthest is not None and not furthest.ended else None
    setting = _in_force(one, furthest.n_begun) if furthest is not None else None
    if nbytes is not None and setting == RULES:
        collective = one.collectives[0]
        for rule in rules:
            if rule.matches(collective, nbytes, site.scale) and not rule.vendor:
                return Failed(rule=rule, nbytes=nbytes, why=why)
    raise fails_with_rules(own, why)


def _in_force(one: Launch, n_begun: int) -> Setting | None:
    if not is_walk(one) or one.schedule is None:
        return RULES
    steps = one.schedule.settings
    return steps[n_begun - 1] if 0 < n_begun <= len(steps) else None


def _next_size(own: Path, one: Launch) -> int | None:
    """The size in bytes behind the last whole row that was printed."""
    log = own / "stdout.log"
    stated = Stated(collective=one.collectives[0], n_ranks=one.scale.n_ranks if one.scale else None)
    with suppress(RccltuneError, OSError), log.open("rb") as stream:
        whole = (line for line in stream if line.endswith(b"\n"))
        printed = reader.read_stream(whole, str(log), stated, one.id).samples
        last = max(printed, key=lambda sample: sample.line or 0).nbytes
        words = dict(itertools.pairwise(one.argv))
        low, high = int(words["-b"]), int(words["-e"])
        return 2 * last if 2 * last <= high else low
    return None
