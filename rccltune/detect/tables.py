"""Where RCCL looks for the rows that a release brings for its own tuner."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rccltune.detect.files import Root
from rccltune.detect.software import rocm_folder

_LIBRARIES = ("librccl.so.1", "librccl.so")
_SHARE = "share/rccl/tuner"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """A release's own table, and every place that was looked at.

    Attributes:
        found: the first that is there, as RCCL takes it; None where none is.
        looked: paths in RCCL's order, to the one found.
    """

    found: Path | None
    looked: tuple[Path, ...]


def vendor_table(root: Root, variables: Mapping[str, str], arch: str | None) -> Tables:
    """Look where RCCL 2.28.3 and later do: beside the library, then below share.

    Args:
        root: where the machine's files are.
        variables: LD_LIBRARY_PATH and ROCM_PATH.
        arch: ``gfx950``; None looks for the table that is for any.
    """
    looked = []
    for path in _candidates(root, variables, arch):
        looked.append(path)
        if path.is_file():
            return Tables(found=path, looked=tuple(looked))
    return Tables(found=None, looked=tuple(looked))


def _candidates(root: Root, variables: Mapping[str, str], arch: str | None) -> Iterator[Path]:
    names = [f"rccl_tuner_{arch}.csv"] if arch else []
    names.append("rccl_tuner.csv")
    return (folder / name for folder in dict.fromkeys(_folders(root, variables)) for name in names)


def _folders(root: Root, variables: Mapping[str, str]) -> Iterator[Path]:
    """Beside each library that a job could load, in the loader's order, then ROCm's own."""
    rocm = rocm_folder(root, variables)
    named = [root.at(name) for name in variables.get("LD_LIBRARY_PATH", "").split(":") if name]
    for folder in (*named, *([rocm / "lib"] if rocm is not None else [])):
        if any((folder / name).is_file() for name in _LIBRARIES):
            real = folder.resolve()
            yield from (real / "tuner", real.parent / _SHARE)
    yield (rocm if rocm is not None else root.at("opt/rocm")) / _SHARE
