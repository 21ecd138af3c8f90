"""Make docs/commands.md, docs/exit-codes.md, the table of docs/deploy.md and data/node.schema.json from the code.

.venv/bin/python scripts/make_tables.py            write them
.venv/bin/python scripts/make_tables.py --check    exit 1 where one is out of date
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import click

from rccltune import plugin
from rccltune.cli import group
from rccltune.model import errors
from rccltune.model.choice import Judgement
from rccltune.model.errors import (
    CommandLineError,
    InputFileError,
    LaunchError,
    MachineError,
    OutputError,
    RccltuneError,
    ReadOnlyError,
    SessionError,
    TooLittleDataError,
    VerificationError,
)
from rccltune.model.measurement import Caution
from rccltune.model.schema import json_schema
from rccltune.model.vocabulary import UnusableReason
from rccltune.releases import RELEASES
from rccltune.rules.library_support import ModeSupport, RuleReaderKind, way
from rccltune.simulate.schema import NodeFile

ROOT: Final = Path(__file__).resolve().parents[1]
MARK: Final = "<!-- made by scripts/make_tables.py; edit that, or the help of the command -->"

# What to do about each exit code. A class that is missing here stops the making of the page.
_TO_DO: Final = {
    CommandLineError: "read the hint, or `rccltune COMMAND --help`",
    InputFileError: "correct the lines named",
    MachineError: "`rccltune doctor`, which names the remedy; nothing was measured",
    LaunchError: "read the log that it names; the same command goes on where it stopped",
    OutputError: "[send](troubleshooting.md#send-us-what-you-see) the line shown and the log",
    SessionError: "another folder (`-o`), or the machine and library that the session is of",
    ReadOnlyError: "write elsewhere with `-o`",
    TooLittleDataError: "measure more, or see why samples were left out (column `unusable` of `samples.csv`)",
    VerificationError: "do not use the rules: `verify` shows each",
}


def walk(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    """Every command below one, in the order of its help, with the words that call it."""
    if not isinstance(command, click.Group):
        return
    context = click.Context(command)
    for word in command.list_commands(context):
        found = command.get_command(context, word)
        if found is None:
            raise SystemExit(f"{name} {word} is listed and is not there")
        yield f"{name} {word}", found
        yield from walk(found, f"{name} {word}")


def paragraphs(command: click.Command) -> list[str]:
    r"""The help of a command, parted at blank lines; click's \b lines are left out."""
    text = inspect.cleandoc(command.help or "").replace("\b", "")
    return [part.strip("\n") for part in re.split(r"\n\s*\n", text) if part.strip()]


def purpose(command: click.Command) -> str:
    """The first paragraph: what the command is for."""
    return " ".join(paragraphs(command)[0].split())


def part_of(command: click.Command, heading: str) -> str:
    """The text behind ``Example:`` or ``Exit codes:``; empty where it is missing."""
    for part in paragraphs(command):
        if part.lstrip().startswith(heading):
            return part.lstrip().removeprefix(heading)
    return ""


def commands() -> list[str]:
    """The lines of docs/commands.md."""
    every = list(walk(group, "rccltune"))
    lines = [
        *("# Every command", "", MARK, ""),
        "`rccltune COMMAND --help` explains the usual options of a command and its [exit codes](exit-codes.md), `--help-all` every option.",
        "Each command reads or writes `./rccltune-session` unless told otherwise. Sizes are `4K`, `1MiB`, `8G` or plain bytes. An option",
        "can be set in the environment too: `RCCLTUNE_CLI_<COMMAND>_<OPTION>` (`RCCLTUNE_CLI_SWEEP_COMMUNICATORS=8`). Results go to",
        f"stdout, everything else to stderr. Nearly all commands have {', '.join(_common(every))}.",
    ]
    for name, one in every:
        arguments = (p for p in one.params if isinstance(p, click.Argument))
        words = ", ".join(f"`{w}`" for p in arguments for w in p.get_usage_pieces(_CONTEXT))
        about = f"{purpose(one)} Takes {words}." if words else purpose(one)
        lines += ["", f"## {name}", "", about, "", *_about(one)]
    return lines


def _common(every: Sequence[tuple[str, click.Command]]) -> list[str]:
    """Options of the talk, which stand once at the top."""
    words = ("--verbose", "--quiet", "--json", "--color")
    known = {word for option in every[0][1].params for word in option.opts}
    return [f"`{word}`" for word in words if word in known]


def _about(command: click.Command) -> list[str]:
    example = inspect.cleandoc(part_of(command, "Example:")).splitlines()
    return [f"    {line.strip()}" for line in example if line.strip()]


_CONTEXT: Final = click.Context(group)


def exit_codes() -> list[str]:
    """The lines of docs/exit-codes.md."""
    return [
        *("# Exit codes, warnings and what else has a name", "", MARK, ""),
        "Every error says what happened, where, and what to do next.",
        "",
        "* **0**: done",
        "* **1**: a bug → send the file whose path is printed",
        *(_code(error) for error in _classes()),
        "* **130**: interrupted → the same command goes on",
        *("", _STREAMS),
        *("", "## Warnings", "", f"{_WARNINGS} {', '.join(f'`{c.value}`' for c in Caution)}."),
        *_listed(
            "Samples that are kept and not used",
            _DOUBTS,
            ((d.value, d.meaning) for d in UnusableReason),
        ),
        *_findings(),
        *("", "## Others", ""),
        f"* Verdicts of [verify](verify.md), one a size: {', '.join(f'`{j.value}`' for j in Judgement)}.",
        "* Answers of `why`: [troubleshooting.md](troubleshooting.md#the-answers). Findings of the doctor: [machine.md](machine.md#the-doctor). Results of the plugin's start: [plugin.md](plugin.md#when-it-fails).",
    ]


