"""What a rule file says of its own length: ``#@ rules N`` first, ``#@ end N`` last.

N is the number of rows, whether they are taken or not. A file that was cut, or is being written,
has not both, and the plugin refuses it (``native_plugin/src/seal.c``, which this is in Python).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from rccltune import grammar

CODE: Final = "seal"
_HEAD, _END = "rules", "end"
_FIRST: Final = f"#@ {_HEAD}"
_SHOWN: Final = 20


def is_row(line: str) -> bool:
    """Whether a line is a row, right or wrong: neither blank nor a comment."""
    return bool(grammar.trim(line.partition("#")[0]))


def is_seal(line: str) -> bool:
    """Whether a line says how many rows there are."""
    return grammar.instruction(line)[:1] in ([_HEAD], [_END])


def is_stump(content: str) -> bool:
    """Whether a file ends inside the first word of a sealed one, or before it."""
    return len(content) < len(_FIRST) and _FIRST.startswith(content)


def sealed(lines: Iterable[str]) -> list[str]:
    """The lines with their number in front and behind, whatever number they had."""
    kept = [line for line in lines if not is_seal(line)]
    n_rows = sum(map(is_row, kept))
    return [f"{_FIRST} {n_rows}", *kept, f"#@ {_END} {n_rows}"]


@dataclass(slots=True)
class Seal:
    """What was said and counted so far.

    Attributes:
        line: of the last of the two instructions.
    """

    n_rows: int = 0
    line: int = 0
    _n_rows_at_end: int = 0
    _heads: list[str] = field(default_factory=list)
    _ends: list[str] = field(default_factory=list)

    def take(self, line: int, words: Sequence[str]) -> None:
        """Take note of a ``#@`` line's words."""
        match words:
            case ["rules", *rest]:
                self._heads.append(" ".join(rest))
            case ["end", *rest]:
                self._ends.append(" ".join(rest))
                self._n_rows_at_end = self.n_rows
            case _:
                return
        self.line = line

    def mistake(self) -> str | None:
        """Why the file does not have what it says, both counts named; None where it does."""
        if not self._heads and not self._ends:
            return None
        if (
            _numbers(self._heads) == [self.n_rows]
            and _numbers(self._ends) == [self.n_rows]
            and self._n_rows_at_end == self.n_rows
        ):
            return None
        below = self.n_rows - self._n_rows_at_end if self._ends else 0
        return (
            f"not as long as it says: '#@ rules' {_quoted(self._heads)}, '#@ end' "
            f"{_quoted(self._ends)}, and there are {self.n_rows} rows, {below} below the end: "
            "cut, or edited by hand (then: rccltune seal FILE)"
        )


def _numbers(said: Sequence[str]) -> list[int | None]:
    return [_number(one) for one in said]


def _number(text: str) -> int | None:
    try:
        return grammar.whole(text)
    except ValueError:
        return None


def _quoted(said: Sequence[str]) -> str:
    if not said:
        return "is missing"
    return f"says '{said[0][:_SHOWN]}'" if len(said) == 1 else f"is there {len(said)} times"
