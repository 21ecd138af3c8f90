"""What follows from a look that did not come to its end."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import log, log2
from pathlib import Path

import verify_null

from rccltune.model.chosen import Rule
from rccltune.model.settings import Setting
from rccltune.model.vocabulary import Collective
from rccltune.plan import pairs
from rccltune.rules.refusals import accepted
from rccltune.rules.writer import render_rules
from rccltune.verify import proofs, rounds, standing
from rccltune.verify.held import Ground, Held, Look, Swept

KIB, MIB = 1 << 10, 1 << 20


def rule_for(setting: str, start: int, end: int) -> Rule:
    """For sizes from one to below another, in bytes."""
    return Rule(
        collective=Collective.ALL_REDUCE,
        min_nbytes=start,
        max_nbytes=end - 1,
        setting=Setting.parse(setting),
        n_nodes=1,
        n_ranks=64,
    )


class FailingOnce(verify_null.MadeUp):
    """The first look ends at a rule, behind launches that checked results."""

    def __init__(self, ground: Ground) -> None:
        """A fifth is gained everywhere."""
        super().__init__(1, lambda _: 0.2, ground)
        self.checked_before: list[int] = []

    def look(self, look: Look, held: Sequence[Held]) -> proofs.Failed | None:
        """As the ones that succeed, but for the first."""
        [own] = held
        self.checked_before.append(len(own.evidence.checked))
        super().look(look, held)
        if look.number > 1:
            return None
        own.evidence.checked |= set(own.evidence.cells)
        return proofs.Failed(rule=look.file.rules[-1], nbytes=512 * KIB, why="it hung")


def test_a_look_that_a_failing_rule_cut_short_leaves_its_checks_to_the_next(tmp_path: Path) -> None:
    """Ranges behind the one that failed were never checked, so that none counts as checked."""
    ground = verify_null.ground_in(tmp_path)
    rules = [rule_for("tree/ll", low * KIB, high * KIB) for low, high in ((4, 128), (256, 1024))]
    wanted = standing.Wanted(where=tmp_path / "x.csv", min_gain=0.02, n_looks=3, keep_losers=False)
    looker = FailingOnce(ground)
    done = rounds.settle(wanted, ground, render_rules("two rules", rules), looker=looker)
    assert looker.checked_before[:2] == [0, 0]
    assert [cut.reason.partition(" at ")[0] for cut in done.cuts] == ["the benchmark fails with it"]


class WrongAtFirst(verify_null.MadeUp):
    """Results of one rule are wrong at three places, in the look that checks them."""

    def look(self, look: Look, held: Sequence[Held]) -> proofs.Failed | None:
        """As it is made."""
        failed = super().look(look, held)
        [own] = held
        if look.number == 1:
            keys = [key for key in own.evidence.cells if 16 * KIB <= key[2] < 256 * KIB]
            sizes = sorted({key[2] for key in keys})
            own.evidence.wrong |= {key: 1 for key in keys if key[2] in sizes[1:14:4]}
        return failed


def test_what_a_rule_that_went_had_wrong_is_not_the_librarys(tmp_path: Path) -> None:
    """It goes whole, and the other one takes more looks, in which nobody's results are wrong."""
    ground = verify_null.ground_in(tmp_path)
    rules = [rule_for("tree/ll128", 16 * KIB, 256 * KIB), rule_for("ring/ll", MIB, 8 * MIB)]
    wanted = standing.Wanted(where=tmp_path / "x.csv", min_gain=0.02, n_looks=3, keep_losers=False)
    looker = WrongAtFirst(1, lambda n: 0.2 if n < MIB else 0.03, ground)
    done = rounds.settle(wanted, ground, render_rules("two rules", rules), looker=looker)
    assert done.n_looks > 1
    assert [cut.reason.partition(",")[0] for cut in done.cuts] == ["wrong results"]
    assert [one.rule.min_nbytes for one in done.standings] == [MIB]


class Asking(verify_null.MadeUp):
    """What each look asks for."""

    def __init__(self, ground: Ground, gain: Callable[[int], float]) -> None:
        """A gain in logs by size."""
        super().__init__(1, gain, ground)
        self.open_in: list[frozenset[Collective] | None] = []

    def look(self, look: Look, held: Sequence[Held]) -> proofs.Failed | None:
        """As it is made."""
        self.open_in.append(look.open_in)
        return super().look(look, held)


