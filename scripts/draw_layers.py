"""Draw the packages of rccltune in the order of import-linter's contract: docs/pictures/layers.svg.

    python scripts/draw_layers.py             # writes the picture
    python scripts/draw_layers.py --check     # exit code 1 where the picture is an old one's

What each package is for is its own first line.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
PICTURE: Final = ROOT / "docs" / "pictures" / "layers.svg"
# Programs' entry points, which nothing imports.
ENTRIES: Final = frozenset({"__main__"})
WIDTH: Final = 860
LEFT: Final = 16
BOX_WIDTH: Final = 108
BOX: Final = 22
ROW: Final = 26
BETWEEN: Final = 7


def contract(text: str) -> list[list[str]]:
    """The layers of pyproject.toml, the uppermost first."""
    found = re.search(r"^layers = \[\n(.*?)^\]", text, re.MULTILINE | re.DOTALL)
    if found is None:
        raise ValueError("pyproject.toml has no layers")
    return [layer.split(" | ") for layer in re.findall(r'"([^"]+)"', found[1])]


def first_line(name: str) -> str:
    """What a package or a module says of itself."""
    package = ROOT / "rccltune" / name / "__init__.py"
    path = package if package.is_file() else ROOT / "rccltune" / f"{name}.py"
    said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return said.split("\n")[0].replace("``", "")


def drawn(layers: Sequence[Sequence[str]]) -> str:
    """The picture; a bar at the left holds together what stands side by side."""
    parts = []
    y = 12
    for layer in ([name for name in layer if name not in ENTRIES] for layer in layers):
        top = y
        for name in layer:
            middle = LEFT + BOX_WIDTH / 2
            parts.append(
                f'<rect x="{LEFT}" y="{y}" width="{BOX_WIDTH}" height="{BOX}" rx="4"/>'
                f'<text x="{middle:g}" y="{y + 15}" text-anchor="middle" class="name">{name}</text>'
                f'<text x="{LEFT + BOX_WIDTH + 14}" y="{y + 15}">{escape(first_line(name))}</text>'
            )
            y += ROW
        if len(layer) > 1:
            parts.append(f'<path d="M8 {top}V{y - ROW + BOX}"/>')
        y += BETWEEN if layer else 0
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" width="{WIDTH}" '
        f'height="{y}" role="img" aria-label="The packages of rccltune in their order">'
        "<style>text{font:13px sans-serif;fill:#333}text.name{font:12px monospace}"
        "rect{fill:#dbe7f6;stroke:#555}path{stroke:#555;stroke-width:3}</style>"
        f'<path d="M0 0H{WIDTH}V{y}H0Z" style="fill:#fff;stroke:none"/>'
    )
    return "\n".join((head, *parts, "</svg>", ""))


def main() -> int:
    """Write the picture, or hold the one that is there against the contract."""
    text = drawn(contract((ROOT / "pyproject.toml").read_text(encoding="utf-8")))
    if sys.argv[1:] == ["--check"]:
        is_current = PICTURE.is_file() and PICTURE.read_text(encoding="utf-8") == text
        if not is_current:
            print(f"{PICTURE.relative_to(ROOT)} is old: python scripts/draw_layers.py")
        return int(not is_current)
    PICTURE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
