"""Whether a librccl was built with NPKit."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rccltune.content import has_any

# RCCL's src/init.cc asks for the variable, and warns where it is missing, only under ENABLE_NPKIT.
# The bare name may be the end of MSCCLPP_NPKIT_DUMP_DIR, another library's variable, so it counts
# as a whole string only.
_WARNS: Final = b"NPKIT_DUMP_DIR is empty"
_ASKS: Final = b"\0NPKIT_DUMP_DIR\0"


def has_npkit(library: Path) -> bool:
    """Whether the file has NPKit in it; raises OSError where it cannot be read."""
    return has_any(library, _WARNS, _ASKS)
