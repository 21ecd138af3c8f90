"""Timings to samples: launches numbered, flags that need the key, notices, the fingerprint."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import nan
from typing import TYPE_CHECKING, Any, Final

from rccltune.logs.busbw_ratio import (
    RunEvidence,
    find_collectives,
    find_only_ranks,
    gather_evidence,
)
from rccltune.logs.columns import is_percentile
from rccltune.logs.facts import LogFacts, LogRun
from rccltune.logs.resolver import Resolver
from rccltune.logs.timings import number_mixes
from rccltune.model.errors import CommandLineError, OutputError
from rccltune.model.measurement import RUNS, Caution, Fingerprint
from rccltune.model.settings import CurveKey, Role, Setting, vendor_of
from rccltune.model.vocabulary import (
    DTYPE_BYTES,
    MAX_NBYTES,
    Collective,
    UnusableReason,
    busbw_factor,
)

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

# Rounding of busbw to two decimals, and of their mean to six digits.
_ROUNDING: Final = 0.0055
_DIGITS: Final = 1e-5


def make_sample_table(
    runs: Sequence[LogRun], resolver: Resolver, launch: str
) -> tuple[pd.DataFrame, tuple[CurveKey, ...]]:
    """All samples of a file, and the keys of their curves.

    The table has the columns of :class:`rccltune.model.measurement.Sample`: ``key`` (a number),
    ``launch``, ``nbytes``, ``count``, ``time_us``, ``wrong``, ``ran`` (a setting, empty where
    nothing is known), ``unusable`` (why it must not be used, empty where it may), ``pass`` and
    ``line``; and percentiles of single calls under the names that the benchmark gave them.

    Args:
        runs: those that have rows, in order.
        resolver: the options, which also takes the notices.
        launch: id of the whole file; separate runs get ``:1``, ``:2`` … behind it.

    Raises:
        CommandLineError: an option contradicts the file.
        OutputError: something needed is said nowhere.
    """
    import pandas as pd

    runs = resolver.keep_one_environment(runs)
    evidence = [gather_evidence(run) for run in runs]
    facts = [run.facts for run in runs]
    for k, run in enumerate(runs):
        alike = [e for e, said in zip(evidence, facts, strict=True) if _are_alike(said, facts[k])]
        _complete_facts(run, resolver, alike)
        _check_factor(run, resolver, evidence[k])
    resolver.is_mixed = len({resolver.is_chosen(run.first_facts) for run in runs}) > 1
    keys: dict[CurveKey, int] = {}
    parts = []
    for k, run in enumerate(runs):
        _check_baseline(run, resolver)
        _check_average(run, resolver)
        part = _make_run_samples(run, resolver, keys)
        part["launch"] = f"{launch}{RUNS}{k + 1}" if len(runs) > 1 else launch
        parts.append(part)
    return pd.concat(parts, ignore_index=True), tuple(keys)


def make_fingerprint(runs: Iterable[LogRun], resolver: Resolver) -> Fingerprint:
    """The machine, as far as anything tells it.

    Raises:
        CommandLineError: --mode contradicts the file.
        OutputError: two runs of one file name different products.
    """
    whole = LogFacts(line=0)
    for run in runs:
        facts = run.facts
        if whole.product and facts.product and whole.product != facts.product:
            raise OutputError(
                f"the file holds runs of two machines: {whole.product} (line {whole.line}) and "
                f"{facts.product} (line {facts.line})",
                where=resolver.where(facts.line),
                hint="split it and import each machine into a session of its own.",
            )
        hosts = tuple(dict.fromkeys((*whole.hosts, *facts.hosts)))
        # Two processes may each call their only device by the same name.
        new = [each for each in facts.devices if each not in whole.devices]
        devices = (*whole.devices, *(new if whole.devices else facts.devices))
        whole = replace(whole.or_else(facts), hosts=hosts, devices=devices)
        whole = whole if whole.line else replace(whole, line=facts.line)
    assumed = resolver.assumed
    host = assumed.get("host")
    _check_vendor(whole, resolver)
    return Fingerprint(
        product=whole.product or assumed.get("product"),
        arch=whole.arch or assumed.get("arch"),
        cu_count=whole.cu_count or resolver.cu_count,
        mode=resolver.agree("--mode", resolver.stated.mode, whole.mode, whole.line)
        or resolver.mode,
        hosts=whole.hosts or ((host,) if host else ()),
        devices=whole.devices,
        ranks_per_process=whole.ranks_per_process,
        binding=assumed.get("binding"),
        serves=None if vendor_of(whole.product, whole.arch) else whole.vendor,
        simulated=whole.simulated,
    )


def _check_vendor(whole: LogFacts, resolver: Resolver) -> None:
    """Refuse an architecture or product of another vendor's than the file names.

    Raises:
        CommandLineError: as ``--assume arch=gfx942`` for a log of NVIDIA's GPUs.
    """
    vendor = vendor_of(whole.arch, whole.product)
    for key in ("arch", "product"):
        assumed = resolver.assumed.get(key)
        if vendor is not None and vendor_of(assumed) not in (None, vendor):
            raise CommandLineError(
                f"--assume {key}={assumed} contradicts the file, which says "
                f"{whole.product or whole.arch}",
                where=resolver.where(whole.line),
                hint=f"leave it out: the file's own word decides that these are {vendor.value}'s.",
            )


def _make_run_samples(run: LogRun, resolver: Resolver, keys: dict[CurveKey, int]) -> pd.DataFrame:
    """Samples of a run, but for their launch."""
    import numpy as np
    import pandas as pd

    timings = run.timings
    mine = {
        at: resolver.key(run.row_facts[at].or_else(run.facts)) for at in timings["mix"].unique()
    }
    number = {at: keys.setdefault(key, len(keys)) for at, key in mine.items()}
    known = list(keys)
    key = timings["mix"].map(number)

    def of_key(read: Callable[[CurveKey], Any]) -> np.ndarray[Any, Any]:
        return np.array([read(one) for one in known])[key]

    settings = [*run.settings]
    mixes = pd.DataFrame({"key": key, "ran": timings["ran"]})
    if run.executed:
        by_log = _match_log(timings, key, known, run.executed, settings)
        mixes["ran"] = mixes["ran"].where(mixes["ran"] >= 0, by_log)
    mix, first = number_mixes(mixes, ["key", "ran"])
    ran = [(at, None if number < 0 else settings[number]) for at, number in first.to_numpy()]
    wrong = np.ceil(timings["wrong"].clip(upper=MAX_NBYTES)) if "wrong" in timings else np.nan
    count = timings["count"].astype(float) if "count" in timings else np.nan
    rows: pd.DataFrame = pd.DataFrame(
        {
            "key": key,
            "nbytes": timings["nbytes"],
            "count": count,
            "time_us": timings["time_us"],
            "wrong": wrong,
            "ran": np.array([str(one or "") for _, one in ran])[mix],
            "pass": timings["pass"],
            "line": timings["line"],
        }
    )
    for name in filter(is_percentile, map(str, timings)):
        rows[name] = pd.to_numeric(timings[name], errors="coerce")
    # The summary counts wrong half-rows; where none shows which, none can be trusted.
    all_wrong = run.out_of_bounds > 0 and not (rows["wrong"] > 0).any()
    other = [one is not None and known[at].setting.contradicts(one) for at, one in ran]
    forced = of_key(lambda one: one.setting.role is Role.FORCED)
    bypassed = timings["bypassed"].to_numpy() & forced
    # Whatever path an untouched library takes is what it does.
    plain = timings["bypassed"].to_numpy() & ~forced
    flags = (
        (UnusableReason.WRONG, (rows["wrong"] > 0) | all_wrong),
        (UnusableReason.ZERO_BYTES, rows["nbytes"] == 0),
        (UnusableReason.NO_TIME, rows["time_us"].isna()),
        (UnusableReason.ONE_RANK, of_key(lambda one: one.scale.n_ranks == 1)),
        (
            UnusableReason.INCONSISTENT,
            timings["odd"] & ~of_key(lambda one: one.collective.has_own_algbw),
        ),
        (UnusableReason.BYPASSED, bypassed),
        (None, plain),
        *_check_types(rows, of_key),
        (UnusableReason.SUBSTITUTED, np.array(other)[mix]),
        (UnusableReason.UNPROVEN, of_key(lambda one: one.setting.role is Role.UNSTATED)),
    )
    rows["unusable"] = np.select(
        [np.asarray(flag, dtype=bool) for _, flag in flags],
        ["" if doubt is None else doubt.value for doubt, _ in flags],
        "",
    )
    return rows


def _match_log(
    timings: pd.DataFrame,
    key: pd.Series[int],
    keys: Sequence[CurveKey],
    executed: Mapping[tuple[Collective, int], set[Setting]],
    settings: list[Setting | None],
) -> list[int]:
    """Number of what the library's log says it ran at each row's size, -1 unless it is one."""
    numbers = {}
    for call, said in executed.items():
        if len(said) == 1:
            numbers[call] = len(settings)
            settings.extend(said)
    return [
        numbers.get((keys[at].collective, nbytes), -1)
        for at, nbytes in zip(key.tolist(), timings["nbytes"].tolist(), strict=True)
    ]


def _check_average(run: LogRun, resolver: Resolver) -> None:
    """Compare the rows with the benchmark's own summary: a row that is missing shows there."""
    mean = run.mean_busbw
    if run.average is None or mean is None:
        return
    if abs(run.average - mean) > _ROUNDING + _DIGITS * abs(run.average):
        resolver.notice(
            Caution.INCOMPLETE_LOG,
            f"the benchmark's average bus bandwidth is {run.average:g} GB/s, the rows that were "
            f"read give {mean:g}: rows are missing or were changed",
            "compare the log with the original.",
            run.average_line,
        )


