"""Zones to a rule file, with where every figure in it comes from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rccltune import plugin
from rccltune.analyse.fit import FitResult, fit_session
from rccltune.analyse.selectable import needs_ll128_forced
from rccltune.machine import overrides
from rccltune.model.choice import UnselectableSetting
from rccltune.model.errors import CommandLineError, MachineError, TooLittleDataError
from rccltune.model.failure import Quarantine
from rccltune.model.measurement import Caution, Fingerprint, Notice
from rccltune.model.reporter import Reporter
from rccltune.model.settings import LL128_FORCED, Scale, Setting, Target, Vendor, vendor_of
from rccltune.overwritten import KEEPING_PROTOCOLS, losses
from rccltune.releases import library_named
from rccltune.rules import exports, writer
from rccltune.rules.choices import choice_of
from rccltune.rules.documents import RuleDocument, Section, sections_of
from rccltune.rules.line_format import product_name
from rccltune.rules.placement_files import (
    EmitRequest,
    EmittedRules,
    PlacementFile,
    file_name,
    files_by_placement,
    gfx_of,
    name_with_placement,
)
from rccltune.rules.provenance import (
    is_harmless,
    is_switched,
    is_vendor_told,
    libraries_in,
    library_of,
    provenance,
)
from rccltune.rules.reader import read_rules
from rccltune.rules.refusals import content_of, read_accepted
from rccltune.rules.stored_choice import CHOICE_FILE, choice_record, read_choice, write_choice
from rccltune.rules.writer import is_verified, render_environment, write_all
from rccltune.session import files, store
from rccltune.session.folders import one_machine
from rccltune.session.imports import VENDOR_UNKNOWN

if TYPE_CHECKING:
    from rccltune.analyse.choice import Choice

_DAMAGED: Final = (
    "rccltune emit-config --force writes it anew and keeps this one under another name."
)


def emit_rules(request: EmitRequest, *, reporter: Reporter) -> EmittedRules:
    """Choose and write the rule file, with the exports that use it.

    Files of the default names are the session's own and are made anew, but for verified ones: to
    prove them took an hour of a machine.

    Raises:
        CommandLineError: a file that was named is there and may not be overwritten.
        InputFileError: the session's file was verified, and the plugin refuses it now.
        RccltuneError: as of :func:`choose_rules`.
    """
    chosen = choose_rules(request, reporter=reporter)
    is_own = request.output is None
    files_to_write = [
        _kept(one) if is_own and not request.overwrite and _is_proven(one) else one
        for one in (chosen, *chosen.beside)
    ]
    _write(files_to_write, overwrite=request.overwrite or is_own, reporter=reporter)
    for one in files_to_write:
        if one.is_kept and one.environment_path is not None:
            exports.correct(one.environment_path, reporter)
    # What is kept was chosen before, and so is what others read of it.
    if chosen.path is not None and not files_to_write[0].is_kept:
        keep_choices(chosen, reporter, is_own=is_own)
    return replace(files_to_write[0], beside=tuple(files_to_write[1:]))


def keep_choices(chosen: EmittedRules, reporter: Reporter, *, is_own: bool = True) -> None:
    """Write choice.json into each session that was chosen from.

    A session with rules keeps the choice that those came from where others are written elsewhere.

    Args:
        chosen: what was.
        reporter: told what is worth telling.
        is_own: the rules are the session's own.
    """
    for folder, choice in chosen.choices:
        if not is_own and any(folder.glob("rccl_tuner*.csv")) and read_choice(folder) is not None:
            reporter.say(f"{folder} keeps its own rules and their choice, which these are not of")
            continue
        files.DerivedFiles(folder, reporter).keep(
            CHOICE_FILE, partial(write_choice, folder, choice)
        )


def choose_rules(request: EmitRequest, *, reporter: Reporter) -> EmittedRules:
    """Choose rules, and say what would be written and where; nothing is.

    Raises:
        TooLittleDataError: fewer than two settings to choose between.
        CommandLineError: several files and one place for them; options that exclude each other.
        SessionError: sessions of two machines or environments, or none.
    """
    fits = [fit_session(folder, reporter=reporter) for folder in request.folders]
    choices = [choice_of(done, request.options(done)) for done in fits]
    first, *placed = _files(request, fits, choices, reporter)
    first = replace(
        first,
        left_out=(
            *(item for choice in choices for item in choice.left_out),
            *(_left_out(one) for done in fits for one in done.quarantined),
        ),
        notices=tuple(
            # What every placement says by itself their joint choice says again.
            dict.fromkeys((*_notices(fits, choices), *first.notices))
        ),
        choices=tuple(
            (folder, choice_record(done, choice, request.options(done)))
            for folder, done, choice in zip(request.folders, fits, choices, strict=True)
        ),
    )
    return replace(first, beside=tuple(placed))


def _files(
    request: EmitRequest,
    fits: Sequence[FitResult],
    choices: Sequence[Choice],
    reporter: Reporter,
) -> list[EmittedRules]:
    """The files, that for any placement first."""
    fingerprint = one_machine([done.session for done in fits])
    if not any(choice.zones for choice in choices):
        raise TooLittleDataError(
            "there is nothing to choose from: no collective has two settings that a rule can name",
            where=", ".join(str(folder) for folder in request.folders),
            hint="measure or import forced settings (--algorithm, --protocol) beside these.",
        )
    sheets = files_by_placement(fits, choices, request.options, reporter=reporter)
    paths = _paths(request, fingerprint, sheets)
    if not is_vendor_told(fits, fingerprint):
        reporter.say(VENDOR_UNKNOWN)
    baseline = request.options(fits[0]).baseline
    first, *others = (
        _emitted(path, sheet, _document(fits, fingerprint, sheet, baseline))
        for path, sheet in zip(paths, sheets, strict=True)
    )
    notices = tuple(notice for sheet in sheets for notice in sheet.notices)
    return [replace(first, notices=notices), *others]


def _paths(
    request: EmitRequest, fingerprint: Fingerprint, sheets: Sequence[PlacementFile]
) -> list[Path | None]:
    """Paths of the files; a name that was given is the first one's."""
    given = request.output
    if given is not None and str(given) == "-":
        if len(sheets) > 1:
            names = ", ".join(sheet.placement or "any" for sheet in sheets)
            raise CommandLineError(
                f"these sessions make {len(sheets)} files, by placement of ranks ({names}), and "
                "stdout takes one",
                hint="write them with -o FILE; the others stand beside it.",
            )
        return [None]
    plain = given or (request.home or request.folders[0]) / file_name(fingerprint)
    named = [plain.with_name(name_with_placement(plain.name, one.placement)) for one in sheets]
    return [given, *named[1:]] if given is not None else [*named]


