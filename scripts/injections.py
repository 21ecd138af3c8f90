"""Hostile values, and every field of every file that they can be put into."""

from __future__ import annotations

import contextlib
import copy
import csv
import io
import json
import random
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

CANARY: Final = "canary"
# A size that no measurement has: a row with it came from a text.
ROW: Final = "allreduce,123456789,123456790,ring,ll,-1,1,8,-1,-1"
TEXTS: Final = (
    "../../outside",
    "/etc/outside",
    f"a\n{ROW}",
    f"a\r{ROW}\r",
    f"a\x85{ROW}\u2028{ROW}",
    "a\n#@ needs LD_PRELOAD=/tmp/x.so",
    "a\nexport LD_PRELOAD=/tmp/x.so",
    f"$(touch {CANARY})",
    f"`touch {CANARY}`",
    f"x; touch {CANARY}",
    f"'; touch {CANARY}; '",
    f'"; touch {CANARY}; "',
    f"[exec touch {CANARY}]",
    f'"); os.execute("touch {CANARY}"); ("',
    f"a\ntouch {CANARY}",
    "\\",
    "\x1b[2J\x1b]0;x\x07",
    "\x9b2J",
    "\u202egpj.exe",
    "<script>alert(1)</script>",
    '" onload="alert(1)" x="',
    "</style><script>alert(1)</script>",
    "{{7*7}}{%x%}",
    "[red]x[/red][link=http://x]y[/link]",
    'a,b"c',
    "=cmd|' /C calc'!A0",
    "$\\frac$ $x^$ \\undefined",
    "%s%n%(x)s{0}",
    "a" * 20_000,
    "",
    "\ud800",
    "ä" * 300,
)
NUMBERS: Final = (10**30, -(10**30), 1e308, -1e308, -1, 0, 0.5, 2**63, 2**64)
OTHERS: Final[tuple[Any, ...]] = (None, True, [], {}, [[]], "1", [None], {"a": {"b": []}})
# As text, since no JSON writer makes them.
RAW: Final = (
    "NaN",
    "Infinity",
    "1e999",
    "9" * 5000,
    "[" * 3000 + "]" * 3000,
    '{"a":' * 3000 + "1" + "}" * 3000,
    '"\\ud800"',
    '"\\u0000"',
)
_PLACE: Final = "\ue000"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One place of one file, and how to put a value there.

    Attributes:
        file: relative to the session.
        put: the file's new bytes, of a value.
        raw: the same of a piece of JSON, None where the file is none.
    """

    file: str
    place: str
    put: Callable[[Any], bytes]
    raw: Callable[[str], bytes] | None = None

    def __str__(self) -> str:
        """``session.json fingerprint.arch``."""
        return f"{self.file} {self.place}"


def targets(session: Path) -> Iterator[Target]:
    """Every field of every file of a session; of many alike files the first."""
    seen: set[tuple[str, str]] = set()
    for path in sorted(session.rglob("*")):
        name = str(path.relative_to(session))
        kind = re.sub(r"launches/[^/]+/", "launches/*/", name)
        if not path.is_file():
            continue
        for target in _of(path, name):
            shape = (kind, re.sub(r"\[\d+\]", "[]", target.place))
            if shape not in seen:
                seen.add(shape)
                yield target


def _of(path: Path, name: str) -> Iterator[Target]:
    match path.suffix:
        case ".json":
            yield from _json(name, json.loads(path.read_text(encoding="utf-8")))
        case ".yaml":
            yield from _yaml(name, yaml.safe_load(path.read_text(encoding="utf-8")))
        case ".csv" if path.name.startswith(("samples", "trace")):
            yield from _csv(name, path.read_text(encoding="utf-8"))
        case ".csv" | ".env" | ".log" | "" | ".txt":
            yield from _lines(name, path.read_text(encoding="utf-8", errors="replace"))
        case _:
            return


def _walk(value: object, place: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    yield place
    inside: list[tuple[str | int, object]] = []
    if isinstance(value, dict):
        inside = list(value.items())
    if isinstance(value, list):
        inside = list(enumerate(value[:2]))
    for key, one in inside:
        yield from _walk(one, (*place, key))


def _words(place: Sequence[str | int]) -> str:
    return "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in place)


def _with(whole: object, place: Sequence[str | int], value: object) -> object:
    if not place:
        return value
    made: Any = copy.deepcopy(whole)
    inner = made
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return made


def _json(name: str, whole: object) -> Iterator[Target]:
    for place in _walk(whole):

        def put(value: object, place: tuple[str | int, ...] = place) -> bytes:
            return json.dumps(_with(whole, place, value)).encode()

        def raw(text: str, place: tuple[str | int, ...] = place) -> bytes:
            made = json.dumps(_with(whole, place, _PLACE))
            return made.replace(json.dumps(_PLACE), text).encode()

        yield Target(file=name, place=_words(place), put=put, raw=raw)
        if place and isinstance(place[-1], str):

            def renamed(value: object, place: tuple[str | int, ...] = place) -> bytes:
                return json.dumps(_with(whole, (*place[:-1], str(value)), 1)).encode()

            yield Target(file=name, place=f"{_words(place)} (a key beside)", put=renamed)


def _yaml(name: str, whole: object) -> Iterator[Target]:
    for place in _walk(whole):

        def put(value: object, place: tuple[str | int, ...] = place) -> bytes:
            return yaml.safe_dump(_with(whole, place, value)).encode("utf-8", "surrogatepass")

        yield Target(file=name, place=_words(place), put=put)


def _csv(name: str, text: str) -> Iterator[Target]:
    rows = list(csv.reader(io.StringIO(text)))
    head = next((n for n, row in enumerate(rows) if row and not row[0].startswith("#")), 0)
    for number in {head, len(rows) - 1}:
        for column, title in enumerate(rows[head]):

            def put(value: object, number: int = number, column: int = column) -> bytes:
                made = [list(row) for row in rows]
                made[number][column : column + 1] = [str(value)]
                stream = io.StringIO()
                csv.writer(stream, lineterminator="\n").writerows(made)
                return stream.getvalue().encode("utf-8", "surrogatepass")

            yield Target(file=name, place=f"[{number}].{title}", put=put)


def _lines(name: str, text: str) -> Iterator[Target]:
    """Each word of some lines of each kind, and a line of one's own."""
    lines = text.split("\n")
    kinds: set[str] = set()
    for number, line in enumerate(lines):
        kind = re.sub(r"[0-9a-f.]+", "0", line)[:20]
        if kind in kinds or len(kinds) > 12:
            continue
        kinds.add(kind)
        for word in dict.fromkeys(re.findall(r"[^\s,=]+", line)):

            def put(value: object, number: int = number, word: str = word) -> bytes:
                made = [*lines]
                made[number] = made[number].replace(word, str(value), 1)
                return "\n".join(made).encode("utf-8", "surrogatepass")

            yield Target(file=name, place=f":{number + 1} {word[:20]}", put=put)


