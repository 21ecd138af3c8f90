"""Records of a session: fingerprint, sweep, imported files; and notices with their remedies."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from rccltune.model import defaults
from rccltune.model.schema import (
    Line,
    Text,
    VariableName,
    Whole,
    Word,
)
from rccltune.model.settings import (
    Mode,
    Scale,
    Setting,
    Vendor,
    vendor_of,
)
from rccltune.model.vocabulary import Collective, Placement

# Behind the name of a file or a run: one of several runs in the file, a communicator of the run.
RUNS: Final = ":"


def folder_of(name: str) -> str:
    """The folder of a session that a run of a file lies in."""
    return name.partition(RUNS)[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """Identity of the machine that must agree inside a session; another machine is an error.

    Attributes:
        devices: identities of the GPUs, in order.
        benchmark_sha256: hash of the benchmark file.
        serves: vendor of the GPUs that the benchmark or its library serve, ``amd`` or ``nvidia``,
            where the file says nothing else of them.
        simulated: measured on the stand-in benchmark, never on hardware.
        runner: what measured and the library behind it, where it was not rccl-tests.
    """

    product: Line | None = None
    arch: Word | None = None
    cu_count: Whole | None = None
    mode: Mode | None = None
    hosts: tuple[Line, ...] = ()
    devices: tuple[Line, ...] = ()
    benchmark_sha256: Line | None = None
    ranks_per_process: Whole | None = None
    binding: Line | None = None
    serves: Word | None = None
    simulated: bool = False
    runner: Line | None = None

    @property
    def vendor(self) -> Vendor | None:
        """Vendor of the GPUs, as arch, product or library tell; None where nothing does."""
        return vendor_of(self.arch, self.product) or vendor_of(self.serves)

    @property
    def arch_or_vendor(self) -> str | None:
        """Name that decides the limits: ``gfx942``, else ``amd`` or ``nvidia``, else None."""
        return self.arch or (self.vendor.value if self.vendor else None)

    @property
    def words(self) -> str:
        """Product, architecture, compute units and mode, as far as they are known."""
        named = "" if self.mode is None or not self.mode.compute else f"mode {self.mode}"
        through = f"{'over' if self.simulated else 'measured through'} {self.runner}"
        parts = (
            self.product or "unknown product",
            self.arch or "",
            f"{self.cu_count} CUs" if self.cu_count else "",
            "mode unknown" if self.mode is None else named,
            through if self.runner else "",
        )
        return ", ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """Plan of a sweep, as resolved from options and sweep.yaml.

    Attributes:
        same_bits: the order in which settings add is probed.
        counts: channel counts that the settings are measured with, too.
        wanted: the only sizes to measure, rising, for each collective; empty where the range
            from ``min_nbytes`` to ``max_nbytes`` says them.
    """

    collectives: tuple[Collective, ...]
    settings: tuple[Setting, ...]
    min_nbytes: Whole
    max_nbytes: Whole
    factor: Whole = defaults.FACTOR
    step_nbytes: Whole | None = None
    scales: tuple[Scale, ...] = ()
    rank_placement: Word = defaults.RANK_PLACEMENT
    dtypes: tuple[Line, ...] = (defaults.DTYPE,)
    op: Word = defaults.OP
    placements: tuple[Placement, ...] = (Placement.OUT_OF_PLACE, Placement.IN_PLACE)
    graph: Whole = 0
    iterations: Whole = defaults.ITERATIONS
    warmup: Whole = defaults.WARMUP
    check: bool = True
    repeats: Whole = defaults.REPEATS
    mode: Mode | None = None
    seed: Whole = 0
    same_bits: bool = False
    counts: tuple[Whole, ...] = ()
    wanted: tuple[tuple[Collective, tuple[Whole, ...]], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedFacts:
    """Facts that the user states about files that somebody else measured.

    Options fill what a file does not say; ``assume`` fills what neither says. ``None`` is unsaid.

    Attributes:
        setting: what ran; BASELINE where the files show the baseline.
        n_started: ranks of all groups that ran side by side, where there were several: older
            benchmarks list them all and say nothing of groups.
        assume: sorted (key, value) pairs for unknown parts of the fingerprint or the curve key.
    """

    collective: Collective | None = None
    setting: Setting | None = None
    n_ranks: Whole | None = None
    n_started: Whole | None = None
    n_nodes: Whole | None = None
    mode: Mode | None = None
    dtype: Line | None = None
    assume: tuple[tuple[Line, Line], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedFile:
    """A file of somebody else's in a session: what its options say, and what it says itself.

    Attributes:
        id: a short hash of its bytes and of what options say.
        name: that it had.
        sha256: of its bytes.
        stated: what options say, so that samples can be read again from it.
        written: when it last was, which says nothing of when it was measured: UTC, ISO 8601.
        origin: whose measurement it is ("AMD ROCm blog, …").
        library_version: as it names it.
        environment: variables beside the setting that may change times; None where nothing says.
    """

    id: Word
    name: Line | None = None
    sha256: Line | None = None
    stated: StatedFacts = field(default_factory=StatedFacts)
    written: Line | None = None
    fingerprint: Fingerprint = field(default_factory=Fingerprint)
    origin: Line | None = None
    library_version: Line | None = None
    environment: dict[VariableName, Line] | None = None


class Caution(Enum):
    """The closed set of warnings; each is raised with its remedy."""

    ONE_RUN = "one-run"
    BURST = "burst"
    WRONG_RESULTS = "wrong-results"
    NO_BASELINE = "no-baseline"
    DOUBTED_SAMPLES = "doubted-samples"
    NOT_OFFERED = "not-offered"
    NOT_SELECTABLE = "not-selectable"
    UNSTATED_SETTING = "unstated-setting"
    MISSING_VIEW = "missing-view"
    TOLERANCE_NOT_MET = "tolerance-not-met"
    FILE_OVERRULED = "file-overruled"
    INCOMPLETE_LOG = "incomplete-log"
    LAUNCH_FAILED = "launch-failed"
    EXCLUDED = "excluded"
    IDLE_DIFFERS = "idle-differs"
    DERIVED_TIME = "derived-time"
    ASSUMED = "assumed"
    FORCED_BY_SWITCHES = "forced-by-switches"
    PROTOCOL_OVERWRITTEN = "protocol-overwritten"

    @property
    def can_wait(self) -> bool:
        """Whether one line at the end is enough, since nobody has to act or to know."""
        return self in _REMARK

    def remark(self, count: int) -> str:
        """Remark on so many timings or settings: ``3 stalled timings left out``."""
        words = _REMARK[self]
        return words if isinstance(words, str) else f"{count} {words[count != 1]}"


# In passing, with a count for one and for several; or without.
_REMARK: Final = {
    Caution.BURST: ("stalled timing left out", "stalled timings left out"),
    Caution.DOUBTED_SAMPLES: ("unusable timing left out", "unusable timings left out"),
    Caution.NOT_OFFERED: (
        "timing of a setting that the library does not offer there",
        "timings of settings that the library does not offer there",
    ),
    Caution.NOT_SELECTABLE: (
        "setting measured that no rule can choose",
        "settings measured that no rule can choose",
    ),
    Caution.TOLERANCE_NOT_MET: (
        "size where no setting is the best in place and out of place",
        "sizes where no setting is the best in place and out of place",
    ),
    Caution.IDLE_DIFFERS: "times with the plugin loaded but idle differ",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Something that weakens the result, with its remedy.

    Attributes:
        where: what it is about: a launch, a file, a scale.
        count: of how many timings or settings it speaks.
    """

    caution: Caution
    message: Text
    remedy: Text
    where: Line | None = None
    count: Whole = 1
