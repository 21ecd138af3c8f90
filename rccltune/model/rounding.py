"""Numbers as they are written: one place rounds, so that no byte hangs on a logarithm's last bit.

Processors and releases of numpy differ in the last bits of logarithms, and of all that is made
from them. What is written has six significant digits; what somebody measured keeps its own. Records
are rounded when they are made (:func:`rounded_record`), so that nobody decides otherwise by a
number in memory than by the same number in a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd

T = TypeVar("T")
# Below this there is nothing but what arithmetic leaves of 0: a slope of 1e-7 µs a byte, which is
# 10 TB/s, keeps its six digits.
_DECIMALS: Final = 12
# The rank program prints times to a tenth of a nanosecond (native_plugin/perf/rows.c).
_OF_TIMES: Final = 4
_POWERS: Final = tuple(float(f"1e{power}") for power in range(23))


def round_number(value: float) -> float:
    """The number with six significant digits; rounded again it stays the same."""
    # Twelve digits first: a number that is half-way between two then goes the same way whatever
    # its last bit.
    return float(f"{float(f'{round(value, _DECIMALS):.12g}'):.6g}") or 0.0


def round_plain(value: Any) -> Any:  # noqa: ANN401 - JSON has no narrower type
    """Lists and pairs as JSON has them, with every float rounded; whole numbers stay whole."""
    if isinstance(value, float):
        return round_number(value)
    if isinstance(value, list | tuple):
        return [round_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: round_plain(item) for key, item in value.items()}
    return value


def round_record(value: T) -> T:
    """A record, or a tuple or mapping of records, with every float rounded."""
    found: Any = value
    if isinstance(value, float):
        found = round_number(value)
    elif isinstance(value, tuple):
        found = tuple(map(round_record, value))
    elif isinstance(value, Mapping):
        found = {key: round_record(item) for key, item in value.items()}
    elif is_dataclass(value) and not isinstance(value, type):
        olds = {one.name: getattr(value, one.name) for one in fields(value)}
        news = {name: round_record(old) for name, old in olds.items()}
        changed = {name: new for name, new in news.items() if new != olds[name]}
        found = replace(cast("Any", value), **changed) if changed else value
    return cast("T", found)


def round_times(time_us: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Times in µs with six significant digits, or to a tenth of a nanosecond where that is finer.

    So a time keeps all that its measuring gave, and a mean over ranks has no digit more.
    """
    import numpy as np

    known = np.isfinite(time_us) & (time_us > 10.0**-_DECIMALS)
    exponent = np.floor(np.log10(np.where(known, time_us, 1.0))).astype(int)
    digits = np.clip(5 - exponent, _OF_TIMES, len(_POWERS) - 1)
    power = np.array(_POWERS)[digits]
    times: npt.NDArray[np.float64] = np.where(known, np.rint(time_us * power) / power, time_us)
    return times


def csv_text(table: pd.DataFrame) -> str:
    """A table of what was computed as the text of a CSV file: LF, floats rounded."""
    text: str = table.to_csv(
        index=False,
        float_format=lambda value: repr(round_number(cast("float", value))),
        lineterminator="\n",
    )
    return text


def minutes(seconds: float) -> str:
    """``45 s`` or ``3 min``."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
