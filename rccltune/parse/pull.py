"""JSON piece by piece: a file of any size, or one that ends in the middle, in bounded memory."""

from __future__ import annotations

import codecs
import json
from typing import BinaryIO, Final

from rccltune.errors import OutputError

_CHUNK: Final = 1 << 20
_MAX_VALUE: Final = 16 << 20
_BLANK: Final = " \t\r\n"


class CutError(Exception):
    """The file ends inside a value."""


class JsonSource:
    """A cursor over JSON text; numbers are given as they are written."""

    def __init__(self, stream: BinaryIO, name: str) -> None:
        """Nothing was read yet."""
        self._stream = stream
        self._name = name
        self._text = ""
        self._at = 0
        self._line = 1
        self._ended = False
        self._utf8 = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._json = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=str)

    @property
    def line(self) -> int:
        """Line of the cursor, from 1."""
        return self._line + self._text.count("\n", 0, self._at)

    def peek(self) -> str:
        """Next character that is no blank; empty at the end of the file."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in _BLANK:
                self._at += 1
            if self._at < len(self._text) or not self._fill():
                return self._text[self._at : self._at + 1]

    def skip(self, characters: str) -> bool:
        """Step over one character if it is one of these."""
        found = self.peek()
        if not found or found not in characters:
            return False
        self._at += 1
        return True

    def expect(self, character: str) -> None:
        """Step over a character that must come.

        Raises:
            CutError: the file ends.
            OutputError: another one comes.
        """
        if not self.skip(character):
            if not self.peek():
                raise CutError
            raise self._invalid(f"'{character}' is missing")

    def value(self) -> object:
        """The next whole value.

        Raises:
            CutError: the file ends inside it.
            OutputError: it is no JSON, or larger than any record of a benchmark.
        """
        if not self.peek():
            raise CutError
        while True:
            try:
                value, end = self._json.raw_decode(self._text, self._at)
            except RecursionError as error:
                raise self._invalid("it is nested too deep") from error
            except ValueError as error:
                if len(self._text) - self._at > _MAX_VALUE:
                    raise self._invalid("one value is larger than 16 MiB") from error
                if not self._fill():
                    raise self._cut_or_invalid(error) from error
                continue
            # A number that touches the end of what was read may go on.
            if end == len(self._text) and self._fill():
                continue
            self._at = end
            return value

    def _cut_or_invalid(self, error: ValueError) -> Exception:
        position = error.pos if isinstance(error, json.JSONDecodeError) else self._at
        rest = self._text[position:].strip()
        # An unterminated string is reported where it begins; all else where the text ends.
        if len(rest) <= len("Infinity") or "Unterminated" in str(error):
            return CutError()
        return self._invalid(str(error).partition(":")[0])

    def _fill(self) -> bool:
        if self._ended:
            return False
        self._line = self.line
        chunk = self._stream.read(_CHUNK)
        self._ended = not chunk
        if b"\0" in chunk:
            raise OutputError(
                "the file is binary: it holds a zero byte",
                where=self._name,
                hint="give the benchmark's text, CSV or JSON output.",
            )
        # printf writes infinity in a way that no JSON reader takes.
        text = self._utf8.decode(chunk, final=self._ended)
        for bare, whole in ((":inf", ":Infinity"), (":-inf", ":-Infinity"), (":-nan", ":NaN")):
            text = text.replace(bare, whole)
        self._text = self._text[self._at :] + text
        self._at = 0
        return not self._ended or bool(text)

    def _invalid(self, why: str) -> OutputError:
        return OutputError(
            f"the file begins as JSON but is not valid: {why}",
            where=f"{self._name}:{self.line}",
            hint="give the file as the benchmark wrote it.",
        )
