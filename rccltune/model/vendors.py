"""Whose GPUs they are, by the words that a log or a user has for them.

RCCL and NCCL have different limits, so that what a rule may choose depends on it. Benchmarks print
what the runtime calls the device: drivers of NVIDIA before 470 left the vendor out
(``A100-SXM4-40GB``, ``Tesla V100-SXM2-16GB``), ROCm has market names (``AMD Instinct MI300X``) and,
where the machine lacks a table of them, ``AMD Radeon Graphics``.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final


class Vendor(Enum):
    """Who made the GPUs, in the words that stand in for an unknown arch."""

    AMD = "amd"
    NVIDIA = "nvidia"


_AMD: Final = re.compile(
    r"\b(?:AMD|Instinct|Radeon|Vega|MI\d{2,3}[A-Z]?)\b|\bgfx[0-9a-f]{3,4}", re.IGNORECASE
)
# A bare chip only at the beginning: 'Radeon PRO V620' is none of NVIDIA's.
_NVIDIA: Final = re.compile(
    r"\b(?:NVIDIA|GeForce|Tesla|Quadro|RTX)\b|^(?:sm_?\d{2}|TITAN\b|G[BH]\d{3}|[ABHLPTV]\d{1,3}\b)",
    re.IGNORECASE,
)


def vendor_of(*words: str | None) -> Vendor | None:
    """The vendor that product and arch name; None where none does, or two are named.

    Args:
        words: ``NVIDIA H200``, ``gfx942``, ``nvidia`` …; several products with `` + `` between
            them; None is unsaid.
    """
    parts = [part for word in words if word is not None for part in word.split(" + ")]
    found = {vendor for part in parts if (vendor := _of_one(part)) is not None}
    return found.pop() if len(found) == 1 else None


def _of_one(word: str) -> Vendor | None:
    if _AMD.search(word):
        return Vendor.AMD
    return Vendor.NVIDIA if _NVIDIA.search(word) else None
