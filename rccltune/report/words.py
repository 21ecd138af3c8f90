"""The sentences of a page, each true in the state that the session is in."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from rccltune.analyse.intervals import INTERVAL
from rccltune.model.estimate import Estimate
from rccltune.model.rule import Rule, RuleState
from rccltune.model.settings import BASELINE, LL128_FORCED, Role
from rccltune.model.units import format_span
from rccltune.model.zone import BASELINE_UNKNOWN, NOT_FASTER, Zone, is_not_beaten
from rccltune.report.contents import RuleFileOfSession, SessionContents
from rccltune.report.tables import baseline_words
from rccltune.session.store import is_swept, sweep_then_verify
from rccltune.verify.verdict_file import RuleVerdict
from rccltune.verify.verifications import Verification

DASH: Final = "–"
_LIBRARY: Final = "the library's own choice"
# More are counted.
_MOST_RANGES: Final = 2


def count(n: int, thing: str) -> str:
    """``1 rule``, ``2 rules``, ``3 launches``."""
    plural = "es" if thing.endswith(("ch", "s", "x")) else "s"
    return f"{n:,} {thing}{'' if n == 1 else plural}"


def times(gain: Estimate | None) -> str:
    """``1.20× (1.18 to 1.22)``; a dash for what is not known."""
    return f"{gain.value:.2f}× ({gain.low:.2f} to {gain.high:.2f})" if gain else DASH


def times_of_size(gain: Estimate | None) -> str:
    """As :func:`times`, but ``about 1.20×`` of two communicators: their interval says nothing."""
    return f"about {gain.value:.2f}×" if gain and gain.n <= 2 else times(gain)


def marks(shown: SessionContents) -> Iterator[tuple[str, str]]:
    """Marks that a reader must know before anything else: a word and its sentence."""
    if shown.simulated:
        sentence = "A node file gave the times: nothing here was measured on hardware."
        real = shown.done.session.fingerprint.runner
        chose = f" What ran is the choice of {real}; no result was checked." if real else ""
        yield "SIMULATED", sentence + chose
    if shown.refused:
        yield "NOT PROVEN", "The verification of these rules failed: do not use them."
    elif _is_cut_short(shown):
        begun = count(shown.trials, "communicator")
        yield "NOT PROVEN", f"A verification was begun ({begun}) and has no verdict."
    elif any(one.rules and not one.verification for one in shown.files):
        yield "NOT PROVEN", "There is no verification of the rules as they are now."
    if shown.is_imported:
        whose = f" by {'; '.join(shown.origins)}" if shown.origins else ""
        yield (
            "IMPORTED",
            f"The times were read from files, and measured elsewhere{whose}; when is not known.",
        )
    if shown.used != shown.done.session.path:
        sentence = f"Exports and deploy take the rules of {shown.used.name}/, proven faster at some"
        yield (
            "OTHER RULES",
            f"{sentence} sizes and slower at none; the page of that session has them.",
        )
    variable = "=".join(LL128_FORCED)
    if shown.is_used:
        sentence = f"rccltune deploy and the site's exports take these rules, and set {variable}."
        yield "TO DEPLOY", sentence
    elif shown.is_used is not None:
        sentence = "The rules of the session around this one are deployed: these are not faster"
        yield (
            "NOT TO DEPLOY",
            f"{sentence} everywhere, and are for jobs that set {variable} anyway.",
        )
    if shown.is_interrupted:
        command = shown.done.session.command
        again = f" The same command goes on: {command}" if command else ""
        yield "INTERRUPTED", f"The sweep did not come to its end.{again}"


def _is_cut_short(shown: SessionContents) -> bool:
    """Whether a verification was begun, of which nothing says how it ended."""
    is_verified = any(one.verification for one in shown.files) or bool(shown.old)
    return bool(shown.trials) and bool(shown.files) and not is_verified


def headline(shown: SessionContents) -> str:
    """Claim of what is won, in a sentence."""
    if shown.refused:
        return f"Nothing is proven here: {shown.refused[0].message}."
    bits = sorted({one.file.bits for one in shown.files if one.file.bits is not None})
    if bits and any(one.rules for one in shown.files):
        return _keeps_bits(shown, bits)
    verified = [one for one in shown.files if one.verification]
    verified_rules = [
        rule for one in verified for rule in one.rules if isinstance(rule, RuleVerdict)
    ]
    verified_rules = [rule for rule in verified_rules if rule.gain]
    if verified_rules:
        rest = sum(not isinstance(one, RuleVerdict) for one in _describe_own_rules(shown))
        more = f" {_are(rest, 'more rule')} not verified." if rest else ""
        how = "verified, with and without the rules in turns"
        return f"{_gains(shown, verified_rules, _LIBRARY)}: {how}.{more}"
    if verified:
        before = sum(one.verification.file.rules_before for one in verified if one.verification)
        if before:
            return (
                f"Nothing is won here: of {count(before, 'rule')} that were verified "
                f"none is proven to beat {_LIBRARY}."
            )
    rules = [rule for one in shown.files for rule in one.rules if not rule.fallback]
    if rules:
        return _swept(shown, rules)
    return _no_rule(shown)


def _keeps_bits(shown: SessionContents, bits: Sequence[str]) -> str:
    """What rules promise that are chosen for their bits, and what that costs."""
    sentence = f"Results keep their bits ({', '.join(bits)}) at every size that a rule reaches"
    if not all(one.verification for one in shown.files if one.rules):
        return f"{sentence}, by the sweep's probes: not verified."
    times = [
        time.rules_us / time.library_us
        for one in shown.files
        if one.verification
        for time in one.verification.file.bits_times
    ]
    sentence += ": verified on fresh communicators"
    if not times:
        return f"{sentence}."
    return (
        f"{sentence}; calls take {min(times):.2f}× to {max(times):.2f}× of the library's own time."
    )


def _swept(shown: SessionContents, rules: Sequence[Rule]) -> str:
    gained = [one for one in rules if shown.gain_of(one)]
    baseline = baseline_words(shown.choice.baseline if shown.choice else None)
    if not gained:
        names = ", ".join(dict.fromkeys(one.collective.value for one in rules))
        if _has_baseline(shown) and all(shown.zone_of(one) is None for one in rules):
            return f"{names}: rules that nobody chose here; what they gain is not known."
        why = "no baseline was measured" if not _has_baseline(shown) else "no baseline is left"
        return f"{names}: fastest settings found; what they gain is unknown, since {why}."
    source = "the imported times have it" if shown.is_imported else "the sweep saw it"
    strange = sum(shown.zone_of(one) is None for one in _describe_own_rules(shown))
    more = f" {_are(strange, 'more rule')} not of the choice." if strange else ""
    return f"{_gains(shown, gained, baseline)}, as {source}; not verified.{more}"


def _describe_own_rules(shown: SessionContents) -> Iterator[Rule]:
    """Rules that answer by themselves."""
    for file in shown.files:
        yield from (one for one in file.rules if not one.fallback)


def _are(n: int, thing: str) -> str:
    """``1 more rule is``, ``2 more rules are``."""
    return f"{count(n, thing)} {'is' if n == 1 else 'are'}"


def _no_rule(shown: SessionContents) -> str:
    if not _has_settings(shown):
        return "Only the library's own choice was measured: there is nothing to choose from."
    choice = shown.choice
    if choice is None:
        return "Nothing was chosen yet: this page shows how fast what was measured is."
    baseline = baseline_words(choice.baseline)
    compared = [zone for zone in shown.zones if is_not_beaten(zone.reason) and zone.n_sizes]
    if compared:
        low = min(zone.measured_from or zone.min_nbytes for zone in compared)
        high = max(zone.measured_to or zone.max_nbytes for zone in compared)
        by = f"{baseline} by {100 * choice.min_gain:.0f} %"
        if all(zone.reason == NOT_FASTER for zone in compared):
            return f"Nothing to win: at {format_span(low, high)} no setting beats {by}."
        return f"No gain is proven: at {format_span(low, high)} no setting surely beats {by}."
    if any(zone.reason == BASELINE_UNKNOWN for zone in shown.zones):
        return f"No rule: {baseline} was not measured, or all of its times were left out as stalls."
    return "No rule: nothing could be compared with the baseline at any size."


def _has_settings(shown: SessionContents) -> bool:
    return any(curve.key.setting.role is Role.FORCED for curve in shown.done.curves)


def _has_baseline(shown: SessionContents) -> bool:
    return any(curve.key.setting == BASELINE for curve in shown.done.curves)


def _gains(shown: SessionContents, rules: Iterable[Rule], baseline: str) -> str:
    """``all_reduce is 1.42× to 1.54× as fast … from 1 KiB to 10.4 MiB``; of several the gains."""
    by_name: dict[str, list[Rule]] = {}
    for one in rules:
        by_name.setdefault(one.collective.value, []).append(one)
    if len(by_name) > 1:
        parts = (f"{name} {_range(shown, mine)}" for name, mine in by_name.items())
        return f"With the rules, times as fast as with {baseline} in the mean: {', '.join(parts)}"
    [(name, mine)] = by_name.items()
    worst = [float(gain) for one in mine if (gain := _least(one, shown)) is not None]
    least = f" and {min(worst):.2f}× at the worst size" if worst else ""
    return (
        f"{name} is {_range(shown, mine)} as fast with the rules as with {baseline}, in the mean "
        f"of each rule{least}, {_where(mine)}"
    )


def least(rule: Rule, shown: SessionContents) -> str:
    """``1.24×``, the gain of a verified rule at its worst size; a dash where it is not known."""
    least = _least(rule, shown)
    return DASH if least is None else f"{least:.2f}×"


def _least(rule: Rule, shown: SessionContents) -> float | None:
    """Gain of a verified rule at its worst size; of a rule with a single size its own."""
    if not isinstance(rule, RuleVerdict) or rule.gain is None:
        return None
    file = next(one for one in shown.files if rule in one.rules)
    worst = rule.worst_gain(file.verification.file.verdicts) if file.verification else None
    return rule.gain.value if worst is None else worst


def _where(rules: Sequence[Rule]) -> str:
    """``from 1 KiB to 4 MiB``; of rules that do not touch each range."""
    spans: list[tuple[int, int]] = []
    for low, high in sorted((one.min_nbytes, one.max_nbytes) for one in rules):
        if spans and low <= spans[-1][1] + 1:
            spans[-1] = (spans[-1][0], max(high, spans[-1][1]))
        else:
            spans.append((low, high))
    if len(spans) > _MOST_RANGES:
        return f"in {len(spans)} ranges from {format_span(spans[0][0], spans[-1][1])}"
    words = [format_span(*span) for span in spans]
    is_range = any(mark in words[0] for mark in (" to ", " and "))
    return f"{'from' if is_range else 'at'} {' and '.join(words)}"


def _range(shown: SessionContents, rules: Sequence[Rule]) -> str:
    gains = [gain for one in rules if (gain := shown.gain_of(one))]
    if len(gains) == 1:
        return times(gains[0])
    low, high = min(g.value for g in gains), max(g.value for g in gains)
    return f"{low:.2f}×" if f"{low:.2f}" == f"{high:.2f}" else f"{low:.2f}× to {high:.2f}×"


def proof(one: Rule, file: RuleFileOfSession, shown: SessionContents) -> str:
    """Proof that a rule's gain rests on."""
    if one.fallback:
        return "used only where the rule above cannot be chosen"
    if isinstance(one, RuleVerdict) and file.verification is not None:
        return _verified(one, file.verification)
    return f"{_describe_evidence(shown.zone_of(one), one)}; not verified"


