"""AMD's Instinct parts by PCI device id, which the arch alone does not tell apart, and their dies.

Names are those of AMD's own SR-IOV host driver (amd/MxGPU-Virtualization,
``amdgv_marketing_name.c``), which has no entry for 0x74a0 and 0x74b9: MI300A is in a published
capture, the MI325X function follows the pattern of the others. MI300X and MI325X have eight XCDs
on four I/O dies, MI300A six on three of its four, MI350 eight on two. An MI308X has four XCDs; how
they lie on its I/O dies is not published, so that is left unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rccltune.model.settings import Mode


@dataclass(frozen=True, slots=True)
class Product:
    """One part.

    Attributes:
        per_iod: XCDs on one I/O die, None where unknown.
        memory: memory modes that it has, empty where unknown.
        parted: mode in which AMD would have it partitioned, None where it names none.
    """

    name: str
    n_xcds: int | None
    per_iod: int | None
    memory: tuple[str, ...] = ()
    parted: Mode | None = None

    def lacks(self, mode: Mode) -> bool:
        """Whether it is known to have no such memory mode."""
        return bool(self.memory) and mode.memory not in (None, *self.memory)


# Modes with parts are those of AMD's RCCL usage tips (rocm-systems 1dd79172
# projects/rccl/docs/how-to/rccl-usage-tips.rst): MI350X has no NPS4.
_MI300: Final = (("NPS1", "NPS2", "NPS4"), Mode.parse("cpx-nps4"))
_MI350: Final = (("NPS1", "NPS2"), Mode.parse("dpx-nps2"))
PRODUCTS: Final = {
    0x7408: Product("MI250X", None, None),
    0x740C: Product("MI250X/MI250", None, None),
    0x740F: Product("MI210", None, None),
    0x74A0: Product("MI300A", 6, 2),
    0x74A1: Product("MI300X", 8, 2, *_MI300),
    0x74A2: Product("MI308X", 4, None),
    0x74A5: Product("MI325X", 8, 2, *_MI300),
    0x74A8: Product("MI308X", 4, None),
    0x74A9: Product("MI300X HF", 8, 2, *_MI300),
    0x74B5: Product("MI300X VF", 8, 2),
    0x74B6: Product("MI308X VF", 4, None),
    0x74B9: Product("MI325X VF", 8, 2),
    0x74BC: Product("MI308X VF", 4, None),
    0x74BD: Product("MI300X HF VF", 8, 2),
    0x75A0: Product("MI350X", 8, 4, *_MI350),
    0x75A3: Product("MI355X", 8, 4, *_MI350),
    0x75B0: Product("MI350X VF", 8, 4),
    0x75B3: Product("MI355X VF", 8, 4),
}


def find_product(device_id: int | None) -> Product | None:
    """The part with a PCI device id, None for one that is not in the table."""
    return PRODUCTS.get(device_id) if device_id is not None else None


def list_xcds(device_id: int | None, partition: int, n_xccs: int | None) -> tuple[int, ...]:
    """XCDs of a partition, numbered within its OAM: partitions take them in order."""
    product = find_product(device_id)
    if product is None or product.n_xcds is None or not n_xccs:
        return ()
    first = partition * n_xccs
    dies = tuple(range(first, min(first + n_xccs, product.n_xcds)))
    return dies if len(dies) == n_xccs else ()


def list_iods(device_id: int | None, xcds: tuple[int, ...]) -> tuple[int, ...]:
    """I/O dies under some XCDs; empty where the layout is not known."""
    product = find_product(device_id)
    if product is None or product.per_iod is None:
        return ()
    return tuple(sorted({xcd // product.per_iod for xcd in xcds}))
