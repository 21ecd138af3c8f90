"""Rules against the untouched site on the machine itself: what stands, and what is left of it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from rccltune import emit, interrupts, plan, session, simnode, verify
from rccltune.emit import Change, RuleFile
from rccltune.errors import CommandLineError, InputFileError, VerificationError
from rccltune.model import Rule, Sweep
from rccltune.pipeline import placing, verdicts
from rccltune.pipeline.emitting import VERIFIED_MARK, file_name
from rccltune.pipeline.hosting import same_hosts
from rccltune.pipeline.leftovers import end_leftovers
from rccltune.pipeline.preparing import NODE_FILE
from rccltune.pipeline.site import Site
from rccltune.pipeline.trials import FOLDER, Ground, Held, Note, Proven, hold, of_scale
from rccltune.units import format_size
from rccltune.verify import Cut, Standing, Weighed
from rccltune.vocab import Collective

# What remains is verified again; a file that still changes after so many rounds never settles.
_MOST_ROUNDS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyWish:
    """What verify was asked for.

    Attributes:
        folder: the session, in which launches and the verdict are kept.
        rules: the file to verify.
        output: where what stands goes.
        min_gain: what a rule must gain over its range, 0.02 for 2 %.
        n_rounds: launches of each arm at each size.
        dtypes: further element types under which no rule may lose.
        graphs: further numbers of graph replays, likewise; 0 is none.
        besides: collectives and sizes that run at the same time, likewise.
        keep_losers: leave the file as it is, whatever loses.
    """

    folder: Path
    rules: Path
    output: Path
    min_gain: float = 0.02
    n_rounds: int = 3
    keep_losers: bool = False
    timeout_s: float | None = None
    dtypes: tuple[str, ...] = ()
    graphs: tuple[int, ...] = ()
    besides: tuple[tuple[Collective, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """How a verification ended.

    Attributes:
        text: the file as it stands.
        held: every condition of the last round.
        standings: rules of the last round.
        cuts: what was taken away in all rounds.
        n_before: rules that the file had for this scale.
    """

    path: Path | None
    text: str
    held: tuple[Held, ...]
    standings: tuple[Standing, ...]
    cuts: tuple[Cut, ...]
    n_before: int
    n_after: int
    n_launches: int
    n_rounds: int
    simulated: bool

    @property
    def weighed(self) -> tuple[Weighed, ...]:
        """Every size in every condition."""
        return tuple(one for held in self.held for one in held.weighed)

    @property
    def n_hits(self) -> int:
        """Calls that a rule answered."""
        return sum(sum(held.proven.hits.values()) for held in self.held)

    @property
    def n_misses(self) -> int:
        """Calls for which there is no rule, and none answered."""
        return sum(held.proven.misses for held in self.held)

    @property
    def losers(self) -> tuple[Standing, ...]:
        """Rules that do not stand as they are."""
        return tuple(one for one in self.standings if not one.stands)

    def as_plain(self) -> dict[str, Any]:
        """For verdict.json and --json."""
        return {
            "path": str(self.path) if self.path else None,
            "simulated": self.simulated,
            "rules_before": self.n_before,
            "rules": self.n_after,
            "rounds": self.n_rounds,
            "launches": self.n_launches,
            "conditions": [_plain(held) for held in self.held],
            "verdicts": session.to_plain(tuple(one.verdict for one in self.weighed)),
            "standings": [
                {
                    **session.to_plain(one.rule),
                    "certainty": one.certainty,
                    "sizes": len({w.verdict.nbytes for w in one.sizes}),
                    "stands": one.stands,
                }
                for one in self.standings
            ],
            "cuts": session.to_plain(self.cuts),
            "sha256": sorted({digest for held in self.held for digest in held.proven.hashes}),
        }


def _plain(held: Held) -> dict[str, Any]:
    proven = held.proven
    return {
        "name": str(held.condition),
        "launches": held.n_launches,
        "hits": dict(proven.hits),
        "misses": proven.misses,
        "not_selectable": {k: sorted(v) for k, v in proven.skipped.items()},
        "bypassed": {k.value: sorted(v) for k, v in proven.bypassed.items()},
    }


def verify_rules(wish: VerifyWish, sweep: Sweep, site: Site, *, note: Note) -> Verified:
    """Verify a file, narrow it until all that is left stands, and write that.

    Interrupted at any moment, the same command goes on with the launches that are missing.

    Raises:
        InputFileError: the plugin refuses the file.
        CommandLineError: it has no rule for this scale.
        MachineError: several hosts are not alike.
        LaunchError: the untouched benchmark does not work.
        VerificationError: wrong results without rules, a job that hangs or crashes with them, or
            a plugin that does not do what the file says.
    """
    text = _text_of(wish.rules)
    file = _read(text, wish.rules)
    n_before = len(_ours(file, site))
    if not n_before:
        raise CommandLineError(
            f"no rule of this file is for {site.scale}",
            where=str(wish.rules),
            hint="emit one first (rccltune emit-config), or start as many ranks (--np).",
        )
    ground = Ground(
        folder=wish.folder / FOLDER,
        conditions=plan.conditions(
            replace(sweep, rank_placement=site.seating.place.name, scales=(site.scale,)),
            dtypes=wish.dtypes,
            graphs=wish.graphs,
            besides=wish.besides,
        ),
        site=site,
        n_rounds=wish.n_rounds,
        timeout_s=wish.timeout_s,
        note=note,
    )
    name = verdicts.verdict_name(wish.output, wish.folder, file_name(site.fingerprint))
    with (
        verdicts.kept(wish.folder, name, wish.rules),
        session.writing(ground.folder, note),
        interrupts.interruptible(),
    ):
        end_leftovers(ground.folder, note)
        same_hosts(site, ground.folder, note=note, rules=wish.rules)
        if site.node is not None:
            session.write_atomically(ground.folder / NODE_FILE, simnode.written(site.node))
        state = _settled(wish, ground, text)
        if not wish.keep_losers:
            _refuse(state, ground)
    final = text if wish.keep_losers else _with_evidence(state, site)
    path = None if wish.keep_losers else wish.output
    if path is not None:
        session.write_atomically(path, final)
    made = Verified(
        path=path,
        text=final,
        held=state.held,
        standings=state.standings,
        cuts=state.cuts,
        n_before=n_before,
        n_after=len(_ours(state.file, site)),
        n_launches=state.n_launches,
        n_rounds=state.n_rounds,
        simulated=site.node is not None,
    )
    session.write_derived(wish.folder, name, made.as_plain())
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    """A file, and what the last round said of it.

    Attributes:
        losing: what would have to go after the last round; empty where all stands.
        cuts: what went in the rounds before.
    """

    text: str
    file: RuleFile
    held: tuple[Held, ...]
    standings: tuple[Standing, ...]
    losing: tuple[Cut, ...]
    cuts: tuple[Cut, ...]
    n_launches: int
    n_rounds: int


def _settled(wish: VerifyWish, ground: Ground, text: str) -> _State:
    """Round after round, until all that is left stands, nothing is left, or it does not settle."""
    cuts: tuple[Cut, ...] = ()
    n_launches = 0
    for number in itertools.count(1):
        state = _judged(wish, ground, text)
        n_launches += state.n_launches
        state = replace(state, cuts=cuts, n_rounds=number, n_launches=n_launches)
        harmed = _harmed(state, of_scale(state.file, ground.site))
        if harmed and state.file.needs and not wish.keep_losers and number < _MOST_ROUNDS:
            # What rules need may harm where no rule is; without it some are not selectable.
            ground.note(f"what the rules need is taken away: slower without a rule is {harmed}")
            text = _without_needs(text)
            continue
        if not state.losing or wish.keep_losers or number == _MOST_ROUNDS:
            return state
        for cut in state.losing:
            ground.note(f"{_span(cut)} goes back to the untouched library: {cut.reason}")
        cuts += state.losing
        text = _without(text, state.file, state.losing, ground.site)
        file = _read(text, wish.rules)
        if not _ours(file, ground.site):
            return replace(state, text=text, file=file, held=(), standings=(), losing=(), cuts=cuts)
    raise AssertionError("counting ends with a return")


def _without_needs(text: str) -> str:
    """The file without what it asks of the environment."""
    kept = (line for line in text.splitlines() if not line.startswith("#@ needs "))
    return "\n".join(kept) + "\n"


def _judged(wish: VerifyWish, ground: Ground, text: str) -> _State:
    """One round."""
    site = ground.site
    file = _read(text, wish.rules)
    rules = of_scale(file, site)
    held = hold(ground, file, text)
    usable = [w for one in held for w in one.weighed if _answered(w, one.proven, rules)]
    own = _ours(file, site)
    found = verify.standings(own, site.scale, usable, wish.min_gain)
    losing = [cut for one in found for cut in one.cuts]
    return _State(
        text=text,
        file=file,
        held=held,
        standings=found,
        losing=(*losing, *_unasked(own, found, held[0].proven)),
        cuts=(),
        n_launches=sum(one.n_launches for one in held),
        n_rounds=1,
    )


def _refuse(state: _State, ground: Ground) -> None:
    """Nothing is written of what does not settle, or harms where no rule is.

    Raises:
        VerificationError: it does.
    """
    if state.losing:
        raise VerificationError(
            f"after {state.n_rounds} rounds rules still lose: the machine does not repeat itself",
            where=str(ground.folder),
            hint="look for other jobs and changing clocks (rccltune doctor), then verify again.",
        )
    harmed = _harmed(state, of_scale(state.file, ground.site))
    if harmed:
        raise VerificationError(
            f"sizes that no rule is for are slower than in the untouched site: {harmed}",
            where=str(ground.folder),
            hint=f"{_why_harmed(state.file)} Nothing was written.",
        )


def _why_harmed(file: RuleFile) -> str:
    if any(rule.vendor for rule in file.rules):
        return (
            "the base is not what this library has: emit the rules over its own (--base auto), or "
            "over none."
        )
    return (
        "what the rules need in the environment harms them: emit rules for another one (rccltune "
        "emit-config --variant default)."
    )


def _text_of(path: Path) -> str:
    """The file without what an earlier verification said."""
    try:
        text = path.read_bytes().decode("utf-8", "replace")
    except OSError as error:
        raise InputFileError(
            f"the rule file cannot be read: {error.strerror}",
            where=str(path),
            hint="write one with rccltune emit-config, or name another with --rules.",
        ) from error
    kept = (line for line in text.splitlines() if not line.startswith(f"# {VERIFIED_MARK}"))
    return "\n".join(kept) + "\n"


def rule_file_of(folder: Path, site: Site) -> Path:
    """The session's own rule file for these ranks, of their placement where there is one."""
    plain = folder / file_name(site.fingerprint)
    placed = folder / placing.file_name(plain.name, site.seating.place.name)
    return placed if placed.exists() else plain