def _verified(verdict: RuleVerdict, verification: Verification) -> str:
    """``verified at 17 sizes, 2 to 4 communicators each; launched one by one 1.44×``."""
    parts = [
        one
        for one in verification.file.judging
        if verdict.reaches(one.nbytes) and verdict.collective is one.collective
    ]
    least = min((one.gain.n for one in parts), default=0)
    most = max((one.gain.n for one in parts), default=0)
    repeated = count(most, "communicator")
    each = repeated if least == most else f"{least} to {repeated}"
    sentence = f"verified at {count(verdict.n_sizes, 'size')}, {each} each"
    if verdict.loop is not None:
        loop = "too noisy to say" if verdict.is_loop_noisy else f"{verdict.loop.value:.2f}×"
        sentence += f"; launched one by one{verdict.up_to_graphs} {loop}"
    if verdict.one_root is not None:
        sentence += f"; with one root {verdict.one_root.value:.2f}×"
    if verdict.registered is not None:
        sentence += f"; with registered buffers {verdict.registered.value:.2f}×"
    if verdict.reg_buff == 0:
        sentence += "; for unregistered buffers only"
    is_checked = any(one.n_wrong is not None for one in verification.file.verdicts)
    return sentence if is_checked else f"{sentence}; results not checked"


def _describe_evidence(zone: Zone | None, rule: Rule) -> str:
    """Evidence that the sweep has for a rule, and its sizes where the rule has only a part."""
    if zone is None:
        return "not of the stored choice"
    if zone.state is RuleState.NO_BASELINE:
        return zone.why_unproven
    repeated = count(zone.n_communicators, "communicator")
    how = repeated if zone.is_proven else zone.why_unproven
    sentence = f"measured at {count(zone.n_sizes, 'size')}, {how}"
    if (rule.min_nbytes, rule.max_nbytes) == (zone.min_nbytes, zone.max_nbytes):
        return sentence
    return (
        f"{sentence}; gain and sizes are those of {format_span(zone.min_nbytes, zone.max_nbytes)}"
    )


