"""Knowledge of other packages, for answers: paths around a tuner, rule files, releases."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rccltune.analyse import selectable
from rccltune.model.choice import Rule
from rccltune.model.settings import Scale, Setting, Vendor, vendor_of
from rccltune.model.vocabulary import Collective
from rccltune.overwritten import Overwrite, overwrites
from rccltune.releases import release_of
from rccltune.rules.provenance import measured_with
from rccltune.rules.reader import StatedNoRule
from rccltune.rules.refusals import content_of, read_accepted
from rccltune.variants import availability, catalog
from rccltune.variants.records import DecidedBy, VariantSpec
from rccltune.why.records import BypassingPath, CommunicatorScale, Key, TypeAndOperation


class BypassingPaths:
    """Paths that the catalog of variants knows to take calls before a tuner is asked."""

    def __init__(self, *, variables: Mapping[str, Sequence[str]], is_rcclx: bool) -> None:
        """Take what the job's log says.

        Args:
            variables: those that the library read, with their values.
            is_rcclx: whether some of them are RCCLX's.
        """
        self._variables = variables
        self._is_rcclx = is_rcclx
        specs = catalog.load_catalog().specs
        self._specs = [spec for spec in specs if spec.name.endswith("-off")]
        # What widens a path names the threshold up to which it takes calls by itself.
        self._thresholds = {
            spec.without: spec.threshold for spec in specs if spec.without and spec.threshold
        }

    def of(
        self,
        collective: Collective,
        nbytes: int,
        where: CommunicatorScale,
        kindred: TypeAndOperation,
        library: str | None,
    ) -> tuple[BypassingPath, ...]:
        """Paths that may take such a call, the library's own release first."""
        site = availability.VariantSite(
            library=library,
            is_rcclx=self._is_rcclx,
            n_nodes=where.n_nodes,
            n_ranks=where.n_ranks,
            collectives=(collective,),
            dtype=kindred.dtype,
            redop=kindred.redop,
        )
        paths = self._of(site, collective, nbytes)
        usual = tuple(_around(spec) for spec in paths if self._is_usual(spec, nbytes))
        # Meta's RCCLX prints RCCL's number, so that a path of its own may be the only one.
        return (
            usual
            or _unlisted(library)
            or tuple(map(_around, paths))
            or tuple(map(_around, self._of(replace(site, is_rcclx=True), collective, nbytes)))
        )

    def _of(
        self, site: availability.VariantSite, collective: Collective, nbytes: int
    ) -> tuple[VariantSpec, ...]:
        specs = (spec for spec in self._specs if availability.why_absent(spec, site) is None)
        return tuple(
            spec
            for spec in specs
            if self._is_on(spec) and _may_take(spec, site, collective, nbytes)
        )

    def _is_usual(self, spec: VariantSpec, nbytes: int) -> bool:
        """Whether a call is within the threshold that the job, or the library itself, has."""
        threshold = self._thresholds.get(spec.name)
        if threshold is None or not threshold.from_above:
            return True
        given = [v for v in self._variables.get(threshold.variable, ()) if v.isdigit()]
        limit = max(map(int, given)) if given else threshold.default_nbytes
        return limit is None or nbytes <= limit

    def _is_on(self, spec: VariantSpec) -> bool:
        """Whether the job has not switched it off already."""
        return not any(value in self._variables.get(name, ()) for name, value in spec.environment)


def _unlisted(library: str | None) -> tuple[BypassingPath, ...]:
    """Paths that no sweep measures, so that the catalog does not list them."""
    release = release_of(library)
    if release is not None and release.has_symmetric:
        return (BypassingPath(name="symmetric kernels or copy engines", export=None),)
    return ()


def _may_take(
    spec: VariantSpec, site: availability.VariantSite, collective: Collective, nbytes: int
) -> bool:
    # What switches a path off names the calls that the path would take.
    path = replace(spec, acts=DecidedBy.PATH)
    ranks, nodes = site.n_ranks or 8, site.n_nodes or 1
    found = availability.takes(
        path, collective, nbytes, site.dtype, site.redop, ranks, nodes, site.arch
    )
    return found is not False


def _around(spec: VariantSpec) -> BypassingPath:
    exports = " ".join(f"{name}={value}" for name, value in spec.environment)
    return BypassingPath(name=spec.feature, export=exports)


