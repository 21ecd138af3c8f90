"""YAML by libyaml, in a tenth of the time: tests change node files hundreds of times."""

from __future__ import annotations

from typing import Any, Final

import yaml

_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DUMPER: Final[Any] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def loaded(text: str) -> Any:  # noqa: ANN401 - whatever a file holds
    """What ``yaml.safe_load`` gives."""
    return yaml.load(text, Loader=_LOADER)  # noqa: S506 - a safe one


def dumped(raw: object, **options: Any) -> str:  # noqa: ANN401 - those of PyYAML
    """What ``yaml.safe_dump`` gives."""
    text: str = yaml.dump(raw, Dumper=_DUMPER, **options)
    return text