def _read(text: str, where: Path) -> RuleFile:
    file = emit.read_rules(text.encode())
    if file.errors:
        listed = "\n".join(f"  {where}:{f.line}: {f.message} [{f.code}]" for f in file.errors)
        raise InputFileError(f"the plugin refuses this file:\n{listed}", where=str(where))
    return file


def _ours(file: RuleFile, site: Site) -> tuple[Rule, ...]:
    """Rules of this scale that are to win; a vendor's behind them are what the site has anyway."""
    return tuple(rule for rule in of_scale(file, site) if not rule.vendor)


def _answered(one: Weighed, proven: Proven, rules: Sequence[Rule]) -> bool:
    """Whether it was the rule for this size that answered, and no path, fallback or nobody."""
    target, nbytes = one.verdict.target, one.verdict.nbytes
    collective = target.collective
    first = next((r for r in rules if r.matches(collective, nbytes, target.scale)), None)
    if first is None or first.vendor or nbytes in proven.bypassed.get(collective, ()):
        return False
    return nbytes not in proven.skipped.get(first.line or 0, ())


def _harmed(state: _State, rules: Sequence[Rule]) -> str:
    """Sizes that no rule answered and that are slower or wrong, in words; empty where none is."""
    found: dict[Collective, set[int]] = {}
    for held in state.held:
        free = (one for one in held.weighed if not _answered(one, held.proven, rules))
        for one in verify.harmed(free):
            found.setdefault(one.verdict.target.collective, set()).add(one.verdict.nbytes)
    return "; ".join(
        f"{one.value} at {len(sizes)}, {format_size(min(sizes))} to {format_size(max(sizes))}"
        for one, sizes in found.items()
    )


