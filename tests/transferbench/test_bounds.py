"""What links let a collective reach."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from printing import MI300X, MI350X, Rates, links_of, square
from wording import lacks

from rccltune.model.settings import BASELINE, Mode, Scale, Target
from rccltune.model.units import busbw_factor
from rccltune.model.vocabulary import TUNABLE, Collective
from rccltune.transferbench import Ceiling, LinkRate, LinkRates, read_rates
from rccltune.transferbench import ceiling_of as ceiling_of_target
from rccltune.transferbench import why_no_ceiling as why_no_ceiling_of_target

AR = Collective.ALL_REDUCE
EIGHT = Scale(n_nodes=1, n_ranks=8)
BOUND = (*TUNABLE, Collective.ALLTOALL)


def link_rates(rates: Rates) -> LinkRates:
    """Of rows with a figure for each target, None to itself."""
    links = {
        (a, b): LinkRate(source=a, target=b, gb_per_s=rate)
        for (a, b), rate in links_of(rates).items()
    }
    return LinkRates(n_devices=len(rates), links=links)


NODE = link_rates(square(MI300X))


def target(collective: Collective, scale: Scale) -> Target:
    """Without a placement."""
    return Target(collective=collective, scale=scale, rank_placement=None)


def ceiling_of(
    rates: LinkRates, collective: Collective, scale: Scale, devices: Sequence[int] = ()
) -> Ceiling:
    """The ceiling, whatever reached it."""
    used = devices or range(rates.n_devices)
    return ceiling_of_target(rates, target(collective, scale), used, (1.0, 1, BASELINE))


def why_no_ceiling(
    rates: LinkRates,
    collective: Collective,
    scale: Scale,
    devices: Sequence[int] = (),
    mode: Mode | None = None,
) -> str | None:
    """Why not."""
    used = devices or range(rates.n_devices)
    return why_no_ceiling_of_target(rates, target(collective, scale), used, mode=mode)


def even(n: int, rate: float = 50.0) -> LinkRates:
    """n devices, every link alike."""
    return link_rates(square([[rate] * (n - 1)] * n))


def with_link(rates: LinkRates, source: int, target: int, rate: float | None) -> LinkRates:
    """The same with another figure for one link, or without it."""
    links = dict(rates.links)
    del links[source, target]
    if rate is not None:
        links[source, target] = LinkRate(source=source, target=target, gb_per_s=rate)
    return replace(rates, links=links)


class TestTheArticle:
    """AMD's own chain: slowest link, ceiling, AllReduce (ROCm blog, 2025-03-02)."""

    def test_the_ceiling_is_316(self) -> None:
        """The article takes GPU 0's slowest link, 7 x 45.21; over all GPUs it is 7 x 45.095."""
        found = ceiling_of(NODE, AR, EIGHT)
        assert (found.slowest.source, found.slowest.target) == (7, 0)
        assert found.gb_per_s == pytest.approx(7 * 45.095)
        assert round(found.gb_per_s) == round(7 * 45.21) == 316

    def test_its_rows_are_what_transferbench_calls_actual(self) -> None:
        """The column of that name: each GPU's slowest link times its links; ours is the least."""
        printed = (316.469, 318.799, 318.160, 315.994, 319.297, 317.968, 318.378, 315.664)
        assert [7 * min(row) for row in MI300X] == pytest.approx(printed, abs=0.004)
        assert ceiling_of(NODE, AR, EIGHT).gb_per_s == pytest.approx(min(printed), abs=0.004)

    def test_its_own_all_reduce_reaches_it(self, article: Path) -> None:
        """At 16 GiB both halves of both logs, out-of-place and in-place, with and without -G."""
        text = article.read_text(encoding="utf-8")
        limit = ceiling_of(read_rates(text, "article"), AR, EIGHT).gb_per_s
        row = re.compile(r"^\s*17179869184 .*", re.MULTILINE)
        busbw = [float(cells[i]) for cells in map(str.split, row.findall(text)) for i in (7, 11)]
        assert len(busbw) == 4
        for reached in busbw:
            assert 0.99 <= reached / 316 <= 1.011
            assert 0.99 <= round(reached / limit, 2) <= 1.01