def _complete_facts(run: LogRun, resolver: Resolver, evidence: Sequence[RunEvidence]) -> None:
    """Take what the bandwidths alone decide, or ask for all that is said nowhere.

    Args:
        run: one of the file's.
        resolver: the options.
        evidence: of all runs with its facts.

    Raises:
        OutputError: collective, ranks or nodes are missing.
    """
    facts = run.first_facts
    n_ranks = resolver.drop_total_ranks(facts).n_ranks or resolver.stated.n_ranks
    collective = facts.collective or resolver.stated.collective
    clearest = max(evidence, key=lambda one: one.low / one.high) if evidence else RunEvidence()
    hint, text = "", ""
    if collective is None and n_ranks is not None:
        fit = find_collectives(evidence, n_ranks) if clearest.ratio is not None else []
        if len(fit) == 1:
            collective = fit[0]
            text = (
                f"{collective.value}: the only collective with these bus bandwidths on {n_ranks} "
                "ranks"
            )
        elif clearest.text:
            names = " or ".join(f"--collective {one.value}" for one in fit)
            hint = f"{clearest.text}, which fits {names or 'no collective'} on {n_ranks} ranks"
    elif collective is not None and n_ranks is None:
        n_ranks = find_only_ranks(evidence, collective)
        text = f"{n_ranks} ranks: the only number with these bus bandwidths for {collective.value}"
    if text and n_ranks is not None:
        resolver.notice(
            Caution.ASSUMED,
            f"{text} ({clearest.text})",
            "if it was another, say so with --collective and --ranks.",
            clearest.line or facts.line,
        )
        run.facts = run.facts.or_else(
            LogFacts(line=run.facts.line, collective=collective, n_ranks=n_ranks)
        )
    resolver.require(run.first_facts, hint)


