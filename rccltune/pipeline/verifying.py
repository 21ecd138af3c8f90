"""Rules against the untouched site on the machine itself: what stands, and what is left of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rccltune import emit, grammar, interrupts, plan, session, simnode
from rccltune.emit import Change
from rccltune.errors import CommandLineError, InputFileError
from rccltune.model import Sweep
from rccltune.pipeline import placing, verdicts
from rccltune.pipeline.accepting import accepted
from rccltune.pipeline.emitting import file_name
from rccltune.pipeline.hosting import same_hosts
from rccltune.pipeline.leftovers import end_leftovers
from rccltune.pipeline.preparing import NODE_FILE
from rccltune.pipeline.settling import Settled, Wanted, ours, refuse, settle
from rccltune.pipeline.site import Site
from rccltune.pipeline.trials import FOLDER, Ground, Held, Note
from rccltune.pipeline.writing import VERIFIED_MARK
from rccltune.verify import Cut, Standing, Weighed
from rccltune.vocab import Collective


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyWish:
    """What verify was asked for.

    Attributes:
        folder: the session, in which launches and the verdict are kept.
        rules: the file to verify.
        output: where what stands goes.
        min_gain: what a rule must gain over its range, 0.02 for 2 %.
        n_repeats: launches of each arm at each size.
        dtypes: further element types under which no rule may lose.
        graphs: further numbers of graph replays, likewise; 0 is none.
        besides: collectives and sizes that run at the same time, likewise.
        keep_losers: leave the file as it is, whatever loses.
    """

    folder: Path
    rules: Path
    output: Path
    min_gain: float = 0.02
    n_repeats: int = 3
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
        needs: what the file asks of the environment, name and value.
        lost_needs: variables that the file asked for and no longer does: they do harm.
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
    needs: tuple[tuple[str, str], ...] = ()
    lost_needs: tuple[str, ...] = ()

    @property
    def unruled(self) -> tuple[Weighed, ...]:
        """Sizes measured as the sweep was that belong to no rule."""
        ruled = {id(one) for standing in self.standings for one in standing.sizes}
        own = (one for held in self.held if held.condition.is_own for one in held.weighed)
        return tuple(one for one in own if id(one) not in ruled)

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
            "needs": dict(self.needs),
            "lost_needs": list(self.lost_needs),
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
        InputFileError: the plugin refuses the file, or RCCL would cut a line of it.
        CommandLineError: it has no rule, or none for this scale.
        MachineError: several hosts are not alike.
        LaunchError: the untouched benchmark does not work.
        HarmError: sizes that no rule is for are slower or wrong.
        VerificationError: wrong results without rules, a job that hangs or crashes with them, or
            a plugin that does not do what the file says.
    """
    text = _text_of(wish.rules)
    file = accepted(text.encode(), wish.rules)
    n_before = len(ours(file, site))
    if not file.rules:
        raise CommandLineError(
            "this file has no rule, so there is nothing to verify",
            where=str(wish.rules),
            hint="the library chooses as it did; the file's #@ hole lines say why at each size.",
        )
    if not n_before:
        raise CommandLineError(
            f"no rule of this file is for {site.scale}",
            where=str(wish.rules),
            hint="emit one first (rccltune emit-config), or start as many ranks (--np).",
        )
    # A line that cannot be written again is told now, and not when all is measured.
    emit.rewritten(text, {}, ())
    ground = Ground(
        folder=wish.folder / FOLDER,
        conditions=plan.conditions(
            replace(sweep, rank_placement=site.seating.place.name, scales=(site.scale,)),
            dtypes=wish.dtypes,
            graphs=wish.graphs,
            besides=wish.besides,
        ),
        site=site,
        n_repeats=wish.n_repeats,
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
        wanted = Wanted(where=wish.rules, min_gain=wish.min_gain, keep_losers=wish.keep_losers)
        state = settle(wanted, ground, text)
        if not wish.keep_losers:
            refuse(state, ground)
    final = text if wish.keep_losers else _with_evidence(state, site)
    path = None if wish.keep_losers else wish.output
    if path is not None:
        session.write_atomically(path, final)
        _take_exports_away(path.with_suffix(".env"), state.lost_needs)
    made = Verified(
        path=path,
        text=final,
        held=state.held,
        standings=state.standings,
        cuts=state.cuts,
        n_before=n_before,
        n_after=len(ours(state.file, site)),
        n_launches=state.n_launches,
        n_rounds=state.n_rounds,
        simulated=site.node is not None,
        needs=tuple(dict(state.file.needs).items()),
        lost_needs=state.lost_needs,
    )
    session.write_derived(wish.folder, name, made.as_plain())
    return made


def _text_of(path: Path) -> str:
    """The file without what an earlier verification said."""
    try:
        text = grammar.read_text(path)
    except OSError as error:
        raise InputFileError(
            f"the rule file cannot be read: {error.strerror}",
            where=str(path),
            hint="write one with rccltune emit-config, or name another with --rules.",
        ) from error
    kept = (line for line in grammar.lines(text) if not line.startswith(f"# {VERIFIED_MARK}"))
    return "\n".join(kept) + "\n"


def _take_exports_away(path: Path, names: Sequence[str]) -> None:
    """Exports that emit-config wrote beside the rules, without what does harm."""
    if not names or not path.exists():
        return
    lines = []
    for line in grammar.lines(grammar.read_text(path)):
        name = line.removeprefix("export ").partition("=")[0]
        is_lost = line.startswith("export ") and name in names
        lines.append(f"# {VERIFIED_MARK} {name} slows sizes without a rule" if is_lost else line)
    session.write_atomically(path, "\n".join(lines) + "\n")


def rule_file_of(folder: Path, site: Site) -> Path:
    """The session's own rule file for these ranks, of their placement where there is one."""
    plain = folder / file_name(site.fingerprint)
    placed = folder / placing.file_name(plain.name, site.seating.place.name)
    return placed if placed.exists() else plain


def _with_evidence(state: Settled, site: Site) -> str:
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
