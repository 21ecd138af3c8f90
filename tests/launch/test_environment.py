"""Law 11: only variables that choose are cleared; all others reach every rank."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rccltune.launch.variables import chooses, launch_environment

# The design's list, typed again from its text.
THAT_CHOOSE = [
    "NCCL_ALGO",
    "NCCL_PROTO",
    "NCCL_MIN_NCHANNELS",
    "NCCL_MAX_NCHANNELS",
    "NCCL_MIN_CTAS",
    "NCCL_MAX_CTAS",
    "NCCL_NTHREADS",
    "NCCL_TUNER_PLUGIN",
    "NCCL_TUNER_CONFIG_FILE",
    "RCCL_OVERRIDE_ALGO",
    "RCCL_OVERRIDE_PROTO",
    "RCCL_LL128_FORCE_ENABLE",
    "RCCL_MSCCL_ENABLE",
    "RCCL_MSCCLPP_ENABLE",
    "RCCLTUNE_RECORD",
]
THAT_PASS = [
    "NCCL_SOCKET_IFNAME",
    "NCCL_IB_HCA",
    "NCCL_NET",
    "NCCL_NVLS_ENABLE",
    "NCCL_DEBUG",
    "NCCL_DEBUG_FILE",
    "NCCL_NET_PLUGIN",
    "NCCL_ALGORITHM",
    "TORCH_SYMM_MEM_DISABLE_MULTICAST",
    "NVSHMEM_DISABLE_NVLS",
    "HSA_NO_SCRATCH_RECLAIM",
    "LD_LIBRARY_PATH",
    "PATH",
]


@pytest.mark.parametrize("name", THAT_CHOOSE)
def test_what_chooses_is_cleared(name: str) -> None:
    """A leftover of somebody's experiment must not decide for every arm."""
    made = launch_environment({name: "1", "PATH": "/bin"}, ())

    assert name not in made.variables
    assert made.cleared == ((name, "1"),)


@pytest.mark.parametrize("name", THAT_PASS)
def test_what_the_site_needs_passes(name: str) -> None:
    """Clearing transport or safety variables stops jobs, and on shared machines does harm."""
    made = launch_environment({name: "site's"}, (("NCCL_ALGO", "tree"),))

    assert made.variables[name] == "site's"
    assert made.cleared == ()


@pytest.mark.parametrize(
    "added",
    [(), (("NCCL_TUNER_PLUGIN", "/p.so"),), (("NCCL_ALGO", "ring"), ("NCCL_PROTO", "ll"))],
)
def test_nvls_stays_off_in_every_arm(added: tuple[tuple[str, str], ...]) -> None:
    """NCCL_NVLS_ENABLE=0 of the site is in force for baseline, plugin and forced launches."""
    safety = {
        "NCCL_NVLS_ENABLE": "0",
        "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
        "NVSHMEM_DISABLE_NVLS": "1",
    }
    made = launch_environment(dict(os.environ) | safety, added)

    assert {name: made.variables[name] for name in safety} == safety
    assert set(safety) - {name for name, _ in made.passed} <= {"TORCH_SYMM_MEM_DISABLE_MULTICAST_"}


def test_the_users_own_list_is_cleared_too() -> None:
    """--clear NAME adds to the list and never replaces it."""
    made = launch_environment({"NCCL_NET": "x", "NCCL_ALGO": "y"}, (), clear=["NCCL_NET"])

    assert dict(made.cleared) == {"NCCL_NET": "x", "NCCL_ALGO": "y"}


NAMES = st.sampled_from(THAT_CHOOSE + THAT_PASS + ["HOME", "NCCL_ALGOX", "XNCCL_ALGO"])


@given(
    site=st.dictionaries(NAMES, st.text(st.characters(exclude_characters="\0"), max_size=5)),
    added=st.dictionaries(NAMES, st.just("ours")),
)
def test_nothing_else_changes(site: dict[str, str], added: dict[str, str]) -> None:
    """The environment is the site's without what chooses, with what was added, and no more."""
    made = launch_environment(site, added.items())
    expected = {n: v for n, v in site.items() if not chooses(n)} | added

    assert made.variables == expected
    assert dict(made.added) == added
    assert not set(dict(made.cleared)) & {n for n in expected if n not in added}
