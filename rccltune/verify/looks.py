"""One look at a rule file: its launches, made where they are not there yet, and what they prove."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from rccltune import plugin
from rccltune.measure.launches import run_launch
from rccltune.measure.ledger import open_ledger
from rccltune.measure.preparation import completed, ground_of
from rccltune.measure.runs import Progress, limit_s, stop_if_changed
from rccltune.measure.site import Site
from rccltune.model.chosen import Rule
from rccltune.model.errors import HarmError, LaunchError, MachineError, VerificationError
from rccltune.model.measured import Launch, Outcome, Sample, Status, Sweep
from rccltune.model.settings import NEEDS, RULES, SILENT, Role, Variant
from rccltune.model.vocabulary import Collective, Doubt
from rccltune.plan.launches import Ground as plan_Ground
from rccltune.plan.launches import repeat_letter, sizes
from rccltune.plan.pairs import CYCLE, Condition, Pair, plan_pairs
from rccltune.rules.reader import RuleFile
from rccltune.session import files, store
from rccltune.session.launches import Ran, is_walk, read_launch
from rccltune.session.samples import Ended
from rccltune.verify import cells, proofs
from rccltune.verify.held import Ground, Held, Look, new_held
from rccltune.verify.proofs import Failed

TUNED: Final = "tuned"
_TRIES: Final = 2
# A launch goes through both arms at least and at most so often; between, for about so long.
FEWEST_CYCLES: Final = 2
_MOST_CYCLES: Final = 8
_WALK_S: Final = 1.2
# What a row costs beside its calls: barriers, and where results are checked also that.
_ROW_S, _CHECKED_ROW_S = 0.002, 0.02
# Ranges with an untouched launch beside, where silence is the untouched site but for the plugin.
UNTOUCHED: Final = 4


def of_scale(file: RuleFile, site: Site) -> tuple[Rule, ...]:
    """Rules that this communicator can meet, in the file's order."""
    scale = site.scale
    return tuple(
        rule
        for rule in file.rules
        if rule.n_nodes in (None, scale.n_nodes) and rule.n_ranks in (None, scale.n_ranks)
    )