def use(shown: SessionContents) -> Iterator[str]:
    """The line of a shell that uses each file, from the folder that the session lies in."""
    for one in shown.files:
        line = source(one, shown)
        if line and (one.rules or one.needs):
            yield line


def source(file: RuleFileOfSession, shown: SessionContents) -> str:
    """``source rccltune-session/rccl_tuner_gfx942.env``; empty where there are no exports."""
    exports = file.path.with_suffix(".env") if file.path else None
    if exports is None or not exports.exists() or shown.used != shown.done.session.path:
        return ""
    # A page is mailed: where the session lies on this machine is nobody's business.
    path = Path(shown.done.session.path.resolve().name, Path(file.name).with_suffix(".env"))
    return f"source {shlex.quote(str(path))}"


def following(shown: SessionContents, session: str = "") -> str:
    """Commands that make sense now.

    Args:
        shown: the session.
        session: as a shell takes it, where commands must name it.
    """
    session_word = f" {session}" if session else ""
    command = shown.done.session.command
    if shown.refused:
        return shown.refused[0].hint or f"rccltune verify{session_word}"
    if shown.is_interrupted and command:
        return f"go on with the sweep: {command}"
    if not _has_settings(shown):
        return "rccltune sweep measures settings beside the baseline."
    if any(one.rules for one in shown.files):
        return _with_rules(shown, session_word)
    if shown.choice is None:
        return f"rccltune emit-config{session_word} chooses rules."
    return "leave the site as it is."


