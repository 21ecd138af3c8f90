"""Rules that keep the bits: asked on fresh communicators whether they do, and what that costs.

Such rules may be slower than the library's own choice, so no time takes one away. In each
communicator the ends and the middle of every rule are probed, and the library's own choice, the
rules, the fastest settings of the sweep and one channel of tree/simple, which people pin, are timed
in turns.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from rccltune.analyse.choice_options import ChoiceOptions
from rccltune.analyse.choose import choose
from rccltune.analyse.paired_intervals import compare_groups
from rccltune.analyse.session_fit import fit_session
from rccltune.bits import probes
from rccltune.bits.fastest_trees import bits_name
from rccltune.measure import passes
from rccltune.measure.passes import RunPlan
from rccltune.model.errors import CommandLineError, VerificationError
from rccltune.model.estimate import Estimate
from rccltune.model.rounding import round_record
from rccltune.model.rule import Rule, RuleState
from rccltune.model.settings import IDLE, RULES, Setting
from rccltune.model.units import MAX_NBYTES, format_size
from rccltune.model.verdict import SizeVerdict, Verdict
from rccltune.model.vocabulary import Collective, Placement
from rccltune.ranks import plan
from rccltune.ranks.plan import BFLOAT16, GRAPH, GRAPH_UP_TO, LOOP, CollectiveCall, Label, Step
from rccltune.rules.rule_file import read_rules
from rccltune.rules.rule_order import subtract_rules
from rccltune.session.samples import load_frame
from rccltune.verify.judge_rules import JudgedFile
from rccltune.verify.outcome import OngoingVerification
from rccltune.verify.rewriting import hash_rules, select_rules, strip_comments
from rccltune.verify.verdict_file import BitsTime, RuleVerdict

if TYPE_CHECKING:
    import pandas as pd

N_COMMUNICATORS: Final = 3
# What people set today: NCCL_ALGO=Tree, NCCL_PROTO=Simple, one channel.
PIN: Final = Setting.parse("tree/simple/1")
_OUT: Final = Placement.OUT_OF_PLACE
# How each communicator is asked.
_WAYS: Final = (
    (probes.FLOAT, _OUT, LOOP),
    (BFLOAT16, Placement.IN_PLACE, LOOP),
    (probes.FLOAT, _OUT, GRAPH),
)


def judge_bits(verifying: OngoingVerification, text: str, name: str) -> JudgedFile:
    """Ask whether a file's rules keep the bits that it names, and what that costs.

    Args:
        verifying: the file's verification.
        text: of the file.
        name: of the bits, as the file has it.

    Raises:
        CommandLineError: a rule cannot be probed.
        VerificationError: a bit differs; it says where.
    """
    sides, scale = verifying.sides, verifying.scale
    rules = select_rules(read_rules(text.encode()), scale)
    content = strip_comments(text)
    digest = hash_rules(content, [str(sides.instrument.ground.library.file), "bits"])
    fastest = _fastest(verifying)
    communicators = {
        Label(plan.VERIFY, number, digest): (
            *plan_probes(rules, scale.n_ranks, number),
            *_timings(verifying, rules, fastest, number),
        )
        for number in range(verifying.request.n_communicators or N_COMMUNICATORS)
    }
    measuring = sides.measuring
    steps = [step for each in communicators.values() for step in each]
    measuring.largest = max([measuring.largest, *(step.call.nbytes for step in steps)])
    measuring.complete(RunPlan(plugin=True, communicators=communicators, rules=content))
    table = measuring.table()
    table = table[(table["purpose"] == plan.VERIFY) & (table["rules"] == digest)]
    verifying.n_replicates += len(communicators)
    verifying.n_processes += int(table["process"].nunique())
    orders = table[table["step"] == plan.ORDER]
    refuse_other_bits(orders, name, rules, str(verifying.request.rules))
    judged = list(_judge_times(table, fastest))
    verifying.bits_times = tuple(times for times, _ in judged)
    verdicts = tuple(
        replace(
            RuleVerdict.of(rule, RuleState.KEEPS_BITS),
            n_sizes=len(_probed(rule.collective, rule.min_nbytes, rule.max_nbytes, scale.n_ranks)),
        )
        for rule in rules
    )
    sizes = tuple(verdict for _, verdict in judged if verdict is not None)
    return JudgedFile(rules=verdicts, sizes=sizes)


def _probed(collective: Collective, low: int, high: int, n_ranks: int) -> tuple[int, ...]:
    """Ends and middle of a range, in bytes that can be called; none of what adds nothing."""
    if collective not in probes.ADDING:
        return ()
    step = plan.grain(collective, n_ranks)
    first, last = -(-max(low, step) // step) * step, high // step * step
    middle = round(math.sqrt(first * max(first, last)) / step) * step
    return tuple(sorted({one for one in (first, middle, last) if first <= one <= last}))


def plan_probes(rules: Sequence[Rule], n_ranks: int, number: int) -> Iterator[Step]:
    """Probes of a file's rules in one communicator, and of sizes that they leave out.

    Args:
        rules: for these ranks.
        n_ranks: how many.
        number: of the communicator; each is asked in another way.

    Raises:
        CommandLineError: a rule cannot be probed; it says which, and why.
    """
    dtype, placement, timing = _WAYS[number % len(_WAYS)]
    for collective, low, high in _ranges(rules):
        for nbytes in _probed(collective, low, high, n_ranks):
            call = CollectiveCall(collective, dtype, probes.SUM, placement, nbytes)
            how = timing if nbytes <= GRAPH_UP_TO else LOOP
            yield Step(plan.ORDER, RULES, call, how)


def _why_not_probed(rule: Rule) -> str:
    """Reason for which no probe tells whether a rule keeps the bits; empty where probes do."""
    if not rule.collective.reduces:
        return ""
    if rule.collective not in probes.ADDING:
        return "the order in which it adds cannot be probed"
    if rule.max_nbytes == MAX_NBYTES:
        return "this rule has no end, and no call so large can be probed"
    if rule.reg_buff is not None or rule.num_pipe_ops is not None:
        return "this rule leaves calls to the library by their group or buffers"
    return ""


def _ranges(rules: Sequence[Rule]) -> Iterator[tuple[Collective, int, int]]:
    """Each rule, then what lies between 0 and the largest of a collective without a rule."""
    for rule in rules:
        if why := _why_not_probed(rule):
            raise CommandLineError(
                f"{rule.collective.value} from {format_size(rule.min_nbytes)}: {why}",
                hint="emit-config --same-bits writes no such rule below '#@ bits'.",
            )
        yield rule.collective, rule.min_nbytes, rule.max_nbytes
    for collective in dict.fromkeys(rule.collective for rule in rules):
        mine = [rule for rule in rules if rule.collective is collective]
        whole = (0, max(rule.max_nbytes for rule in mine))
        for low, high in subtract_rules(whole, mine):
            yield collective, low, high


def _timings(
    verifying: OngoingVerification,
    rules: Sequence[Rule],
    fastest: Mapping[tuple[Collective, int], Setting],
    number: int,
) -> Iterator[Step]:
    sides = verifying.sides
    timed: list[Step] = []
    for collective, sizes in sides.swept.items():
        mine = [rule for rule in rules if rule.collective is collective]
        for nbytes in sizes if collective in probes.ADDING else ():
            if not any(rule.reaches(nbytes) for rule in mine):
                continue
            call = CollectiveCall(collective, sides.dtype, sides.op, _OUT, nbytes)
            settings = [IDLE, RULES]
            settings += [PIN] * plan.has(collective, PIN)
            if (collective, nbytes) in fastest:
                settings.append(fastest[collective, nbytes])
            if number == 0:
                # What ran is said by a call before anything is timed.
                timed += [Step(plan.CALL, setting, call) for setting in settings]
            timings = GRAPH if passes.captures(sides.table) and nbytes <= GRAPH_UP_TO else LOOP
            turn = settings if number % 2 == 0 else settings[::-1]
            effort = plan.effort_of(nbytes)
            timed += [Step(plan.MEASURE, setting, call, timings, effort) for setting in turn]
    yield from passes.loops_first(timed)


def _fastest(verifying: OngoingVerification) -> dict[tuple[Collective, int], Setting]:
    """Settings that were fastest in the sweep, whatever their bits; none where the library is."""
    done = fit_session(verifying.request.folder, reporter=verifying.reporter)
    scale = verifying.scale
    samples = load_frame(done.session, verifying.reporter)
    options = ChoiceOptions(arch=done.session.fingerprint.arch_or_vendor)
    signatures = {}
    for zone in choose(samples, options).zones:
        for nbytes in verifying.sides.swept.get(zone.target.collective, ()):
            if (
                zone.setting is not None
                and zone.target.scale == scale
                and zone.min_nbytes <= nbytes <= zone.max_nbytes
            ):
                signatures[zone.target.collective, nbytes] = zone.setting
    return signatures


def refuse_other_bits(orders: pd.DataFrame, name: str, rules: Sequence[Rule], where: str) -> None:
    """Stop where a bit differs.

    Args:
        orders: rows of the probes.
        name: of the bits, as the file has it.
        rules: of the file.
        where: it is.

    Raises:
        VerificationError: which call has other bits.
    """
    trees = {}
    collectives = {rule.collective for rule in rules} & set(probes.ADDING)
    for collective in collectives:
        rows_of_one = orders[orders["collective"] == collective.value].sort_values("nbytes")
        if not probes.is_one_tree(rows_of_one):
            raise VerificationError(
                f"{collective.value}: {_first_other(rows_of_one)}",
                where=where,
                hint="probe here again, and choose anew: rccltune sweep --same-bits, rccltune "
                "emit-config --same-bits --force.",
            )
        trees[collective] = str(rows_of_one["tree"].iloc[0])
    if bits_name(trees) != name:
        raise VerificationError(
            f"results keep their bits here, but these are {bits_name(trees)} and not {name}",
            where=where,
            hint="the ranks add in another order than where the rules were chosen: rccltune sweep "
            "--same-bits, rccltune emit-config --same-bits here.",
        )


def _first_other(rows: pd.DataFrame) -> str:
    """Which probe is not as the first one, in words."""
    if rows.empty:
        return "its rules were not probed"
    first = rows.iloc[0]
    for row in rows.to_dict("records"):
        size = format_size(int(row["nbytes"]))
        if row["wrong"] > 0:
            return f"at {size} {row['wrong']:.0f} elements have other bits than their tree predicts"
        if row["trees"] > 1:
            return f"at {size} elements are added by {row['trees']:.0f} trees: bits depend on size"
        if row["tree"] != first["tree"]:
            return f"at {size} elements are added by another tree than at smaller sizes"
    return "of some elements the tree is not known"


def _judge_times(
    table: pd.DataFrame, fastest: Mapping[tuple[Collective, int], Setting]
) -> Iterator[tuple[BitsTime, SizeVerdict | None]]:
    """Median µs of what was timed in turns at each size, and the verdict where it was repeated."""
    timed = table[(table["step"] == plan.MEASURE) & (table["unusable"] == "")]
    for (name, nbytes), rows in timed.groupby(["collective", "asked_nbytes"]):
        by_setting = rows.astype({"setting": "object"}).groupby("setting")["time_us"]
        times = {str(setting): times_us.to_numpy() for setting, times_us in by_setting}
        medians = {setting: float(np.median(times_us)) for setting, times_us in times.items()}
        if not {str(IDLE), str(RULES)} <= set(medians):
            continue
        at = (Collective(name), int(nbytes))
        median = BitsTime(
            collective=at[0],
            nbytes=at[1],
            library_us=medians[str(IDLE)],
            rules_us=medians[str(RULES)],
            fastest_us=medians.get(str(fastest.get(at))),
            pin_us=medians.get(str(PIN)),
        )
        mean = compare_groups(np.log(times[str(IDLE)]), np.log(times[str(RULES)]))
        yield round_record(median), None if mean is None else _judge_size(median, mean.ratio())


def _judge_size(median: BitsTime, gain: Estimate) -> SizeVerdict:
    verdict = Verdict.FASTER if gain.is_faster else Verdict.UNDECIDED
    return round_record(
        SizeVerdict(
            collective=median.collective,
            placement=_OUT,
            timing=GRAPH if median.nbytes <= GRAPH_UP_TO else LOOP,
            nbytes=median.nbytes,
            baseline_us=median.library_us,
            tuned_us=median.rules_us,
            gain=gain,
            verdict=Verdict.SLOWER if gain.is_slower else verdict,
            n_wrong=0,
        )
    )