class Looker:
    """Makes the launches of looks, and tells of each.

    Args:
        ground: what all looks have in common.
        alongside: combined launches for another environment, each to be made next to the one over
            the same sizes; whoever planned them judges them.
    """

    def __init__(self, ground: Ground, alongside: Sequence[Launch] = ()) -> None:
        """Begin with what was made before."""
        self.ground = ground
        self.alongside = list(alongside)
        # The site as it is beside what rules need: launches of its own, or another file's walk.
        self._beside: dict[str, Ended] = {}
        self.ledger = open_ledger(ground.folder)
        self.outcomes: list[Outcome] = [outcome for _, outcome in self.ledger.ended]
        self.start = time.monotonic()
        self.n_made = 0
        # Launches of all looks so far, those that were there already among them.
        self.n_taken = 0

    def look(self, look: Look, held: Sequence[Held]) -> Failed | None:
        """Make all launches of a look at a file and take up what they say.

        Args:
            look: what is looked at.
            held: by condition; what the launches say is added.

        Returns:
            The sizes at which the benchmark hangs or fails with the rules; the look is not
            complete then. None where all is well.

        Raises:
            MachineError: the benchmark cannot be run under a condition.
            LaunchError: the untouched benchmark does not work.
            VerificationError: it is wrong, ranks have no plugin, or it disagrees with the file.
        """
        rules = of_scale(look.file, self.ground.site)
        conditions = [one for one in held if one.condition.is_own or not look.is_brief]
        planned = [
            (one, [self._beside_another(pair, look) for pair in self._planned(one, look, rules)])
            for one in conditions
        ]
        launches = [one for _, pairs in planned for pair in pairs for one in pair.launches]
        alongside, self.alongside = self.alongside, []
        left = len(launches) + len(alongside)
        if there := sum(self._is_there(one) for one in (*launches, *alongside)):
            self.ground.reporter.say(f"{there} of its {left} launches are there already")
        for one, pairs in planned:
            one.fresh = new_held(one.condition).evidence
            for number, pair in enumerate(pairs):
                next_to = _taken_from(alongside, pair.tuned)
                # What drifts along the way hits both environments alike.
                if number % 2:
                    left = self._make(next_to, left)
                failed = self._pair(one, pair, rules, left)
                left -= len(pair.launches)
                if failed is not None:
                    return failed
                if not number % 2:
                    left = self._make(next_to, left)
        hashes = {digest for one in held for digest in one.proven.hashes}
        if len(hashes) > look.number:
            raise VerificationError(
                f"ranks read {len(hashes)} different rule files under one name",
                where=str(self.ground.folder),
                hint="the folder must be the same shared one on every host.",
            )
        return None

    def _planned(self, held: Held, look: Look, rules: Sequence[Rule]) -> list[Pair]:
        """The launches under one condition, with their ids.

        Raises:
            MachineError: the benchmark cannot be run like that.
        """
        ground, site, condition = self.ground, self.ground.site, held.condition
        on = ground_of(site)
        _check(condition, on)
        bare = _bare(look.file)
        takes_turns = ground.walks and bool(rules)
        n_cycles = (lambda _sweep, _collective: 1) if look.is_brief else self._n_cycles
        pairs = plan_pairs(
            condition,
            on,
            rules,
            _tuned(look.file, look.text, ground.folder, site),
            look.number,
            # What rules need holds for the whole job.
            others=condition.sweep.collectives if look.file.needs else (),
            n_cycles=n_cycles if takes_turns else None,
            n_untouched=self._n_untouched(look, held) if rules else None,
            needs=bare if ground.is_paired or not rules else None,
            # What is left of a rule gives the results that were checked; a fallback may answer now.
            checks=not held.evidence.checked or any(rule.fallback for rule in rules),
            edges=condition.is_own and look.edges,
            known=held.evidence.sizes(),
            missing=look.missing,
            n_replicates=look.n_replicates,
        )
        if not rules:
            # Nothing takes turns inside a launch: the variables alone are the other side.
            pairs = [replace(one, tuned=one.bare, bare=None) for one in pairs if one.bare]
        return [
            replace(
                pair,
                tuned=self._named(pair.tuned),
                untouched=self._named(pair.untouched) if pair.untouched else None,
                bare=self._named(pair.bare) if pair.bare else None,
            )
            for pair in pairs
            if any(map(look.is_about, pair.tuned.collectives))
        ]

    def first_walks(self, look: Look, held: Held) -> tuple[Launch, ...]:
        """Combined launches of a first look that say what the rules' environment does by itself."""
        planned = self._planned(held, look, of_scale(look.file, self.ground.site))
        return tuple(pair.tuned for pair in planned if pair.bare and is_walk(pair.tuned))

    def _beside_another(self, pair: Pair, look: Look) -> Pair:
        """A pair without launches of its own for the environment, where another one has it."""
        if pair.bare is None or not is_walk(pair.tuned):
            return pair
        taken = {one.id for one, _ in self._beside.values()}
        found = cells.nearest(pair.tuned, dict(look.file.needs), self.ledger.ended, taken)
        if found is None:
            return pair
        self._beside[pair.tuned.id] = found
        return replace(pair, untouched=None, bare=None)

    def _make(self, walk: Launch | None, left: int) -> int:
        """Make it once, if at all; how it ended is a matter of those who planned it."""
        if walk is None:
            return left
        if not self.ledger.of(walk):
            self._attempt(walk, left)
        self.n_taken += 1
        return left - 1

    def _n_untouched(self, look: Look, held: Held) -> int | None:
        """Ranges with an untouched launch beside; None for all."""
        if not self.ground.is_paired:
            return None
        if look.file.needs and look.needs_doubted:
            # Each range twice: what replicates differ by is noise, and the rest is the variables'.
            return 2 * UNTOUCHED
        if look.missing:
            return 0
        # What these launches showed stays, whatever becomes of the rules.
        return 0 if held.evidence.beside and not look.suspects else UNTOUCHED

    def _named(self, one: Launch) -> Launch:
        complete = completed(one, self.ground.site, self.ground.timeout_s)
        return replace(complete, id=store.launch_id(complete))

    def _n_cycles(self, sweep: Sweep, collective: Collective) -> int:
        """As often as takes about as long as starting does; once where results are checked.

        A check takes 37 ms a row on an H100 where the calls take one.
        """
        if sweep.check:
            return 1
        pass_s = self._pass_s(sweep, collective)
        return max(FEWEST_CYCLES, min(_MOST_CYCLES, round(_WALK_S / len(CYCLE) / pass_s)))

    def _pass_s(self, sweep: Sweep, collective: Collective) -> float:
        known = sorted(self.ground.swept.times.get(collective, {}).items())
        row_s = _CHECKED_ROW_S if sweep.check else _ROW_S
        calls = (1 + sweep.iterations) * len(sweep.placements) * max(1, sweep.graph)
        total = 0.0
        for nbytes in sizes(sweep):
            # The nearest size that was measured, scaled: good enough to plan by.
            size, time_us = min(known, key=lambda one: abs(one[0] - nbytes), default=(nbytes, 50.0))
            total += row_s + calls * 1e-6 * time_us * max(1.0, nbytes / max(1, size))
        return max(total, 1e-3)

    def _pair(self, held: Held, pair: Pair, rules: Sequence[Rule], left: int) -> Failed | None:
        found: dict[str, tuple[Sample, ...]] = {}
        for one in pair.launches:
            samples, failed = self._samples(one, rules, left)
            if failed is not None:
                return failed
            found[one.id] = samples
            held.n_launches += 1
            self.n_taken += 1
            left -= 1
        ours = found[pair.tuned.id]
        untouched = cells.times_of(found[pair.untouched.id]) if pair.untouched else {}
        if rules:
            where = self.ground.folder, self.ground.site
            proofs.prove(*where, pair.tuned, (rules, ours), held.proven)
        if pair.tuned.id in self._beside:
            untouched = cells.silence(self._beside[pair.tuned.id], self.ground.folder)
        bare = cells.times_of(found[pair.bare.id]) if pair.bare else {}
        if not rules:
            bare = cells.times_of(ours)
            made = cells.cells_between(untouched, bare)
        elif not is_walk(pair.tuned):
            made = cells.cells_between(untouched, cells.times_of(ours))
            untouched = {}
        elif self.ground.is_paired:
            made = cells.cells_of(pair.tuned, ours)
        else:
            with_rules = [one for one in ours if one.key.setting == RULES]
            made = cells.cells_between(untouched, cells.times_of(with_rules))
            untouched = {}
        for evidence in (held.evidence, held.fresh):
            evidence.add(pair.tuned.id, made, untouched, bare)
            evidence.checked |= cells.checked_in(ours)
            for key, n in cells.wrong_in(ours).items():
                evidence.wrong[key] = evidence.wrong.get(key, 0) + n
        return None

    def _samples(
        self, planned: Launch, rules: Sequence[Rule], left: int
    ) -> tuple[tuple[Sample, ...], Failed | None]:
        """Samples of one launch, made now or before; or where it fails with the rules.

        Raises:
            HarmError: the benchmark fails twice with what rules need, without any.
            LaunchError: the untouched benchmark fails twice.
            VerificationError: it is wrong, or the tuned one fails twice and no rule is to blame.
        """
        folder = self.ground.folder
        ran: Ran | None = None
        for _ in range(_TRIES + 1):
            ended = self.ledger.of(planned)
            done = next((pair for pair in ended if pair[1].status is Status.OK), None)
            if done is not None:
                samples = _read(done, folder, ran)
                if any(s.doubt is Doubt.WRONG and _is_untouched(s, planned) for s in samples):
                    raise proofs.wrong_without_rules(folder / "launches" / done[0].id)
                return samples, None
            if sum(not outcome.was_cut_off for _, outcome in ended) >= _TRIES:
                break
            ran = self._attempt(self.ledger.again(planned), left)
        last, outcome = self.ledger.of(planned)[-1]
        own = folder / "launches" / last.id
        why = outcome.notices[-1].message if outcome.notices else "no reason given"
        if planned.variant.name == NEEDS:
            names = " ".join(f"{name}={value}" for name, value in planned.variant.environment)
            raise HarmError(f"the benchmark fails with {names} alone: {why}", where=f"{own}/")
        if not planned.variant.name.startswith(TUNED):
            raise LaunchError(f"the benchmark does not work without rules: {why}", where=f"{own}/")
        return (), proofs.where_it_failed(own, self.ground.site, last, rules, outcome)

    def _is_there(self, planned: Launch) -> bool:
        return any(outcome.status is Status.OK for _, outcome in self.ledger.of(planned))

    def _attempt(self, one: Launch, left: int) -> Ran:
        site = self.ground.site
        stop_if_changed(site, "before")
        ran = run_launch(
            replace(one, timeout_s=one.timeout_s or limit_s(self.outcomes)),
            self.ground.folder,
            site=tuple(os.environ.items()),
            clear=site.cleared,
            carry=site.launcher.carry,
            fingerprint=site.fingerprint,
            changed=site.changed,
        )
        self.ledger.add(ran.launch, ran.outcome)
        self.outcomes.append(ran.outcome)
        self.n_made += 1
        stop_if_changed(site, "during")
        elapsed_s = time.monotonic() - self.start
        self.ground.reporter.progress(
            Progress(
                number=self.n_taken + 1,
                of=self.n_taken + left,
                ran=ran,
                elapsed_s=elapsed_s,
                left_s=(left - 1) * elapsed_s / self.n_made if self.n_made > 1 else None,
                best={},
            )
        )
        return ran


