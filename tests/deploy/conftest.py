"""A delivery with the real plugin."""

from __future__ import annotations

from pathlib import Path

import pytest
from deliveries import Make, rules

from rccltune import plugin
from rccltune.deploy import Delivery, File, Rules
from rccltune.errors import MachineError


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Makes deliveries into ``tmp_path/site``, with some rule files."""
    try:
        library = plugin.library()
    except MachineError as error:
        pytest.skip(str(error))
    content = library.read_bytes()

    def delivery(*files: Rules, **more: object) -> Delivery:
        given = files or (rules(),)
        return Delivery(
            **{
                "directory": tmp_path / "site",
                "library": File(name=library.name, content=content, run=True),
                "abi_versions": (2, 3, 4, 5, 6),
                "glibc": (2, 14),
                "rules": given,
                "environment": tuple(sorted({pair for one in given for pair in one.needs})),
                "choosing": ("NCCL_ALGO", "NCCL_MIN_NCHANNELS", "RCCL_MSCCL*", "RCCLTUNE_*"),
                "provenance": ("made up",),
                **more,
            }
        )

    return delivery
