"""Whether a librccl was built with NPKit."""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import Final

# RCCL's src/init.cc asks for the variable, and warns where it is missing, only under ENABLE_NPKIT.
# The bare name may be the end of MSCCLPP_NPKIT_DUMP_DIR, another library's variable, so it counts
# as a whole string only.
_WARNS: Final = b"NPKIT_DUMP_DIR is empty"
_ASKS: Final = b"\0NPKIT_DUMP_DIR\0"


def has_npkit(library: Path) -> bool:
    """Whether the file has NPKit in it; raises OSError where it cannot be read.

    Built for every GPU a library has a gigabyte and more, so it is mapped and not read.
    """
    with library.open("rb") as stream:
        if os.fstat(stream.fileno()).st_size == 0:
            return False
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return content.find(_WARNS) >= 0 or content.find(_ASKS) >= 0
