"""What weakens a fit, in words, each with its remedy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from rccltune.fit.gather import Disqualified
from rccltune.fit.stalls import Stall
from rccltune.model import Caution, CurveKey, Notice
from rccltune.units import format_size
from rccltune.vocab import Doubt


def stall_notices(stalls: Mapping[CurveKey, Sequence[Stall]]) -> list[Notice]:
    """One notice for each launch and setting that stalled, whatever the number of sizes."""
    found: dict[tuple[str, str, str, bool], list[Stall]] = {}
    for key, several in stalls.items():
        for stall in several:
            name = (key.collective.value, str(key.setting), stall.launch, stall.alone)
            found.setdefault(name, []).append(stall)
    return [_stall_notice(*name, several) for name, several in found.items()]


def _stall_notice(
    collective: str, setting: str, launch: str, alone: bool, stalls: Sequence[Stall]
) -> Notice:
    sizes = sorted({stall.nbytes for stall in stalls})
    where = format_size(sizes[0])
    if len(sizes) > 1:
        where += f" to {format_size(sizes[-1])}"
    worst = max(stall.factor for stall in stalls)
    normal = "the neighbouring sizes allow" if alone else "in another launch"
    return Notice(
        caution=Caution.BURST,
        message=f"{collective} {setting} took up to {worst:.3g} times as long as {normal} at "
        f"{len(sizes)} size{'s' if len(sizes) > 1 else ''} ({where}); "
        f"{len(stalls)} time{'s were' if len(stalls) > 1 else ' was'} left out",
        remedy="measure it again: no other launch shows what is normal there, so these sizes "
        "count as not measured."
        if alone
        else "nothing to do where a launch stalled once; if it stalls in every sweep, look for "
        "other jobs on the node.",
        where=launch,
    )


def doubt_notices(doubted: Counter[Doubt], wrong: Counter[Disqualified]) -> list[Notice]:
    """Wrong results by setting, loudly; all other doubts in one line."""
    notices = [
        Notice(
            caution=Caution.DOUBTED_SAMPLES,
            message=f"{collective.value} {setting} gave WRONG RESULTS in {count} samples; it is "
            "disqualified for this collective",
            remedy="keep the logs and report it to the library's maintainers; no speed is worth "
            "it.",
            where=f"variant {variant.name}",
        )
        for (collective, setting, variant), count in wrong.items()
    ]
    # Every launch throws its first pass away; that is no news.
    expected = (Doubt.WRONG, Doubt.CONNECTING)
    others = {doubt: n for doubt, n in doubted.items() if doubt not in expected}
    if others:
        listed = "; ".join(f"{n} x {doubt.meaning}" for doubt, n in others.items())
        notices.append(
            Notice(
                caution=Caution.DOUBTED_SAMPLES,
                message=f"{sum(others.values())} samples were not used: {listed}",
                remedy="samples.csv names each of them.",
            )
        )
    return notices
