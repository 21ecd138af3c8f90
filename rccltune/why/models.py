"""The library's own model as its log shows it: which cells it leaves out at every size."""

from __future__ import annotations

from typing import Final

from rccltune.logs import model_rows, without_bandwidth
from rccltune.model import Collective, Setting
from rccltune.why.phrases import MODEL, Process

_MAX_PROCESSES: Final = 65536
# Names of rows, beside which there may be torn ones.
_MAX_ROWS: Final = 16


class Models:
    """Takes rows of any number of processes; what they are of is known from all of them."""

    def __init__(self) -> None:
        """Nothing was read yet."""
        # By process: the first row of each name.
        self._rows: dict[Process, dict[str, str]] = {}

    def take(self, process: Process, body: str) -> None:
        """Take a line that may be a row."""
        match = MODEL.match(body)
        if match is None or (process not in self._rows and len(self._rows) >= _MAX_PROCESSES):
            return
        # Further rows of a collective are other algorithms', or another communicator's.
        rows = self._rows.setdefault(process, {})
        if len(rows) < _MAX_ROWS:
            rows.setdefault(match[1], match[2])

    def refused(self) -> set[tuple[Collective, Setting]]:
        """Cells that some model leaves out."""
        return {
            (collective, setting)
            for rows in self._rows.values()
            for name, collective in model_rows(rows).items()
            for setting in without_bandwidth(rows[name])
        }
