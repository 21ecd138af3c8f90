"""Verbs and options that went, each with the sentence that says what to use instead.

Before 1.0 nothing is kept for compatibility alone; whoever types what went exits with 2 and reads
its sentence. A word that is no option (``merge`` of ``workload merge``) is what was the verb's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rccltune.measure.removed_keys import KEYS

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
_LOADED: Final = (
    "plugin --check says what each library of this machine needs; which one a job loads its log "
    "says (NCCL_DEBUG=VERSION), or grep ccl /proc/PID/maps."
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
_STORED: Final = dict.fromkeys(
    (
        *("--baseline", "--tolerance", "--min-gain", "--max-channels", "--workload", "--variant"),
        *("--proven", "--channel-cost", "--allow-lossy"),
    ),
    "plot and report show what emit-config chose and stored in choice.json: say it to emit-config.",
)
_ANEW: Final = "a setting that was set aside is tried again by a sweep into a new session: -o DIR."
_RATES: Final = "rates of links come into a session by rccltune fit --transferbench FILE."
_OF_A_SWEEP: Final = {
    **{f"--{key.replace('_', '-')}": one.said for key, one in KEYS.items()},
    "--lift-quarantine": _ANEW,
    "--transferbench": _RATES,
    "--npkit-dump": "NPKit's events of one setting at one size: rccltune npkit.",
}
_LINKS: Final = (
    "detect --links SESSION measures where that session was swept: say it to sweep (--simulate, "
    "--mode, --launcher, --rccl-tests), with -o SESSION."
)
_LINK_LAUNCHES: Final = (
    "detect --links makes three launches of three pairs of each kind of link, once a session: name "
    "a new one to measure anew."
)
_BENCHMARKS: Final = (
    "it looks on PATH and below ROCm: put the folder of rccl-tests on PATH. sweep and tune take "
    "--rccl-tests DIR."
)
_SIMULATED: Final = (
    "a sweep of a simulated node says before it starts what stands in its way: rccltune sweep "
    "--simulate NODE --plan."
)
_RUNS: Final = "runs are kept in SESSION/job, each job in a folder of its own: name a SESSION."
_STAYS: Final = (
    "what stands replaces the session's own file; of --rules FILE it is verified-FILE in the "
    "session."
)
_CHOSEN: Final = "tune measures what it chooses from: say it to rccltune emit-config."
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
    "detect": {
        "--rccl-tests": _BENCHMARKS,
        "-o": _LINKS,
        "--output": _LINKS,
        "--simulate": _LINKS,
        "--mode": _LINKS,
        "--launcher": _LINKS,
        "--seed": _LINKS,
        "--pairs": _LINK_LAUNCHES,
        "--repeats": _LINK_LAUNCHES,
        "--timeout": _LINK_LAUNCHES,
        "--force": _LINK_LAUNCHES,
    },
    "doctor": {
        "--root": "RCCLTUNE_SYSROOT=DIR rccltune doctor looks at a captured machine.",
        "--rccl-tests": _BENCHMARKS,
        "--simulate": _SIMULATED,
        "--mode": _SIMULATED,
    },
    "emit-config": {
        **_CHOICE,
        "--allow-need": _NO_ODD_VARIABLE,
        "--scales": _MEASURE,
        "--extrapolate": _NO_FURTHER,
        "--format": "emit-config writes the rules and, beside them, the .env that exports what "
        "they need; NCCLX, and constants of the library's own model, get no file.",
        "--steps": "what is saved is said of the whole recording: divide it by its steps yourself.",
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
        "--variants": "import knows the variants of rccltune variants; sweep --variants FILE "
        "measures your own.",
    },
    "job": {
        "--timeout": "a run that takes several times what others took is ended; --budget bounds "
        "all of them.",
        "--higher-is-better": "name the group of --measure so: 'tokens/s (?P<rate>[0-9.]+)'.",
        "--no-control": "rules that are bad on purpose are tried only with --bad-rules.",
        "--measure wall": "without --measure a job is measured by its duration, if it marks no "
        "steps.",
        "--allow-need": "job gives runs no variable that may load code: export it in the job "
        "yourself, and take it out of the rule file's line '#@ needs'.",
        "-o": _RUNS,
        "--output": _RUNS,
    },
    "plot": {
        **_STORED,
        "--scales": _MEASURE,
        "--extrapolate": _NO_FURTHER,
        "--transferbench": _RATES,
    },
    "plugin": dict.fromkeys(("--pid", "--python"), _LOADED),
    "report": {**_STORED, "--extrapolate": _NO_FURTHER},
    "sweep": {**_OF_A_SWEEP, **_OF_TORCH, "--no-environment": _ON_REQUEST},
    "tune": {
        **_CHOICE,
        **_OF_A_SWEEP,
        **_OF_TORCH,
        "--allow-need": _NO_ODD_VARIABLE,
        "--extrapolate": _NO_FURTHER,
        "--no-environment": _ON_REQUEST,
        "--baseline": _CHOSEN,
        "--max-channels": _CHOSEN,
        "--proven": "tune verifies its rules: every one that it leaves is proven.",
    },
    "variants": {
        "--library": "variants speaks of the library of this machine; docs/variants.md has the "
        "releases of each.",
        "--variants": "sweep --variants FILE reads your own, and says what is wrong in it.",
    },
    "verify": {
        "--extrapolate": _NO_FURTHER,
        "--runner": "verify measures as the session was measured: leave --runner out.",
        "--repeats": "--communicators N says in how many communicators both are compared.",
        "--graph": "--timing graph compares replayed graphs, --timing loop single calls.",
        "--python": _TORCH,
        "--backend": _TORCH,
        "--clear": KEYS["clear"].said,
        "--trust-session": "nothing that somebody else's session names is run: say yourself what "
        "to use (--simulate NODE, --librccl FILE, --env ...).",
        "--min-gain": "say it to emit-config: rules are made with it, and verify holds them to 2 "
        "percent.",
        "-o": _STAYS,
        "--output": _STAYS,
    },
    "why": {
        "--rules": "name the job's rule file among the others: rccltune why job.log rules.csv."
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
    """Sentence that names what replaces a removed verb, option or word; None where none was.

    Args:
        verb: as it is typed.
        word: of it, ``--rollback`` or ``--runner torch``; None for the verb itself.
    """
    return VERBS.get(verb) if word is None else OPTIONS.get(verb, {}).get(word)
