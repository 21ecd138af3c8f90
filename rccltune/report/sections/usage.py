"""What to know before a page is read, how to use its rules, and how to repeat all of it."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Final

from rccltune import __version__
from rccltune.releases import READING_RULES
from rccltune.report.records import Block, Code, Items, Mark, Part, Section, Words
from rccltune.report.sections.found import Found, Rules, count
from rccltune.rules.provenance import is_harmless

# A rule file of ours has some dozen lines; somebody's may have thousands.
_MOST_BYTES: Final = 30_000
_WITHOUT: Final = f"{READING_RULES} and later read the file without it"


def use_section(found: Found) -> Section:
    """What to type, and the files themselves, so that the page alone is enough."""
    parts = [_use(found, one) for one in found.rules if one.file.rules or one.file.needs]
    if not parts:
        words = "There is no rule, so there is nothing to use: the library chooses as before."
        if any(zone.setting for zone in found.drawn.zones) and not found.rules:
            words = "No rule file was written yet: rccltune emit-config writes one."
            if found.refused:
                words = "No rule file was written: the verification of the rules failed."
        parts.append(Part(title="", blocks=(Words(text=words),)))
    return Section(name="use", title="How to use it", parts=tuple(parts))


def _use(found: Found, rules: Rules) -> Part:
    exports = rules.path.with_suffix(".env")
    asked = [(name, value) for name, value in rules.file.needs if not is_harmless(name, value)]
    needs = " ".join(
        f"{name}={shlex.quote(value)}"
        for name, value in rules.file.needs
        if is_harmless(name, value)
    )
    placement = dict(rules.file.requires).get("placement")
    loads = [
        f"Put {rules.name} where every node of the job can read the same file.",
        f"export NCCL_TUNER_CONFIG_FILE=/path/to/{rules.path.name}",
        f'export NCCL_TUNER_PLUGIN="$(rccltune plugin --path)"  ({_WITHOUT})',
    ]
    steps = [
        *(loads if rules.file.rules else []),
        *([f"export {needs}  (what the rules were measured with)"] if needs else []),
        *(
            f"The rules also need {name}={value}. It may load code or open files: set it only if "
            "you know what it does and who wrote the rules."
            for name, value in asked
        ),
        *([f"export RCCLTUNE_PLACEMENT={placement}  (the plugin reads it)"] if placement else []),
        "Start the job. RCCLTUNE_LOG=summary prints which rules were hit; rccltune why reads it."
        if rules.file.rules
        else "Start the job: there is no rule, and nothing to load.",
        "To go back: unset these variables. Nothing was installed or changed anywhere else.",
    ]
    if not found.simulated and found.verified_as(rules.name) is None:
        steps.insert(0, "First: rccltune verify. Nothing has proven these rules so far.")
    if unproven(found):
        steps[0] = "Do not: the verification of these rules did not confirm them."
    if found.simulated:
        steps.insert(0, "Do not: these rules come from a simulated node and are for trying out.")
    blocks: list[Block] = [Items(items=tuple(steps), ordered=True)]
    if exports.exists():
        text = exports.read_text(encoding="utf-8", errors="replace")
        blocks.append(_file("What a shell sources, with this machine's paths", text, exports))
    blocks.append(_file("The rule file", rules.text, rules.path))
    requires = ", ".join(f"{key}={value}" for key, value in rules.file.requires)
    if requires:
        blocks.append(
            Words(text=f"The plugin takes the file only where {requires}; elsewhere it refuses.")
        )
    return Part(title=rules.name, blocks=tuple(blocks))


def _file(caption: str, text: str, path: Path) -> Code:
    cut = text[:_MOST_BYTES]
    more = f" The first {_MOST_BYTES:,} of {len(text):,} characters." if cut != text else ""
    return Code(caption=caption, text=cut, source=f"{path.name}.{more}", folded=len(cut) > 1500)


def repeat_section(found: Found) -> Section:
    """Commands, and what else must be equal."""
    opened = found.done.session
    command = opened.command or "not recorded"
    steps = [
        f"Session folder: {opened.path.name}, written by {opened.tool or 'an unknown version'}.",
        f"Samples: SHA-256 {found.done.samples_sha256} of samples.csv, which is derived from logs.",
    ]
    commands = [command]
    if not found.is_imported and not command.startswith("rccltune tune"):
        commands += ["rccltune fit", "rccltune emit-config", "rccltune verify"]
    if found.is_imported:
        commands += ["rccltune fit", "rccltune emit-config"]
    commands.append("rccltune report")
    blocks: list[Block] = [
        Code(caption="The commands", text="\n".join(commands), source="The first: session.json."),
        Items(items=tuple(steps)),
    ]
    sweep = opened.path / "sweep.yaml"
    if sweep.exists():
        text = sweep.read_text(encoding="utf-8", errors="replace")
        blocks.append(_file("The sweep as it was resolved", text, sweep))
    return Section(
        name="repeat", title="How to repeat it", parts=(Part(title="", blocks=tuple(blocks)),)
    )


def footer(found: Found) -> str:
    """What made the page, of what; no date, so that the same session gives the same page."""
    return (
        f"Made by rccltune {__version__} from session {found.folder.name}, samples SHA-256 "
        f"{found.done.samples_sha256}. One file; it loads nothing from anywhere."
    )


def marks(found: Found) -> tuple[Mark, ...]:
    """What every reader must know first."""
    said: list[Mark] = []
    if found.simulated:
        said.append(
            Mark(
                word="SIMULATED",
                sentence="The times come from a stand-in benchmark with a node file. Nothing on "
                "this page was measured on hardware, and nothing of it shows what hardware does."
                f"{_library(found)}",
                loud=True,
            )
        )
    why = unproven(found)
    if why:
        said.append(Mark(word="NOT PROVEN", sentence=f"{why} Do not use its rules.", loud=True))
    if found.is_imported:
        whose = f" Published by: {'; '.join(found.origins)}." if found.origins else ""
        said.append(
            Mark(
                word="IMPORTED",
                sentence="The times were read from files; rccltune did not start the "
                f"benchmarks.{whose}",
                loud=False,
            )
        )
    if not found.simulated and not found.is_imported:
        said.append(
            Mark(word="MEASURED", sentence="rccltune started every launch itself.", loud=False)
        )
    return tuple(said)


def _library(found: Found) -> str:
    real = found.done.session.fingerprint.runner
    if real is None:
        return ""
    return f" What ran at which size is the decision of {real}; no result was checked."


def unproven(found: Found) -> str:
    """Why a verification that was begun proves nothing; empty where it does, or none was."""
    if found.refused:
        said = (f"{Path(one.path).name}: {one.message}." for one in found.refused)
        return f"The verification failed. {' '.join(said)}"
    if found.is_cut_short:
        return (
            f"A verification was begun ({count(found.trials, 'run')}) and has no verdict: "
            "it was interrupted or it failed."
        )
    return ""
