"""Draw the rooms of rccltune as import-linter's contract has them: docs/pictures/rooms.svg.

    python scripts/draw_rooms.py             # writes the picture
    python scripts/draw_rooms.py --check     # exit code 1 where the picture is an old one's

What each room is for is its own first line, shown when the pointer rests on it. A room that the
contract has and GROUPS does not is an error, so that nobody forgets to place a new one.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
PICTURE: Final = ROOT / "docs" / "pictures" / "rooms.svg"
# Along the way of a sample, as far as there is one.
GROUPS: Final = (
    ("the machine", ("detect", "hosts", "simnode")),
    ("what to measure", ("config", "variants", "plan", "search")),
    ("measuring", ("launch", "torchbench", "proof", "quarantine", "advice")),
    ("reading, keeping", ("parse", "session", "workload")),
    ("understanding", ("fit", "scaling", "ceiling", "npkit")),
    ("choosing, proving", ("zones", "emit", "verify", "why")),
    ("giving", ("deploy", "plot", "report", "gather")),
)
WIDTH: Final = 820
LABEL: Final = 150
LEFT: Final = 170
ROW: Final = 34
BOX: Final = 24
GAP: Final = 8
LETTER: Final = 7.4
COLORS: Final = {"cli": "#dbe7f6", "room": "#fdf3d8", "lobby": "#e2efdc"}


def contract(text: str) -> list[list[str]]:
    """The layers of pyproject.toml, the uppermost first."""
    found = re.search(r"^layers = \[\n(.*?)^\]", text, re.MULTILINE | re.DOTALL)
    if found is None:
        raise ValueError("pyproject.toml has no layers")
    return [layer.split(" | ") for layer in re.findall(r'"([^"]+)"', found[1])]


def first_line(name: str) -> str:
    """What a module says of itself."""
    package = ROOT / "rccltune" / name / "__init__.py"
    path = package if package.is_file() else ROOT / "rccltune" / f"{name}.py"
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").split("\n")[0]


def rows(layers: Sequence[Sequence[str]]) -> Iterator[tuple[str, str, Sequence[str]]]:
    """(color, label, names) of each row of the picture; the layer of rooms is several."""
    placed = {name for _, names in GROUPS for name in names}
    rooms = next(n for n, layer in enumerate(layers) if "parse" in layer)
    if placed != set(layers[rooms]):
        odd = ", ".join(sorted(placed ^ set(layers[rooms])))
        raise ValueError(f"GROUPS and the contract differ: {odd}")
    for number, layer in enumerate(layers):
        if number == rooms:
            yield from (("room", label, names) for label, names in GROUPS)
        else:
            color = "cli" if number < rooms else "lobby"
            label = {0: "know the order", rooms + 1: "the lobby"}.get(number, "")
            yield color, label, layer


def drawn(layers: Sequence[Sequence[str]]) -> str:
    """The picture; whatever stands higher may import what stands lower, rooms one another never."""
    parts = []
    y = 16
    last = None
    for color, label, names in rows(layers):
        if last not in (None, color):
            y += 10
            parts.append(
                f'<path d="M16 {y - 9}H{WIDTH - 16}" stroke="#888" stroke-dasharray="3 4"/>'
            )
        last = color
        if label:
            parts.append(f'<text x="{LABEL}" y="{y + 16}" text-anchor="end">{label}</text>')
        x = float(LEFT)
        for name in names:
            width = round(len(name) * LETTER + 18, 1)
            parts.append(
                f'<g><title>{escape(first_line(name))}</title><rect x="{x:g}" y="{y}" '
                f'width="{width:g}" height="{BOX}" rx="4" fill="{COLORS[color]}" stroke="#555"/>'
                f'<text x="{x + width / 2:g}" y="{y + 16}" text-anchor="middle" '
                f'class="name">{name}</text></g>'
            )
            x += width + GAP
        y += ROW
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 4}" width="{WIDTH}" '
        f'height="{y + 4}" role="img" aria-label="The rooms of rccltune">'
        "<style>text{font:13px sans-serif;fill:#333}.name{font:12px monospace}</style>"
        f'<rect width="{WIDTH}" height="{y + 4}" fill="#fff"/>'
    )
    return "\n".join((head, *parts, "</svg>", ""))


def main() -> int:
    """Write the picture, or hold the one that is there against the contract."""
    text = drawn(contract((ROOT / "pyproject.toml").read_text(encoding="utf-8")))
    if sys.argv[1:] == ["--check"]:
        is_current = PICTURE.is_file() and PICTURE.read_text(encoding="utf-8") == text
        if not is_current:
            print(f"{PICTURE.relative_to(ROOT)} is old: python scripts/draw_rooms.py")
        return int(not is_current)
    PICTURE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
