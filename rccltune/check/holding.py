"""Whether rules still win here: both sides in turns, in six communicators of one start.

The library alone and the rules are called at the ends of each rule and at every power of two
between them.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from math import log1p
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from rccltune.check.bound import (
    LIBRARY,
    CheckedRule,
    CheckResult,
    RulesToCheck,
    Standing,
    machine_differences,
    none_for,
    without_place,
)
from rccltune.check.kept_bits import probed
from rccltune.launch import signals
from rccltune.measure.hosts import HostComparison
from rccltune.measure.instrument import Instrument, find_instrument
from rccltune.model import defaults
from rccltune.model.reporter import Reporter
from rccltune.model.rule import Rule, RuleState
from rccltune.model.settings import IDLE, RULES, Scale
from rccltune.model.vocabulary import Collective, Placement
from rccltune.ranks import plan
from rccltune.rules.needs import check_needs
from rccltune.session import files, store
from rccltune.simulate import compiled
from rccltune.verify.rewriting import of_scale

if TYPE_CHECKING:
    from rccltune.analyse.paired import LogMean
    from rccltune.compare.turns import OngoingComparison

COMMUNICATORS: Final = 6
# A rule, and sizes in bytes at which it answers, rising.
CalledRule: TypeAlias = tuple[Rule, tuple[int, ...]]
# What a rule that restores may lose, and stands (rccltune.verify.judge).
_RESTORES_WITHIN: Final = 0.02


def check(wanted: RulesToCheck, *, quick: bool, reporter: Reporter) -> CheckResult:
    """Hold rules against this machine, and, unless in a hurry, against the library's own choice.

    Those that keep the bits are held to their bits instead.

    Args:
        wanted: which.
        quick: nothing is measured.
        reporter: told what goes on.

    Raises:
        CommandLineError: no rule of the file is for so many ranks.
        MachineError: no library, no GPU.
        LaunchError: the library cannot run.
    """
    since = time.monotonic()
    check_needs(wanted.file.needs, (), where=str(wanted.path))
    site = replace(wanted.request.site, added=(*wanted.request.site.added, *wanted.file.needs))
    # Ranks on other hosts must see the folder.
    beside = None if site.hostfile is None else Path.cwd()
    with tempfile.TemporaryDirectory(prefix="rccltune-check-", dir=beside) as name:
        instrument = find_instrument(site, Path(name), wanted.request.timeout_s)
        of_machine, unknown = machine_differences(
            wanted.file, instrument.site.fingerprint, instrument.ground.library.version
        )
        release = [one for one in of_machine if one.startswith(LIBRARY)]
        found = CheckResult(
            path=wanted.path,
            n_rules=len(wanted.file.rules),
            differences=(*wanted.differences, *of_machine),
            unknown=(*wanted.unknown, *unknown),
            simulated=instrument.site.node is not None,
        )
        # On another machine the plugin refuses them; with another library it says so and goes on.
        if wanted.file.rules and not quick and len(of_machine) == len(release):
            node = instrument.site.node
            if node is not None:
                files.write_atomically(Path(name) / store.NODE_FILE, compiled.written(node))
            judge = measured if wanted.file.bits is None else probed
            rules = judge(wanted, instrument, Path(name), reporter)
            settled = list(found.differences) == release
            found = replace(found, rules=rules, is_settled=settled)
    return replace(found, seconds=time.monotonic() - since)


def sizes_called(rules: Sequence[Rule], scale: Scale) -> list[CalledRule]:
    """Sizes in bytes at which each rule is called: its ends, and every power of two inside.

    Args:
        rules: of the scale, in the file's order; those behind others answer nothing.
        scale: nodes and ranks.
    """
    from rccltune.verify.pairs import answering, is_called

    found = []
    for rule in rules:
        grain = plan.grain(rule.collective, scale.n_ranks)
        low = -(-rule.min_nbytes // grain) * grain
        high = rule.max_nbytes // grain * grain
        inside = (1 << power for power in range(low.bit_length(), high.bit_length()))
        sizes = {low, high, *(one // grain * grain for one in inside)}
        own = sorted(
            one
            for one in sizes
            if 0 < low <= one <= high and answering(rules, rule.collective, one) is rule
        )
        if own and is_called(rule):
            found.append((rule, tuple(own)))
    return found


def measured(
    wanted: RulesToCheck, instrument: Instrument, folder: Path, reporter: Reporter
) -> tuple[CheckedRule, ...]:
    """Call the library alone and the rules in turns, and say what stands.

    Args:
        wanted: which rules.
        instrument: where.
        folder: for what is measured.
        reporter: told what goes on.

    Raises:
        CommandLineError: no rule of the file is for so many ranks.
        RccltuneError: as a comparison does.
    """
    from rccltune.analyse.paired import level_of

    site = instrument.site
    called = sizes_called(of_scale(wanted.file, site.scale), site.scale)
    if not called:
        raise none_for(site.scale, wanted.path)
    with signals.interruptible():
        measuring = _comparison(wanted, instrument, called, folder, reporter)
        measuring.measure()
    level = level_of(len(called))
    return tuple(_judged(wanted, one, measuring, level) for one in called)


def _comparison(
    wanted: RulesToCheck,
    instrument: Instrument,
    called: Sequence[CalledRule],
    folder: Path,
    reporter: Reporter,
) -> OngoingComparison:
    from rccltune.compare.judging import A, B
    from rccltune.compare.sides import Side
    from rccltune.compare.turns import MeasuredSide, OngoingComparison
    from rccltune.measure.passes import SweepScope
    from rccltune.measure.perf_sweep import call_words

    sizes: dict[Collective, set[int]] = {}
    for rule, own in called:
        sizes.setdefault(rule.collective, set()).update(own)
    dtype, op = call_words(wanted.request.sweep)
    scope = SweepScope(
        sizes={name: tuple(sorted(own)) for name, own in sizes.items()},
        placements=(Placement.OUT_OF_PLACE,),
        dtype=dtype,
        op=op,
        timing=wanted.request.timing,
        checked_up_to=instrument.checked_up_to,
    )
    idle = Side(name="idle", answer=IDLE)
    ruled = Side(name=wanted.path.name, answer=RULES, rules=wanted.content.decode("utf-8"))
    return OngoingComparison(
        folder=folder.resolve(),
        sides=(
            MeasuredSide(letter=A, side=idle, instrument=instrument),
            MeasuredSide(letter=B, side=ruled, instrument=instrument),
        ),
        scope=scope,
        n_starts=COMMUNICATORS,
        margin=defaults.MARGIN,
        is_refined=False,
        hosts=HostComparison(
            named=instrument.site.hosts, session=folder, reporter=reporter, force=False
        ),
        reporter=reporter,
        budget_s=wanted.request.budget_s,
    )


def _judged(
    wanted: RulesToCheck, called: CalledRule, measuring: OngoingComparison, level: float
) -> CheckedRule:
    """What is said of a rule that was called."""
    from rccltune.compare.judging import B

    rule, sizes = called
    cells = {(rule.collective.value, nbytes) for nbytes in sizes}
    verified = next(
        (o for o in wanted.verified or () if without_place(o.rule) == without_place(rule)), None
    )
    found = CheckedRule(
        rule=rule,
        standing=Standing.CANNOT_TELL,
        verified=verified.gain if verified is not None else None,
    )
    if cells & measuring.wrong(measuring.sides[1]):
        return replace(found, standing=Standing.WRONG)
    if cells & measuring.failed_cells(B):
        return replace(found, standing=Standing.FAILED)
    mean = _gain(rule.collective, sizes, measuring)
    if mean is None:
        return replace(found, reason="nothing was timed")
    restores = verified is not None and verified.state is RuleState.RESTORES
    least = -log1p(_RESTORES_WITHIN) if restores else log1p(defaults.MIN_GAIN)
    if mean.low(level) >= least:
        found = replace(found, standing=Standing.HOLDS)
    elif mean.high(level) < least:
        found = replace(found, standing=Standing.NO_LONGER_WINS)
    same = sum(cell in measuring.same for cell in cells)
    reason = f"the library runs the same by itself at {same} of {len(cells)} sizes" if same else ""
    return replace(found, gain=mean.ratio(level), reason=reason)


def _gain(
    collective: Collective, sizes: Sequence[int], measuring: OngoingComparison
) -> LogMean | None:
    """Log of the library's time over the rule's, in the mean over sizes; None where untimed."""
    import numpy as np

    from rccltune.analyse.paired import PairedRatios
    from rccltune.compare.judging import A, B, log_times

    timings = measuring.timings()
    log = np.full((COMMUNICATORS, 1, len(sizes)), np.nan)
    for at, nbytes in enumerate(sizes):
        if (collective.value, nbytes) in measuring.same:
            log[..., at] = 0.0
            continue
        own = timings[(timings["collective"] == collective.value) & (timings["nbytes"] == nbytes)]
        if own.empty:
            continue
        wide = log_times(own).pivot_table(values="log", index="replicate", columns="side")
        if {A, B} <= set(wide.columns):
            gain = (wide[A] - wide[B]).to_numpy()
            log[: len(gain), 0, at] = gain
    return PairedRatios(np.array(sizes), log).least(np.isfinite(log).any((0, 1)))