def _check_factor(run: LogRun, resolver: Resolver, evidence: RunEvidence) -> None:
    """Compare bandwidths and operation with collective and ranks, where somebody states them.

    Raises:
        CommandLineError: the stated collective or ranks cannot be those of the file.
    """
    # Of groups that the file does not show, the bandwidths' ratio tells that there were any.
    facts = resolver.drop_total_ranks(run.first_facts)
    collective = facts.collective or resolver.stated.collective
    n_ranks = facts.n_ranks or resolver.stated.n_ranks
    if collective is None or n_ranks is None or (facts.collective and facts.hosts):
        return
    if facts.collective is not None and not evidence.allows(facts.collective):
        evidence = replace(evidence, redops=frozenset())
    if evidence.fits(collective, n_ranks):
        return
    factor = busbw_factor(collective, n_ranks)
    fit = find_collectives([evidence], n_ranks)
    number = evidence.find_ranks(collective)
    fits = [f"--collective {one.value}" for one in fit] or [f"--ranks {number}"] * bool(number)
    raise CommandLineError(
        f"{collective.value} on {n_ranks} ranks has busbw = {factor:.4g} × algbw"
        f"{'' if evidence.allows(collective) else ' and another kind of operation'}, but in the "
        f"file {evidence.text}",
        where=resolver.where(evidence.line or run.facts.line),
        hint=f"correct --collective or --ranks{': ' if fits else ''}{' or '.join(fits)}"
        f"{resolver.for_all}.",
    )


