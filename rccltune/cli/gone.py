"""Verbs and options that went, each with the sentence that says what to use instead.

Before 1.0 nothing is kept for compatibility alone; whoever types what went exits with 2 and reads
its sentence. A word that is no option (``merge`` of ``workload merge``) is what was the verb's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# Verb -> sentence, of verbs that went as a whole.
VERBS: Final[Mapping[str, str]] = {
    "seal": "after an edit by hand correct the last line of the rule file yourself: '#@ end N' for "
    "N rows.",
}

_ENVIRONMENT: Final = (
    "deploy hands over the site's rules alone; for another environment name its rule file in "
    "NCCL_TUNER_CONFIG_FILE and export what its line '#@ needs' says."
)
_ASKS_NOTHING: Final = (
    "gather asks nothing: it lists what is in the archive and writes it; nothing is sent."
)
_CONCATENATED: Final = (
    "workload adds up the files that it is given; for --workload put them into one: "
    "cat record-*.csv > workload.csv."
)
_MEASURE: Final = "nothing is predicted for a scale: sweep --scales 1x64,2x128 measures it."
_NO_FURTHER: Final = (
    "rules reach no further than what was measured: sweep more sizes (--min-bytes, --max-bytes) or "
    "scales (--scales)."
)
_SAVES: Final = "emit-config --workload FILE says what its rules save of a job."
_TORCH: Final = (
    "nothing measures through PyTorch's calls: --librccl torch measures the library inside an "
    "installed PyTorch, and import reads what examples/torch_all_reduce.py prints of its calls."
)
_ON_REQUEST: Final = (
    "a variant is tried only where it is named: sweep --variant channels-32, say; "
    "'rccltune variants' lists what there is."
)
_NO_PRICE: Final = (
    "no setting is preferred for its channels: --max-channels N leaves out those with more."
)
_NO_ODD_VARIABLE: Final = (
    "rule files ask only for variables of the shipped variants: one that may load code or open "
    "files is the site's to set, and sweep --env NAME=VALUE measures it so."
)
_LOSSY: Final = (
    "a lossy variant that sweep --variant NAME measured has a rule file of its own, which says "
    "how much of its results is wrong."
)
_CHOICE: Final[Mapping[str, str]] = {"--channel-cost": _NO_PRICE, "--allow-lossy": _LOSSY}
_RECORD: Final = (
    "workload reads no logs and no replay files: record the job with RCCLTUNE_RECORD, which says "
    "collective, ranks and nodes."
)
_OF_TORCH: Final = dict.fromkeys(("--runner torch", "--python", "--backend"), _TORCH)
# Verb -> option, option with a value, or word -> sentence.
OPTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "deploy": {
        "--rollback": "deploy keeps no versions: deploy the session of before again, or keep the "
        "folder in git.",
        "--force": "deploy replaces a folder that it made and no other: name a new one.",
        "--environment": _ENVIRONMENT,
        "--allow-need": "deploy gives jobs no variable that may load code: export it in the job "
        "yourself, and take it out of the rule file's line '#@ needs'.",
    },
    "emit-config": {
        **_CHOICE,
        "--allow-need": _NO_ODD_VARIABLE,
        "--scales": _MEASURE,
        "--extrapolate": _NO_FURTHER,
        "--format": "emit-config writes the rules and, beside them, the .env that exports what "
        "they need; NCCLX, and constants of the library's own model, get no file.",
    },
    "gather": {
        "--machine": "gather makes an archive of one thing: rccltune gather machine.",
        "-y": _ASKS_NOTHING,
        "--yes": _ASKS_NOTHING,
        "--force": "gather writes over nothing: name another file with -o.",
    },
    "import": {
        "--baseline-choices": "import derives no baseline: measure the library's own choice, or "
        "name a setting to compare with, emit-config --baseline ring/simple.",
    },
    "plot": {**_CHOICE, "--scales": _MEASURE, "--extrapolate": _NO_FURTHER},
    "report": {**_CHOICE, "--extrapolate": _NO_FURTHER},
    "sweep": {"--no-environment": _ON_REQUEST, **_OF_TORCH},
    "tune": {
        **_CHOICE,
        **_OF_TORCH,
        "--allow-need": _NO_ODD_VARIABLE,
        "--extrapolate": _NO_FURTHER,
        "--no-environment": _ON_REQUEST,
    },
    "verify": {
        "--extrapolate": _NO_FURTHER,
        "--runner": "verify measures with rccl-tests alone: leave --runner out.",
        "--python": _TORCH,
        "--backend": _TORCH,
    },
    "workload": {
        "merge": _CONCATENATED,
        "-o": _CONCATENATED,
        "--output": _CONCATENATED,
        "--force": _CONCATENATED,
        "show": "workload has one form: rccltune workload FILE...",
        "--all": "workload shows every size with -v.",
        "--rules": "explain shows what rules do at each size, and emit-config --workload FILE what "
        "they save.",
        "--session": _SAVES,
        "--steps": _SAVES,
        "--scale-captured": "workload counts calls as they were recorded: multiply the counts of "
        "captured graphs yourself.",
        "--collective": _RECORD,
        "--ranks": _RECORD,
        "--nodes": _RECORD,
    },
}


def sentence(verb: str, word: str | None = None) -> str | None:
    """What to use instead of a verb, or of an option or word of one; None where nothing went.

    Args:
        verb: as it is typed.
        word: of it, ``--rollback`` or ``--runner torch``; None for the verb itself.
    """
    return VERBS.get(verb) if word is None else OPTIONS.get(verb, {}).get(word)
