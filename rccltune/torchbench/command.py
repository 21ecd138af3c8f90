"""How the benchmark is started from elsewhere, and what it can do; nothing here needs torch."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from rccltune.vocab import Collective

# nccl is RCCL on a ROCm build; rcclx is Meta's, through torchcomms.
BACKENDS: Final = ("nccl", "gloo", "rcclx")
# Option letters of rccl-tests that are understood, as its --help would list them.
LETTERS: Final = frozenset("befinwNcdorGOatgmh")
# torch.distributed has one tensor for these, which is input and output.
IN_PLACE_ONLY: Final = (Collective.ALL_REDUCE, Collective.BROADCAST, Collective.REDUCE)
# A file of this name in the launch's folder is where ranks that MPI started find each other.
STORE: Final = "{launch}/rendezvous"


def argv(python: str, backend: str) -> tuple[str, ...]:
    """What stands before the collective's name and rccl-tests' options.

    Args:
        python: one that has torch; rccltune is found beside this file.
        backend: one of BACKENDS.
    """
    script = Path(__file__).with_name("__main__.py").resolve()
    return (python, str(script), "--backend", backend, "--store", STORE)


def digest() -> str:
    """SHA-256 of this benchmark: all of its modules."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