class JobKnowledge:
    """Knowledge of other packages, asked for one job.

    Attributes:
        paths: those that may take its calls before a tuner is asked.
        file_rules: of the job's rule file, in its order; None without one.
        is_amd: the rule file says that it is for AMD's GPUs.
        file_name: of the job's rules.
        file_sha256: its hash.
        file_libraries: what it was measured with, with or without the family, empty where that
            is not recorded.
    """

    def __init__(self, path: Path | None = None) -> None:
        """Read the job's rule file, if there is one.

        Raises:
            InputFileError: it cannot be read, or the plugin refuses it.
        """
        self.paths = BypassingPaths(variables={}, is_rcclx=False)
        self.file_rules: tuple[Rule, ...] | None = None
        self.file_name, self.file_sha256 = "", ""
        self.file_libraries: tuple[str, ...] = ()
        self._holes: tuple[StatedNoRule, ...] = ()
        self._arch: str | None = None
        if path is not None:
            content = content_of(path)
            file = read_accepted(
                content, path, "correct these lines; a job with this file stops for them."
            )
            self.file_rules, self._holes = file.rules, file.holes
            self.file_name, self.file_sha256 = str(path), hashlib.sha256(content).hexdigest()
            self.file_libraries = measured_with(content)
            self._arch = file.arch_or_vendor
        self.is_amd = vendor_of(self._arch) is Vendor.AMD

    def overwrite(self, library: str | None, key: Key, asked: Setting) -> Overwrite | None:
        """What the library sets after the tuner, or may, where something else was answered."""
        where, collective, nbytes = key
        if where.n_nodes is None:
            return None
        # Without the number of ranks nothing is known of anybody's share.
        scale = _scale(where) or Scale(n_nodes=where.n_nodes, n_ranks=where.n_nodes)
        call = Rule(collective=collective, min_nbytes=nbytes, max_nbytes=nbytes, setting=asked)
        rows = overwrites(library, collective, scale, self._arch)
        return next((row for row in rows if row.takes(call, scale, self._arch)), None)

    def why_not(
        self, setting: Setting, collective: Collective, where: CommunicatorScale, *, is_rccl: bool
    ) -> str | None:
        """Why no rule can choose a setting at all; None where one can."""
        # RCCL in the job's own log tells as well; without any word no vendor's limits are assumed.
        arch = self._arch or (Vendor.AMD.value if is_rccl else None)
        scale = _scale(where)
        if scale is None:
            return None
        cell = Setting(algorithm=setting.algorithm, protocol=setting.protocol)
        return selectable.why_not_selectable(cell, collective, scale, arch)

    def rules(
        self, collective: Collective, nbytes: int, where: CommunicatorScale
    ) -> tuple[Rule, ...] | None:
        """Rules of the file that speak of a call, in its order; None without a file."""
        if self.file_rules is None:
            return None
        return tuple(
            rule
            for rule in self.file_rules
            if rule.collective is collective
            and rule.reaches(nbytes)
            and (rule.n_nodes is None or where.n_nodes in (None, rule.n_nodes))
            and (rule.n_ranks is None or where.n_ranks in (None, rule.n_ranks))
        )

    def hole(self, collective: Collective, nbytes: int, where: CommunicatorScale) -> str | None:
        """The file's own words for a size without a rule."""
        scale = _scale(where)
        holes = (h for h in self._holes if scale is not None and h.is_of(collective, scale))
        return next((h.reason for h in holes if h.min_nbytes <= nbytes <= h.max_nbytes), None)

    @property
    def file_scales(self) -> tuple[str, ...]:
        """Scales of the file's rules; a rule for any ranks or nodes is for ``any``."""
        scales = (CommunicatorScale(rule.n_nodes, rule.n_ranks) for rule in self.file_rules or ())
        return tuple(dict.fromkeys("any" if None in where else str(where) for where in scales))

    def has_rules_for(self, where: CommunicatorScale) -> bool:
        """Whether the file has a rule for a scale; one that is not known may be in it."""
        scales = self.file_scales
        return None in where or str(where) in scales or "any" in scales


def conditions_of(rule: Rule) -> str:
    """Conditions of a rule beside sizes and scale; empty where it has none."""
    asked = (("numPipeOps", rule.num_pipe_ops), ("regBuff", rule.reg_buff))
    words = [f"{name}={value}" for name, value in asked if value is not None]
    words += [f"mode {rule.only_mode}"] if rule.only_mode is not None else []
    return " and ".join(words)


def _scale(where: CommunicatorScale) -> Scale | None:
    if where.n_nodes is None or where.n_ranks is None or where.n_ranks < where.n_nodes:
        return None
    return Scale(n_nodes=where.n_nodes, n_ranks=where.n_ranks)
