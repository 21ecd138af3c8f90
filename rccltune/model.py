"""The records that rooms hand to each other: frozen, validated, without any input or output.

A missing number is ``None``, never NaN or 0, and unknown agrees with unknown only. Times are
microseconds, sizes bytes as the tuner sees them (totals over ranks for all_gather and
reduce_scatter, which is the size column of rccl-tests).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from rccltune.units import MAX_NBYTES
from rccltune.vocab import Algorithm, Collective, Doubt, Placement, Protocol

_MODE: Final = re.compile(r"([sdtqc]px|none|unknown)(?:-(nps\d+))?", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """Compute and memory partition of a node's GPUs.

    Attributes:
        compute: ``CPX``, ``SPX`` …, ``None`` where GPUs have no partitions.
        memory: ``NPS4`` …, ``None`` where unknown or not there.
    """

    compute: str | None
    memory: str | None

    @classmethod
    def parse_wish(cls, text: str) -> Mode | None:
        """As :meth:`parse`, and ``auto``: the machine's own, whatever that is."""
        return None if text.strip().lower() == "auto" else cls.parse(text)

    @classmethod
    def parse(cls, text: str) -> Mode:
        """Read ``cpx-nps4``, ``spx`` or ``none``; ValueError for anything else."""
        match = _MODE.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"'{text}' is no mode: write cpx-nps4, spx-nps1, … or none")
        compute, memory = match.groups()
        if compute.lower() in ("none", "unknown"):
            return cls(compute=None, memory=None)
        return cls(compute=compute.upper(), memory=memory.upper() if memory else None)

    def __str__(self) -> str:
        """``cpx-nps4``; ``none`` without partitions."""
        parts = [part.lower() for part in (self.compute, self.memory) if part]
        return "-".join(parts) or "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How many nodes and ranks a communicator spans."""

    n_nodes: int
    n_ranks: int

    def __post_init__(self) -> None:
        """Refuse counts that no communicator has."""
        if self.n_nodes < 1 or self.n_ranks < self.n_nodes:
            raise ValueError(f"{self.n_ranks} ranks on {self.n_nodes} nodes is no scale")

    def __str__(self) -> str:
        """``64 ranks on 1 node``."""
        ranks = "1 rank" if self.n_ranks == 1 else f"{self.n_ranks} ranks"
        return f"{ranks} on {self.n_nodes} node{'s' if self.n_nodes > 1 else ''}"


class Role(Enum):
    """Who chose the setting that ran."""

    FORCED = "forced"
    BASELINE = "baseline"
    SILENT = "silent"
    UNSTATED = "unstated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a tuner may choose; ``None`` leaves that part to RCCL."""

    algorithm: Algorithm | None = None
    protocol: Protocol | None = None
    channels: int | None = None
    role: Role = Role.FORCED

    def __post_init__(self) -> None:
        """Only a forced setting names parts; channels are at least one."""
        named = (self.algorithm, self.protocol, self.channels) != (None, None, None)
        if named != (self.role is Role.FORCED):
            raise ValueError("a forced setting names a part, baseline and silent name none")
        if self.channels is not None and self.channels < 1:
            raise ValueError(f"{self.channels} channels is no setting")

    @classmethod
    def parse(cls, text: str) -> Setting:
        """Read ``tree/ll128``, ``tree/ll128/16``, ``ring/-``, ``baseline``, ``silent``.

        Raises:
            ValueError: an unknown word or a number of channels below one.
        """
        folded = text.strip().lower()
        if folded in _SETTING_BY_WORD:
            return _SETTING_BY_WORD[folded]
        parts = folded.split("/")
        if not 2 <= len(parts) <= 3:
            raise ValueError(f"'{text}' is no setting: write tree/ll128 or tree/ll128/16")
        channels = parts[2] if len(parts) == 3 else "-"
        if channels != "-" and not channels.isdigit():
            raise ValueError(f"'{channels}' in '{text}' is no number of channels")
        return cls(
            algorithm=None if parts[0] == "-" else Algorithm.parse(parts[0]),
            protocol=None if parts[1] == "-" else Protocol.parse(parts[1]),
            channels=None if channels == "-" else int(channels),
        )

    def __str__(self) -> str:
        """``tree/ll128/16``; the word for baseline, silent and unstated."""
        if self.role is not Role.FORCED:
            return str(self.role.value)
        parts = [
            self.algorithm.value if self.algorithm else "-",
            self.protocol.value if self.protocol else "-",
        ]
        if self.channels is not None:
            parts.append(str(self.channels))
        return "/".join(parts)

    @property
    def is_complete(self) -> bool:
        """Whether algorithm and protocol are both named, as a rule needs."""
        return self.algorithm is not None and self.protocol is not None


