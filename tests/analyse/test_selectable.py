"""What no rule can name, what it says instead, and what a rule needs to be taken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from sample_rows import Sample

from rccltune.analyse.choice_options import ChoiceOptions
from rccltune.analyse.choose import Choice
from rccltune.analyse.selectable import needs_ll128_forced, why_not_selectable
from rccltune.model.measurement import Caution
from rccltune.model.settings import Scale, Setting
from rccltune.model.vocabulary import Collective, UnusableReason
from rccltune.model.zone import Zone

MakeSamples = Callable[..., list[Sample]]
ChooseFrom = Callable[..., Choice]
ONE_NODE = Scale(n_nodes=1, n_ranks=64)
TWO_NODES = Scale(n_nodes=2, n_ranks=128)


def rules(choice: Choice) -> list[Zone]:
    """Zones that choose something."""
    return [zone for zone in choice.zones if zone.setting is not None]


def names(choice: Choice) -> list[str]:
    """Chosen settings, by size."""
    return [str(zone.setting) for zone in rules(choice)]


@pytest.mark.parametrize(
    ("setting", "collective", "scale", "arch", "why"),
    [
        ("tree/ll", "all_reduce", ONE_NODE, "gfx942", None),
        ("tree/simple", "all_reduce", ONE_NODE, "gfx942", "Tree with Simple"),
        ("tree/simple", "all_reduce", ONE_NODE, "amd", "Tree with Simple"),
        ("tree/simple", "all_reduce", ONE_NODE, "nvidia", None),
        ("tree/simple", "all_reduce", ONE_NODE, None, None),
        ("tree/simple", "all_reduce", ONE_NODE, "gfx950", "Tree with Simple"),
        ("tree/simple", "all_reduce", ONE_NODE, "gfx90a", None),
        ("tree/simple", "all_reduce", ONE_NODE, "sm_90", None),
        ("tree/simple", "all_reduce", TWO_NODES, "gfx942", None),
        ("tree/ll", "all_gather", ONE_NODE, "gfx942", "has a tree"),
        ("tree/ll", "all_gather", ONE_NODE, None, "has a tree"),
        ("pat/simple", "all_gather", ONE_NODE, "gfx942", None),
        ("pat/simple", "reduce_scatter", ONE_NODE, "gfx942", None),
        ("pat/ll", "all_gather", ONE_NODE, "gfx942", "Simple protocol only"),
        ("pat/simple", "all_reduce", ONE_NODE, "gfx942", "PAT serves"),
        ("nvls/simple", "all_reduce", ONE_NODE, "gfx942", "CollNet and NVLS"),
        ("nvls/simple", "all_reduce", ONE_NODE, "gfx90a", "CollNet and NVLS"),
        ("collnet_direct/simple", "all_reduce", TWO_NODES, "amd", "CollNet and NVLS"),
        ("nvls/simple", "all_reduce", ONE_NODE, "sm_90", None),
        ("nvls/simple", "all_reduce", ONE_NODE, None, None),
        ("nvls_tree/simple", "all_reduce", ONE_NODE, "nvidia", None),
        ("collnet_chain/simple", "all_reduce", ONE_NODE, "nvidia", None),
        ("ring/ll", "alltoall", ONE_NODE, "gfx942", "never asks a tuner"),
        ("ring/-", "all_reduce", ONE_NODE, "gfx942", "both an algorithm and a protocol"),
        ("-/ll", "all_reduce", ONE_NODE, "gfx942", "both an algorithm and a protocol"),
        ("unstated", "all_reduce", ONE_NODE, "gfx942", "not known"),
    ],
)
def test_selectable_is_what_the_library_can_be_made_to_choose(
    setting: str, collective: str, scale: Scale, arch: str | None, why: str | None
) -> None:
    """From RCCL's own source; every refusal has a reason in words, and no unknown GPU is AMD's."""
    found = why_not_selectable(Setting.parse(setting), Collective(collective), scale, arch)
    assert (found is None) == (why is None)
    assert (why or "") in (found or "")


@pytest.mark.parametrize(
    ("setting", "scale", "arch", "needs"),
    [
        ("tree/ll128", ONE_NODE, "gfx942", True),
        ("ring/ll128", ONE_NODE, "gfx950", True),
        ("tree/ll128", ONE_NODE, "amd", True),
        ("tree/ll128", ONE_NODE, "gfx90a", False),
        ("tree/ll128", ONE_NODE, "nvidia", False),
        ("tree/ll128", ONE_NODE, None, False),
        ("tree/ll128", TWO_NODES, "gfx942", False),
        ("tree/ll", ONE_NODE, "gfx942", False),
    ],
)
def test_ll128_is_off_on_one_node_of_gfx94x_and_gfx95x(
    setting: str, scale: Scale, arch: str | None, needs: bool
) -> None:
    """No topology model matches there; NCCL has no such variable."""
    assert needs_ll128_forced(Setting.parse(setting), scale, arch) is needs


# --- left out ------------------------------------------------------------------------------------


def test_what_was_measured_and_cannot_be_chosen_is_named_with_what_it_would_have_won(
    make_samples: MakeSamples, choose_from: ChooseFrom
) -> None:
    """The fastest of all is left out, says why, and at how many sizes it was the fastest."""
    samples = make_samples({"tree/simple": [50, 50, 50, 500], "ring/ll": [100] * 4})
    choice = choose_from(samples, ChoiceOptions(arch="gfx942"))
    assert names(choice) == ["ring/ll"]
    (out,) = choice.left_out
    assert (str(out.setting), out.n_fastest) == ("tree/simple", 3)
    assert Caution.NOT_SELECTABLE in {notice.caution for notice in choice.notices}


def test_wrong_results_disqualify(make_samples: MakeSamples, choose_from: ChooseFrom) -> None:
    """However fast, and be it in one row of many."""
    samples = make_samples({"tree/ll": [1] * 4, "ring/ll": [100] * 4})
    samples.append(replace(samples[0], launch="again", n_wrong=1, doubt=UnusableReason.WRONG))
    choice = choose_from(samples)
    assert names(choice) == ["ring/ll"]
    assert [(str(o.setting), o.reason) for o in choice.left_out] == [
        ("tree/ll", "it computed wrong results")
    ]


def test_a_collective_that_never_asks_has_no_zones(
    make_samples: MakeSamples, choose_from: ChooseFrom
) -> None:
    """Alltoall goes point to point; a rule for it would be dead."""
    choice = choose_from(make_samples({"ring/ll": [10] * 4}, collective=Collective.ALLTOALL))
    assert choice.zones == ()
    assert len(choice.left_out) == 1


# --- what a rule needs ---------------------------------------------------------------------------


def test_ll128_on_one_node_carries_a_fallback(
    make_samples: MakeSamples, choose_from: ChooseFrom
) -> None:
    """Without RCCL_LL128_FORCE_ENABLE=1 the rule is skipped, and the next one is taken."""
    times = {
        "tree/ll": [10, 10, 40, 80],
        "ring/ll": [90, 90, 50, 60],
        "tree/ll128": [20, 20, 20, 20],
    }
    first, second = rules(choose_from(make_samples(times), ChoiceOptions(arch="gfx942")))
    assert (str(first.setting), first.fallback) == ("tree/ll", None)
    assert (str(second.setting), str(second.fallback)) == ("tree/ll128", "ring/ll")
    # Where the library offers LL128 by itself, nothing waits behind it.
    *_, last = rules(choose_from(make_samples(times), ChoiceOptions(arch="nvidia")))
    assert (str(last.setting), last.fallback) == ("tree/ll128", None)
