"""Which calls tell in which order settings add, and which settings add alike at every size.

A setting is *one tree* where every element of every result that was probed is added by the same
tree, and random numbers had the bits that it predicts: with each type and placement, called one by
one and captured. A tuner's channels are an upper bound, so that a setting with N of them is probed
where fewer run, too.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from rccltune.model.settings import Role, Setting
from rccltune.model.vocabulary import Algorithm, Collective, Placement
from rccltune.ranks import plan
from rccltune.ranks.plan import BFLOAT16, GRAPH, LOOP, CollectiveCall, Step, setting_of
from rccltune.ranks.runs import Run

if TYPE_CHECKING:
    import pandas as pd

# Those whose results depend on the order. A reduce's tree would have to be probed for each root.
ADDING: Final = (Collective.ALL_REDUCE, Collective.REDUCE_SCATTER)
FLOAT: Final = "float"
SUM: Final = "sum"
BYTES: Final = {FLOAT: 4, BFLOAT16: 2}
# From one probed size to the next.
_FACTOR: Final = 4
_OUT: Final = Placement.OUT_OF_PLACE
# Every size by the first; the others at a few, since a tree depends on none of them.
_WAYS: Final = ((FLOAT, _OUT, LOOP), (BFLOAT16, _OUT, LOOP), (FLOAT, Placement.IN_PLACE, LOOP))
_CAPTURED: Final = (FLOAT, _OUT, GRAPH)
_GRAPH_UP_TO: Final = 4 << 20


def probed_sizes(collective: Collective, largest: int, n_ranks: int) -> tuple[int, ...]:
    """Sizes in bytes at which a setting is probed, from the smallest that can be called on.

    Args:
        collective: that is called.
        largest: in bytes.
        n_ranks: of the communicator.
    """
    step = plan.grain(collective, n_ranks)
    sizes, nbytes = {largest // step * step}, step
    while nbytes < largest:
        # Beside round ones some that no chunk divides.
        sizes |= {nbytes, (nbytes * 11 // 8) // step * step}
        nbytes *= _FACTOR
    return tuple(sorted(one for one in sizes if step <= one <= largest))


def first_steps(collective: Collective, largest: int, n_ranks: int) -> Iterator[Step]:
    """Each setting once, at the largest size, where most channels run."""
    nbytes = probed_sizes(collective, largest, n_ranks)[-1]
    for setting in _settings(collective, n_ranks):
        yield _step(setting, collective, nbytes, _WAYS[0])


def all_steps(
    collective: Collective, settings: Sequence[Setting], largest: int, n_ranks: int
) -> Iterator[Step]:
    """Probes by which settings show that they are one tree.

    Args:
        collective: that is called.
        settings: that may be.
        largest: in bytes.
        n_ranks: of the communicator.
    """
    sizes = probed_sizes(collective, largest, n_ranks)
    few = sizes[:: max(1, len(sizes) // 4)]
    for setting in settings:
        # The largest first: what has several trees there has them in one step.
        for nbytes in reversed(sizes):
            yield _step(setting, collective, nbytes, _WAYS[0])
        for way in _WAYS[1:]:
            for nbytes in few:
                yield _step(setting, collective, nbytes, way)
        for nbytes in few:
            if nbytes <= _GRAPH_UP_TO:
                yield _step(setting, collective, nbytes, _CAPTURED)


def _settings(collective: Collective, n_ranks: int) -> Iterator[Setting]:
    for setting in plan.usual_settings(collective):
        # A ring starts each chunk of an all_reduce at another rank (NCCL src/device/all_reduce.h).
        is_ring = setting.algorithm is Algorithm.RING and collective is Collective.ALL_REDUCE
        if not is_ring or n_ranks == 2:
            yield setting


def _step(
    setting: Setting, collective: Collective, nbytes: int, way: tuple[str, Placement, str]
) -> Step:
    dtype, placement, timing = way
    return Step(
        plan.ORDER, setting, CollectiveCall(collective, dtype, SUM, placement, nbytes), timing
    )


def candidates(table: pd.DataFrame, collective: Collective) -> tuple[Setting, ...]:
    """Settings that may be one tree: with all channels, or with as many as have equal chains.

    Args:
        table: rows of the sweep's runs (:mod:`rccltune.ranks.rows`) with the first probes.
        collective: whose.
    """
    settings: dict[Setting, None] = {}
    for row in _orders(table, collective).to_dict("records"):
        setting, ran = Setting.parse(row["setting"]), setting_of(row["ran"])
        if setting.channels is not None or not _ran_as_asked(
            row["setting"], row["answer"], row["ran"]
        ):
            continue
        if row["trees"] == 1:
            settings[setting] = None
            continue
        equal = {1, _equal_channels(row, ran.channels if ran is not None else None)}
        settings |= dict.fromkeys(replace(setting, channels=n) for n in sorted(equal, reverse=True))
    return tuple(settings)


def _equal_channels(row: Mapping[Hashable, Any], channels: int | None) -> int:
    """How many channels add by the first one's chain, as far as the first probe tells.

    Channels have equal shares of a result, one behind the other (NCCL src/enqueue.cc); of each
    owner's part, whose end is not that of a share, only the first channel is tried.
    """
    n_elements = float(row["nbytes"]) / BYTES[row["dtype"]]
    if row["collective"] != Collective.ALL_REDUCE.value or not channels:
        return 1
    until = float(row["first_end"])
    return max(1, min(channels, round(until * channels / n_elements)))


def _orders(table: pd.DataFrame, collective: Collective) -> pd.DataFrame:
    orders: pd.DataFrame = table[
        (table["step"] == plan.ORDER)
        & (table["collective"] == collective.value)
        & (table["purpose"] == plan.ORDERS)
    ]
    return orders


@dataclass(frozen=True, slots=True, kw_only=True)
class OneTree:
    """Settings of a collective that add every element of every size by one tree.

    Attributes:
        tree: number of the tree; of reduce_scatter of all owners' trees.
        text: ``(((2+3)+1)+0)``; empty where it has one for each owner.
        settings: of which each was probed at all sizes.
        largest: size in bytes up to which.
    """

    collective: Collective
    tree: str
    text: str
    settings: tuple[Setting, ...]
    largest: int


Trees: TypeAlias = Mapping[str, str]


def classes(
    table: pd.DataFrame, collective: Collective, trees: Trees, n_ranks: int
) -> tuple[OneTree, ...]:
    """Settings by their tree, those with most settings first.

    Args:
        table: rows of the sweep's runs.
        collective: whose.
        trees: text of each by its number.
        n_ranks: of the communicator.
    """
    orders = _orders(table, collective)
    settings_of: dict[str, list[tuple[Setting, int]]] = {}
    for word, rows in orders.groupby("setting", sort=False):
        setting = Setting.parse(str(word))
        largest = int(rows["nbytes"].max())
        lines = {step.line for step in all_steps(collective, [setting], largest, n_ranks)}
        if is_one_tree(rows) and lines <= set(_lines(rows)):
            settings_of.setdefault(str(rows["tree"].iloc[0]), []).append((setting, largest))
    by_size = sorted(settings_of.items(), key=lambda one: -len(one[1]))
    return tuple(
        OneTree(
            collective=collective,
            tree=tree,
            text=trees.get(tree, ""),
            settings=tuple(setting for setting, _ in settings),
            largest=min(largest for _, largest in settings),
        )
        for tree, settings in by_size
    )


def is_one_tree(rows: pd.DataFrame) -> bool:
    """Whether all probes have one and the same tree, and every bit is as it predicts.

    Args:
        rows: of probes of one setting, or of one rule file, of one collective.
    """
    widths = rows["dtype"].map(BYTES)
    cells = zip(rows["setting"], rows["answer"], rows["ran"], strict=True)
    return bool(
        len(rows)
        and (rows["trees"] == 1).all()
        and (rows["tree"] == rows["tree"].iloc[0]).all()
        and (rows["wrong"] == 0).all()
        and (rows["checked"] == rows["nbytes"] / widths).all()
        and all(_ran_as_asked(*words) for words in cells)
    )


def _ran_as_asked(asked: str, answered: str, ran: str) -> bool:
    """Whether what was asked for was answered, and nothing says that something else ran."""
    wanted, told, executed = Setting.parse(asked), setting_of(answered), setting_of(ran)
    if wanted.role is not Role.FORCED:
        return True
    if told is None or wanted.contradicts(told):
        return False
    # A call that is too small for all channels runs fewer.
    return executed is None or not replace(wanted, channels=None).contradicts(executed)


def _lines(rows: pd.DataFrame) -> Iterator[str]:
    names = ("collective", "dtype", "op", "placement", "asked_nbytes", "timing")
    for values in rows[list(names)].itertuples(index=False, name=None):
        collective, dtype, op, placement, nbytes, timing = map(str, values)
        yield f"{plan.ORDER} {collective} {dtype} {op} {placement} {nbytes} {timing}"


def trees_of(measured: Iterable[Run]) -> Trees:
    """Text of each tree by its number, of all runs of a session."""
    return {number: text for run in measured for number, text in run.remarks.trees}
