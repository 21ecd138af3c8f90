"""From a fitted session to its rule file, with where every figure in it comes from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from rccltune.analyse.choice_options import ChoiceOptions
from rccltune.analyse.choose import Choice, choose
from rccltune.analyse.selectable import needs_ll128_forced
from rccltune.analyse.session_fit import FitResult, fit_session
from rccltune.bits.fastest_trees import PROMISE, ChosenBits, choose_same_bits
from rccltune.launch import overrides
from rccltune.model.brief import brief
from rccltune.model.errors import TooLittleDataError
from rccltune.model.failure import ExcludedSetting
from rccltune.model.measurement import Caution, Fingerprint, Notice
from rccltune.model.reporter import Reporter
from rccltune.model.rule import RuleCount
from rccltune.model.settings import LL128_FORCED, Scale, Target
from rccltune.model.vocabulary import TUNABLE
from rccltune.model.zone import UnselectableSetting, Zone
from rccltune.overwritten import KEEPING_PROTOCOLS, losses
from rccltune.releases import name_library
from rccltune.rules import exports, writer
from rccltune.rules.needs import is_harmless
from rccltune.rules.placement_files import (
    file_name,
    name_with_placement,
    required_placement,
)
from rccltune.rules.provenance import (
    is_switched,
    is_vendor_told,
    libraries_in,
    library_of,
    provenance,
)
from rccltune.rules.refusals import content_of, read_accepted
from rccltune.rules.requirements import requirements_of
from rccltune.rules.rule_document import RuleDocument, rules_of
from rccltune.rules.rule_file import read_rules
from rccltune.rules.rule_order import count_rules
from rccltune.rules.stored_choice import (
    CHOICE_FILE,
    StoredChoice,
    choice_record,
    read_choice,
    write_choice,
)
from rccltune.session import files
from rccltune.session.imports import VENDOR_UNKNOWN
from rccltune.session.samples import load_frame

_DAMAGED: Final = (
    "rccltune emit-config --force writes it anew and keeps this one under another name."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmitRequest:
    """Request to emit-config.

    Attributes:
        output: None is the default name in the session; ``-`` writes no file.
    """

    folder: Path
    options: ChoiceOptions
    output: Path | None = None
    overwrite: bool = False


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class EmittedRules:
    """Rules that were written, with their files.

    Attributes:
        path: None where the text goes to stdout.
        text: of the rule file.
        environment_path: of the exports that use it, None where all goes to stdout.
        environment_text: of the exports.
        needs: what the rules need to be exported.
        placement: of ranks, the only one that the rules are for; None where they are for any.
        is_kept: verified rules lie at ``path``; neither they nor their exports were replaced, and
            ``needs`` is theirs. ``text``, ``choice`` and ``count`` are of the new choice.
        choice: as the session's choice.json is to have it.
    """

    path: Path | None
    text: str
    environment_path: Path | None
    environment_text: str
    needs: tuple[tuple[str, str], ...]
    left_out: tuple[UnselectableSetting, ...]
    notices: tuple[Notice, ...]
    placement: str | None
    choice: StoredChoice
    is_kept: bool = False

    @property
    def zones(self) -> tuple[Zone, ...]:
        """What was chosen where."""
        return self.choice.zones

    @property
    def count(self) -> RuleCount:
        """Rules in the file, whether it is written or not."""
        return count_rules(rules_of(self.zones))

    def json_fields(self) -> dict[str, Any]:
        """Fields for --json."""
        return {
            "path": self.path,
            "environment_path": self.environment_path,
            "kept": self.is_kept,
            "needs": dict(self.needs),
            "rules": self.count.rules,
            "fallbacks": self.count.fallbacks,
            "zones": self.zones,
            "left_out": self.left_out,
            "notices": self.notices,
            "text": self.text,
            "placement": self.placement,
        }


def emit_rules(request: EmitRequest, *, reporter: Reporter) -> EmittedRules:
    """Choose and write the rule file, with the exports that use it.

    A file of the default name is the session's own and is made anew, but for a verified one: to
    prove it took an hour of a machine.

    Raises:
        CommandLineError: a file that was named is there and may not be overwritten.
        InputFileError: the session's file was verified, and the plugin refuses it now.
        RccltuneError: as of :func:`choose_rules`.
    """
    chosen = choose_rules(request, reporter=reporter)
    is_own = request.output is None
    if is_own and not request.overwrite and _is_proven(chosen):
        return _keep_verified(chosen, reporter)
    outputs = ((chosen.path, chosen.text), (chosen.environment_path, chosen.environment_text))
    writer.write_all(
        [(path, text) for path, text in outputs if path is not None],
        overwrite=request.overwrite or is_own,
        reporter=reporter,
    )
    # What goes to stdout leaves the session as it is.
    if chosen.path is not None:
        keep_choice(request.folder, chosen.choice, reporter, is_own=is_own)
    return chosen


def choose_rules(request: EmitRequest, *, reporter: Reporter) -> EmittedRules:
    """Choose rules, and say what would be written and where; nothing is.

    Raises:
        TooLittleDataError: nothing to choose between (:func:`rccltune.analyse.choose.choose`), or
            nothing of a collective for which a library asks tuners.
        CommandLineError: options that exclude each other; ranks in several placements.
        SessionError: no session.
    """
    fitted = fit_session(request.folder, reporter=reporter)
    options = replace(request.options, arch=fitted.session.fingerprint.arch_or_vendor)
    samples = load_frame(fitted.session, Reporter())
    choice = choose(samples, options)
    bits: ChosenBits | None = None
    if options.same_bits:
        bits = choose_same_bits(request.folder, samples, choice.zones, options.tolerance)
        choice = replace(choice, zones=bits.zones)
    if not choice.zones:
        raise TooLittleDataError(
            "no rule can do anything: nothing was measured of a collective that asks a tuner",
            where=str(request.folder),
            hint=f"measure one of {', '.join(one.value for one in TUNABLE)}.",
        )
    if not is_vendor_told(fitted):
        reporter.say(VENDOR_UNKNOWN)
    placement = required_placement(fitted, reporter)
    document = _document(fitted, choice.zones, options, placement, bits)
    path = _path(request, fitted.session.fingerprint, placement)
    use = exports.variables_for(path, document, placement)
    return EmittedRules(
        path=path,
        text=writer.render(document),
        environment_path=_beside(path),
        environment_text=exports.render_exports(document.provenance, document.needs, use),
        needs=document.needs,
        left_out=(*choice.left_out, *map(_excluded, fitted.excluded)),
        notices=_notices(fitted, choice, document),
        placement=placement,
        choice=choice_record(fitted, choice, options, bits.name if bits else None),
    )


def keep_choice(
    folder: Path, choice: StoredChoice, reporter: Reporter, *, is_own: bool = True
) -> None:
    """Write choice.json into the session that was chosen from.

    One with rules keeps the choice that those came from where others are written elsewhere.

    Args:
        folder: the session.
        choice: from it.
        reporter: told what is worth telling.
        is_own: the rules are the session's own.
    """
    if not is_own and any(folder.glob("rccl_tuner*.csv")) and read_choice(folder) is not None:
        reporter.say(f"{folder} keeps its own rules and their choice, which these are not of")
        return
    files.DerivedFiles(folder, reporter).keep(CHOICE_FILE, partial(write_choice, folder, choice))


def _is_proven(emitted: EmittedRules) -> bool:
    """Whether verified rules lie where this would be written, and the plugin takes them."""
    path = emitted.path
    if path is None or not writer.is_verified(path):
        return False
    read_accepted(content_of(path), path, _DAMAGED)
    return True


def _keep_verified(emitted: EmittedRules, reporter: Reporter) -> EmittedRules:
    """Leave a verified file where it is, and say what that one needs."""
    if emitted.environment_path is not None:
        exports.correct_exports(emitted.environment_path, reporter)
    needs = read_rules(emitted.path.read_bytes()).needs if emitted.path is not None else ()
    return replace(emitted, is_kept=True, needs=needs)


def _path(request: EmitRequest, fingerprint: Fingerprint, placement: str | None) -> Path | None:
    """Path of the rule file; None for stdout."""
    output = request.output
    if output is not None:
        return None if str(output) == "-" else output
    return request.folder / name_with_placement(file_name(fingerprint), placement)


def _beside(path: Path | None) -> Path | None:
    """Path of the exports, beside the rules that they use."""
    if path is None:
        return None
    beside = path.with_suffix(".env")
    return beside if beside != path else path.with_name(f"{path.name}.env")


def _document(
    fitted: FitResult,
    zones: tuple[Zone, ...],
    options: ChoiceOptions,
    placement: str | None,
    bits: ChosenBits | None,
) -> RuleDocument:
    baseline = options.baseline
    return RuleDocument(
        provenance=(
            *provenance(fitted),
            *([f"placement of ranks: {placement}"] if placement else []),
            *([f"baseline: {baseline}, as it was named (--baseline)"] if baseline else []),
            *(bits.words if bits else ()),
            *([PROMISE] if bits else []),
            *_overwritten(fitted, zones),
        ),
        requires=(
            *requirements_of(fitted.session.fingerprint),
            *([("placement", placement)] if placement else []),
        ),
        library=library_of(fitted),
        bits=bits.name if bits else None,
        needs=_needs(fitted, zones),
        zones=zones,
    )


def _needs(fitted: FitResult, zones: tuple[Zone, ...]) -> tuple[tuple[str, str], ...]:
    """Variables that a job must set: what was measured with, and what lets rules be chosen."""
    if not rules_of(zones):
        return ()
    needs = set(fitted.session.setup.environment.items())
    arch = fitted.session.fingerprint.arch_or_vendor
    if any(
        setting is not None and needs_ll128_forced(setting, zone.target.scale, arch)
        for zone in zones
        for setting in (zone.setting, zone.fallback)
    ):
        needs.add(LL128_FORCED)
    return tuple(sorted(pair for pair in needs if is_harmless(*pair)))


def _excluded(excluded: ExcludedSetting) -> UnselectableSetting:
    return UnselectableSetting(
        target=Target(
            collective=excluded.collective,
            scale=excluded.scale or Scale(n_nodes=1, n_ranks=1),
            rank_placement=excluded.rank_placement,
        ),
        setting=excluded.setting,
        reason=f"excluded: {excluded.reason}",
    )


def _notices(fitted: FitResult, choice: Choice, document: RuleDocument) -> tuple[Notice, ...]:
    """What weakens the rules: of the curves, of the choice, of the library."""
    notices = [*fitted.warnings, *choice.notices]
    if is_switched(fitted.session):
        notices.append(overrides.switch_notice(", ".join(libraries_in(fitted.session))))
    if said := _overwritten(fitted, document.zones):
        notices.append(
            Notice(
                caution=Caution.PROTOCOL_OVERWRITTEN,
                message="; ".join(said),
                remedy="rccltune verify asks this library at each rule's ends; "
                f"{KEEPING_PROTOCOLS} and later do what rules say.",
            )
        )
    return tuple(dict.fromkeys(notices))


def _overwritten(fitted: FitResult, zones: tuple[Zone, ...]) -> tuple[str, ...]:
    """What the libraries that were measured may write over of the rules, a sentence each."""
    rules, scales = rules_of(zones), dict.fromkeys(one.target.scale for one in zones)
    machine = fitted.session.fingerprint
    names: dict[str, None] = {}
    for name in libraries_in(fitted.session):
        library = name_library(name, machine.arch_or_vendor)
        names |= dict.fromkeys(losses(library, rules, scales, machine.arch))
    return tuple(names)
