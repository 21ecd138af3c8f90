"""Drafts to samples: launches numbered, flags that need the key, notices, the fingerprint."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from rccltune.logs import who
from rccltune.logs.drafts import Draft, Run, Said
from rccltune.logs.evidence import Evidence, evidence_of, proposed, sole
from rccltune.logs.resolver import Resolver
from rccltune.model.errors import CommandLineError, OutputError
from rccltune.model.measured import RUNS, Caution, Fingerprint, Sample
from rccltune.model.settings import CurveKey, Role, Setting, vendor_of
from rccltune.model.vocabulary import DTYPE_BYTES, Collective, Doubt, busbw_factor

# Rounding of busbw to two decimals, and of their mean to six digits.
_ROUNDING: Final = 0.0055
_DIGITS: Final = 1e-5


def samples_of(runs: Sequence[Run], resolver: Resolver, launch: str) -> tuple[Sample, ...]:
    """All samples of a file.

    Args:
        runs: those that have rows, in order.
        resolver: the options, which also takes the notices.
        launch: id of the whole file; separate runs get ``:1``, ``:2`` … behind it.

    Raises:
        CommandLineError: an option contradicts the file.
        OutputError: something needed is said nowhere.
    """
    resolver.is_mixed = len({_is_chosen(run) for run in runs}) > 1
    found: list[Sample] = []
    for k, run in enumerate(runs, 1):
        facts = run.said
        told = [evidence_of(one) for one in runs if one.drafts and _is_like(one.said, facts)]
        _ask(run, resolver, told)
        _check_factor(run, resolver)
        _check_baseline(run, resolver)
        _check_average(run, resolver)
        found.extend(_of_run(run, resolver, f"{launch}{RUNS}{k}" if len(runs) > 1 else launch))
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
    log = replace(_late(run), line=run.said.line).or_else(run.said)
    keys: dict[Said, CurveKey] = {}
    # The summary counts wrong half-rows; where none shows which, none can be trusted.
    all_wrong = run.out_of_bounds > 0 and not any(draft[4] for draft in run.drafts)
    for line, nbytes, count, time_us, n_wrong, printed, cycle, ran, said in run.drafts:
        key = keys.get(said)
        if key is None:
            key = keys[said] = resolver.key(said.or_else(log))
        own = printed or _of_type(key, nbytes, count)
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
    """Flag from the row's own numbers, else from what it is compared with."""
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


def _ask(run: Run, resolver: Resolver, told: Sequence[Evidence]) -> None:
    """Take the only candidate for what is said nowhere, or ask for it, with what the rows fit.

    Args:
        run: one of the file's.
        resolver: the options.
        told: what all runs of its facts tell.

    Raises:
        OutputError: collective, ranks or nodes are missing.
    """
    said = _of_first_row(run)
    n_ranks = resolver.of_one_group(said).n_ranks or resolver.stated.n_ranks
    collective = said.collective or resolver.stated.collective
    fits = ""
    if collective is None or n_ranks is None:
        evidence = evidence_of(run)
        found = sole(told, collective, n_ranks)
        if found is None:
            fits = proposed(evidence, collective, n_ranks)
        else:
            name, number = found
            text = (
                f"{name.value}: the only collective with these bus bandwidths on {number} ranks"
                if collective is None
                else f"{number} ranks: the only number with these bus bandwidths for {name.value}"
            )
            best = max(told, key=lambda one: one.low / one.high)
            resolver.notice(
                Caution.ASSUMED,
                f"{text} ({best.shown})",
                "if it was another, say so with --collective and --ranks.",
                best.line or said.line,
            )
            run.said = run.said.or_else(Said(line=run.said.line, collective=name, n_ranks=number))
            said = said.or_else(run.said)
    resolver.ask(said, fits)


def _check_factor(run: Run, resolver: Resolver) -> None:
    """Compare bandwidths and operation with collective and ranks, where the user stated them.

    Raises:
        CommandLineError: the stated collective or ranks cannot be those of the file.
    """
    # Of groups that the file does not show, the bandwidths' ratio tells that there were any.
    said = resolver.of_one_group(_of_first_row(run))
    collective = said.collective or resolver.stated.collective
    n_ranks = said.n_ranks or resolver.stated.n_ranks
    if collective is None or n_ranks is None or (said.collective and said.n_ranks):
        return
    evidence = evidence_of(run)
    if said.collective is not None and not evidence.allows(said.collective):
        evidence = replace(evidence, redops=frozenset())
    if evidence.fits(collective, n_ranks):
        return
    free = None if said.collective is None else said.collective, said.n_ranks
    factor = busbw_factor(collective, n_ranks)
    raise CommandLineError(
        f"{collective.value} on {n_ranks} ranks has busbw = {factor:.4g} × algbw"
        f"{'' if evidence.allows(collective) else ' and another kind of operation'}, but in the "
        f"file {evidence.shown}",
        where=resolver.where(evidence.line or run.said.line),
        hint=f"correct --collective or --ranks: {proposed(evidence, *free)}.",
    )


