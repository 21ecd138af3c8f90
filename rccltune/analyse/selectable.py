"""Settings that a rule may name: the limits of RCCL and NCCL, which no rule can lift.

A rule names a cell of the cost table; cells that the library marks as ignored stay ignored
whatever a rule says (a plugin that writes them all the same runs kernels behind gates that exist
for correctness). The table is that of RCCL 2.28.3, ``src/graph/tuning.cc:660`` (Tree with Simple
on one node of gfx94x and gfx95x) and ``:866`` (LL128), read in ROCm's public source.
"""

from __future__ import annotations

from typing import Final

from rccltune.model.settings import Role, Scale, Setting, Vendor, vendor_of
from rccltune.model.vocabulary import TREE_SIMPLE_NEEDS_NODES, Algorithm, Collective, Protocol

_SWITCHED: Final = (
    Algorithm.COLLNET_DIRECT,
    Algorithm.COLLNET_CHAIN,
    Algorithm.NVLS,
    Algorithm.NVLS_TREE,
)
_NARROW: Final = ("gfx94", "gfx95")


def why_not_selectable(
    setting: Setting, collective: Collective, scale: Scale, arch: str | None = None
) -> str | None:
    """Return the reason why no rule can choose a setting for a collective; None where one can.

    Args:
        setting: as measured.
        collective: what a rule would be for.
        scale: where it would apply.
        arch: ``gfx942`` …; ``amd`` is taken for gfx94x, whose limits are the narrowest. None, where
            nobody knows whose GPUs they are, has no vendor's limits.
    """
    if setting.role is not Role.FORCED:
        return "which setting ran is not known"
    if setting.algorithm is None or setting.protocol is None:
        return "a rule needs both an algorithm and a protocol"
    if not collective.is_tunable:
        return f"{collective.value} never asks a tuner"
    reason = _general(setting.algorithm, collective)
    return reason or (_amd(setting, scale, arch) if _is_amd(arch) else None)


def _is_amd(arch: str | None) -> bool:
    return vendor_of(arch) is Vendor.AMD


def _is_narrow(arch: str | None) -> bool:
    """Whether a GPU is gfx94x or gfx95x, or of AMD without a known arch."""
    is_other = arch is not None and arch.startswith("gfx") and not arch.startswith(_NARROW)
    return _is_amd(arch) and not is_other


def _general(algorithm: Algorithm, collective: Collective) -> str | None:
    if algorithm is Algorithm.TREE and not collective.has_tree:
        return "only all_reduce has a tree"
    if algorithm is Algorithm.PAT and not collective.is_shared:
        return "PAT serves all_gather and reduce_scatter only"
    return None


def _amd(setting: Setting, scale: Scale, arch: str | None) -> str | None:
    if setting.algorithm in _SWITCHED:
        return "RCCL ignores CollNet and NVLS: there is no switch that could serve them"
    if setting.algorithm is Algorithm.PAT and setting.protocol is not Protocol.SIMPLE:
        return "PAT has the Simple protocol only"
    one_node = scale.n_nodes < TREE_SIMPLE_NEEDS_NODES
    tree_simple = setting.algorithm is Algorithm.TREE and setting.protocol is Protocol.SIMPLE
    if tree_simple and one_node and _is_narrow(arch):
        return "RCCL ignores Tree with Simple on one node of this GPU, whatever a rule says"
    return None


def needs_ll128_forced(setting: Setting, scale: Scale, arch: str | None = None) -> bool:
    """Whether LL128 is off by default there and needs RCCL_LL128_FORCE_ENABLE=1.

    On one node no matched topology model of gfx942 or gfx950 switches LL128 on. NCCL has no such
    variable, so that none is needed where nobody knows whose GPUs they are.
    """
    return setting.protocol is Protocol.LL128 and scale.n_nodes == 1 and _is_narrow(arch)