def _check_baseline(run: LogRun, resolver: Resolver) -> None:
    """Refuse as a baseline what the benchmark's own columns say to be several settings.

    Raises:
        CommandLineError: --baseline is not what the file shows.
    """
    stated = resolver.stated.setting
    if stated is None or stated.role is not Role.BASELINE or resolver.is_mixed:
        return
    nbytes = None if resolver.is_chosen(run.first_facts) else _find_size_of_several(run)
    if nbytes is not None:
        raise CommandLineError(
            f"--baseline says that nothing was forced, but several settings ran at {nbytes} bytes",
            where=resolver.where(run.facts.line),
            hint="leave out --baseline; measure the site as it is, and import that log with it.",
        )


def _find_size_of_several(run: LogRun) -> int | None:
    """A size at which the benchmark's own columns name more than one setting."""
    named = run.timings[run.timings["ran"] >= 0]
    if not len(named):
        return None
    several = named[named.groupby(["mix", "nbytes"])["ran"].transform("nunique") > 1]
    return int(several["nbytes"].iloc[0]) if len(several) else None


# A tool may write sizes of a share in either way: of one rank, or of all.
_WHOLE: Final = frozenset(
    (Collective.ALL_REDUCE, Collective.BROADCAST, Collective.REDUCE, Collective.SENDRECV)
)


def _check_types(
    rows: pd.DataFrame, of_key: Callable[[Callable[[CurveKey], Any]], np.ndarray[Any, Any]]
) -> Iterable[tuple[UnusableReason, Any]]:
    """Flags where the type is none, or where size and count of elements are not of one row.

    The count is that of one rank's share in newer benchmarks, of the whole in older ones.
    """
    yield (
        UnusableReason.UNKNOWN_TYPE,
        of_key(lambda key: key.dtype is not None and key.dtype not in DTYPE_BYTES),
    )
    width = of_key(lambda key: DTYPE_BYTES.get(key.dtype or "", nan))
    share = of_key(lambda key: 1 if key.collective in _WHOLE else key.scale.n_ranks)
    total = rows["count"] * width
    differs = total.notna() & (total != rows["nbytes"]) & (total * share != rows["nbytes"])
    yield UnusableReason.INCONSISTENT, differs & ~of_key(lambda key: key.collective.has_own_algbw)


def _are_alike(one: LogFacts, other: LogFacts) -> bool:
    """Whether two runs say the same of what ran on how many ranks."""
    return (one.collective, one.n_ranks, one.hosts) == (
        other.collective,
        other.n_ranks,
        other.hosts,
    )