def test_another_node_goes_a_little_beyond_it() -> None:
    """MI350X: 366.58 GB/s at 4 GiB in the same notes (all_reduce_perf -g 8) beside 354.8.

    What eight compute units copy is not all that a link carries: docs/machine.md.
    """
    found = ceiling_of(link_rates(square(MI350X)), AR, EIGHT)
    assert found.gb_per_s == pytest.approx(7 * 50.684)
    assert 366.58 / found.gb_per_s == pytest.approx(1.033, abs=0.001)


@pytest.mark.parametrize("collective", BOUND)
def test_rings_that_wait_for_the_slowest_link(collective: Collective) -> None:
    """Derived again from bytes: n-1 rings with equal shares, one link each, so the time is theirs.

    What a device sends of a call of S bytes is S times the bus factor (that is what it is made
    for); a ring's share of it goes over one link.
    """
    n, nbytes = 8, 1e9
    rates = with_link(even(n), 3, 5, 40.0)
    sent = nbytes * busbw_factor(collective, n)
    seconds = sent / (n - 1) / 40.0e9
    found = ceiling_of(rates, collective, EIGHT)
    assert found.gb_per_s == pytest.approx(sent / seconds / 1e9)
    assert (found.slowest.source, found.slowest.target) == (3, 5)


class TestWhereItBoundsNothing:
    """Said, with the reason, rather than drawn."""

    def test_ranks_on_known_devices_use_their_links_alone(self) -> None:
        """Four ranks on GPUs 1, 2, 4 and 6: three links each, the slowest of those 12 directions."""
        four = Scale(n_nodes=1, n_ranks=4)
        devices = (1, 2, 4, 6)
        assert why_no_ceiling(NODE, AR, four, devices=devices) is None
        found = ceiling_of(NODE, AR, four, devices=devices)
        among = [NODE.links[a, b].gb_per_s for a in devices for b in devices if a != b]
        assert found.n_links == 3
        assert found.slowest.gb_per_s == min(among)

    def test_another_number_of_ranks(self) -> None:
        """Without devices nobody knows which links they use."""
        for n in (4, 16, 64):
            why = why_no_ceiling(NODE, AR, Scale(n_nodes=1, n_ranks=n))
            assert why is not None
            assert lacks(why, "8 devices", f"{n}", "ranks") == []

    def test_a_device_that_was_not_there(self) -> None:
        """TransferBench saw fewer."""
        why = why_no_ceiling(NODE, AR, Scale(n_nodes=1, n_ranks=2), devices=(0, 8))
        assert why is not None
        assert lacks(why, "8 devices", "not known") == []

    def test_partitions_share_links(self) -> None:
        """64 devices in CPX have 7 links to an OAM, not 63 each."""
        scale = Scale(n_nodes=1, n_ranks=64)
        why = why_no_ceiling(even(64), AR, scale, mode=Mode.parse("cpx-nps4"))
        assert why is not None
        assert "cpx-nps4" in why
        assert "share the links" in why

    @pytest.mark.parametrize("mode", ["spx-nps1", "none"])
    def test_whole_gpus_do_not(self, mode: str) -> None:
        """Each has its own."""
        assert why_no_ceiling(NODE, AR, EIGHT, mode=Mode.parse(mode)) is None

    def test_several_nodes(self) -> None:
        """Their network is in no table."""
        why = why_no_ceiling(NODE, AR, Scale(n_nodes=2, n_ranks=16))
        assert why is not None
        assert "network" in why

    def test_devices_without_a_link_of_their_own(self) -> None:
        """A2A_DIRECT=1 leaves such pairs out."""
        why = why_no_ceiling(with_link(NODE, 2, 6, None), AR, EIGHT)
        assert why is not None
        assert "GPU 2 and GPU 6" in why

    @pytest.mark.parametrize("collective", [one for one in Collective if one not in BOUND])
    def test_collectives_over_one_link(self, collective: Collective) -> None:
        """Sendrecv sends to one neighbour."""
        assert why_no_ceiling(NODE, collective, EIGHT) is not None

    @pytest.mark.parametrize("collective", BOUND)
    def test_the_others_have_one(self, collective: Collective) -> None:
        """The five of the tuner, and alltoall."""
        assert why_no_ceiling(NODE, collective, EIGHT) is None