def test_only_collectives_that_are_undecided_are_looked_at_again(tmp_path: Path) -> None:
    """A gain of a fifth is decided at once, and one of 3 % takes more launches."""
    both = (Collective.ALL_GATHER, Collective.ALL_REDUCE)
    ground = verify_null.ground_in(tmp_path)
    [own] = ground.conditions
    # The sweep had so many launches of it that one look is enough.
    seen = {(64 * KIB, f"launch {n}"): 0.0 for n in range(14)}
    ground = replace(
        ground,
        conditions=pairs.conditions(replace(own.sweep, collectives=both)),
        swept=Swept(delays={(Collective.ALL_GATHER, Setting.parse("ring/ll128")): seen}),
    )
    sure = replace(rule_for("ring/ll128", 4 * KIB, 128 * KIB), collective=Collective.ALL_GATHER)
    unsure = rule_for("ring/ll", 1024 * KIB, 8192 * KIB)
    text = render_rules("two rules", [sure, unsure])
    wanted = standing.Wanted(where=tmp_path / "x.csv", min_gain=0.02, n_looks=3, keep_losers=False)
    looker = Asking(ground, lambda n: 0.2 if n < 1024 * KIB else 0.03)
    done = rounds.settle(wanted, ground, text, looker=looker)
    assert looker.open_in[0] is None
    assert set(looker.open_in[1:]) == {frozenset({Collective.ALL_REDUCE})}
    assert sure.setting in [one.rule.setting for one in done.standings]


def test_a_rule_without_a_gain_is_given_up_after_one_look_and_a_gain_of_six_percent_is_kept(
    tmp_path: Path,
) -> None:
    """More launches would hardly show what the first look does not; launches differ by 40 %."""
    ground = verify_null.ground_in(tmp_path)
    n_kept = n_rules = n_looks = 0
    for seed in range(8):
        text = verify_null.table_of(seed)
        nothing = verify_null.settled(seed, text, ground, lambda _: 0.0)
        assert nothing.standings == ()
        n_looks += nothing.n_looks
        six = verify_null.settled(seed, text, ground, lambda _: log(1.06))
        n_kept += len(six.standings)
        n_rules += len(accepted(text.encode(), tmp_path / "x.csv").rules)
    assert n_looks <= 10
    # One of half an octave may stay undecided.
    assert n_kept >= n_rules - 1


def test_nothing_undecided_stays_in_a_file(tmp_path: Path) -> None:
    """Gains that jump by 8 % from size to size: what is cut out leaves its neighbours unsure.

    On two H100 a file said "verified" of a rule with a size that was 7 % slower, which had been
    sure only by the sizes beside it that went.
    """
    ground = verify_null.ground_in(tmp_path)
    for seed in (3, 6, 7, 8, 23, 25, 37):
        rng = random.Random(seed)
        jumps = {k: rng.gauss(0.06, 0.08) for k in range(4 * 40)}
        done = verify_null.settled(
            seed, verify_null.table_of(seed), ground, lambda n, j=jumps: j[round(4 * log2(n))]
        )
        assert all(one.stands for one in done.standings)
        for one in done.standings:
            assert one.rule.max_nbytes / one.rule.min_nbytes > 2**0.2


def test_what_the_rules_need_is_judged_again_where_a_cut_gave_sizes_back(tmp_path: Path) -> None:
    """It slows the sizes that the rule loses, unseen under the rule, and speeds all others up."""
    # The sweep had so many launches of it that one look is enough.
    seen = {(256 * KIB, f"launch {n}"): 0.0 for n in range(14)}
    swept = Swept(delays={(Collective.ALL_REDUCE, Setting.parse("ring/ll")): seen})
    ground = replace(verify_null.ground_in(tmp_path), swept=swept)
    rule = rule_for("ring/ll", 64 * KIB, 16384 * KIB)
    text = render_rules("one rule", [rule])
    text = text.replace("#@ format 1\n", "#@ format 1\n#@ needs NCCL_MIN_NCHANNELS=32\n")
    wanted = standing.Wanted(where=tmp_path / "x.csv", min_gain=0.02, n_looks=3, keep_losers=False)
    end = 2048 * KIB

    def settled(cost: float) -> standing.Settled:
        looker = verify_null.MadeUp(
            1,
            lambda n: log(1.3) if n < end else -0.05,
            ground,
            cost=lambda n: cost if end <= n <= rule.max_nbytes else -0.05,
        )
        return rounds.settle(wanted, ground, text, looker=looker)

    harmless, harmful = settled(-0.05), settled(0.2)
    assert any(cut.max_nbytes >= end for cut in harmless.cuts)
    assert harmless.lost_needs == ()
    assert harmful.lost_needs == ("NCCL_MIN_NCHANNELS",)