def _check_baseline(run: Run, resolver: Resolver) -> None:
    """Refuse several settings, or a forced choice, that the user calls the baseline.

    Raises:
        CommandLineError: --baseline is not what the file shows.
    """
    if resolver.stated.setting is None or resolver.stated.setting.role is not Role.BASELINE:
        return
    if _setting_said(run) is not None or resolver.is_mixed:
        return
    forced = who.forced(_variables(run))
    what = f"{' '.join(f'{n}={v}' for n, v in forced.items())} was set" if forced else None
    if run.schedule is not None and (line := run.schedule()):
        what = f"our plugin's schedule tried one setting after the other (line {line})"
    elif (nbytes := _several(run)) is not None:
        what = f"several settings ran at {nbytes} bytes"
    elif run.plugin is not None and run.plugin() and _in_passes(run):
        what = (
            "our plugin was loaded and sizes were timed in several passes, as a schedule has them"
        )
    if what is not None:
        raise CommandLineError(
            f"--baseline says that nothing was forced, but {what}",
            where=resolver.where(run.said.line),
            hint="leave out --baseline; measure the site as it is, and import that log with it.",
        )


def _several(run: Run) -> int | None:
    """A size at which the benchmark's own columns name more than one setting."""
    seen: dict[tuple[int, int], Setting] = {}
    for draft in run.drafts:
        if draft[7] is not None and seen.setdefault((draft[1], id(draft[8])), draft[7]) != draft[7]:
            return draft[1]
    return None


def _in_passes(run: Run) -> bool:
    """Whether its largest size came again; small ones may be rounded to the same number."""
    largest = max((draft[1] for draft in run.drafts), default=0)
    return any(draft[1] == largest and draft[6] > 0 for draft in run.drafts)


# A tool may write sizes of a share in either way: of one rank, or of all.
_WHOLE: Final = frozenset(
    (Collective.ALL_REDUCE, Collective.BROADCAST, Collective.REDUCE, Collective.SENDRECV)
)


def _of_type(key: CurveKey, nbytes: int, count: int | None) -> Doubt | None:
    """Flag where the type is none, or where size and count of elements are not of one row.

    The count is that of one rank's share in newer benchmarks, of the whole in older ones.
    """
    if key.dtype is None:
        return None
    width = DTYPE_BYTES.get(key.dtype)
    if width is None:
        return Doubt.UNKNOWN_TYPE
    if count is None or count * width == nbytes or key.collective.has_own_algbw:
        return None
    if key.collective not in _WHOLE and count * width * key.scale.n_ranks == nbytes:
        return None
    return Doubt.INCONSISTENT


def _late(run: Run) -> Said:
    """What only the whole file tells about a run."""
    ranks, nodes = run.scale() if run.scale is not None else (None, None)
    variables = _variables(run)
    setting = _forced_setting(run)
    several = ", ".join(f"{n}={v}" for n, v in who.forced(variables).items()) if not setting else ""
    chosen_by = who.tuner(variables) or several or who.others(variables) or None
    return Said(line=0, n_ranks=ranks, n_nodes=nodes, setting=setting, chosen_by=chosen_by)


def _variables(run: Run) -> dict[str, str]:
    """Variables that choose: what the library itself says goes before a command."""
    return run.ordered | run.forced


def _forced_setting(run: Run) -> Setting | None:
    return who.forced_setting(_variables(run))


def _setting_said(run: Run) -> Setting | None:
    first = run.drafts[0][8].setting if run.drafts else None
    return first or run.said.setting or _forced_setting(run)


def _is_like(one: Said, other: Said) -> bool:
    """Whether two runs say the same of what ran on how many ranks."""
    return (one.collective, one.n_ranks, one.hosts) == (
        other.collective,
        other.n_ranks,
        other.hosts,
    )


def _is_chosen(run: Run) -> bool:
    """Whether something else than the site as it is chose what ran."""
    return _setting_said(run) is not None or _late(run).chosen_by is not None


def _of_first_row(run: Run) -> Said:
    said = run.drafts[0][8] if run.drafts else run.said
    return said.or_else(run.said).or_else(_late(run))


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
