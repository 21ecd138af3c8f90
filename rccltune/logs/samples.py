"""Drafts to samples: launches numbered, doubts that need the key, notices, the fingerprint."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from rccltune.logs.drafts import Draft, Resolver, Run, Said
from rccltune.model import (
    Caution,
    Collective,
    CommandLineError,
    CurveKey,
    Doubt,
    Fingerprint,
    OutputError,
    Role,
    Sample,
    Setting,
    busbw_factor,
    vendor_of,
)

# Rounding of busbw to two decimals, and of their mean to six digits.
_ROUNDING: Final = 0.0055
_DIGITS: Final = 1e-5
# From here on the two decimals of algbw and busbw tell their ratio to better than one percent.
_TELLING: Final = 5.0
_RATIO_SLACK: Final = 0.01
# The benchmark's two bandwidths differ by more than a factor there.


def samples_of(runs: Sequence[Run], resolver: Resolver, launch: str) -> tuple[Sample, ...]:
    """All samples of a file.

    Args:
        runs: those that have rows, in order.
        resolver: the options, which also takes the notices.
        launch: id of the whole file; separate runs get ``.1``, ``.2`` … behind it.

    Raises:
        CommandLineError: an option contradicts the file.
        OutputError: something needed is said nowhere.
    """
    found: list[Sample] = []
    for k, run in enumerate(runs, 1):
        _check_factor(run, resolver)
        _check_average(run, resolver)
        found.extend(_of_run(run, resolver, f"{launch}.{k}" if len(runs) > 1 else launch))
        run.drafts.clear()
    return tuple(found)


def fingerprint_of(runs: Iterable[Run], resolver: Resolver) -> Fingerprint:
    """The machine, as far as anything tells it.

    Raises:
        CommandLineError: --mode contradicts the file.
        OutputError: two runs of one file name different products.
    """
    whole = Said(line=0)
    for run in runs:
        said = run.said
        if whole.product and said.product and whole.product != said.product:
            raise OutputError(
                f"the file holds runs of two machines: {whole.product} (line {whole.line}) and "
                f"{said.product} (line {said.line})",
                where=resolver.where(said.line),
                hint="split it and import each machine into a session of its own.",
            )
        hosts = tuple(dict.fromkeys((*whole.hosts, *said.hosts)))
        # Two processes may each call their only device by the same name.
        new = [each for each in said.devices if each not in whole.devices]
        devices = (*whole.devices, *(new if whole.devices else said.devices))
        whole = replace(whole.or_else(said), hosts=hosts, devices=devices)
        whole = whole if whole.line else replace(whole, line=said.line)
    assumed = resolver.assumed
    host = assumed.get("host")
    _check_vendor(whole, resolver)
    return Fingerprint(
        product=whole.product or assumed.get("product"),
        arch=whole.arch or assumed.get("arch"),
        cu_count=whole.cu_count or resolver.cu_count,
        mode=resolver.agreed("--mode", resolver.stated.mode, whole.mode, whole.line)
        or resolver.mode,
        hosts=whole.hosts or ((host,) if host else ()),
        devices=whole.devices,
        ranks_per_process=whole.ranks_per_process,
        binding=assumed.get("binding"),
        simulated=whole.simulated,
    )


def _check_vendor(whole: Said, resolver: Resolver) -> None:
    """Refuse an architecture or product of another vendor's than the file names.

    Raises:
        CommandLineError: as ``--assume arch=gfx942`` for a log of NVIDIA's GPUs.
    """
    said = vendor_of(whole.arch, whole.product)
    for key in ("arch", "product"):
        given = resolver.assumed.get(key)
        if said is not None and vendor_of(given) not in (None, said):
            raise CommandLineError(
                f"--assume {key}={given} contradicts the file, which says "
                f"{whole.product or whole.arch}",
                where=resolver.where(whole.line),
                hint=f"leave it out: the file's own word decides that these are {said.value}'s.",
            )


def _of_run(run: Run, resolver: Resolver, launch: str) -> Iterable[Sample]:
    ranks, nodes = run.scale() if run.scale is not None else (None, None)
    log = Said(line=run.said.line, n_ranks=ranks, n_nodes=nodes)
    keys: dict[Said, CurveKey] = {}
    # The summary counts wrong half-rows; where none shows which, none can be trusted.
    all_wrong = run.out_of_bounds > 0 and not any(draft[4] for draft in run.drafts)
    for line, nbytes, count, time_us, n_wrong, own, cycle, ran, said in run.drafts:
        key = keys.get(said)
        if key is None:
            key = keys[said] = resolver.key(said.or_else(log) if said.n_ranks is None else said)
        executed = ran
        if ran is None and run.executed:
            executed = _only(run.executed.get((key.collective, nbytes)))
        doubt = own
        if all_wrong:
            doubt = Doubt.WRONG
        elif own is Doubt.BYPASSED or (
            own is not Doubt.WRONG and (executed is not None or key.scale.n_ranks == 1)
        ):
            doubt = _doubt(own, key, executed)
        yield Sample(
            key=key,
            launch=launch,
            nbytes=nbytes,
            time_us=time_us,
            cycle=cycle,
            count=count,
            n_wrong=n_wrong,
            doubt=doubt,
            executed=executed,
            line=line,
        )


def _doubt(own: Doubt | None, key: CurveKey, executed: Setting | None) -> Doubt | None:
    """Doubt from the row's own numbers, else from what it is compared with."""
    if own in (Doubt.ZERO_BYTES, Doubt.NO_TIME):
        return own
    if key.scale.n_ranks == 1:
        return Doubt.ONE_RANK
    if own is None and executed is not None and key.setting.contradicts(executed):
        return Doubt.SUBSTITUTED
    if own is Doubt.BYPASSED and key.setting.role is not Role.FORCED:
        # Whatever path an untouched library takes is what it does.
        return None
    return own


