"""Environment variables that reach a benchmark, and a Python that no folder can mislead.

A variable that picks an algorithm would falsify every launch, so it is removed; one that picks an
interface, a transport or a log file belongs to the site, and removing it stops jobs or, on some
shared machines, does harm. The list of the first kind is closed and stands here; everything else
passes to every rank of every launch, baseline included, and is recorded.

``python -c`` and ``python -m`` put the current folder first on the path: a ``torch.py`` there, in
a session that somebody mailed say, would run instead of PyTorch. ``-P`` and PYTHONSAFEPATH came
with Python 3.11, and the Python that has torch may be older.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

# Exact names and prefixes (ending in *) of what is cleared.
CLEARED: Final = (
    "NCCL_ALGO",
    "NCCL_PROTO",
    "NCCL_MIN_NCHANNELS",
    "NCCL_MAX_NCHANNELS",
    "NCCL_MIN_CTAS",
    "NCCL_MAX_CTAS",
    "NCCL_NTHREADS",
    "NCCL_TUNER_*",
    "RCCL_OVERRIDE_*",
    "RCCL_LL128_FORCE_ENABLE",
    "RCCL_MSCCL*",
    "RCCLTUNE_*",
)
# Of these what a tuner cannot give back: how many channels and threads a communicator has.
CHANNELS: Final = (
    "NCCL_MIN_NCHANNELS",
    "NCCL_MAX_NCHANNELS",
    "NCCL_MIN_CTAS",
    "NCCL_MAX_CTAS",
    "NCCL_NTHREADS",
)
# What passes and is worth recording: everything that RCCL, HIP or a launcher reads.
_RECORDED: Final = re.compile(
    r"(NCCL|RCCL|HSA|HIP|ROCR|ROCM|CUDA|GPU|MSCCL|MSCCLPP|TORCH_NCCL|OMPI|PMIX|PRTE|MPICH|I_MPI|"
    r"SLURM|UCX|FI|MPIEXEC|NVSHMEM|TORCH_SYMM_MEM|AMD)_\w+|LD_LIBRARY_PATH|LD_PRELOAD"
)


# Of these what says whose job it is, and nothing to the library.
_OF_THE_JOB: Final = re.compile(r"(OMPI|PMIX|PRTE|MPICH|I_MPI|SLURM|MPIEXEC)_\w+")


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchEnvironment:
    """Environment of a launch's processes, and what was cleared of it.

    Attributes:
        variables: all of it.
        cleared: sorted (name, value) of the site's variables that were removed.
        passed: sorted (name, value) of the site's variables that matter and stayed.
        added: sorted (name, value) that rccltune set.
    """

    variables: Mapping[str, str]
    cleared: tuple[tuple[str, str], ...]
    passed: tuple[tuple[str, str], ...]
    added: tuple[tuple[str, str], ...]

    def told(self) -> list[str]:
        """``NAME=value`` of all that the library may read; times belong to these."""
        both = sorted((*self.passed, *self.added))
        return [f"{name}={value}" for name, value in both if not _OF_THE_JOB.fullmatch(name)]


def chooses(name: str, extra: Iterable[str] = (), keep: Iterable[str] = ()) -> bool:
    """Whether a variable is on the list of those that are cleared, and not on that of those kept.

    Args:
        name: of the variable.
        extra: further names.
        keep: entries of the list that are left where they are.
    """
    exceptions = frozenset(keep)
    names = [entry for entry in CLEARED if entry not in exceptions]
    return any(
        name.startswith(entry[:-1]) if entry.endswith("*") else name == entry
        for entry in (*names, *extra)
    )


def launch_environment(
    site: Mapping[str, str],
    added: Iterable[tuple[str, str]],
    *,
    clear: Iterable[str] = (),
    keep: Iterable[str] = (),
) -> LaunchEnvironment:
    """The environment of one launch.

    Args:
        site: what rccltune itself was started with.
        added: what the plugin or --env sets; wins over the site's.
        clear: further names.
        keep: entries of CLEARED that stay: CHANNELS, or all where the site is measured as it is.
    """
    extra = tuple(clear)
    ours = dict(added)
    cleared = {n: v for n, v in site.items() if chooses(n, extra, keep)}
    rest = {n: v for n, v in site.items() if n not in cleared}
    return LaunchEnvironment(
        variables=rest | ours,
        cleared=tuple(sorted(cleared.items())),
        passed=tuple(
            sorted((n, v) for n, v in rest.items() if n not in ours and _RECORDED.fullmatch(n))
        ),
        added=tuple(sorted(ours.items())),
    )


# sys is built in, so that its own import looks nowhere; os is there since the start.
_WITHOUT: Final = (
    "import sys; _os = sys.modules['os']; "
    "sys.path[:] = [p for p in sys.path if p and _os.path.realpath(p) != _os.getcwd()]"
)


def program(python: str, code: str) -> tuple[str, ...]:
    """The command that runs code."""
    return (python, "-c", f"{_WITHOUT}\n{code}")


def module(python: str, name: str) -> tuple[str, ...]:
    """The command that runs a module as ``-m`` does; its arguments follow."""
    code = (
        f"{_WITHOUT}; import runpy; runpy.run_module('{name}', run_name='__main__', alter_sys=True)"
    )
    return (python, "-c", code)
