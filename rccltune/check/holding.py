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
from typing import Final, TypeAlias

import numpy as np

from rccltune.analyse.gains import RESTORED
from rccltune.analyse.paired_intervals import LogMean, PairedRatios, level_of
from rccltune.check.bound import (
    LIBRARY,
    CheckedRule,
    CheckResult,
    RulesToCheck,
    Standing,
    compare_machine,
    drop_place,
    no_rule_error,
)
from rccltune.check.kept_bits import probe_rules
from rccltune.compare.judge_sizes import A, B, mean_log_times
from rccltune.compare.sides import Side
from rccltune.compare.turns import MeasuredSide, OngoingComparison
from rccltune.launch import signals
from rccltune.measure.hosts import HostComparison
from rccltune.measure.instrument import Instrument, find_instrument
from rccltune.measure.passes import SweepScope
from rccltune.measure.perf_sweep import call_words
from rccltune.model import defaults
from rccltune.model.reporter import Reporter
from rccltune.model.rule import Rule, RuleState
from rccltune.model.settings import IDLE, Scale
from rccltune.model.vocabulary import Collective, Placement
from rccltune.ranks import plan
from rccltune.rules.needs import check_needs
from rccltune.session import files, store
from rccltune.simulate import compiled
from rccltune.verify.pairs import find_rule, is_called
from rccltune.verify.rewriting import select_rules

COMMUNICATORS: Final = 6
# A rule, and sizes in bytes at which it answers, rising.
CalledRule: TypeAlias = tuple[Rule, tuple[int, ...]]


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
        folder = Path(name)
        instrument = find_instrument(site, folder, wanted.request.timeout_s)
        of_machine, unknown = compare_machine(
            wanted.file, instrument.site.fingerprint, instrument.ground.library.version
        )
        release = [one for one in of_machine if one.startswith(LIBRARY)]
        node = instrument.site.node
        result = CheckResult(
            path=wanted.path,
            n_rules=len(wanted.file.rules),
            differences=(*wanted.differences, *of_machine),
            unknown=(*wanted.unknown, *unknown),
            simulated=node is not None,
        )
        # On another machine the plugin refuses them; with another library it says so and goes on.
        if wanted.file.rules and not quick and len(of_machine) == len(release):
            if node is not None:
                files.write_atomically(folder / store.NODE_FILE, compiled.compile_node(node))
            hosts = HostComparison(
                named=instrument.site.hosts, session=folder, reporter=reporter, force=False
            )
            judge = measure_rules if wanted.file.bits is None else probe_rules
            rules = judge(wanted, instrument, hosts)
            result = replace(result, rules=rules, is_settled=list(result.differences) == release)
    return replace(result, seconds=time.monotonic() - since)


def measure_rules(
    wanted: RulesToCheck, instrument: Instrument, hosts: HostComparison
) -> tuple[CheckedRule, ...]:
    """Call the library alone and the rules in turns, and say what stands.

    Args:
        wanted: which rules.
        instrument: the rank program on this machine.
        hosts: that ranks run on, with the folder for what is measured.

    Raises:
        CommandLineError: no rule of the file is for so many ranks.
        RccltuneError: as a comparison does.
    """
    scale = instrument.site.scale
    calls = choose_sizes(select_rules(wanted.file, scale), scale)
    if not calls:
        raise no_rule_error(scale, wanted.path)
    with signals.interruptible():
        measuring = _prepare_comparison(wanted, instrument, calls, hosts)
        measuring.measure()
    level = level_of(len(calls))
    return tuple(_judge_rule(wanted, one, measuring, level) for one in calls)


