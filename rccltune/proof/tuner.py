"""Which tuner an untouched site uses."""

from __future__ import annotations

import re


def tuner_of(log: str) -> str:
    """Which tuner a library used, from its INFO log; the lines are listed in docs/sweep.md.

    Sources: RCCL 2.28.3 and NCCL 2.30.7, 2.32.6 ``src/plugin/tuner.cc``,
    ``src/plugin/plugin_open.cc``, RCCL's ``src/plugin/tuner/csv_tuner.cc``, NCCL 2.21.5 to 2.27.7
    ``src/misc/tuner.cc`` and ``src/plugin/tuner/tuner_v4.cc``; a log of RCCL 2.27.7.
    """
    for pattern, said in (
        (r"Using built-in CSV tuner, config: (\S+)", "built-in table {}"),
        (r"TUNER/CsvTuner: Loaded \d+ tuning configurations from (\S+)", "built-in table {}"),
        (r"TUNER/Plugin: Using (\S+) \(v\d+\)", "plugin {}"),
        (r"TUNER/Plugin: Using tuner plugin (\S+)", "plugin {}"),
        (r"Successfully loaded external tuner plugin (\S+)", "plugin {}"),
    ):
        match = re.search(pattern, log)
        if match is not None:
            return said.format(match[1])
    # From 2.32.3 on NCCL says that it refuses a plugin at a level that logs have without INFO.
    refused = re.search(r"NCCL ATTN External tuner plugin \S+ is unsupported", log)
    return "none" if refused is not None or "NCCL INFO" in log else "unknown"
