"""Text as the plugin splits it; expected values are those of native_plugin/tests/test_text.c."""

from __future__ import annotations

import pytest

from rccltune.model import grammar

# What str.splitlines takes for the end of a line, line feed and carriage return aside.
SEPARATORS = "\v\f\x1c\x1d\x1e\x85\u2028\u2029"
# What str.strip and str.split take for a blank.
SPACES = "\v\f\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2003\u2028\u3000"


@pytest.mark.parametrize("separator", [*SEPARATORS, "\r"])
def test_a_line_ends_at_a_line_feed_alone(separator: str) -> None:
    """Python's own reading would make two lines of a comment."""
    text = f"# one{separator}allreduce\nnext"
    assert text.splitlines() != grammar.lines(text)
    assert grammar.lines(text) == [f"# one{separator}allreduce", "next"]


def test_a_last_line_counts_without_its_line_feed() -> None:
    """As text_next_line: nothing behind the last line feed is no line, an empty one before it is."""
    assert grammar.lines("") == []
    assert grammar.lines("a") == ["a"]
    assert grammar.lines("a\n") == ["a"]
    assert grammar.lines("a\r\n\nb") == ["a\r", "", "b"]


@pytest.mark.parametrize("space", SPACES)
def test_a_blank_is_space_tab_or_carriage_return(space: str) -> None:
    """Nothing else parts words or is taken off an end."""
    assert grammar.trim(f" \t\r{space}a{space}\r\n".rstrip("\n")) == f"{space}a{space}"
    assert grammar.words(f"a{space}b \t\r c") == [f"a{space}b", "c"]


@pytest.mark.parametrize("text", ["", " 1", "1 ", "+1", "-1", "1_0", "٣", "²", "１", "0x1", "1.0"])
def test_a_number_is_ascii_digits(text: str) -> None:
    """int() takes some of these, and str.isdigit others."""
    with pytest.raises(ValueError, match="plain digits"):
        grammar.whole(text)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("00042", 42),
        ("18446744073709551615", 2**64 - 1),
        ("18446744073709551616", 2**64),
        ("9" * 5000, grammar.TOO_BIG),
        ("0" * 5000 + "7", 7),
    ],
)
def test_a_number_may_have_any_length(text: str, number: int) -> None:
    """Python itself refuses to convert more than 4300 digits."""
    assert grammar.whole(text) == number


def test_a_mark_at_the_beginning_is_no_text() -> None:
    """Editors leave it; bytes that are no UTF-8 are no reason to fail."""
    assert grammar.text_of(b"\xef\xbb\xbfa\xff\r\n") == "a\N{REPLACEMENT CHARACTER}\r\n"
