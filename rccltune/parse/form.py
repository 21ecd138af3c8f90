"""What kind of file it is, from its first lines and never from its name."""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

from rccltune.parse.columns import roles_of

_OBJECT: Final = re.compile(r"\s*\{\s*(?:\"|\}|$)")
_ARRAY: Final = re.compile(r"\s*\[\s*(?:\{|\]|$)")
_RESULTS: Final = re.compile(r"\s*\{\s*\"(?:version|start_time|args|config|results)\"")
_RULE: Final = re.compile(
    r"\s*[A-Za-z_]+\s*,\s*\d+\s*,\s*\d+\s*,\s*[\w-]+\s*,\s*[\w-]+\s*(?:,\s*-?\w+\s*){3,}"
)
_RULE_HEADER: Final = re.compile(r"\s*coll(?:ective)?_?type\s*,\s*min_?bytes", re.IGNORECASE)
_SEPARATORS: Final = ",;\t"


class Form(Enum):
    """Kinds of files; the value is what people call them."""

    TEXT = "benchmark log"
    RESULTS = "nccl-tests -J file"
    RECORDS = "rccl-tests JSON records"
    DELIMITED = "table of comma-separated values"
    RULES = "tuner rule file"


def form_of(head: str) -> Form:
    """Kind of a file that begins so."""
    if _RESULTS.match(head):
        return Form.RESULTS
    if _OBJECT.match(head) or _ARRAY.match(head):
        return Form.RECORDS
    for line in head.splitlines():
        text = line.strip()
        if text.startswith("#@ "):
            return Form.RULES
        if not text or text.startswith("#"):
            continue
        if _RULE.match(text) or _RULE_HEADER.match(text):
            return Form.RULES
        separator = separator_of(text)
        if separator and "nbytes" in (roles := roles_of(text.split(separator))) and len(roles) > 1:
            return Form.DELIMITED
        break
    return Form.TEXT


def separator_of(header: str) -> str:
    """What stands between the columns; empty where there is one column."""
    best = max(_SEPARATORS, key=header.count)
    return best if best in header else ""