def _read(done: tuple[Launch, Outcome], folder: Path, ran: Ran | None) -> tuple[Sample, ...]:
    """A launch's samples; those of one that was made just now are read already.

    Read again, a forced setting's are held to whose library it is, which the log does not always
    say; nothing else of a launch depends on that.
    """
    wanted, outcome = done
    if (
        ran is not None
        and (ran.launch, ran.outcome) == done
        and all(one.key.setting.role is not Role.FORCED for one in ran.samples)
    ):
        return ran.samples
    return read_launch(wanted, folder, outcome)


def _taken_from(alongside: list[Launch], walk: Launch) -> Launch | None:
    """The launch of those that goes next to a combined launch, which is no longer among them."""
    found = next((one for one in alongside if cells.calls_alike(one, walk)), None)
    if found is not None:
        alongside.remove(found)
    return found


def _is_untouched(one: Sample, planned: Launch) -> bool:
    """Whether nothing of ours chose what a row measured."""
    name = planned.variant.name
    return not name.startswith((TUNED, NEEDS)) or one.key.setting == SILENT


def _bare(file: RuleFile) -> Variant | None:
    """The environment that rules need, None where they need nothing."""
    pairs = tuple(sorted(dict(file.needs).items()))
    return Variant(name=NEEDS, environment=pairs) if pairs else None


