"""The answer in one look: how much faster, where, proven how; or what the sweep saw."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rccltune.model.chosen import Judgement, Rule, Verdict, Zone
from rccltune.model.measured import Caution
from rccltune.model.vocabulary import Collective, format_size, format_span
from rccltune.report.records import Headline
from rccltune.report.sections.found import (
    NO_CHOICE,
    Found,
    baseline_of,
    count,
    days,
    libraries,
    where_of,
)
from rccltune.report.sections.rules import is_of, zones_of
from rccltune.report.sections.usage import unproven
from rccltune.report.verified import Stood, Verification

_MOST_REASONS = 4
_VERIFIED = "times as fast as the library's own choice"


def headline(found: Found) -> Headline:
    """By what is known: verified rules, rules, no rules, nothing to choose from."""
    known = found.verification
    made = _verified(known) if known and known.is_current else chosen(found)
    if unproven(found):
        made = _doubted(found, made)
    claim = f"SIMULATED: {made.claim}" if found.simulated else made.claim
    points = (*made.points, *_in_environments(found), *_common(found))
    return Headline(claim=claim, points=points, tiles=made.tiles)


def _in_environments(found: Found) -> list[str]:
    """What the second pair of files gains: it is no part of the claim, since it costs something."""
    points = []
    for known in found.environments_verified:
        needs = " ".join(f"{name}={value}" for name, value in known.needs.items())
        standing = [one for one in known.stood if one.stands and one.verdicts]
        # Rules were held against the library in that environment.
        gains = [
            f"Within it {_claim(name, mine)}" for name, mine in _by_collective(standing).items()
        ]
        if gains:
            points.append(f"With {needs} in the job's environment, verified too. {' '.join(gains)}")
    return points


def _doubted(found: Found, made: Headline) -> Headline:
    """What was seen, below what came of holding it against the baseline."""
    why = "; ".join(dict.fromkeys(one.message for one in found.refused))
    hints = list(dict.fromkeys(f"What to do: {one.hint}" for one in found.refused if one.hint))
    if not why:
        why = "the verification has no verdict"
        hints = ["What to do: rccltune verify goes on with the launches that are there."]
    silence = [
        f"Uncertain: {one.message}."
        for one in found.done.warnings
        if one.caution is Caution.SILENCE_DIFFERS
    ]
    trials = f"{found.trials:,}"
    return Headline(
        claim=f"Nothing is proven here: {why}.",
        points=(*hints, f"What was seen: {made.claim}", *silence, *made.points),
        tiles=(
            ("not proven", "rules of this session", "verification/"),
            (trials, "runs of the verification", "verification/"),
        ),
    )


def _verified(known: Verification) -> Headline:
    standing = [one for one in known.stood if one.stands and one.verdicts]
    how = (
        f"Verified in {known.how_often}: with and without the rules in turns, on the same "
        "machine; the plugin says of every call what it answered."
    )
    if not standing:
        reasons = Counter(cut.reason for cut in known.cuts)
        why = "; ".join(f"{reason} ({n}×)" for reason, n in reasons.most_common(_MOST_REASONS))
        return Headline(
            claim=f"Nothing is won here: of {count(known.n_before, 'rule')} none is proven to beat "
            "the library's own choice by what a rule must gain.",
            points=(
                how,
                *((f"What took them away: {why}.",) if why else ()),
                "No rule is left in the file: use nothing of it.",
            ),
        )
    by_collective = _by_collective(standing)
    claims = [_claim(collective, mine) for collective, mine in by_collective.items()]
    n = len(standing)
    was = "was" if known.n_before == 1 else "were"
    return Headline(
        claim=claims[0] if len(claims) == 1 else _overall(standing),
        points=(*(claims if len(claims) > 1 else ()), how, _judged(known), *_unasked(known, n)),
        tiles=(
            (_gained(standing).partition(" (")[0] + "×", "the rules' gain", "verdict.json"),
            (_most(_verdicts(standing)), "at its best size", "verdict.json"),
            (
                str(n),
                f"{'rule wins' if n == 1 else 'rules win'}; {known.n_before} {was} verified",
                "verdict.json",
            ),
            (f"{known.n_replicates:,}", "repeats of the verification", "verification/"),
        ),
    )


def _unasked(known: Verification, n_standing: int) -> tuple[str, ...]:
    """Rules of the file that the claim does not count."""
    n = known.n_after - n_standing
    if n <= 0:
        return ()
    waits = "waits behind another" if n == 1 else "wait behind others"
    said = f"{count(n, 'more rule')} of the file {waits}, for where that cannot be chosen; no call"
    return (f"{said} of the verification reached it." if n == 1 else f"{said} reached them.",)


def _by_collective(standing: Sequence[Stood]) -> dict[Collective, list[Stood]]:
    found: dict[Collective, list[Stood]] = {}
    for one in standing:
        found.setdefault(one.rule.collective, []).append(one)
    return found


def _verdicts(standing: Sequence[Stood]) -> list[Verdict]:
    return [verdict for one in standing for verdict in one.verdicts]


def _gained(standing: Sequence[Stood]) -> str:
    """``1.18 (1.17 to 1.19)`` of one rule, ``1.04 to 1.18`` of several."""
    gains = [one.verdict.gain for one in standing if one.verdict.gain is not None]
    if len(gains) == 1:
        return f"{gains[0].ratio:.2f} ({gains[0].low:.2f} to {gains[0].high:.2f})"
    ratios = [one.ratio for one in gains]
    return f"{min(ratios):.2f} to {max(ratios):.2f}"


def _most(found: Sequence[Verdict]) -> str:
    best = max(found, key=lambda v: v.ratio)
    return f"{best.ratio:.2f}×"


def _claim(collective: Collective, mine: Sequence[Stood]) -> str:
    n_sizes = sum(one.verdict.n_sizes for one in mine)
    return (
        f"{collective.value} is {_gained(mine)} {_VERIFIED}, between "
        f"{_reach([s.rule for s in mine])}, at {count(n_sizes, 'size')}, with "
        f"{count(len(mine), 'rule')}."
    )


def _reach(rules: Sequence[Rule]) -> str:
    low, high = min(r.min_nbytes for r in rules), max(r.max_nbytes for r in rules)
    return format_span(low, high).replace(" to ", " and ")


def _overall(standing: Sequence[Stood]) -> str:
    names = ", ".join(one.value for one in _by_collective(standing))
    return f"{names}: {_gained(standing)} {_VERIFIED} where rules hold."


def _judged(known: Verification) -> str:
    """All sizes, those without a rule among them, by what was found there.

    What a rule did that is gone says nothing of the file.
    """
    n = dict.fromkeys(Judgement, 0)
    left = [one for one in known.verdicts if not _is_given_back(known, one)]
    for one in left:
        n[one.judgement] += 1
    n_gone = len(known.verdicts) - len(left)
    wrong = f"{n[Judgement.WRONG]} with wrong results"
    if left and all(one.n_wrong is None for one in left):
        wrong = "results not checked"
    gone = f" {n_gone} more were made with rules that are gone." if n_gone else ""
    return (
        f"Of {len(left)} comparisons, sizes without a rule among them: "
        f"{n[Judgement.BETTER]} faster, {n[Judgement.SAME]} not slower, {n[Judgement.UNDECIDED]} "
        f"undecided, {n[Judgement.WORSE]} slower{_where_slower(known)}, {wrong}.{gone} A rule "
        "with a size that is slower does not stand."
    )


def _is_given_back(known: Verification, one: Verdict) -> bool:
    return any(cut.holds(one.target.collective, one.nbytes) for cut in known.cuts)


def _where_slower(known: Verification) -> str:
    """How many of the slower ones lie under a rule."""
    slower = [
        one
        for one in known.verdicts
        if one.judgement is Judgement.WORSE and not _is_given_back(known, one)
    ]
    ruled = sum(one in stood.verdicts for one in slower for stood in known.stood)
    return f" ({ruled} of them where a rule stands)" if slower else ""


def _common(found: Found) -> tuple[str, ...]:
    n_samples = sum(outcome.n_samples for _, outcome in found.launches)
    kind = "file" if found.is_imported else "launch"
    when = days([outcome for _, outcome in found.launches])
    failed = len(found.done.quarantined)
    said = (
        f"On: {found.machine or 'a machine that the files do not name'}; library "
        f"{libraries(found.launches)}."
    )
    rests = f"Rests on {n_samples:,} timings of {count(len(found.launches), kind)}"
    dated = "measured" if not found.is_imported else "when is not recorded; files written"
    points = [said, f"{rests}{f', {dated} {when}' if when else ''}."]
    if failed:
        points.append(
            f"{count(failed, 'setting')} could not be measured, since launches fail: see Undecided."
        )
    return tuple(points)


_FAST = "times as fast as"


def chosen(found: Found) -> Headline:
    """Without a verification that is of these rules."""
    zones = [zone for zone in zones_of(found, found.choice) if zone.setting is not None]
    if found.choice is None:
        return Headline(
            claim="This session shows how fast what was measured is, and no rule.",
            points=(f"There are no rules: {NO_CHOICE}.",),
        )
    if not zones:
        as_it_is = " in the environment as it is" if found.environments_verified else ""
        again = (_unverified(found),) if found.verification or unproven(found) else ()
        return Headline(
            claim=f"Nothing is to be won here{as_it_is}: no setting beats {baseline_of(found)} by "
            "what a rule must gain.",
            points=("No rule is written: there is nothing to use.", *again),
        )
    gaining = [zone for zone in zones if zone.gain is not None]
    if not gaining:
        names = ", ".join(dict.fromkeys(zone.target.collective.value for zone in zones))
        return Headline(
            claim=f"Fastest settings of {names} found; their gain is unknown because the library's "
            "own choice was not measured.",
            points=(
                "Another baseline can be named: rccltune emit-config --baseline ring/simple.",
                _unverified(found),
            ),
            tiles=((str(len(zones)), "rules", "choice.json"),),
        )
    where = "in the imported runs" if found.is_imported else "in the sweep"
    than = f"{_FAST} {baseline_of(found)} {where}"
    lines = _in_sweep(gaining, than)
    best = max(gaining, key=_high)
    return Headline(
        claim=lines[0] if len(lines) == 1 else _sweep_overall(gaining, than),
        points=(
            *(lines if len(lines) > 1 else ()),
            *_named(found),
            *_foreign(found, zones),
            _unverified(found),
        ),
        tiles=(
            (f"{1 + _high(best):.2f}×", f"at most, {best.target.collective.value}", "fit.json"),
            (
                str(len(zones)),
                f"{'rule' if len(zones) == 1 else 'rules'}, not verified",
                "choice.json",
            ),
        ),
    )


def _foreign(found: Found, zones: Sequence[Zone]) -> tuple[str, ...]:
    """That a rule file holds what would not be chosen now."""
    own = {(zone.target.collective, zone.target.scale.n_ranks) for zone in zones}
    said = []
    for one in (rules for rules in found.rules if rules.is_of_site):
        foreign = [
            rule
            for rule in one.file.rules
            if (rule.collective, rule.n_ranks) in own
            and not (rule.fallback or rule.vendor or any(is_of(rule, zone) for zone in zones))
        ]
        if foreign:
            said.append(
                f"{one.path.name} has {count(len(foreign), 'rule')} that would not be chosen now: "
                "it was written with other options, or by another version (rccltune emit-config "
                "--force writes it anew)."
            )
    return tuple(said)


def _named(found: Found) -> tuple[str, ...]:
    """That somebody chose what is compared with."""
    if found.choice is None or found.choice.baseline is None:
        return ()
    said = f"Compared with {baseline_of(found)}, which --baseline named"
    return (f"{said}: what the library does by itself may be faster.",)


def _high(zone: Zone) -> float:
    return zone.gain.high if zone.gain else 0.0


def _in_sweep(zones: Sequence[Zone], than: str) -> list[str]:
    by_target: dict[tuple[str, str], list[Zone]] = {}
    for zone in zones:
        target = zone.target
        place = where_of(target.scale, target.rank_placement)
        by_target.setdefault((target.collective.value, place), []).append(zone)
    return [
        f"{name} on {place}: {_range(mine)} {than}, between "
        f"{format_size(min(z.measured_from or z.min_nbytes for z in mine))} and "
        f"{format_size(max(z.measured_to or z.min_nbytes for z in mine))}, with "
        f"{count(len(mine), 'rule')}; not verified."
        for (name, place), mine in by_target.items()
    ]


def _range(zones: Sequence[Zone]) -> str:
    gains = [zone.gain for zone in zones if zone.gain]
    return f"{1 + min(g.low for g in gains):.2f} to {1 + max(g.high for g in gains):.2f}"


def _sweep_overall(zones: Sequence[Zone], than: str) -> str:
    names = ", ".join(dict.fromkeys(zone.target.collective.value for zone in zones))
    return f"{names}: {_range(zones)} {than}, where rules hold; not verified."


def _unverified(found: Found) -> str:
    known = found.verification
    if unproven(found):
        return (
            "Gains in the sweep were seen where each setting ran by itself, and not in turns with "
            "the library's own choice."
        )
    if known is not None and not known.is_current:
        return (
            "The verification in this session was of other rules than its file has now, and "
            "counts for nothing here: rccltune verify."
        )
    return (
        "Not verified: gains were seen where each setting ran by itself. rccltune verify runs "
        "with and without the rules in turns, on the machine."
    )