def _with_rules(shown: SessionContents, session_word: str) -> str:
    """Commands that make sense where there are rules; ``session_word`` follows a verb."""
    if not all(one.verification for one in shown.files):
        home = shown.done.session.path
        if not is_swept(home):
            # A page is mailed, and names no folder above the session's.
            file = (home if session_word else Path(home.resolve().name)) / shown.files[0].name
            return f"{sweep_then_verify(file)} keeps, on that machine, what wins."
        keeps = any(one.file.bits for one in shown.files)
        then = "asks whether bits are kept" if keeps else "keeps what wins"
        return f"rccltune verify{session_word}, on the machine, {then}."
    if shown.simulated:
        return "the same on hardware; these rules are for trying out."
    return f"rccltune deploy DIR{session_word} hands the rules to jobs."


def old_rules(shown: SessionContents) -> Iterator[str]:
    """Sentence on rules that are on file, and count for nothing here."""
    for one in shown.old:
        if one.name in {file.name for file in shown.files}:
            yield (
                f"A verification was of other rules than {one.name} has now, and counts for "
                "nothing here: rccltune verify."
            )


def method(shown: SessionContents) -> Iterator[str]:
    """Method of the measurement, in ten lines at most."""
    choice = shown.choice
    if shown.is_imported:
        yield "Times are those of the imported files, a file or a repeat in it being one repeat."
    else:
        yield (
            "A program with a process for each GPU timed every setting at every size, and the "
            "library as it is in processes of their own."
        )
        yield (
            "Up to 4 MiB calls are replayed from captured graphs where that works, above they are "
            "launched one by one; of each size one of the two counts."
        )
        yield "The unit of repetition is a communicator, with buffers of its own."
    yield "A point is the median over communicators of the medians over the passes of each."
    yield (
        "A rule serves in-place and out-of-place calls alike: what counts is the placement that "
        "gains less."
    )
    if choice is not None and choice.bits is not None:
        yield (
            "Rules are the fastest of the settings that add alike at every size, from 0 to the "
            "largest call whose bits were probed; none must beat the library's own choice."
        )
    elif choice is not None:
        yield (
            f"A rule must gain {100 * choice.min_gain:.0f} % over "
            f"{baseline_words(choice.baseline)}, "
            f"and stay within {100 * choice.tolerance:.0f} % of the fastest where that saves one."
        )
        yield (
            "No rule reaches beyond the smallest or the largest size measured for its setting. "
            "Where it meets another choice between two measured sizes, it ends where their times "
            "cross."
        )
    yield (
        "A gain is the library's time over the rule's, in the mean over the rule's sizes, with the "
        f"interval that holds the true one with {100 * INTERVAL:.0f} %."
    )
    for one in shown.files:
        if one.verification is not None:
            yield (
                f"Verified in {one.verification.how_often}, with and without {one.name} in turns; "
                "some sizes are called in fewer of them."
            )
            if one.verification.file.confirmed:
                yield one.verification.file.confirmed
