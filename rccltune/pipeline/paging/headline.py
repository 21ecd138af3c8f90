"""The answer in one look: how much faster, where, proven how, and on what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import median

from rccltune.model import Caution, Judgement, Rule, Verdict
from rccltune.pipeline.paging.gathering import Found
from rccltune.pipeline.paging.marking import unproven
from rccltune.pipeline.paging.unverified import chosen
from rccltune.pipeline.paging.verified import Stood, Verification
from rccltune.pipeline.paging.words import count, days, libraries
from rccltune.report import Headline
from rccltune.units import format_span
from rccltune.vocab import Collective

_MOST_REASONS = 4
_VERIFIED = "times as fast as the untouched site"


def headline(found: Found) -> Headline:
    """By what is known: verified rules, rules, no rules, nothing to choose from."""
    known = found.verification
    made = _verified(known) if known and known.is_current else chosen(found)
    if unproven(found):
        made = _doubted(found, made)
    claim = f"SIMULATED: {made.claim}" if found.simulated else made.claim
    return Headline(claim=claim, points=(*made.points, *_common(found)), tiles=made.tiles)


def _doubted(found: Found, made: Headline) -> Headline:
    """What was seen, below what came of holding it against the untouched site."""
    why = "; ".join(dict.fromkeys(one.message for one in found.refused))
    hints = list(dict.fromkeys(f"What to do: {one.hint}" for one in found.refused if one.hint))
    if not why:
        why = "the verification has no verdict"
        hints = ["What to do: rccltune verify goes on with the launches that are there."]
    silence = [
        f"In doubt: {one.message}."
        for one in found.done.warnings
        if one.caution is Caution.SILENCE_DIFFERS
    ]
    trials = f"{len(found.trials):,}"
    return Headline(
        claim=f"Nothing is proven here: {why}.",
        points=(*hints, f"What was seen: {made.claim}", *silence, *made.points),
        tiles=(
            ("not proven", "rules of this session", "verification/"),
            (trials, "launches of the verification", "verification/"),
        ),
    )


def _verified(known: Verification) -> Headline:
    standing = [one for one in known.stood if one.stands and one.verdicts]
    how = (
        f"Verified in {count(known.n_launches, 'launch')}: the rules against the untouched site "
        f"in turns, on the same machine; the plugin's traces prove that {known.hits:,} calls were "
        f"answered by rules and {known.misses:,} by none."
    )
    if not standing:
        reasons = Counter(cut.reason for cut in known.cuts)
        why = "; ".join(f"{reason} ({n}×)" for reason, n in reasons.most_common(_MOST_REASONS))
        return Headline(
            claim=f"Nothing is won here: of {count(known.n_before, 'rule')} none is proven to beat "
            "the untouched site by what a rule must gain.",
            points=(
                how,
                *((f"What took them away: {why}.",) if why else ()),
                "No rule is left in the file. Use the site as it is.",
            ),
        )
    by_collective = _by_collective(standing)
    claims = [_claim(collective, mine) for collective, mine in by_collective.items()]
    n = len(standing)
    return Headline(
        claim=claims[0] if len(claims) == 1 else _overall(standing),
        points=(*(claims if len(claims) > 1 else ()), how, _judged(known), *_unasked(known, n)),
        tiles=(
            (_times(_verdicts(standing)), "median over the rules' sizes", "verdict.json"),
            (_most(_verdicts(standing)), "at its best size", "verdict.json"),
            (
                str(n),
                f"{'rule wins' if n == 1 else 'rules win'}; {known.n_before} were verified",
                "verdict.json",
            ),
            (f"{known.n_launches:,}", "launches of the verification", "verification/"),
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


def _times(found: Sequence[Verdict]) -> str:
    return f"{median(v.ratio for v in found):.2f}×"


def _most(found: Sequence[Verdict]) -> str:
    best = max(found, key=lambda v: v.ratio)
    return f"{best.ratio:.2f}×"


def _claim(collective: Collective, mine: Sequence[Stood]) -> str:
    found = _verdicts(mine)
    values = [v.ratio for v in found]
    return (
        f"{collective.value} is {median(values):.2f} {_VERIFIED} in the median "
        f"({min(values):.2f} to {max(values):.2f}), between {_reach([s.rule for s in mine])}, at "
        f"{count(len({v.nbytes for v in found}), 'size')}, with {count(len(mine), 'rule')}."
    )


def _reach(rules: Sequence[Rule]) -> str:
    low, high = min(r.min_nbytes for r in rules), max(r.max_nbytes for r in rules)
    return format_span(low, high).replace(" to ", " and ")


def _overall(standing: Sequence[Stood]) -> str:
    found = _verdicts(standing)
    names = ", ".join(one.value for one in _by_collective(standing))
    values = [v.ratio for v in found]
    return (
        f"{names}: {median(values):.2f} {_VERIFIED} in the median ({min(values):.2f} to "
        f"{max(values):.2f}) where rules hold."
    )


def _judged(known: Verification) -> str:
    """All sizes, those without a rule among them, by what was found there."""
    n = dict.fromkeys(Judgement, 0)
    for one in known.verdicts:
        n[one.judgement] += 1
    under = f" (under {', '.join(known.conditions)})" if len(known.conditions) > 1 else ""
    return (
        f"Of {len(known.verdicts)} comparisons{under}, sizes without a rule among them: "
        f"{n[Judgement.BETTER]} faster, {n[Judgement.SAME]} the same, {n[Judgement.WORSE]} slower"
        f"{_where_slower(known)}, {n[Judgement.WRONG]} with wrong results. Where nothing differs, "
        "one in twenty looks as if it did; a rule with a size that is slower does not stand."
    )


def _where_slower(known: Verification) -> str:
    """How many of the slower ones lie under a rule."""
    slower = [one for one in known.verdicts if one.judgement is Judgement.WORSE]
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
    rests = f"Rests on {n_samples:,} half-rows of {count(len(found.launches), kind)}"
    dated = "measured" if not found.is_imported else "when is not recorded; files written"
    points = [said, f"{rests}{f', {dated} {when}' if when else ''}."]
    if failed:
        points.append(
            f"{count(failed, 'setting')} could not be measured, since launches fail: see Undecided."
        )
    return tuple(points)