def values(
    target: Target, generator: random.Random, most: int | None
) -> Iterator[tuple[str, bytes]]:
    """What is put there, in words and as the file's bytes; ``most`` of it, by chance."""
    made: list[tuple[str, bytes]] = []
    for value in (*TEXTS, *NUMBERS, *OTHERS):
        with contextlib.suppress(TypeError, ValueError, KeyError, yaml.YAMLError):
            made.append((repr(value)[:60], target.put(value)))
    made += [(text[:60], target.raw(text)) for text in RAW if target.raw is not None]
    yield from made if most is None else generator.sample(made, min(most, len(made)))


def inputs(folder: Path, session: Path, examples: Path) -> Path:
    """Files that somebody may name on a command line, one of each kind."""
    folder.mkdir()
    log = next(path for path in session.glob("launches/*/stdout.log") if path.stat().st_size)
    shutil.copy(log, folder / "table.log")
    shutil.copy(examples / "mi300x-cpx-nps4/all_reduce.csv", folder / "table.csv")
    shutil.copy(examples / "h200x2-training-loop/record-rank0.csv", folder / "record.csv")
    shutil.copy(examples / "h200x2-nccl-2.28.9/rccl_tuner.csv", folder / "rules.csv")
    shutil.copy(examples / "nodes/smallest.yaml", folder / "node.yaml")
    shutil.copy(session / "sweep.yaml", folder / "sweep.yaml")
    (folder / "results.json").write_text(json.dumps(_RESULTS), encoding="utf-8")
    (folder / "variants.yaml").write_text(_VARIANTS, encoding="utf-8")
    return folder


_RESULTS: Final = {
    "version": 3,
    "args": ["/opt/all_reduce_perf", "-b", "8"],
    "env": ["HOME=/root"],
    "nccl_version": 22705,
    "config": {
        "nthreads": 1,
        "ngpus": 1,
        "graph": 0,
        "devices": [
            {
                "rank": rank,
                "group": 0,
                "pid": 7,
                "hostname": "node",
                "device": rank,
                "device_hex": "0000:05:00",
                "device_info": "AMD Instinct MI300X",
            }
            for rank in range(2)
        ],
    },
    "results": [
        {
            "size": 1024,
            "count": 256,
            "type": "float",
            "redop": "sum",
            "root": "-1",
            "out_of_place": {"time": 10.0, "alg_bw": 0.1024, "bus_bw": 0.1024, "nwrong": 0.0},
            "in_place": {"time": 10.0, "alg_bw": 0.1024, "bus_bw": 0.1024, "nwrong": 0.0},
        }
    ],
    "out_of_bounds": {"count": 0, "okay": "true"},
}
_VARIANTS: Final = """\
format: 1
variants:
  mine:
    summary: larger buffers
    environment: {NCCL_MIN_NCHANNELS: 32}
    releases: [RCCL 2.20.5]
    needs: {arch: gfx942, ranks: 8}
    calls: {collectives: [all_reduce], dtypes: [float], min_bytes: 1K, max_bytes: 1M}
"""
