"""What is a name or a secret, what is none, and which variables may be sent."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rccltune import variants
from rccltune.gather.scrub import Scrubber
from rccltune.gather.variables import LISTED, is_listed, is_secret

# As real logs of rccl-tests, RCCL, Open MPI and the plugin have them.
ORDINARY = """\
# nThread 1 nGpus 1 minBytes 1024 maxBytes 2097152 step: 2(factor) warmup iters: 5 iters: 20
       65536         16384     float     sum      -1    36.51    1.80    1.77      0    36.19    1.81
RCCL version 2.27.7-HEAD:1a2b3c4 HIP version 7.2.1, librccl.so.1.0.70200 NCCL version 2.28.3.1
device  0 [0000:c1:00] AMD Instinct MI300X busId c1000 0000:c1:00.0 at 12:34:56 2026-11-23T09:17:29+00:00
/opt/rocm/lib/librccl.so.1 /usr/lib/x86_64-linux-gnu/libc.so.6 site-packages/torch/lib/libtorch_hip.so
ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>) at::native::sum c10d::ProcessGroupNCCL
Ring 00 : 0 -> 1 [receive] via P2P/IPC comm 0x55d0c5c4a0f0 commId 0x1f nranks 64
#@ begin comm=8b19a8c7ac0b5b50 context=45 step=0 of=9 setting=tree/ll128 host=ring/simple keys=3
#@ requires arch=gfx942 device=0x74a1 cus=38 compute=CPX memory=NPS4
#@ needs RCCL_LL128_FORCE_ENABLE=1
allreduce,1024,625160,tree,ll,-1,1,64,-1,-1
# samples: sha256 56a81763d258900e2b142b15c9a7ff278cda0dd53eb5cad65bead5962d2b6511
rank_placement=one-per-oam gfx942_cpx-nps4_64x2_ll128 4.10.5-1.el9 tensor.to(device) 127.0.0.1
"""


def test_what_is_no_name_stays_letter_by_letter() -> None:
    """Versions, times, PCI addresses, paths, kernels, digests, rules: of real logs."""
    names = Scrubber()
    names.learner.text(ORDINARY)
    assert names.text(ORDINARY) == ORDINARY
    assert not names.counts


# Each would take minutes if time grew with the square of a line's length.
@pytest.mark.parametrize(
    "what",
    [
        "a", "a.", "A_", "key", "://", "@", ":", "::1:", "A=", "-----BEGIN X-----", "trace-1-",
        "prterun-1-", "uid=1(", "[1-", "a[1-2", "eyJaaaaaa.", "/home/", "Pid 1 on ", "serial a ",
    ],
)  # fmt: skip
def test_a_hostile_line_is_read_in_passing(what: str) -> None:
    """A log may be anybody's: no line of it holds the archive up."""
    names = Scrubber()
    for known in ("node17.a.b", "gpu1"):
        names.know_host(known)
    text = what * (200_000 // len(what))
    names.learner.text(text)
    assert names.text(text)


def test_long_secrets_and_several_addresses_in_a_word() -> None:
    """A key of any length is known again; of joined addresses all go, with the interface."""
    names = Scrubber()
    password = "Ab1-" * 5000
    names.learner.text(f"password={password}\nfe80::12")
    said = names.text(f"x{password}y ens1:fe80::1:ens2:fe80::2%ens2")
    assert password not in said
    assert "fe80" not in said
    assert said.endswith(" ens1:2001:db8::1:ens2:2001:db8::2")


def test_once_is_for_ever() -> None:
    """What was gathered may be gathered again: a stand-in has none."""
    first = Scrubber()
    text = (
        "Pid 1 on node17 device 0, 10.1.2.3 2001:db9::1 de:ad:be:ef:00:01 /home/jdoe x@node18 "
        "password=hunter22 SITE_X=1 3f2504e0-4f89-11d3-9a0c-0305e82c3301 0xE5C8A6B5D35F4D8C"
    )
    first.learner.text(text)
    once = first.text(text)
    again = Scrubber()
    again.learner.text(once)
    assert again.text(once) == once
    assert "node1" not in once
    assert "jdoe" not in once


@pytest.mark.parametrize("name", ["ring", "tree", "simple", "device", "rank", "float", "vm"])
def test_a_host_that_is_called_like_a_word_breaks_nothing(name: str) -> None:
    """It is replaced where a host's name stands, and the word stays elsewhere."""
    names = Scrubber(["ring", "tree", "simple"])
    line = f"#  Rank  0 Group  0 Pid  7 on {name} device  0\nall_reduce,{name},1"
    names.learner.text(line)
    assert (
        names.text(line) == f"#  Rank  0 Group  0 Pid  7 on host-1 device  0\nall_reduce,{name},1"
    )


def test_every_variable_that_we_speak_of_is_listed(repository: Path) -> None:
    """Those of the catalogue and those that our own sources read or set: none is forgotten."""
    found = {n for spec in variants.load_catalog().specs for n, _ in spec.environment}
    quoted = re.compile(
        r"\"((?:NCCL|RCCL|MSCCL|MSCCLPP|HSA|HIP|ROCR|TORCH_NCCL)_[A-Z0-9_]+[A-Z0-9])\""
    )
    for room in ("detect", "pipeline", "launch", "verify", "deploy"):
        for path in (repository / "rccltune" / room).rglob("*.py"):
            found |= set(quoted.findall(path.read_text(encoding="utf-8")))
    assert {"NCCL_ALGO", "RCCL_LL128_FORCE_ENABLE"} <= found
    assert sorted(found - LISTED) == []


def test_no_listed_variable_is_called_like_a_secret() -> None:
    """A name that says what nobody must see is on no list; the usual ones are recognised."""
    assert [name for name in LISTED if is_secret(name)] == []
    for name in (
        "AWS_SECRET_ACCESS_KEY",
        "apiKey",
        "NCCL_IB_AUTH_TOKEN",
        "db-password",
        "PGPASSWORD",
    ):
        assert is_secret(name)
        assert not is_listed(name)
    for name in ("passed", "bypassed", "author", "PWD", "monkey", "n_passes"):
        assert not is_secret(name)
