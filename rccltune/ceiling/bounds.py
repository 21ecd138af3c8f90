"""The bus bandwidth at which the slowest link holds up a collective.

n devices that are all linked with each other have n-1 links each, and as many rings can run side
by side, each over another link of every device. The library gives each ring an equal share, so all
wait for the one with the slowest link: n-1 times its rate. In bus bandwidth that is the same figure
for each of the collectives below, because bus bandwidth is made to be; docs/machine.md derives it.

Links that are slower than the others of their machine have any reason to be.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Final

from rccltune.model.links import Ceiling, LinkRate, LinkRates
from rccltune.model.settings import Mode, Scale
from rccltune.model.vocabulary import TUNABLE, Collective

# All that spread a call evenly over the links; alltoall does it without a ring.
_BOUND: Final = (*TUNABLE, Collective.ALLTOALL)
_WHOLE: Final = ("SPX", None)


def why_no_ceiling(
    rates: LinkRates,
    collective: Collective,
    scale: Scale,
    *,
    devices: Sequence[int] = (),
    mode: Mode | None = None,
) -> str | None:
    """Why these rates bound no such call; None where they do.

    Args:
        rates: what TransferBench measured.
        collective: what is called.
        scale: of the communicator.
        devices: numbers of the ranks' devices, empty where nothing chose them.
        mode: of the machine, None where it is not known.
    """
    return _against_call(collective, scale, mode) or _against_devices(rates, scale, devices)


def _against_call(collective: Collective, scale: Scale, mode: Mode | None) -> str | None:
    """Return the reason why no rates of links bound such a call; None where they do."""
    if collective not in _BOUND:
        return f"{collective.value} does not spread a call over all links of a device"
    if scale.n_nodes > 1:
        return f"of {scale.n_nodes} nodes it is the network between them that bounds"
    if scale.n_ranks < 2:
        return "one rank sends nothing over any link"
    if mode is not None and mode.compute not in _WHOLE:
        return (
            f"in {mode} several devices share the links of one GPU, so that a pair's rate times "
            "the pairs bounds nothing"
        )
    return None


def _against_devices(rates: LinkRates, scale: Scale, devices: Sequence[int]) -> str | None:
    """Return the reason where the rates are not of the links that these ranks use."""
    if devices and max(devices) >= rates.n_devices:
        return (
            f"a rank is on device {max(devices)}, and TransferBench copied between "
            f"{rates.n_devices} devices"
        )
    if not devices and scale.n_ranks != rates.n_devices:
        return (
            f"TransferBench copied between {rates.n_devices} devices and there are "
            f"{scale.n_ranks} ranks: which links they use is not known"
        )
    missing = next(_missing(rates, _used(rates, devices)), None)
    if missing is not None:
        source, target = missing
        return (
            f"GPU {source} and GPU {target} have no link of their own, so that rings cannot use "
            "every link alike"
        )
    return None


def ceiling_of(
    rates: LinkRates,
    collective: Collective,
    scale: Scale,
    *,
    rank_placement: str | None = None,
    devices: Sequence[int] = (),
) -> Ceiling:
    """The ceiling, where :func:`why_no_ceiling` has nothing against it.

    Args:
        rates: what TransferBench measured.
        collective: what is called.
        scale: of the communicator.
        rank_placement: its name, for the record.
        devices: numbers of the ranks' devices, empty where the ranks are on all of them.
    """
    used = _used(rates, devices)
    among = [link for link in rates.links if link.source in used and link.target in used]
    return Ceiling(
        collective=collective,
        scale=scale,
        rank_placement=rank_placement,
        n_links=len(used) - 1,
        slowest=min(among, key=lambda link: link.gb_per_s),
        all_links_gb_per_s=min(_sums(among)),
    )


def _used(rates: LinkRates, devices: Sequence[int]) -> tuple[int, ...]:
    return tuple(devices) or tuple(range(rates.n_devices))


def _missing(rates: LinkRates, used: Sequence[int]) -> Iterator[tuple[int, int]]:
    for source in used:
        for target in used:
            if source != target and rates.rates[source][target] is None:
                yield source, target


def _sums(links: Sequence[LinkRate]) -> list[float]:
    """Sums of what each device sends over all links together, and of what it receives."""
    sent: dict[int, float] = {}
    received: dict[int, float] = {}
    for link in links:
        sent[link.source] = sent.get(link.source, 0.0) + link.gb_per_s
        received[link.target] = received.get(link.target, 0.0) + link.gb_per_s
    return [*sent.values(), *received.values()]


# Makes the median absolute deviation of normal noise its standard deviation.
_NORMAL: Final = 1.4826
_SIGMAS: Final = 5.0
# Links that agree to a tenth of a percent would make a difference of one percent an outlier.
_LEAST: Final = 0.05


def median_rate(rates: LinkRates) -> float:
    """Median over all links in GB/s; at least one link is there."""
    return median(link.gb_per_s for link in rates.links)


def slow_links(rates: LinkRates) -> tuple[LinkRate, ...]:
    """Links far below the median of all, the slowest first.

    Far is five times what the median absolute deviation says of the usual spread, and five percent
    at least: medians, because one broken link must not move the measure that it is held against.
    """
    links = rates.links
    if not links:
        return ()
    middle = median_rate(rates)
    usual = _NORMAL * median(abs(link.gb_per_s - middle) for link in links)
    limit = middle - max(_SIGMAS * usual, _LEAST * middle)
    slow = (link for link in links if link.gb_per_s < limit)
    return tuple(sorted(slow, key=lambda link: link.gb_per_s))
