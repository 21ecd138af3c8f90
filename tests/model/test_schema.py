"""One schema for all that is read: charset, length and range of every field, all mistakes at once."""

from __future__ import annotations

import dataclasses
import json
import math
import typing
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BeforeValidator
from typing_extensions import TypedDict

from rccltune.analyse.session_fit import FitFile
from rccltune.measure.hosts import Host
from rccltune.model import schema, yamlfile
from rccltune.model.errors import InputFileError, SessionError
from rccltune.model.link_map import LinkMap
from rccltune.model.measurement import Fingerprint, ImportedFile
from rccltune.model.settings import RankLocation
from rccltune.model.text import printable
from rccltune.ranks.runs import EndFile, RunFile
from rccltune.session.store import SessionHeader
from rccltune.verify.verdict_store import FailedVerification, VerdictFile

# What each JSON file of a session, and each answer of a host, is read as.
T = typing.TypeVar("T")
ROOTS = (
    *(
        SessionHeader,
        ImportedFile,
        FitFile,
        VerdictFile,
        FailedVerification,
        RankLocation,
    ),
    *(LinkMap, Host, RunFile, EndFile),
)


def bare(kind: object, where: str, seen: set[Any]) -> list[str]:
    """Places below a type that are a text or a number without any bound."""
    if typing.get_origin(kind) is Annotated:
        return []
    if dataclasses.is_dataclass(kind):
        if kind in seen:
            return []
        seen.add(kind)
        hints = typing.get_type_hints(kind, include_extras=True)
        return [
            found for name, one in hints.items() for found in bare(one, f"{where}.{name}", seen)
        ]
    inside = [one for one in typing.get_args(kind) if one is not Ellipsis]
    if inside:
        return [found for one in inside for found in bare(one, where, seen)]
    return [where] if kind in (str, int, float) else []


@pytest.mark.parametrize("root", ROOTS, ids=lambda root: root.__name__)
def test_every_field_that_is_read_has_its_bounds(root: type) -> None:
    """A new field without any would be the next hole; the format's own number is compared."""
    assert [place for place in bare(root, "", set()) if place.lower() != ".format"] == []


def read(kind: type[T], plain: object) -> T:
    """A record from plain values."""
    return schema.read_json(kind, json.dumps(plain).encode(), "x.json", "delete it.")


def test_all_mistakes_are_told_at_once_with_their_fields() -> None:
    """One go at mending."""
    with pytest.raises(SessionError) as caught:
        read(
            ImportedFile,
            {
                "id": "../a",
                "stated": {"collective": "fine", "n_ranks": -1, "assume": [["mode"]]},
                "fingerprint": {"arch": "gfx\n942", "wings": 2, "cu_count": 10**30},
                "environment": {"A B": "c"},
                "written": 3,
            },
        )
    said = caught.value.message
    assert said.startswith("9 mistakes")
    for place in (
        *("id is '../a'", "stated.collective is 'fine'", "stated.n_ranks is -1, below 0"),
        *("stated.assume[0]", "fingerprint.arch is", "fingerprint.wings is unknown"),
        *("fingerprint.cu_count", "environment", "written is 3"),
    ):
        assert place in said
    assert caught.value.where == "x.json"
    assert caught.value.exit_code == 7


@pytest.mark.parametrize(
    "text",
    [
        *("{", "", "[]", "null", "3", '"x"', "[" * 5000, '{"a":' * 5000, "NaN", '{"a": 1e999}'),
        *('{"a": "\\ud800"}', '{"a": NaN}', '{"a": -Infinity}', "\x00", "\xff", "{" + "9" * 9000),
    ],
)
def test_what_is_no_json_of_ours_is_exit_7(text: str) -> None:
    """Whatever it is, the file is named and nothing else is raised."""
    content = text.encode("latin-1")
    with pytest.raises(SessionError) as caught:
        schema.read_json(Fingerprint, content, "x.json", "delete it.")
    assert caught.value.where == "x.json"


@given(st.text(max_size=30), st.text(max_size=30), st.text(max_size=30))
def test_whatever_is_written_can_be_read(name: str, value: str, several: str) -> None:
    """A log may have any letter; what moves a cursor is written out, the rest stays."""
    made = Fingerprint(product=name, hosts=(value,))
    plain = schema.to_plain(made)
    back = read(Fingerprint, plain)
    assert back.hosts == (printable(value),)
    assert back.product == printable(name)
    said = FailedVerification(path=name, sha256="", message=several, hint=None)
    assert read(FailedVerification, schema.to_plain(said)).message == printable(several, "\n\t")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e308, 1e19])
def test_numbers_are_finite_and_their_squares_too(value: float) -> None:
    """1e308 is finite, and what is computed with it is not."""
    with pytest.raises(SessionError):
        schema.read_json(
            EndFile,
            json.dumps({"exit_code": 0, "signal": None, "duration_s": value}).encode(),
            "x.json",
            "delete it.",
        )


class Plain(TypedDict, total=False):
    """A small YAML file."""

    n: Annotated[int, schema.read_by(int)]
    inner: dict[schema.Word, schema.Whole]
    several: Annotated[tuple[schema.Word, ...], BeforeValidator(schema.several)]


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("n: x\nm: 1\nn: 2\n", ["1:4", "2:1", "3:1"]),
        ("inner: {a: -1, ../b: 2}\n", ["1:12", "1:16"]),
        ("several: [a, '$(b)']\n", ["1:14"]),
        ("several: $(b)\n", ["1:10"]),
        ("? [a]\n: 1\n", ["1:3"]),
    ],
)
def test_yaml_mistakes_have_their_places(text: str, places: list[str]) -> None:
    """Line and column of each, in the order of the file."""
    with pytest.raises(InputFileError) as caught:
        yamlfile.read(Plain, text, "x.yaml", "see the docs.")
    lines = caught.value.message.splitlines()[1:]
    assert [line.split(":", 1)[1].rsplit(": ", 1)[0].split(": ")[0] for line in lines] == places


def test_aliases_of_aliases_end() -> None:
    """Ten lines that mean 10^9 values are refused quickly."""
    text = "inner: &a {x: 1}\n" + "".join(
        f"l{n}: &{chr(98 + n)} [{', '.join(['*' + chr(97 + n)] * 9)}]\n" for n in range(9)
    )
    with pytest.raises(InputFileError, match="values"):
        yamlfile.read(Plain, text, "x.yaml", "see the docs.")