def _tuned(file: RuleFile, text: str, folder: Path, site: Site) -> Variant:
    """The environment of the tuned side; its rules lie beside the launches under their hash.

    Without what is said to people: a file is the same with its proof and without.
    """
    text = "".join(one for one in text.splitlines(keepends=True) if not one.startswith("# "))
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    written = f"rules-{digest}.csv"
    files.write_atomically(folder / written, text)
    pairs = {
        **dict(file.needs),
        "NCCL_TUNER_PLUGIN": str(plugin.library()),
        "NCCL_TUNER_CONFIG_FILE": "{session}/" + written,
        "RCCLTUNE_TRACE": "{launch}/trace-%h-%p.csv",
        "RCCLTUNE_LOG": "summary:{launch}/plugin-%h-%p.log",
    }
    placement = dict(file.requires).get("placement")
    if placement is not None:
        pairs["RCCLTUNE_PLACEMENT"] = placement
    if site.node is not None and site.fingerprint.mode is not None:
        # There is no device that could say its mode.
        pairs["RCCLTUNE_MODE"] = str(site.fingerprint.mode)
    name = f"{TUNED}-{NEEDS}" if file.needs else TUNED
    return Variant(name=name, environment=tuple(sorted(pairs.items())))


def _check(condition: Condition, on: plan_Ground) -> None:
    if condition.sweep.graph and "G" not in on.letters:
        raise MachineError(
            "this benchmark captures no graphs: its --help lists no -G",
            hint="leave out --graph, or take a build of rccl-tests for ROCm 5 or newer.",
        )
    if condition.beside is None:
        return
    name = condition.beside[0].benchmark
    if condition.beside[0] not in on.programs:
        raise MachineError(
            f"there is no {name} beside the other benchmarks, to run at the same time",
            hint="build it with the others, or name another collective after --beside.",
        )
    if repeat_letter(on) is None:
        raise MachineError(
            f"{name} cannot run on until it is ended: its --help lists neither -N nor -s",
            hint="leave out --beside, or take a newer rccl-tests.",
        )
