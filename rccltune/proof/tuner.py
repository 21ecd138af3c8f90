"""Which tuner an untouched site uses."""

from __future__ import annotations

import re


def tuner_of(log: str) -> str:
    """Which tuner a library used, from its INFO log; the lines are listed in docs/sweep.md.

    Sources: RCCL 2.28.3 and NCCL 2.30.7 ``src/plugin/tuner.cc``, ``src/plugin/plugin_open.cc``,
    RCCL's ``src/plugin/tuner/csv_tuner.cc``.
    """
    for pattern, said in (
        (r"Using built-in CSV tuner, config: (\S+)", "built-in table {}"),
        (r"TUNER/CsvTuner: Loaded \d+ tuning configurations from (\S+)", "built-in table {}"),
        (r"TUNER/Plugin: Using (\S+) \(v\d+\)", "plugin {}"),
        (r"Successfully loaded external tuner plugin (\S+)", "plugin {}"),
    ):
        match = re.search(pattern, log)
        if match is not None:
            return said.format(match[1])
    return "none" if "NCCL INFO" in log else "unknown"
