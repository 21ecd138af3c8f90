"""Timings to samples: launches numbered, flags that need the key, notices, the fingerprint."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rccltune.logs.busbw_ratio import check_ratios
from rccltune.logs.columns import is_percentile
from rccltune.logs.facts import LogFacts, LogRun
from rccltune.logs.resolver import Resolver
from rccltune.logs.unusable_timings import why_unusable_timings
from rccltune.model.errors import CommandLineError, OutputError
from rccltune.model.measurement import RUNS, Caution, Fingerprint
from rccltune.model.settings import CurveKey, Role, Setting, vendor_of
from rccltune.model.units import MAX_NBYTES

if TYPE_CHECKING:
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
    check_ratios(runs, resolver)
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
    assumed = resolver.assumptions
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
    """Refuse an architecture or product of another vendor's than the file names."""
    vendor = vendor_of(whole.arch, whole.product)
    for key in ("arch", "product"):
        assumed = resolver.assumptions.get(key)
        if vendor is not None and vendor_of(assumed) not in (None, vendor):
            raise CommandLineError(
                f"--assume {key}={assumed} contradicts the file, which says "
                f"{whole.product or whole.arch}",
                where=resolver.where(whole.line),
                hint=f"leave it out: the file's own word decides that these are {vendor.value}'s.",
            )


def _make_run_samples(run: LogRun, resolver: Resolver, keys: dict[CurveKey, int]) -> pd.DataFrame:
    """Samples of a run, but for their launch; its curves are added to the keys."""
    import numpy as np
    import pandas as pd

    timings = run.timings
    numbers = {}
    for mix in timings["mix"].unique():
        curve = resolver.key(run.row_facts[mix].or_else(run.facts))
        numbers[mix] = keys.setdefault(curve, len(keys))
    key, curves = timings["mix"].map(numbers), list(keys)
    ran, settings = _find_ran(run, key, curves)
    rows: pd.DataFrame = pd.DataFrame(
        {
            "key": key,
            "nbytes": timings["nbytes"],
            "count": timings["count"].astype(float) if "count" in timings else np.nan,
            "time_us": timings["time_us"],
            "wrong": np.ceil(timings["wrong"].clip(upper=MAX_NBYTES))
            if "wrong" in timings
            else np.nan,
            "ran": np.array([str(one or "") for one in settings])[ran],
            "pass": timings["pass"],
            "line": timings["line"],
        }
    )
    for name in filter(is_percentile, map(str, timings)):
        rows[name] = pd.to_numeric(timings[name], errors="coerce")
    rows["unusable"] = why_unusable_timings(run, rows, curves, ran, settings)
    return rows


def _find_ran(
    run: LogRun, key: pd.Series[int], curves: Sequence[CurveKey]
) -> tuple[pd.Series[int], list[Setting | None]]:
    """Number of the setting that ran at each row, and the settings; -1 is the last of them, none.

    Where the row does not say it, the library's log does, if it names one for the call.
    """
    settings = [*run.settings]
    by_call = {}
    for call, executed in run.executed_settings.items():
        if len(executed) == 1:
            by_call[call] = len(settings)
            settings.extend(executed)
    ran = run.timings["ran"]
    if by_call:
        calls = zip(key.tolist(), run.timings["nbytes"].tolist(), strict=True)
        by_log = [by_call.get((curves[at].collective, nbytes), -1) for at, nbytes in calls]
        ran = ran.where(ran >= 0, by_log)
    return ran, [*settings, None]


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


def _check_baseline(run: LogRun, resolver: Resolver) -> None:
    """Refuse as a baseline what the benchmark's own columns say to be several settings."""
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
    rows = run.timings[run.timings["ran"] >= 0]
    if not len(rows):
        return None
    several = rows[rows.groupby(["mix", "nbytes"])["ran"].transform("nunique") > 1]
    return int(several["nbytes"].iloc[0]) if len(several) else None