def _emitted(path: Path | None, sheet: PlacementFile, document: RuleDocument) -> EmittedRules:
    """The files of one sheet as they will be written."""
    use = _use(path, sheet)
    return EmittedRules(
        path=path,
        text=writer.render(document),
        environment_path=_beside(path),
        environment_text=render_environment(document.provenance, document.needs, use),
        needs=document.needs,
        zones=sheet.zones,
        placement=sheet.placement,
    )


def _beside(path: Path | None) -> Path | None:
    """Path of the exports, beside the rules that they use."""
    if path is None:
        return None
    beside = path.with_suffix(".env")
    return beside if beside != path else path.with_name(f"{path.name}.env")


def _use(rules: Path | None, sheet: PlacementFile) -> list[tuple[str, str]]:
    """Variables that make a job use the file; none where it has no rule."""
    if rules is None or not sheet.has_rules:
        return []
    variables = [("NCCL_TUNER_CONFIG_FILE", str(rules.resolve()))]
    try:
        library = plugin.library()
    except MachineError:
        # The host's own CSV tuner reads the file, where it has one.
        return variables
    variables.append(("NCCL_TUNER_PLUGIN", str(library)))
    if sheet.placement is not None:
        variables.append(("RCCLTUNE_PLACEMENT", sheet.placement))
    return variables


def _is_proven(emitted: EmittedRules) -> bool:
    """Whether verified rules lie where this would be written, and the plugin takes them."""
    path = emitted.path
    if path is None or not is_verified(path):
        return False
    read_accepted(content_of(path), path, _DAMAGED)
    return True


def _kept(emitted: EmittedRules) -> EmittedRules:
    """Leave a verified file where it is, and say what that one needs."""
    file = read_rules(emitted.path.read_bytes()) if emitted.path is not None else None
    return replace(emitted, is_kept=True, needs=file.needs if file is not None else ())


def _write(emitted: Sequence[EmittedRules], *, overwrite: bool, reporter: Reporter) -> None:
    written = [one for one in emitted if not one.is_kept]
    files = [(one.path, one.text) for one in written]
    files += [(one.environment_path, one.environment_text) for one in written]
    made = [(path, text) for path, text in files if path is not None]
    write_all(made, overwrite=overwrite, reporter=reporter)


