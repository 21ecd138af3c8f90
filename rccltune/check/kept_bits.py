"""Whether rules with ``#@ bits`` still keep them here: probes of each rule, and no times."""

from __future__ import annotations

import os
from pathlib import Path

from rccltune.check.bound import CheckedRule, RulesToCheck, Standing, none_for
from rccltune.launch import signals
from rccltune.measure import rank_program
from rccltune.measure.hosts import HostComparison
from rccltune.measure.instrument import Instrument
from rccltune.model.errors import LaunchError, VerificationError
from rccltune.model.reporter import Reporter
from rccltune.ranks import plan, rows, runs
from rccltune.ranks.plan import Label
from rccltune.verify import same_bits
from rccltune.verify.rewriting import of_scale


def probed(
    wanted: RulesToCheck, instrument: Instrument, folder: Path, reporter: Reporter
) -> tuple[CheckedRule, ...]:
    """Probe the ends and the middle of each rule, and say whether the bits are those of the file.

    Args:
        wanted: which rules.
        instrument: where.
        folder: for what is measured.
        reporter: told what goes on.

    Raises:
        CommandLineError: no rule of the file is for so many ranks, or one cannot be probed.
        LaunchError: the ranks fail.
    """
    site, name = instrument.site, wanted.file.bits or ""
    rules = of_scale(wanted.file, site.scale)
    steps = list(same_bits.probes_of(rules, site.scale.n_ranks, 0))
    if not steps:
        raise none_for(site.scale, wanted.path)
    hosts = HostComparison(named=site.hosts, session=folder, reporter=reporter, force=False)
    with (
        signals.interruptible(),
        rank_program.waiting_ranks(
            instrument.ground,
            folder.resolve(),
            site=dict(os.environ),
            with_plugin=True,
            largest=max(step.call.nbytes for step in steps),
            heard=hosts.hear,
        ) as ranks,
    ):
        ranks.answer_by(wanted.content.decode("utf-8"))
        ranks.make({Label(plan.VERIFY, 0, "bits"): steps})
        made = ranks.end()
    if made.ended is not None and made.ended.failure is not None:
        raise LaunchError(
            f"the ranks {made.ended.failure.words}: {made.ended.words}",
            where=str(made.folder / runs.LOG_FILE),
            hint="rccltune doctor looks for usual causes.",
        )
    table = rows.rows_of_runs([made])
    orders = table[table["step"] == plan.ORDER]
    standing, reason = Standing.HOLDS, f"keeps the bits {name}"
    try:
        same_bits.refuse_other_bits(orders, name, rules, str(wanted.path))
    except VerificationError as error:
        standing, reason = Standing.OTHER_BITS, error.message
    return tuple(CheckedRule(rule=rule, standing=standing, reason=reason) for rule in rules)
