"""Host files: each launcher's own form, read before anything is started.

Open MPI writes ``node slots=8``, Hydra (MPICH, Intel MPI) ``node:8``, srun names alone. Each
refuses the others' form or, worse, takes it for a name; that costs a queue's wait on a cluster.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from rccltune.model.errors import InputFileError, reason_of
from rccltune.model.text import join_lines

_SLOTS: Final = re.compile(r"\bslots=(\d+)")
_COLON: Final = re.compile(r"([\w.-]+):(\d+)")
_RANGE: Final = re.compile(r"([\w.-]+)\[([\d,-]+)\]")
# Host and how many ranks it takes, None where ranks are spread evenly.
_Host = tuple[str, int | None]


def hosts_used(path: Path, flavour: str, n_ranks: int) -> tuple[str, ...]:
    """Hosts of a host file that ranks are put on, in its order.

    Args:
        path: the file.
        flavour: of the launcher that will read it.
        n_ranks: as many as are started.

    Raises:
        InputFileError: every line that is in another launcher's form; or too few slots.
    """
    return _filled(_read(path, flavour), n_ranks, path, wraps=flavour != "openmpi")


def _texts(path: Path) -> list[str]:
    """Its lines without comments.

    Raises:
        InputFileError: it cannot be read.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputFileError(
            f"the host file cannot be read: {reason_of(error)}", where=str(path)
        ) from error
    return [line.partition("#")[0].strip() for line in lines]


def _read(path: Path, flavour: str) -> list[_Host]:
    hosts: list[_Host] = []
    mistakes = []
    texts = _texts(path)
    n_lines = Counter(text.split(maxsplit=1)[0] for text in texts if text)
    for number, text in enumerate(texts, start=1):
        try:
            if text and flavour == "openmpi":
                hosts.append(_openmpi(text, n_lines))
            elif text:
                hosts += _FORMS[flavour](text)
        except ValueError as error:
            mistakes.append(f"{path}:{number}: {error}")
    if mistakes or not hosts:
        raise InputFileError(
            join_lines(mistakes or ["the host file names no host"]),
            where=str(path),
            hint=f"write one host a line as {flavour} reads it: {_example(flavour)}",
        )
    return hosts


def _filled(hosts: list[_Host], n_ranks: int, path: Path, *, wraps: bool) -> tuple[str, ...]:
    """Fill hosts one after the other, as launchers do."""
    used: dict[str, None] = {}
    remaining = n_ranks
    for name, slots in hosts:
        if remaining <= 0:
            break
        used[name] = None
        remaining -= slots or 0
    # Hydra begins again at the first host; srun, without slots, spreads ranks over all.
    if remaining > 0 and not wraps:
        raise InputFileError(
            f"the hosts have {n_ranks - remaining} slots for {n_ranks} ranks",
            where=str(path),
            hint="raise slots= to the devices of each host, or lower --np.",
        )
    return tuple(used)


def _openmpi(text: str, n_lines: Mapping[str, int]) -> _Host:
    """One line with slots, or a bare name as often as it has slots; Open MPI refuses a mixture.

    A bare name that stands once has as many slots as cores, which is not known here.
    """
    name = text.split(maxsplit=1)[0]
    slots = _SLOTS.search(text)
    if _COLON.fullmatch(text):
        raise ValueError(f"'{text}' is MPICH's form")
    if slots is not None and n_lines[name] > 1:
        raise ValueError(f"'{name}' stands {n_lines[name]} times, and slots= with it: say it once")
    if slots is None and n_lines[name] == 1:
        raise ValueError(f"'{text}' does not say slots=: how many ranks it takes is not known")
    return name, int(slots[1]) if slots is not None else 1


def _hydra(text: str) -> Iterator[_Host]:
    if _SLOTS.search(text):
        raise ValueError(f"'{text}' is Open MPI's form")
    name, _, slots = text.split(maxsplit=1)[0].partition(":")
    if slots and not slots.isdigit():
        raise ValueError(f"'{slots}' is no number of ranks")
    yield name, int(slots or 1)


def _srun(text: str) -> Iterator[_Host]:
    if _SLOTS.search(text) or _COLON.fullmatch(text):
        raise ValueError(f"'{text}' says how many ranks: srun reads names alone")
    for part in re.split(r",(?![^[]*\])", text):
        match = _RANGE.fullmatch(part)
        if match is None:
            yield part, None
            continue
        for span in match[2].split(","):
            low, _, high = span.partition("-")
            for number in range(int(low), int(high or low) + 1):
                yield f"{match[1]}{number:0{len(low)}}", None


_FORMS: Final[Mapping[str, Callable[[str], Iterator[_Host]]]] = {
    "mpich": _hydra,
    "intel": _hydra,
    "srun": _srun,
}
_WRITTEN: Final = {
    "openmpi": "{name} slots={n_ranks}",
    "mpich": "{name}:{n_ranks}",
    "intel": "{name}:{n_ranks}",
    "srun": "{name}",
}


def _example(flavour: str) -> str:
    return _WRITTEN[flavour].format(name="node1", n_ranks=8)