BASELINE: Final = Setting(role=Role.BASELINE)
SILENT: Final = Setting(role=Role.SILENT)
UNSTATED: Final = Setting(role=Role.UNSTATED)
_SETTING_BY_WORD: Final = {str(s): s for s in (BASELINE, SILENT, UNSTATED)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A named environment and library under which settings are measured.

    Attributes:
        name: ``default``, ``ll128-forced``, ``tree-simple-patched`` …
        environment: what must be set, sorted (name, value) pairs.
        widens: name of the variant of which this one only makes more cells selectable, so that
            settings measured there may stand beside settings measured here.
        patched: built from changed sources; shown and never emitted.
        library_sha256: hash of the librccl file.
        library_version: as the library prints it.
    """

    name: str = "default"
    environment: tuple[tuple[str, str], ...] = ()
    widens: str | None = None
    patched: bool = False
    library_sha256: str | None = None
    library_version: str | None = None


DEFAULT_VARIANT: Final = Variant()
LL128_FORCED: Final = Variant(
    name="ll128-forced", environment=(("RCCL_LL128_FORCE_ENABLE", "1"),), widens="default"
)
TREE_SIMPLE_PATCHED: Final = Variant(
    name="tree-simple-patched", environment=(("RCCL_FORCE_TREE_SIMPLE", "1"),), patched=True
)
KNOWN_VARIANTS: Final = {v.name: v for v in (DEFAULT_VARIANT, LL128_FORCED, TREE_SIMPLE_PATCHED)}


def base_variant(variant: Variant) -> Variant:
    """The variant that ``variant`` only widens, with the same library; itself otherwise."""
    if variant.widens is None:
        return variant
    known = KNOWN_VARIANTS.get(variant.widens, Variant(name=variant.widens))
    return replace(
        known,
        library_sha256=variant.library_sha256,
        library_version=variant.library_version,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveKey:
    """All that two samples must share to lie on one curve.

    Attributes:
        graph: whether calls were replayed from a captured graph.
        rank_placement: ``node``, ``one-oam``, ``one-per-oam`` …
    """

    collective: Collective
    setting: Setting
    placement: Placement
    scale: Scale
    dtype: str | None = None
    redop: str | None = None
    graph: bool | None = None
    rank_placement: str | None = None
    variant: Variant = DEFAULT_VARIANT

    @property
    def target(self) -> Target:
        """What a rule can tell apart: the key without what no tuner sees."""
        return Target(
            collective=self.collective,
            scale=self.scale,
            rank_placement=self.rank_placement,
            variant=self.variant,
        )

    @property
    def view(self) -> View:
        """What one rule must serve alike: the parts that no tuner sees."""
        return View(dtype=self.dtype, redop=self.redop, placement=self.placement, graph=self.graph)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What one list of zones is for."""

    collective: Collective
    scale: Scale
    rank_placement: str | None
    variant: Variant


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The parts of a curve's key that a tuner cannot see; a rule serves all views alike."""

    dtype: str | None
    redop: str | None
    placement: Placement
    graph: bool | None

    def __str__(self) -> str:
        """``float sum out-of-place``."""
        words = [self.dtype, self.redop if self.redop != "none" else None]
        words.append("in-place" if self.placement is Placement.IN_PLACE else "out-of-place")
        words.append("graph" if self.graph else None)
        return " ".join(word for word in words if word)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One half-row of a benchmark's table.

    Attributes:
        launch: id of the launch it came from.
        step: which step of the launch's schedule, None where there was none.
        cycle: which pass over the sizes, from 0.
        count: elements per call, None where the source does not say.
        time_us: mean over ranks as printed, None where the row had no usable number.
        n_wrong: None where results were not checked.
        doubt: why it must not be used, None when it may.
        executed: the setting that is known to have run, where something said so.
        line: line of the raw log, from 1.
    """

    key: CurveKey
    launch: str
    nbytes: int
    time_us: float | None
    step: int | None = None
    cycle: int = 0
    count: int | None = None
    n_wrong: int | None = None
    doubt: Doubt | None = None
    executed: Setting | None = None
    line: int | None = None

    def __post_init__(self) -> None:
        """A sample without a doubt can be computed with."""
        if self.doubt is None and not (
            self.nbytes > 0 and self.time_us is not None and 0.0 < self.time_us < float("inf")
        ):
            raise ValueError(f"{self.nbytes} bytes in {self.time_us} µs needs a doubt")


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Settings tried in turn inside one launch.

    Attributes:
        calls: calls per step, 0 where a step ends when the size falls.
    """

    settings: tuple[Setting, ...]
    scale: Scale | None = None
    calls: int = 0

    def __post_init__(self) -> None:
        """A schedule has a step."""
        if not self.settings:
            raise ValueError("a schedule needs at least one setting")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """What must agree inside a session; another machine is an error.

    Attributes:
        devices: identities of the GPUs, in order.
        benchmark_sha256: hash of the benchmark file.
        simulated: measured on the stand-in benchmark, never on hardware.
    """

    product: str | None = None
    arch: str | None = None
    cu_count: int | None = None
    mode: Mode | None = None
    hosts: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    benchmark_sha256: str | None = None
    ranks_per_process: int | None = None
    binding: str | None = None
    simulated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """What is wished for, as resolved from options and sweep.yaml."""

    collectives: tuple[Collective, ...]
    settings: tuple[Setting, ...]
    min_nbytes: int
    max_nbytes: int
    factor: int = 2
    step_nbytes: int | None = None
    scales: tuple[Scale, ...] = ()
    rank_placement: str = "node"
    variants: tuple[Variant, ...] = (DEFAULT_VARIANT,)
    dtypes: tuple[str, ...] = ("float",)
    redop: str = "sum"
    placements: tuple[Placement, ...] = (Placement.OUT_OF_PLACE, Placement.IN_PLACE)
    graph: int = 0
    iterations: int = 20
    warmup: int = 5
    check: bool = True
    repeats: int = 3
    mode: Mode | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One start of a benchmark, or one imported file.

    Attributes:
        id: short hash of all that follows, so that resuming needs no counter.
        argv: command, empty for an imported file.
        environment: set on top of the site's, sorted pairs.
        repeat: tells repeats of the same command apart.
        source: name of the imported file.
        source_sha256: hash of its bytes.
        stated: what options said about an imported file, kept so that samples can be read again
            from the raw log.
    """

    id: str
    argv: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    collectives: tuple[Collective, ...] = ()
    schedule: Schedule | None = None
    variant: Variant = DEFAULT_VARIANT
    scale: Scale | None = None
    rank_placement: str | None = None
    repeat: int = 0
    timeout_s: float | None = None
    source: str | None = None
    source_sha256: str | None = None
    stated: Stated | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """What the user says about files that somebody else measured.

    Options fill what a file does not say; ``assume`` fills what neither says. ``None`` is unsaid.

    Attributes:
        setting: what ran; BASELINE where the files show the untouched site.
        assume: sorted (key, value) pairs for unknown parts of the fingerprint or the curve key.
    """

    collective: Collective | None = None
    setting: Setting | None = None
    variant: Variant | None = None
    n_ranks: int | None = None
    n_nodes: int | None = None
    mode: Mode | None = None
    dtype: str | None = None
    assume: tuple[tuple[str, str], ...] = ()


class Status(Enum):
    """How a launch ended."""

    OK = "ok"
    FAILED = "failed"
    TIMED_OUT = "timed-out"
    INTERRUPTED = "interrupted"
    IMPORTED = "imported"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one launch ended.

    Attributes:
        started: UTC, ISO 8601.
        n_samples: half-rows read from its log.
        origin: whose measurement it is, as an imported file says ("AMD ROCm blog, …").
        library_version: as the log names it.
        notices: what was noticed while reading.
    """

    launch: str
    status: Status
    exit_code: int | None = None
    signal: int | None = None
    started: str | None = None
    duration_s: float | None = None
    n_samples: int = 0
    fingerprint: Fingerprint = field(default_factory=Fingerprint)
    origin: str | None = None
    library_version: str | None = None
    notices: tuple[Notice, ...] = ()


class Model(Enum):
    """How time depends on size."""

    LINEAR = "linear"
    SEGMENTED = "segmented"
    LOGLOG = "log-log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """time = latency_us + nbytes * us_per_byte for min_nbytes <= nbytes <= max_nbytes."""

    min_nbytes: int
    max_nbytes: int
    latency_us: float
    us_per_byte: float

    def predict(self, nbytes: float) -> float:
        """Time in µs, whatever the size."""
        return self.latency_us + nbytes * self.us_per_byte


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """All samples of one curve at one size.

    Attributes:
        time_us: robust centre over launches and cycles.
        low_us: lower end of the spread (equal to time_us from one sample).
        high_us: upper end.
        n_launches: launches behind it, the only repeats that count as independent.
        launches: their ids, sorted; empty where a point was made without them.
        launch_times_us: centre of each, in the order of ``launches``.
        n_left_out: launches that stalled here and count in none of the numbers above.
    """

    nbytes: int
    time_us: float
    low_us: float
    high_us: float
    n_samples: int = 1
    n_launches: int = 1
    launches: tuple[str, ...] = ()
    launch_times_us: tuple[float, ...] = ()
    n_left_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """One model fitted to one curve.

    Attributes:
        segments: one for LINEAR, several for SEGMENTED, none for LOGLOG (its points are the
            model).
        residuals: (fitted - measured) / measured at each point of the curve.
        held_out_error: mean absolute relative error at inner sizes left out one at a time, None
            from too few sizes.
        held_out_worst: the largest of those errors.
    """

    model: Model
    segments: tuple[Segment, ...]
    residuals: tuple[float, ...]
    held_out_error: float | None
    held_out_worst: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A time model of one setting, valid from its smallest to its largest measured size.

    Attributes:
        points: by rising size, at least one.
        fits: every model tried, in the order of Model.
        chosen: the model with the least held-out error.
        n_wrong: samples of this setting, collective and variant with wrong results, in whatever
            view or scale; above 0 it is shown and never chosen.
    """

    key: CurveKey
    points: tuple[CurvePoint, ...]
    fits: tuple[Fit, ...]
    chosen: Model
    n_wrong: int = 0

    @property
    def min_nbytes(self) -> int:
        """Smallest measured size."""
        return self.points[0].nbytes

    @property
    def max_nbytes(self) -> int:
        """Largest measured size."""
        return self.points[-1].nbytes

    def fit(self, model: Model) -> Fit | None:
        """The fit of one model, None where the curve has too few points for it."""
        return next((fit for fit in self.fits if fit.model is model), None)


class Evidence(Enum):
    """What stands behind a crossover's interval."""

    BOOTSTRAP = "interval"
    BRACKET = "bracket"


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossover:
    """The size from which another setting is faster.

    Attributes:
        low_nbytes: last size at which ``below`` is known to win, or the interval's lower end.
        high_nbytes: first size at which ``above`` wins, or the interval's upper end.
        at_nbytes: where the two curves cross.
        linear_nbytes: where the two straight lines cross, None where they do not in range.
    """

    target: Target
    view: View
    below: Setting
    above: Setting
    at_nbytes: float
    low_nbytes: float
    high_nbytes: float
    evidence: Evidence
    linear_nbytes: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Separation:
    """Latency of one setting split into a fixed part and a part per step, over several scales.

    Attributes:
        scales: by rising number of ranks, at least two with different step counts.
        latencies_us: latency of the straight line at each scale.
        steps: sequential steps as RCCL's own model counts them, at each scale.
        blog_steps: as AMD's article on CPX counts them (ring 2n-1, tree 2 log2 n), shown beside.
        base_us: part that does not grow with the steps.
        per_step_us: time of one step, by RCCL's count.
        blog_per_step_us: the same latencies over the article's count, None where it has none.
    """

    target: Target
    view: View
    setting: Setting
    scales: tuple[Scale, ...]
    latencies_us: tuple[float, ...]
    steps: tuple[int, ...]
    blog_steps: tuple[int | None, ...]
    base_us: float
    per_step_us: float
    blog_per_step_us: float | None = None


class Proof(Enum):
    """What a zone's gain over the baseline rests on."""

    REPEATED = "repeated"
    ONE_RUN = "one-run"
    NO_BASELINE = "no-baseline"


NOT_MEASURED: Final = "not measured"
NOT_BEATEN: Final = "baseline not beaten"
BASELINE_UNKNOWN: Final = "baseline not measured here"
NOTHING_SELECTABLE: Final = "no selectable setting was measured"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A setting that was measured and can never be in a rule of this target.

    Attributes:
        variant: where it was measured.
        n_fastest: sizes at which it was faster than every selectable setting in every view.
    """

    target: Target
    setting: Setting
    variant: Variant
    reason: str
    n_fastest: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """baseline time / chosen time - 1 over a zone's sizes: least, median and largest."""

    low: float
    median: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Zone:
    """An interval of sizes where one setting is chosen, or a hole where none is.

    Attributes:
        setting: None for a hole.
        reason: why it is a hole, None for a choice.
        measured_from: smallest measured size inside, None where nothing was measured.
        measured_to: largest measured size inside.
        worst_regret: time(chosen) / time(best measured) - 1, the largest over sizes and views.
        gain: over baseline, None where no baseline was measured.
        fallback: what to choose where the setting is not selectable.
        variant: environment that the zone's setting needs (the target's own, or one that widens
            it, as LL128 on one node does).
        proof: what the gain rests on, None for a hole.
    """

    target: Target
    min_nbytes: int
    max_nbytes: int
    setting: Setting | None
    reason: str | None = None
    measured_from: int | None = None
    measured_to: int | None = None
    n_sizes: int = 0
    worst_regret: float | None = None
    mean_regret: float | None = None
    gain: Gain | None = None
    fallback: Setting | None = None
    variant: Variant = DEFAULT_VARIANT
    proof: Proof | None = None

    def __post_init__(self) -> None:
        """A zone covers sizes and either chooses or says why not."""
        if not 0 <= self.min_nbytes <= self.max_nbytes <= MAX_NBYTES:
            raise ValueError(f"a zone cannot reach from {self.min_nbytes} to {self.max_nbytes}")
        if (self.setting is None) != (self.reason is not None):
            raise ValueError("a zone has either a setting or a reason for having none")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One line of a rule file; ``None`` stands for -1, which is *any* or *leave to RCCL*.

    Attributes:
        only_mode: partition mode that the row itself asks for (column 11 of a fork's dialect).
        line: where it was read, from 1.
        fallback: reached only when the rule before it is not selectable.
    """

    collective: Collective
    min_nbytes: int
    max_nbytes: int
    setting: Setting
    n_nodes: int | None = None
    n_ranks: int | None = None
    num_pipe_ops: int | None = None
    reg_buff: int | None = None
    only_mode: Mode | None = None
    variant: Variant | None = None
    line: int | None = None
    fallback: bool = False

    def matches(
        self,
        collective: Collective,
        nbytes: int,
        scale: Scale,
        num_pipe_ops: int = 1,
        reg_buff: int = 0,
    ) -> bool:
        """Whether a call falls under the rule; bounds are inclusive."""
        return (
            collective is self.collective
            and self.min_nbytes <= nbytes <= self.max_nbytes
            and self.n_nodes in (None, scale.n_nodes)
            and self.n_ranks in (None, scale.n_ranks)
            and self.num_pipe_ops in (None, num_pipe_ops)
            and self.reg_buff in (None, reg_buff)
        )


class Judgement(Enum):
    """What verification found at one size."""

    BETTER = "better"
    SAME = "same"
    WORSE = "worse"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Tuned against baseline at one size.

    Attributes:
        ratio: baseline time / tuned time.
        low: lower end of its interval.
        high: upper end.
    """

    target: Target
    view: View
    nbytes: int
    baseline_us: float
    tuned_us: float
    ratio: float
    low: float
    high: float
    n_wrong: int | None
    judgement: Judgement


class Caution(Enum):
    """The closed set of warnings; each is raised with its remedy."""

    FEW_SAMPLES = "few-samples"
    ONE_RUN = "one-run"
    BURST = "burst"
    NO_BASELINE = "no-baseline"
    DOUBTED_SAMPLES = "doubted-samples"
    NOT_SELECTABLE = "not-selectable"
    UNSTATED_SETTING = "unstated-setting"
    MIXED_VARIANTS = "mixed-variants"
    MISSING_VIEW = "missing-view"
    TOLERANCE_NOT_MET = "tolerance-not-met"
    FILE_OVERRULED = "file-overruled"
    INCOMPLETE_LOG = "incomplete-log"
    LINGERED = "lingered"
    LAUNCH_FAILED = "launch-failed"
    NOISY_MACHINE = "noisy-machine"
    DERIVED_TIME = "derived-time"
    ASSUMED = "assumed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Something that weakens the result, with its remedy."""

    caution: Caution
    message: str
    remedy: str
    where: str | None = None
