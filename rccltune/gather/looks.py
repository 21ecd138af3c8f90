"""What a word looks like: an address, a random key, a secret's option."""

from __future__ import annotations

import ipaddress
import re
from typing import Collection, Iterable

from .variables import is_secret

QUOTES = ("'", '"')
VARIABLE = re.compile(r"[A-Z][A-Z0-9]*_[A-Z0-9_]+")
# Each letter of a tree is a call in the making of its pattern.
_DEEPEST = 200
_CAMEL = re.compile(r"[A-Z]?[a-z]{2,}|[A-Z]{2,}(?![a-z])|[0-9]{1,4}")
_SCHEMES = ("bearer", "basic", "token", "digest", "negotiate")


def bare(value: str) -> tuple[str, str]:
    """A value without quotes, and the marks behind it that belong to the sentence."""
    if value[:1] in QUOTES:
        return value.strip(value[0]), ""
    plain = value.rstrip("\"',;)]}>")
    return plain, value[len(plain) :]


def without_scheme(value: str) -> str:
    """What stands behind Bearer and the like."""
    scheme, _, rest = value.partition(" ")
    return rest.strip() if scheme.lower() in _SCHEMES else value


def is_count(value: str) -> bool:
    """Whether it is a number too small to be a secret: ``keys=3``."""
    return value.isdigit() and len(value) <= 3


def is_secret_word(word: str) -> bool:
    """Whether the next of a list is a secret: behind --password, or behind a variable's name."""
    is_name = word.startswith("-") or VARIABLE.fullmatch(word)
    return bool(is_name) and "=" not in word and len(word) < 80 and is_secret(word)


def is_address(text: str) -> bool:
    """Whether it may be an IPv4 address."""
    return bool(re.fullmatch(r"\d{1,3}(?:\.\d{1,3}){3}", text))


def is_ipv6(text: str) -> bool:
    """Whether it is an IPv6 address, without its zone."""
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def _kind(letter: str) -> str:
    return "digit" if letter.isdigit() else "upper" if letter.isupper() else "lower"


def _changes(text: str) -> int:
    """How often digits, small and capital letters take turns."""
    return sum(_kind(a) != _kind(b) for a, b in zip(text, text[1:]))


def _is_of_words(text: str) -> bool:
    """Whether it is words that were put together: ``ncclDevKernelGeneric4``."""
    parts = _CAMEL.findall(text)
    return "".join(parts) == text and 4 * len(parts) <= len(text)


def is_random(text: str) -> bool:
    """Whether letters and digits take turns as in no word: in all of it, or in a long part."""
    parts = [part for part in re.split(r"[^A-Za-z0-9]+", text) if part]
    whole = "".join(parts)
    candidates = [part for part in parts if len(part) >= 20]
    if len(whole) >= 20 and len(parts) - 1 <= len(whole) // 10:
        candidates.append(whole)
    return any(map(_takes_turns, candidates))


def _takes_turns(text: str) -> bool:
    numbers = re.findall(r"\d+", text)
    if not numbers or text.isdigit():
        return False
    # Small letters and digits alone take turns less often than with capitals among them.
    if len(numbers) >= max(3, len(text) // 10) and _changes(text) >= 0.2 * len(text):
        return True
    return _changes(text) >= 0.3 * len(text) and not _is_of_words(text)


def is_base64(text: str) -> bool:
    """Whether a text with slashes is no path: capitals everywhere, and digits."""
    n_upper, n_lower = sum(map(str.isupper, text)), sum(map(str.islower, text))
    many = len(text) * 0.15
    return min(n_upper, n_lower) > many and _changes(text) >= 0.35 * len(text)


def alternatives(words: Collection[str]) -> str:
    """A pattern for any of many words, the longest first, that reads each letter once."""
    long = sorted((word for word in words if len(word) > _DEEPEST), key=len, reverse=True)
    short = _tree([word for word in words if len(word) <= _DEEPEST])
    parts = [*map(re.escape, long), *([short] if short else [])]
    return parts[0] if len(parts) == 1 else f"(?:{'|'.join(parts)})"


def _tree(words: Iterable[str]) -> str:
    by: dict[str, list[str]] = {}
    for word in words:
        by.setdefault(word[:1], []).append(word[1:])
    branches = [re.escape(first) + _tree(by[first]) for first in sorted(by) if first]
    if not branches:
        return ""
    if len(branches) == 1 and "" not in by:
        return branches[0]
    return f"(?:{'|'.join(branches)}){'?' if '' in by else ''}"