def _unasked(rules: Sequence[Rule], standings: Iterable[Standing], proven: Proven) -> list[Cut]:
    """Rules that nobody asked: under a path, or never selectable."""
    seen = {id(one.rule) for one in standings}
    lines = {one.rule.line for one in standings}
    found = []
    for rule in rules:
        if id(rule) in seen or rule.line in lines:
            continue
        sizes = proven.bypassed.get(rule.collective, set())
        inside = [n for n in sizes if rule.min_nbytes <= n <= rule.max_nbytes]
        skipped = proven.skipped.get(rule.line or 0)
        if not inside and not skipped:
            continue
        reason = "a path takes the calls before a tuner is asked" if inside else "not selectable"
        found.append(
            Cut(
                collective=rule.collective,
                min_nbytes=rule.min_nbytes,
                max_nbytes=rule.max_nbytes,
                reason=reason,
                # Behind one that is not selectable a fallback may stand well.
                line=None if inside else rule.line,
            )
        )
    return found


def _without(text: str, file: RuleFile, cuts: Sequence[Cut], site: Site) -> str:
    """The file with regions cut out of every rule of this scale, fallbacks too."""
    changes: dict[int, Change] = {}
    holes: set[tuple[int, int, str]] = set()
    for rule in _ours(file, site):
        mine = [cut for cut in cuts if cut.is_of(rule)]
        parts = verify.without(rule, mine)
        if parts == (rule,) or rule.line is None:
            continue
        inside = []
        for cut in mine:
            low = max(cut.min_nbytes, rule.min_nbytes)
            high = min(cut.max_nbytes, rule.max_nbytes)
            if low <= high and (low, high, cut.reason) not in holes:
                holes.add((low, high, cut.reason))
                inside.append((low, high, f"verified: {cut.reason}"))
        why = "; ".join(dict.fromkeys(cut.reason for cut in mine))
        changes[rule.line] = Change(
            parts=parts,
            evidence=f"verify: was {rule.min_nbytes} to {rule.max_nbytes}; {why}",
            holes=tuple(inside),
        )
    return emit.rewritten(text, changes, ())


def _with_evidence(state: _State, site: Site) -> str:
    """The file with what its rules rest on."""
    changes = {
        one.rule.line: Change(parts=(one.rule,), evidence=_evidence(one))
        for one in state.standings
        if one.rule.line is not None
    }
    where = "SIMULATED, no hardware" if site.node is not None else "on this machine"
    n = state.n_rounds
    head = f"{VERIFIED_MARK} against the untouched site, {where}, {site.scale}, {n} round"
    others = [str(one.condition) for one in state.held if not one.condition.is_own]
    also = (f"{VERIFIED_MARK} nowhere slower under: {', '.join(others)}",) if others else ()
    return emit.rewritten(state.text, changes, (head + ("s" if n > 1 else ""), *also))


def _evidence(one: Standing) -> str:
    ratios = one.ratios
    return (
        f"{VERIFIED_MARK} {one.median:.2f} times as fast in the median "
        f"({ratios[0]:.2f} to {ratios[-1]:.2f}) at {one.n_gaining} sizes; "
        f"gain certain to {100 * one.certainty:.1f} %"
    )


def _span(cut: Cut) -> str:
    return f"{cut.collective.value} {format_size(cut.min_nbytes)} to {format_size(cut.max_nbytes)}"