def _only(settings: set[Setting] | None) -> Setting | None:
    return next(iter(settings)) if settings is not None and len(settings) == 1 else None


def _check_average(run: Run, resolver: Resolver) -> None:
    """Compare the rows with the benchmark's own summary: a row that is missing shows there."""
    if run.average is None or not run.n_busbw:
        return
    if abs(run.average - run.mean_busbw) > _ROUNDING + _DIGITS * abs(run.average):
        resolver.notice(
            Caution.INCOMPLETE_LOG,
            f"the benchmark's average bus bandwidth is {run.average:g} GB/s, the rows that were "
            f"read give {run.mean_busbw:g}: rows are missing or were changed",
            "compare the log with the original.",
            run.average_line,
        )


def _check_factor(run: Run, resolver: Resolver) -> None:
    """Compare busbw/algbw with what collective and ranks imply, where the user stated them.

    Raises:
        CommandLineError: the stated collective or ranks cannot be those of the file.
    """
    if not run.drafts:
        return
    algbw, busbw, line = run.peak
    # Of groups that the file does not show, the bandwidths' ratio tells that there were any.
    said = resolver.of_one_group(_with_scale(run))
    collective = said.collective or resolver.stated.collective
    ranks = said.n_ranks or resolver.stated.n_ranks
    if algbw < _TELLING or ranks is None:
        return
    ratio = busbw / algbw
    if collective is None:
        raise OutputError(
            "the file does not say which collective it measured",
            where=resolver.where(run.said.line),
            hint=f"add --collective: {_fitting(ratio, ranks)}.",
        )
    if collective.has_own_algbw or (said.collective and said.n_ranks):
        return
    expected = busbw_factor(collective, ranks)
    if abs(ratio - expected) > _RATIO_SLACK * max(expected, 0.1):
        raise CommandLineError(
            f"{collective.value} on {ranks} ranks has busbw = {expected:.3g} × algbw, but the "
            f"file shows {ratio:.3g}",
            where=resolver.where(line),
            hint=f"correct --collective or --ranks: {_fitting(ratio, ranks)}.",
        )


def _with_scale(run: Run) -> Said:
    ranks, nodes = run.scale() if run.scale is not None else (None, None)
    return run.said.or_else(Said(line=0, n_ranks=ranks, n_nodes=nodes))


def _fitting(ratio: float, ranks: int) -> str:
    """Collectives that a ratio of bus to algorithm bandwidth fits."""
    names = [
        each.value
        for each in Collective
        if not each.has_own_algbw
        and abs(ratio - busbw_factor(each, ranks)) <= _RATIO_SLACK * max(ratio, 0.1)
    ]
    fits = " or ".join(names) or "no collective"
    return f"busbw/algbw = {ratio:.3g} fits {fits} on {ranks} ranks"


def drop_repeats(drafts: list[Draft], resolver: Resolver) -> list[Draft]:
    """Drop rows that say the same again.

    Raises:
        OutputError: a size is there twice with other values.
    """
    seen: dict[tuple[int, int, int], Draft] = {}
    kept: list[Draft] = []
    for draft in drafts:
        line, nbytes, _, time_us, _, _, cycle, _, said = draft
        # Equal keys are one object there, which is far faster to look up than to compare.
        key = resolver.key(said)
        first = seen.setdefault((id(key), nbytes, cycle), draft)
        if first is draft or nbytes == 0:
            kept.append(draft)
        elif first[3] != time_us:
            raise OutputError(
                f"{key.setting} at {nbytes} bytes stands in lines {first[0]} and {line} with "
                "other values",
                where=resolver.where(line),
                hint="add a column 'repeat' that numbers the runs, or one that tells the two "
                "settings apart.",
            )
    return kept
