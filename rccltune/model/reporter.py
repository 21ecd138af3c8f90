"""How work that takes time tells whoever started it what is going on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Note: TypeAlias = Callable[[str], None]