def choose_sizes(rules: Sequence[Rule], scale: Scale) -> list[CalledRule]:
    """Choose sizes in bytes for each rule that is called: its ends, every power of two inside.

    Args:
        rules: of the scale, in the file's order; those behind others answer nothing.
        scale: nodes and ranks.
    """
    chosen = []
    for rule in rules:
        grain = plan.grain(rule.collective, scale.n_ranks)
        low = -(-rule.min_nbytes // grain) * grain
        high = rule.max_nbytes // grain * grain
        inside = (1 << power for power in range(low.bit_length(), high.bit_length()))
        sizes = sorted(
            one
            for one in {low, high, *(one // grain * grain for one in inside)}
            if 0 < low <= one <= high and find_rule(rules, rule.collective, one) is rule
        )
        if sizes and is_called(rule):
            chosen.append((rule, tuple(sizes)))
    return chosen


def _prepare_comparison(
    wanted: RulesToCheck,
    instrument: Instrument,
    called: Sequence[CalledRule],
    hosts: HostComparison,
) -> OngoingComparison:
    sizes: dict[Collective, set[int]] = {}
    for rule, called_at in called:
        sizes.setdefault(rule.collective, set()).update(called_at)
    dtype, op = call_words(wanted.request.sweep)
    scope = SweepScope(
        sizes={name: tuple(sorted(one)) for name, one in sizes.items()},
        placements=(Placement.OUT_OF_PLACE,),
        dtype=dtype,
        op=op,
        timing=wanted.request.timing,
        checked_up_to=instrument.checked_up_to,
    )
    idle = Side(name="idle", answer=IDLE)
    return OngoingComparison(
        folder=hosts.session.resolve(),
        sides=(
            MeasuredSide(letter=A, side=idle, instrument=instrument),
            MeasuredSide(letter=B, side=wanted.side, instrument=instrument),
        ),
        scope=scope,
        n_starts=COMMUNICATORS,
        margin=defaults.MARGIN,
        is_refined=False,
        hosts=hosts,
        reporter=hosts.reporter,
        budget_s=wanted.request.budget_s,
    )


def _judge_rule(
    wanted: RulesToCheck, called: CalledRule, measuring: OngoingComparison, level: float
) -> CheckedRule:
    """Judge a rule that was called, as a verification does."""
    rule, sizes = called
    cells = {(rule.collective.value, nbytes) for nbytes in sizes}
    same_rules = (one for one in wanted.verified or () if drop_place(one.rule) == drop_place(rule))
    verified = next(same_rules, None)
    checked = CheckedRule(
        rule=rule,
        standing=Standing.CANNOT_TELL,
        verified=verified.gain if verified is not None else None,
    )
    if cells & measuring.wrong(measuring.sides[1]):
        return replace(checked, standing=Standing.WRONG)
    if cells & measuring.failed_cells(B):
        return replace(checked, standing=Standing.FAILED)
    mean = _mean_gain(rule.collective, sizes, measuring)
    if mean is None:
        return replace(checked, reason="nothing was timed")
    restores = verified is not None and verified.state is RuleState.RESTORES
    least = -log1p(RESTORED) if restores else log1p(defaults.MIN_GAIN)
    if mean.low(level) >= least:
        checked = replace(checked, standing=Standing.HOLDS)
    elif mean.high(level) < least:
        checked = replace(checked, standing=Standing.NO_LONGER_WINS)
    same = sum(cell in measuring.same for cell in cells)
    reason = f"the library runs the same by itself at {same} of {len(cells)} sizes" if same else ""
    return replace(checked, gain=mean.ratio(level), reason=reason)


def _mean_gain(
    collective: Collective, sizes: Sequence[int], measuring: OngoingComparison
) -> LogMean | None:
    """Log of the library's time over the rule's, in the mean over sizes; None where untimed."""
    timings = measuring.timings()
    logs = mean_log_times(timings[timings["collective"] == collective.value])
    log = np.full((COMMUNICATORS, 1, len(sizes)), np.nan)
    for at, nbytes in enumerate(sizes):
        if (collective.value, nbytes) in measuring.same:
            log[..., at] = 0.0
            continue
        wide = logs[logs["nbytes"] == nbytes].pivot_table(
            values="log", index="replicate", columns="side"
        )
        if {A, B} <= set(wide.columns):
            gain = (wide[A] - wide[B]).to_numpy()
            log[: len(gain), 0, at] = gain
    return PairedRatios(np.array(sizes), log).least(np.isfinite(log).any((0, 1)))
