"""A package's face: what others may import from it, loaded when it is asked for.

The face is the package's ``__init__.pyi``, lines of ``from .module import name as name``: type
checkers read it as it is, and here the same lines say where each name is found. So a face costs no
load, and what moves inside a package is imported from the same place by all others.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Final

_LINE: Final = re.compile(r"^from \.(\S+) import (\w+) as \w+$", re.MULTILINE)


def face(
    package: str, file: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of a package.

    Not the library lazy_loader: the program that ranks run under torch's Python has nothing but
    this package there.

    Args:
        package: its ``__name__``.
        file: its ``__file__``; the stub lies beside it.
    """
    text = Path(file).with_suffix(".pyi").read_text(encoding="utf-8")
    homes = {name: module for module, name in _LINE.findall(text)}

    def load(name: str) -> Any:  # noqa: ANN401 - whatever a package offers
        if name not in homes:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        return getattr(import_module(f"{package}.{homes[name]}"), name)

    names = sorted(homes)
    return load, lambda: names, names