_STREAMS: Final = (
    "If the reader of stdout has gone (`rccltune fit | head -1`), the work goes on and ends with its own code. If stdout cannot take a "
    "result (a full disk), rccltune says so at the end, with code 7."
)
_WARNINGS: Final = "Each is printed as a sentence with its remedy; `-v` shows all of many alike. Their names in `fit.json` and `--json`:"
_DOUBTS: Final = "In the column `unusable` of `samples.csv`:"


def _classes() -> list[type[RccltuneError]]:
    found = [
        one
        for _, one in inspect.getmembers(errors, inspect.isclass)
        if issubclass(one, RccltuneError) and one is not RccltuneError
    ]
    return sorted(found, key=lambda one: one.exit_code)


def _code(error: type[RccltuneError]) -> str:
    when = (error.__doc__ or "").splitlines()[0].rstrip(".")
    return f"* **{error.exit_code}**: {when} → {_TO_DO[error]}"


def _listed(title: str, about: str, rows: Iterator[tuple[str, str]]) -> list[str]:
    return ["", f"## {title}", "", about, "", *(f"* `{name}`: {meaning}" for name, meaning in rows)]


def findings() -> list[tuple[str, str, str]]:
    """(code, severity, message) of every finding of the plugin's reader, from its source."""
    source = (ROOT / "native_plugin" / "src" / "rule_file.c").read_text(encoding="utf-8")
    pattern = r'FINDING_(ERROR|WARNING),\s*"([a-z0-9-]+)",\s*((?:"[^"]*"\s*)+)'
    found = {}
    for severity, code, message in re.findall(pattern, source):
        text = "".join(re.findall(r'"([^"]*)"', message))
        found[code, re.sub(r"%(?:\.\*|z|ll)?[sdu]", "…", text)] = severity.lower()
    return [(code, severity, message) for (code, message), severity in found.items()]


_FINDINGS: Final = (
    "The plugin says them at start, `rccltune explain` at any time. An error refuses the file; a warning leaves its row out "
    "(`RCCLTUNE_STRICT=1` makes it an error). Their names:"
)


def _findings() -> list[str]:
    by_severity: dict[str, dict[str, None]] = {"error": {}, "warning": {}}
    for code, severity, _ in sorted(findings()):
        by_severity[severity][f"`{code}`"] = None
    return [
        *("", "## Lines of a rule file", ""),
        _FINDINGS,
        "",
        *(f"* {severity}s: {', '.join(codes)}" for severity, codes in by_severity.items()),
    ]


_BEGIN: Final = "<!-- made by scripts/make_tables.py -->"
_END: Final = "<!-- end -->"
_EXPORTS: Final = {
    RuleReaderKind.FILE: "`NCCL_TUNER_CONFIG_FILE=FILE`",
    RuleReaderKind.PLUGIN: (
        "`NCCL_TUNER_PLUGIN=$(rccltune plugin --path)` `NCCL_TUNER_CONFIG_FILE=FILE`"
    ),
    RuleReaderKind.KEYED: (
        "`NCCL_TUNER_PLUGIN=$(rccltune plugin --path)` `RCCLTUNE_CONFIG_DIR=FOLDER`, with "
        "`rccl_tuner_<arch>_<mode>.csv` for each mode in it"
    ),
}


def releases_table(offered: Sequence[int]) -> list[str]:
    """What each release of the libraries needs, in Markdown.

    Args:
        offered: versions of the tuner interface that the plugin has.
    """
    lines = [
        f"| release | tuner ABI | {ModeSupport.ONE.value} | {ModeSupport.SEVERAL.value} | |",
        "|---|--:|---|---|---|",
    ]
    for release in {each.name: each for each in RELEASES}.values():
        abi = max((v for v in release.interfaces if v in offered), default=0)
        ways = (way(abi, modes, built_in=release.reads_rules).value for modes in ModeSupport)
        lines.append(f"| {release.name} | {abi or '–'} | {' | '.join(ways)} | {release.remark} |")
    return lines


def _deploy(path: Path) -> str:
    """docs/deploy.md with the table of releases, and what each way exports, between its marks."""
    before, _, rest = path.read_text(encoding="utf-8").partition(_BEGIN)
    _, _, after = rest.partition(_END)
    ways = [f"* **{one.value}**: {exports}" for one, exports in _EXPORTS.items()]
    table = releases_table(plugin.build_info()["abi_versions"])
    return before + "\n".join([_BEGIN, *table, "", *ways, _END]) + after


def pages() -> dict[Path, str]:
    """The pages, and the schema of node files, as they have to be."""
    made = {"commands.md": commands(), "exit-codes.md": exit_codes()}
    written = {ROOT / "docs" / name: "\n".join(lines) + "\n" for name, lines in made.items()}
    deploy = ROOT / "docs/deploy.md"
    return written | {
        deploy: _deploy(deploy),
        ROOT / "rccltune/data/node.schema.json": node_schema(),
    }


def node_schema() -> str:
    """The JSON schema of node files, for people's editors."""
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "rccltune node file, format 1",
    }
    return json.dumps(head | json_schema(NodeFile), indent=1) + "\n"


def main() -> None:
    """Write the pages, or say which are out of date."""
    if sys.argv[1:] not in ([], ["--check"]):
        raise SystemExit(__doc__)
    old = {
        path: text
        for path, text in pages().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    }
    for path, text in old.items():
        print(path.relative_to(ROOT))
        if not sys.argv[1:]:
            path.write_text(text, encoding="utf-8")
    if sys.argv[1:] and old:
        raise SystemExit("out of date: run scripts/make_tables.py")


if __name__ == "__main__":
    main()
