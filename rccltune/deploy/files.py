"""A delivery as files: the same delivery gives the same bytes under the same name."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rccltune.deploy.records import Delivery, File, Version, header
from rccltune.deploy.texts import texts
from rccltune.model import lay

MANIFEST: Final = "MANIFEST"
# rccltune.torch for containers without rccltune; a file named torch.py would hide torch itself.
MODULE: Final = "rccltune_torch.py"
_DIGITS: Final = 12


def assemble(delivery: Delivery) -> Version:
    """All files of a version, MANIFEST last.

    The name is a hash of all of them, made while they do not know it yet.
    """
    digest = hashlib.sha256()
    for file in _files(delivery, "0" * _DIGITS):
        digest.update(f"{file.name} {int(file.run)} {_sha256(file)}\n".encode())
    name = digest.hexdigest()[:_DIGITS]
    return Version(name=name, files=_files(delivery, name))


def _files(delivery: Delivery, version: str) -> tuple[File, ...]:
    rules = [File(name=one.name, content=one.content) for one in delivery.rules]
    module = File(name=MODULE, content=(Path(__file__).parents[1] / "torch.py").read_bytes())
    expected = (delivery.library.name, *(file.name for file in rules))
    files = (
        delivery.library,
        *rules,
        module,
        *(
            File(name=name, content=text.encode(), run=run)
            for name, text, run in texts(delivery, version, expected)
        ),
    )
    manifest = File(name=MANIFEST, content=_manifest(delivery, version, files).encode())
    return (*files, manifest)


def _manifest(delivery: Delivery, version: str, files: Sequence[File]) -> str:
    """Comments, then what ``sha256sum -c MANIFEST`` reads."""
    needs = " ".join(f"{name}={value}" for name, value in delivery.environment)
    requires = " ".join(f"{key}={value}" for key, value in delivery.requires.items())
    lines = [
        *header(delivery, version),
        f"# simulated: {'yes' if delivery.simulated else 'no'}",
        *(f"# {line}" for line in delivery.provenance),
        f"# requires: {requires or 'nothing'}",
        f"# needs: {needs or 'nothing'}",
        f"# plugin: needs glibc {'.'.join(map(str, delivery.glibc))}; tuner ABI versions "
        + " ".join(map(str, delivery.abi_versions)),
        *(f"{_sha256(file)}  {file.name}" for file in files),
    ]
    # A name with a newline must not become a line that sha256sum reads.
    return lay([*lines, ""])


def _sha256(file: File) -> str:
    return hashlib.sha256(file.content).hexdigest()
