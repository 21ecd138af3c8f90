"""Whose GPUs they are, by what benchmarks and drivers call them."""

from __future__ import annotations

import pytest

from rccltune.model.measurement import Fingerprint
from rccltune.model.settings import Vendor, vendor_of

# As printed by nccl-tests and rccl-tests in public logs, by nvidia-smi -L and by our detection.
NVIDIA = (
    *("NVIDIA H200", "NVIDIA H100 80GB HBM3", "NVIDIA GH200 120GB", "NVIDIA H800"),
    *("NVIDIA A100-SXM4-80GB", "A100-SXM4-40GB", "Tesla V100-SXM2-16GB", "GeForce RTX 2080 Ti"),
    *("Quadro GV100", "TITAN V", "GH200 480GB", "NVIDIA B200", "H100 PCIe", "nvidia", "sm_90"),
)
AMD = (
    *("AMD Instinct MI300X", "AMD Radeon Graphics", "AMD Instinct MI355X", "MI300X", "MI308X VF"),
    *("MI250X/MI250", "Radeon PRO V620", "Arcturus GL-XL [AMD Instinct MI100]", "amd"),
    *("gfx942", "gfx90a", "gfx950:sramecc+:xnack-"),
)
NOBODY = ("", "Made-up GPU", "Graphics Device", "unknown product", "CPU (gloo)", "hopper")


@pytest.mark.parametrize(
    ("name", "vendor"),
    [
        *((name, Vendor.NVIDIA) for name in NVIDIA),
        *((name, Vendor.AMD) for name in AMD),
        *((name, None) for name in NOBODY),
    ],
)
def test_a_name_tells_the_vendor(name: str, vendor: Vendor | None) -> None:
    """As their makers call them; a name that tells nothing is nobody's."""
    assert vendor_of(name) is vendor
    assert Fingerprint(product=name).vendor is vendor


def test_two_products_of_one_vendor_are_that_vendors_and_of_two_nobodys() -> None:
    """A node may mix products; arch and product may not contradict each other silently."""
    assert vendor_of("AMD Instinct MI300A + AMD Instinct MI300X") is Vendor.AMD
    assert vendor_of("NVIDIA A100-SXM4-40GB + Tesla V100-SXM2-16GB") is Vendor.NVIDIA
    assert vendor_of("gfx942", "NVIDIA H200") is None
    assert vendor_of(None, None) is None


def test_limits_go_by_the_arch_and_where_it_is_unknown_by_the_vendor() -> None:
    """gfx90a has other limits than gfx942, so that the arch is the better word."""
    assert Fingerprint(arch="gfx90a", product="AMD Instinct MI210").arch_or_vendor == "gfx90a"
    assert Fingerprint(product="AMD Instinct MI355X").arch_or_vendor == "amd"
    assert Fingerprint(product="NVIDIA H200").arch_or_vendor == "nvidia"
    assert Fingerprint(product="Made-up GPU").arch_or_vendor is None
