"""Resolution of file, options and assumptions into keys.

A file is trusted; an option fills what it leaves unsaid and must not contradict it; an
assumption fills what neither says. What is still missing and needed is asked for by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import Enum
from typing import Final, TypeVar

from rccltune.logs.columns import parse_dtype, parse_placement, parse_yes_or_no
from rccltune.logs.facts import LogFacts, LogRun
from rccltune.logs.forced_variables import (
    ForcedParts,
    find_other_variables,
    forced_parts,
    is_choice_requested,
    name_tuner,
)
from rccltune.model.errors import CommandLineError, OutputError
from rccltune.model.measurement import Caution, Notice, StatedFacts
from rccltune.model.settings import (
    BASELINE,
    UNSTATED,
    CurveKey,
    Mode,
    Role,
    Scale,
    Setting,
    Vendor,
)
from rccltune.model.vocabulary import DTYPE_BYTES, Placement
from rccltune.releases import release_of

T = TypeVar("T")
_ASSUMABLE: Final = (
    "arch", "binding", "cus", "dtype", "graph", "host", "mode", "op", "placement", "product",
    "rank_placement",
)  # fmt: skip


class Resolver:
    """Turns what a file says into keys of curves, with one user's options beside it.

    Attributes:
        notices: weaknesses of the file so far.
        is_mixed: something chose what some runs ran, and nothing what others did; set when all
            runs are read.
        environment: variables beside the settings, of the runs that
            :meth:`keep_one_environment` kept; None where the file names none.
        n_runs: how many it kept.
    """

    def __init__(self, name: str, stated: StatedFacts, *, is_trusted: bool = False) -> None:
        """Check the assumptions.

        Args:
            name: file name for messages.
            stated: options and assumptions.
            is_trusted: whoever stated them started the benchmark, and knows what ran.

        Raises:
            CommandLineError: an assumption that nothing can be made of.
        """
        self.name = name
        self.stated = stated
        self.notices: list[Notice] = []
        self.assumptions = dict(stated.assume)
        for key in self.assumptions:
            if key not in _ASSUMABLE and not key.isupper():
                raise CommandLineError(
                    f"--assume {key}=… is not known",
                    hint=f"assume one of {', '.join(_ASSUMABLE)}.",
                )
        self._placement = self._parse_assumption("placement", parse_placement)
        self._graph = self._parse_assumption("graph", parse_yes_or_no)
        self.mode = self._parse_assumption("mode", Mode.parse)
        self.cu_count = self._parse_assumption("cus", int)
        self._dtype = None if stated.dtype is None else parse_dtype(stated.dtype)
        if self._dtype not in (None, *DTYPE_BYTES):
            raise CommandLineError(
                f"--dtype {stated.dtype} is no data type of a benchmark",
                hint=f"write one of {', '.join(DTYPE_BYTES)}.",
            )
        self.is_mixed = False
        self.is_trusted = is_trusted
        self.environment: dict[str, str] | None = None
        self.n_runs = 1
        self._keys: dict[LogFacts, CurveKey] = {}
        self._shared: dict[CurveKey, CurveKey] = {}

    def key(self, facts: LogFacts) -> CurveKey:
        """Key of the curve that a timing lies on; the same object for the same key.

        Raises:
            CommandLineError: an option contradicts the file.
            OutputError: collective, ranks or nodes are said nowhere.
        """
        key = self._keys.get(facts)
        if key is None:
            new = self._key(facts)
            key = self._keys[facts] = self._shared.setdefault(new, new)
        return key

    def drop_total_ranks(self, facts: LogFacts) -> LogFacts:
        """Facts without a number of ranks that is of all groups together."""
        stated = self.stated
        is_all = stated.n_started is not None and facts.n_ranks == stated.n_started
        return replace(facts, n_ranks=None) if is_all and stated.n_ranks is not None else facts

    def agree(self, option: str, stated: T | None, in_file: T | None, line: int) -> T | None:
        """The one of two that is there.

        Raises:
            CommandLineError: both are there and differ.
        """
        if stated is not None and in_file is not None and stated != in_file:
            raise CommandLineError(
                f"{option} {spell(stated)} contradicts the file, which says {spell(in_file)}",
                where=self.where(line),
                hint=f"leave out {option}, or import the file that it belongs to{self.for_all}.",
            )
        return stated if in_file is None else in_file

    def where(self, line: int) -> str:
        """File and line, as editors read it."""
        return f"{self.name}:{line}" if line else self.name

    def notice(self, caution: Caution, message: str, remedy: str, line: int = 0) -> None:
        """Note a weakness, once for a file however many rows have it."""
        if not any(each.message == message for each in self.notices):
            self.notices.append(
                Notice(caution=caution, message=message, remedy=remedy, where=self.where(line))
            )

    def _key(self, facts: LogFacts) -> CurveKey:
        stated, line = self.stated, facts.line
        collective = self.agree(
            "--collective", stated.collective, facts.collective, facts.line_of("collective")
        )
        self.require(facts)
        if collective is None:
            raise AssertionError("required above")
        return CurveKey(
            collective=collective,
            setting=self._setting(facts),
            placement=self._placement_of(facts),
            scale=self._scale(facts),
            dtype=self.agree("--dtype", self._dtype, facts.dtype, line)
            or self.assumptions.get("dtype"),
            op=facts.op or self.assumptions.get("op"),
            graph=self._graph if facts.graph is None else facts.graph,
            rank_placement=facts.rank_placement or self.assumptions.get("rank_placement"),
        )

    def _placement_of(self, facts: LogFacts) -> Placement:
        placement = facts.placement or self._placement
        if placement is None:
            placement = Placement.OUT_OF_PLACE
            self.notice(
                Caution.ASSUMED,
                "the file does not say whether it measured in place; out of place is assumed",
                "say it with --assume placement=out or placement=in.",
                facts.line,
            )
        return placement

    def _scale(self, facts: LogFacts) -> Scale:
        stated, line = self.stated, facts.line
        one_group = self.drop_total_ranks(facts)
        ranks = self.agree("--ranks", stated.n_ranks, one_group.n_ranks, facts.line_of("n_ranks"))
        if ranks is None:
            raise AssertionError("required by _key")
        nodes = facts.n_nodes
        if facts.nodes_unsure and stated.n_nodes not in (None, nodes):
            self.notice(
                Caution.FILE_OVERRULED,
                f"the file says {nodes} node{'' if nodes == 1 else 's'}, --nodes says "
                f"{stated.n_nodes}: the option wins, since rccl-tests writes this column "
                "wrongly when several nodes run",
                "nothing, if --nodes is right.",
                line,
            )
            nodes = None
        nodes = self.agree("--nodes", stated.n_nodes, nodes, facts.line_of("n_ranks"))
        if nodes is not None and nodes < (facts.least_nodes or 1):
            raise CommandLineError(
                f"--nodes {nodes} contradicts the file, which names ranks on {facts.least_nodes} "
                "hosts and not all of them",
                where=self.where(facts.line_of("n_ranks")),
                hint="count the hosts of the job.",
            )
        if not 1 <= (nodes or 1) <= ranks:
            raise OutputError(
                f"{ranks} ranks on {nodes} nodes is no scale",
                where=self.where(line),
                hint="check --ranks and --nodes against the file.",
            )
        return Scale(n_nodes=nodes or 1, n_ranks=ranks)

    # --- what chose -------------------------------------------------------------------------------

    def _find_forced(self, facts: LogFacts) -> ForcedParts:
        release = release_of(facts.library)
        # RCCL to 2.28.3 applies a name before a colon to another collective.
        is_rccl = facts.vendor == Vendor.AMD.value
        by_name = not is_rccl if release is None else release.limits_by_name
        collective = facts.collective or self.stated.collective
        return forced_parts(facts.variables, collective, by_name=by_name)

    def _name_chooser(self, facts: LogFacts) -> str:
        """Variables and tuner that chose beside the library, in words; empty where nothing did."""
        tuner, forced = name_tuner(facts.variables), self._find_forced(facts)
        return ", ".join([*filter(None, (tuner,)), *forced.forcing])

    def is_chosen(self, facts: LogFacts) -> bool:
        """Whether something else than the site as it is chose what ran."""
        return facts.setting is not None or bool(self._name_chooser(facts))

    def keep_one_environment(self, runs: Sequence[LogRun]) -> list[LogRun]:
        """Runs under one environment beside their settings; those that the user chose of several.

        Raises:
            OutputError: they ran under several, and nothing chooses.
            CommandLineError: none ran under the one that was chosen.
        """
        chosen = {key: value for key, value in self.assumptions.items() if key.isupper()}
        runs = [run for run in runs if chosen.items() <= run.facts.variables.items()]
        if not runs:
            raise CommandLineError(
                f"no run of the file had {' '.join(f'{k}={v}' for k, v in chosen.items())}",
                where=self.name,
                hint="leave the assumption out, or name a value that the file names.",
            )
        environments = [
            find_other_variables(run.facts.variables, channels=self._takes_channels(run.facts))
            for run in runs
        ]
        for run, variables in zip(runs, environments, strict=True):
            if variables != environments[0] and not self.is_trusted:
                raise self._environments_differ(runs[0], environments[0], run, variables)
        if any(run.facts.names_environment for run in runs):
            self.environment = environments[0]
        self.n_runs = len(runs)
        return runs

    def _environments_differ(
        self, run: LogRun, first: dict[str, str], later: LogRun, other: dict[str, str]
    ) -> OutputError:
        names = [name for name in sorted({*first, *other}) if first.get(name) != other.get(name)]
        shown = [
            f"{' '.join(f'{n}={one[n]}' if n in one else f'no {n}' for n in names[:4])}"
            f" (line {each.facts.line})"
            for each, one in ((run, first), (later, other))
        ]
        value = other.get(names[0]) or first.get(names[0])
        return OutputError(
            f"runs of the file had different environments: {shown[0]} and {shown[1]}",
            where=self.where(later.facts.line),
            hint=f"choose the runs of one with --assume {names[0]}={value}, or split the file and "
            "import each part into a session of its own (-o DIR).",
        )

    def _takes_channels(self, facts: LogFacts) -> bool:
        """Whether variables of channels are a part of the setting that was forced."""
        forced, stated = self._find_forced(facts), self.stated.setting or UNSTATED
        algorithm = forced.algorithm or stated.algorithm
        return bool(forced.channels and algorithm and (forced.protocol or stated.protocol))

    def _setting(self, facts: LogFacts) -> Setting:
        """The setting of rows: by the table's own columns, by variables, or by the options."""
        stated, chooser = self.stated.setting, self._name_chooser(facts)
        is_baseline = stated is not None and stated.role is Role.BASELINE
        if facts.setting is not None:
            setting = facts.setting
            if stated is not None and not (self.is_mixed and is_baseline):
                setting = self._merge(stated, facts.setting, facts.line)
        elif self.is_trusted and stated is not None:
            # Whoever started it knows what was requested; its log must not say another thing.
            setting = stated
            forced = self._find_forced(facts).setting
            if forced is not None and stated.role is Role.FORCED:
                setting = self._merge(stated, forced, facts.line)
        elif not chooser:
            setting = stated or self._note_unstated(facts)
        elif is_baseline and not self.is_mixed:
            setting = self._baseline_beside(facts, chooser)
        else:
            setting = self._setting_of_chooser(facts, None if is_baseline else stated, chooser)
        return setting

    def _setting_of_chooser(self, facts: LogFacts, stated: Setting | None, chooser: str) -> Setting:
        """Setting of rows that ran under variables or a tuner."""
        merged = self._with_variables(facts, stated)
        if merged is not None and (merged.is_complete or merged == stated):
            return merged
        several = f"rows ran under {chooser}, which leaves the library several to choose from"
        self.notice(
            Caution.UNSTATED_SETTING,
            f"rows ran under {chooser}: no baseline" if name_tuner(facts.variables) else several,
            "say what ran with --algorithm and --protocol, or measure without it and import that "
            "log with --baseline.",
            facts.line,
        )
        return UNSTATED

    def _note_unstated(self, facts: LogFacts) -> Setting:
        reason = "nothing says which setting ran"
        if facts.mention is not None:
            reason += f", since line {facts.mention[0]} sets nothing: {facts.mention[1]}"
        self.notice(
            Caution.UNSTATED_SETTING,
            reason,
            "import it again with --baseline if nothing was forced, or with --algorithm and "
            "--protocol if NCCL_ALGO and NCCL_PROTO were set.",
            facts.line,
        )
        return UNSTATED

    def _with_variables(self, facts: LogFacts, stated: Setting | None) -> Setting | None:
        """The option's setting with what variables force; None where neither names a part."""
        forced = self._find_forced(facts)
        for option, word in () if stated is None else (
            ("--algorithm", stated.algorithm), ("--protocol", stated.protocol),
        ):  # fmt: skip
            exclusion = forced.excluding(word)
            if exclusion is not None:
                raise CommandLineError(
                    f"{option} {spell(word)} contradicts the file, which says {exclusion}",
                    where=self.where(facts.line),
                    hint=f"leave out {option}, or import the file that it belongs to.",
                )
        in_file = forced.setting
        if self._takes_channels(facts):
            bounded = Setting(channels=forced.channels)
            in_file = replace(in_file or bounded, channels=forced.channels)
        if stated is None or in_file is None:
            return stated or in_file
        return self._merge(stated, in_file, facts.line)

    def _merge(self, stated: Setting, in_file: Setting, line: int) -> Setting:
        """Both, where they agree."""
        if stated.role is not Role.FORCED or in_file.role is not Role.FORCED:
            option = "--baseline" if stated.role is Role.BASELINE else "--algorithm/--protocol"
            return self.agree(option, stated, in_file, line) or UNSTATED
        return Setting(
            algorithm=self.agree("--algorithm", stated.algorithm, in_file.algorithm, line),
            protocol=self.agree("--protocol", stated.protocol, in_file.protocol, line),
            channels=self.agree("--channels", stated.channels, in_file.channels, line),
        )

    def _baseline_beside(self, facts: LogFacts, chooser: str) -> Setting:
        """The baseline of a site that has a tuner of its own."""
        if is_choice_requested(facts.variables):
            raise CommandLineError(
                f"--baseline says that nothing was forced, but these rows ran under {chooser}",
                where=self.where(facts.line),
                hint="leave out --baseline; measure the site as it is, and import that log.",
            )
        self.notice(
            Caution.ASSUMED,
            f"rows ran under {chooser}; the baseline is the site with it",
            "nothing, if every job of this site runs so.",
            facts.line,
        )
        return BASELINE

    def _parse_assumption(self, key: str, parse: Callable[[str], T]) -> T | None:
        text = self.assumptions.get(key)
        try:
            return None if text is None else parse(text)
        except ValueError as error:
            raise CommandLineError(
                f"--assume {key}={text}: {error}", hint=f"correct the value of {key}."
            ) from error

    def require(self, facts: LogFacts, proposed: str = "") -> None:
        """Ask once for all that samples need and nothing says.

        Args:
            facts: by the file.
            proposed: options that the rows fit, for the hint.

        Raises:
            OutputError: collective, ranks or nodes are said nowhere.
        """
        stated, lacking, options = self.stated, [], []
        if (facts.collective or stated.collective) is None:
            lacking.append("which collective it measured")
            options.append("--collective C")
        n_ranks = self.drop_total_ranks(facts).n_ranks or stated.n_ranks
        if n_ranks is None:
            lacking.append("how many ranks took part")
            options.append("--ranks N")
        if (facts.n_nodes or stated.n_nodes) is None and n_ranks != 1:
            lacking.append("how many nodes took part")
            options.append("--nodes N")
        if lacking:
            raise OutputError(
                f"the file does not say {', '.join(lacking)}",
                where=self.where(facts.line),
                hint=f"add {' '.join(options)}{f': {proposed}' if proposed else ''}{self.for_all}.",
            )

    @property
    def for_all(self) -> str:
        """Remark that options hold for all tables of a file, where it has several."""
        several = "; options hold for all tables of a file, so cut it where they differ"
        return several if self.n_runs > 1 else ""


def spell(value: object) -> str:
    """A value as the command line spells it."""
    return str(value.value) if isinstance(value, Enum) else str(value)
