"""Make the table of docs/deploy.md and data/node.schema.json from the code.

.venv/bin/python scripts/make_tables.py            write them
.venv/bin/python scripts/make_tables.py --check    exit 1 where one is out of date
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rccltune import plugin
from rccltune.model.schema import json_schema
from rccltune.releases import RELEASES
from rccltune.rules import library_support
from rccltune.simulate.node_schema import NodeFile

ROOT: Final = Path(__file__).resolve().parents[1]
_BEGIN: Final = "<!-- made by scripts/make_tables.py -->"
_END: Final = "<!-- end -->"
_EXPORTS: Final = {
    library_support.FILE: "`NCCL_TUNER_CONFIG_FILE=FILE`",
    library_support.PLUGIN: (
        "`NCCL_TUNER_PLUGIN=$(rccltune plugin --path)` `NCCL_TUNER_CONFIG_FILE=FILE`"
    ),
    library_support.KEYED: (
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
        f"| release | tuner ABI | {library_support.ONE_MODE} | {library_support.SEVERAL_MODES} | |",
        "|---|--:|---|---|---|",
    ]
    for release in {each.name: each for each in RELEASES}.values():
        abi = max((v for v in release.interfaces if v in offered), default=0)
        ways = library_support.choose_readers(abi, built_in=release.reads_rules)
        lines.append(f"| {release.name} | {abi or '–'} | {' | '.join(ways)} | {release.remark} |")
    return lines


def _deploy(path: Path) -> str:
    """docs/deploy.md with the table of releases, and what each way exports, between its marks."""
    before, _, rest = path.read_text(encoding="utf-8").partition(_BEGIN)
    _, _, after = rest.partition(_END)
    ways = [f"* **{one}**: {exports}" for one, exports in _EXPORTS.items()]
    table = releases_table(plugin.build_info()["abi_versions"])
    return before + "\n".join([_BEGIN, *table, "", *ways, _END]) + after


def pages() -> dict[Path, str]:
    """The pages, and the schema of node files, as they have to be."""
    deploy = ROOT / "docs/deploy.md"
    return {
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