def test_what_rules_need_is_given_up_two_looks_later_than_rules(tmp_path: Path) -> None:
    """It takes all rules that need it along, if it costs 3 %; it may cost 1.5 %, and costs 0.3 %."""
    ground = verify_null.ground_in(tmp_path)
    text = render_rules("one rule", [rule_for("ring/ll", 64 * KIB, 16384 * KIB)])
    text = text.replace("#@ format 1\n", "#@ format 1\n#@ needs NCCL_MIN_NCHANNELS=32\n")
    wanted = standing.Wanted(where=tmp_path / "x.csv", min_gain=0.02, n_looks=3, keep_losers=False)

    def settled(seed: int, cost: float) -> standing.Settled:
        looker = verify_null.MadeUp(seed, lambda _: log(1.3), ground, cost=lambda _: cost)
        return rounds.settle(wanted, ground, text, looker=looker)

    kept = [done for seed in range(24, 40) if not (done := settled(seed, 0.003)).lost_needs]
    # With one look less five of these lose it.
    assert len(kept) >= 15
    assert max(done.n_looks for done in kept) == 5
    assert all(settled(seed, 0.03).lost_needs for seed in range(8))


# From here on a rule may lose, in bytes.
END = 2900 * KIB


def fast_to_its_end(beyond: float) -> Callable[[int], float]:
    """A gain of 15 % below END, and another one, in logs, from there on."""
    return lambda nbytes: log(1.15) if nbytes < END else beyond


def test_what_is_left_of_a_rule_keeps_its_launches_and_nothing_stands_by_what_went(
    tmp_path: Path,
) -> None:
    """A rule that loses 5 % at its end is cut there; what a cut leaves must win by itself."""
    ground = verify_null.ground_in(tmp_path)
    rule = rule_for("ring/ll", 1024 * KIB, 4096 * KIB)
    text = render_rules("one rule", [rule])
    whole = verify_null.settled(0, text, ground, lambda _: log(1.15))
    for seed in range(6):
        cut = verify_null.settled(seed, text, ground, fast_to_its_end(-0.05))
        (left,) = cut.standings
        assert 2048 * KIB < left.rule.max_nbytes < END
        assert cut.n_launches <= whole.n_launches + 4
        nothing = verify_null.settled(seed, text, ground, lambda n: 0.0 if n < END else -0.05)
        assert nothing.standings == ()


def test_ends_that_look_slower_go_without_a_further_launch(tmp_path: Path) -> None:
    """A loss of 1.5 % is not told from none there, and a rule has nothing to win by it."""
    ground = verify_null.ground_in(tmp_path)
    text = render_rules("one rule", [rule_for("ring/ll", 512 * KIB, 4096 * KIB)])
    whole = verify_null.settled(0, text, ground, lambda _: log(1.15))
    for seed in range(6):
        done = verify_null.settled(seed, text, ground, fast_to_its_end(-0.015))
        (left,) = done.standings
        assert 2048 * KIB < left.rule.max_nbytes < END
        assert left.stands
        assert done.n_launches == whole.n_launches


def test_an_end_that_looks_slower_is_no_proof_where_nothing_goes(tmp_path: Path) -> None:
    """With --keep-losers it stays in the file, and nobody says that it stands."""
    ground = verify_null.ground_in(tmp_path)
    text = render_rules("one rule", [rule_for("ring/ll", 512 * KIB, 4096 * KIB)])
    wanted = standing.Wanted(where=tmp_path / "x.csv", min_gain=0.02, n_looks=2, keep_losers=True)
    looker = verify_null.MadeUp(0, fast_to_its_end(-0.011), ground)
    done = rounds.settle(wanted, ground, text, looker=looker)
    (left,) = done.standings
    assert not left.stands
    assert (left.rule.max_nbytes, done.cuts) == (4096 * KIB - 1, ())
