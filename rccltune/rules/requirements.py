"""What a rule file requires of a machine, and whether a machine is one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from rccltune.model.measurement import Fingerprint
from rccltune.model.settings import Vendor, vendor_of
from rccltune.rules.line_format import product_name, requirement
from rccltune.rules.placement_files import gfx_of

# What only files for the other vendor's GPUs require.
_OF_OTHERS: Final = {
    Vendor.AMD: frozenset(("product",)),
    Vendor.NVIDIA: frozenset(("arch", "compute", "memory")),
}


def requirements_of(fingerprint: Fingerprint) -> tuple[tuple[str, str], ...]:
    """What a file of this machine requires, as far as that is known.

    Arch, compute units and mode of AMD's GPUs, the product of NVIDIA's.
    """
    mode = fingerprint.mode
    pairs = (
        ("arch", gfx_of(fingerprint)),
        ("product", _nvidia_product(fingerprint)),
        ("cus", fingerprint.cu_count),
        ("compute", mode.compute if mode else None),
        ("memory", mode.memory if mode else None),
    )
    return tuple((key, str(value)) for key, value in pairs if value is not None)


def _nvidia_product(fingerprint: Fingerprint) -> str | None:
    """The product as the plugin finds it on the machine; None where that is not one.

    CUDA names a slice of a GPU after it (``NVIDIA H200 MIG 1g.18gb``), which the driver's list of
    GPUs does not have.
    """
    product = fingerprint.product
    if product is None or vendor_of(product) is not Vendor.NVIDIA:
        return None
    return None if " + " in product or " MIG " in product else product_name(product)


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherMachine:
    """Something that a file requires and a machine has not.

    Attributes:
        found: what it has; None where that is another vendor's.
    """

    name: str
    wanted: str
    found: str | None


def of_another_machine(
    requires: Iterable[tuple[str, str]], fingerprint: Fingerprint
) -> list[OtherMachine]:
    """What of ``#@ requires`` a machine has not; what is not known of it counts as had."""
    here, vendor = dict(requirements_of(fingerprint)), fingerprint.vendor
    foreign = _OF_OTHERS[vendor] if vendor is not None else frozenset()
    return [
        OtherMachine(name=name, wanted=value, found=here.get(name))
        for name, value in requires
        if (name in here and requirement(name, value) != requirement(name, here[name]))
        or name in foreign
    ]
