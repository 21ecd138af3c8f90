"""Error texts of real logs are explained with what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from rccltune.logs import messages
from rccltune.logs.messages import meaning_of


# Texts as the programs print them: RCCL, rccl-tests, Open MPI 5.0.11 (facts of 2026).
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("HSA_NO_SCRATCH_RECLAIM=1 must be set to avoid a hang", "HSA_NO_SCRATCH_RECLAIM=1"),
        (
            "h: Test NCCL failure common.cu:1 'unhandled system error / No space left on device'",
            "shm",
        ),
        ("[ERROR] The number of requested GPUs (64) is greater than …", "63 of 64"),
        ("Test HIP failure x.cu:3 'out of memory'", "--max-bytes"),
        ("Multiple Ranks are using the same GPU/Partition. Set NCCL_MULTI_", "VISIBLE_DEVICES"),
        ("Duplicate GPU detected : rank 1 and rank 9 both on CUDA device 5000", "VISIBLE_DEVICES"),
        ("Memory access fault by GPU node-4 on address 0x7f", "dmesg"),
        ("prterun noticed that process rank 3 exited on signal 9 (Killed)", "host memory"),
        ("# Out of bounds values : 12 FAILED", "WRONG"),
        ("There are not enough slots available in the system", "hostfile"),
    ],
)
def test_known_texts_are_explained(text: str, said: str) -> None:
    """The meaning names the cause and the way out."""
    meaning = meaning_of(text)

    assert meaning is not None
    assert said in meaning


def test_healthy_and_unknown_texts_are_not_explained() -> None:
    """Nothing is made up: zero out-of-bounds values are no failure."""
    assert meaning_of("# Out of bounds values : 0 OK\n# Avg bus bandwidth : 12.3") is None
    assert meaning_of("something else went wrong") is None


def test_a_public_failure_is_explained(shared_data: Path) -> None:
    """RCCL's shared-memory failure in a container, from a public log of 8 MI355X."""
    log = shared_data / "logs/amd12_mi355x_8r_allreduce_shm_alloc_failed.log"

    assert "--shm-size" in (meaning_of(log.read_text(errors="replace")) or "")


@pytest.mark.parametrize(
    ("text", "killed"),
    [
        # prterun of Open MPI 5.0.11, its table of values left out.
        (
            "prterun noticed that process rank 1 with PID 77 on node simnode exited on\nsignal 9 (Killed).",
            True,
        ),
        ("prterun noticed that process rank 1 exited on signal 11 (Segmentation fault).", False),
        # Hydra of MPICH 5.0.2.
        ("YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)", True),
        ("EXIT STRING: Segmentation fault (signal 11)\nEXIT STRING: Killed (signal 9)", False),
        # torchrun of PyTorch 2.13, which ends the other ranks itself.
        ("traceback : Signal 9 (SIGKILL) received by PID 3659", True),
        ("traceback : Signal 11 (SIGSEGV) received by PID 4176", False),
        ("exited on signal 95", False),
        ("", False),
    ],
)
def test_a_kill_is_told_from_a_crash(text: str, killed: bool) -> None:
    """Launchers kill the others when one rank crashes: then it was a crash."""
    assert messages.was_killed(text) is killed


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (
            "Memory access fault by GPU node-9 (Agent handle: 0x5) on address 0x7f. Reason: Page not present",
            True,
        ),
        ("Test CUDA failure common.cu:1 'an illegal memory access was encountered'", True),
        ("Test HIP failure: out of memory", False),
    ],
)
def test_a_memory_fault_is_known_by_its_text(text: str, fault: bool) -> None:
    """ROCm's runtime and CUDA's; too little memory is none."""
    assert messages.is_memory_fault(text) is fault