def _left_out(quarantine: Quarantine) -> UnselectableSetting:
    return UnselectableSetting(
        target=Target(
            collective=quarantine.collective,
            scale=quarantine.scale or Scale(n_nodes=1, n_ranks=1),
            rank_placement=quarantine.rank_placement,
        ),
        setting=quarantine.setting,
        reason=f"quarantined: {quarantine.reason}",
    )


def _notices(fits: Sequence[FitResult], choices: Sequence[Choice]) -> tuple[Notice, ...]:
    fitted = (notice for done in fits for notice in done.warnings)
    chosen = (notice for choice in choices for notice in choice.notices)
    launched = [store.read_made(done.session) for done in fits]
    forced = (
        overrides.switch_notice(", ".join(libraries_in(made)))
        for made in launched
        if is_switched(made)
    )
    zones = [zone for choice in choices for zone in choice.zones]
    said = _overwritten(fits, sections_of(zones))
    if not said:
        return (*fitted, *chosen, *forced)
    overwrites = Notice(
        caution=Caution.PROTOCOL_OVERWRITTEN,
        message="; ".join(said),
        remedy="rccltune verify asks this library at each rule's ends; "
        f"{KEEPING_PROTOCOLS} and later do what rules say.",
    )
    return (*fitted, *chosen, *forced, overwrites)


def _overwritten(fits: Sequence[FitResult], sections: Sequence[Section]) -> tuple[str, ...]:
    """What the libraries that were measured may write over of the rules, a sentence each."""
    rules = [rule for section in sections for rule in section.rules]
    scales = dict.fromkeys(section.target.scale for section in sections)
    found: dict[str, None] = {}
    for done in fits:
        machine = done.session.fingerprint
        for name in libraries_in(store.read_made(done.session)):
            library = library_named(name, machine.arch_or_vendor)
            found |= dict.fromkeys(losses(library, rules, scales, machine.arch))
    return tuple(found)


def _document(
    fits: Sequence[FitResult],
    fingerprint: Fingerprint,
    sheet: PlacementFile,
    baseline: Setting | None,
) -> RuleDocument:
    sections = sections_of(sheet.zones)
    return RuleDocument(
        provenance=(
            *provenance(fits, fingerprint),
            *sheet.lines,
            *([f"baseline: {baseline}, as it was named (--baseline)"] if baseline else []),
            *_overwritten(fits, sections),
        ),
        requires=(*requirements_of(fingerprint), *sheet.requires),
        library=library_of(fits),
        needs=_needs(fits, sections),
        sections=sections,
    )


def _needs(fits: Sequence[FitResult], sections: Sequence[Section]) -> tuple[tuple[str, str], ...]:
    """Variables that a job must set: what was measured with, and what lets rules be chosen."""
    rules = [rule for section in sections for rule in section.rules]
    if not rules:
        return ()
    needs = set(fits[0].session.setup.environment.items())
    arch = fits[0].session.fingerprint.arch_or_vendor
    for section in sections:
        scale = section.target.scale
        if any(needs_ll128_forced(rule.setting, scale, arch) for rule in section.rules):
            needs.add(LL128_FORCED)
    return tuple(sorted(pair for pair in needs if is_harmless(*pair)))


def requirements_of(fingerprint: Fingerprint) -> tuple[tuple[str, str], ...]:
    """What a file of this machine requires, as far as that is known.

    Arch, compute units and mode of AMD's GPUs, the product of NVIDIA's.
    """
    mode = fingerprint.mode
    pairs = (
        ("arch", gfx_of(fingerprint)),
        ("product", _nvidia_product(fingerprint)),
        ("cus", fingerprint.cu_count),
        ("compute", mode.compute if mode else None),
        ("memory", mode.memory if mode else None),
    )
    return tuple((key, str(value)) for key, value in pairs if value is not None)


def _nvidia_product(fingerprint: Fingerprint) -> str | None:
    """The product as the plugin finds it on the machine; None where that is not one.

    CUDA names a slice of a GPU after it (``NVIDIA H200 MIG 1g.18gb``), which the driver's list of
    GPUs does not have.
    """
    product = fingerprint.product
    if product is None or vendor_of(product) is not Vendor.NVIDIA:
        return None
    return None if " + " in product or " MIG " in product else product_name(product)
