"""Whether rules with ``#@ bits`` still keep them here: probes of each rule, and no times."""

from __future__ import annotations

from rccltune.check.bound import CheckedRule, RulesToCheck, Standing, no_rule_error
from rccltune.compare.bits_comparison import probe_side
from rccltune.launch import signals
from rccltune.measure.hosts import HostComparison
from rccltune.measure.instrument import Instrument
from rccltune.model.errors import VerificationError
from rccltune.ranks import plan, rows
from rccltune.verify import same_bits
from rccltune.verify.rewriting import select_rules


def probe_rules(
    wanted: RulesToCheck, instrument: Instrument, hosts: HostComparison
) -> tuple[CheckedRule, ...]:
    """Probe the ends and the middle of each rule, and say whether the bits are those of the file.

    Args:
        wanted: which rules.
        instrument: the rank program on this machine.
        hosts: that ranks run on, with the folder for what is measured.

    Raises:
        CommandLineError: no rule of the file is for so many ranks, or one cannot be probed.
        LaunchError: the ranks fail.
    """
    scale, name = instrument.site.scale, wanted.file.bits or ""
    rules = select_rules(wanted.file, scale)
    steps = list(same_bits.plan_probes(rules, scale.n_ranks, 0))
    if not steps:
        raise no_rule_error(scale, wanted.path)
    with signals.interruptible():
        run = probe_side(wanted.side, instrument, hosts.session, steps, hosts)
    table = rows.rows_of_runs([run])
    orders = table[table["step"] == plan.ORDER]
    standing, reason = Standing.HOLDS, f"keeps the bits {name}"
    try:
        same_bits.refuse_other_bits(orders, name, rules, str(wanted.path))
    except VerificationError as error:
        standing, reason = Standing.OTHER_BITS, error.message
    return tuple(CheckedRule(rule=rule, standing=standing, reason=reason) for rule in rules)
