"""Make docs/exit-codes.md, the table of docs/deploy.md and data/node.schema.json from the code.

.venv/bin/python scripts/make_tables.py            write them
.venv/bin/python scripts/make_tables.py --check    exit 1 where one is out of date
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rccltune import plugin
from rccltune.model import errors
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
from rccltune.model.schema import json_schema
from rccltune.model.vocabulary import UnusableReason
from rccltune.releases import RELEASES
from rccltune.rules.library_support import ModeSupport, RuleReaderKind, way
from rccltune.simulate.schema import NodeFile

ROOT: Final = Path(__file__).resolve().parents[1]
MARK: Final = "<!-- made by scripts/make_tables.py; edit that, or what it reads -->"

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


def exit_codes() -> list[str]:
    """The lines of docs/exit-codes.md."""
    return [
        *("# Exit codes, and why a timing is not used", "", MARK, ""),
        "Every error says what happened, where, and what to do next.",
        "",
        "* **0**: done",
        "* **1**: a bug → send the file whose path is printed",
        *(_code(error) for error in _classes()),
        "* **130**: interrupted → the same command goes on",
        *("", _STREAMS),
        *("", "## Samples that are kept and not used", ""),
        "In the column `unusable` of `samples.csv`:",
        "",
        *(f"* `{reason.value}`: {reason.meaning}" for reason in UnusableReason),
    ]


_STREAMS: Final = (
    "If the reader of stdout has gone (`rccltune fit | head -1`), the work goes on and ends with its own code. If stdout cannot take a "
    "result (a full disk), rccltune says so at the end, with code 7."
)


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
    deploy = ROOT / "docs/deploy.md"
    return {
        ROOT / "docs/exit-codes.md": "\n".join(exit_codes()) + "\n",
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
