"""Knowledge of other packages, for answers: paths around a tuner, rule files, releases."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

from rccltune.analyse import selectable
from rccltune.model.rule import LeftToLibrary, Rule
from rccltune.model.settings import Scale, Setting, Vendor, vendor_of
from rccltune.model.vocabulary import Collective
from rccltune.overwritten import Overwrite, overwrites
from rccltune.releases import release_of
from rccltune.rules.header import measured_with
from rccltune.rules.refusals import content_of, read_accepted
from rccltune.variants.availability import VariantSite
from rccltune.variants.paths_past import paths_past
from rccltune.why.job_logs import JobLogs
from rccltune.why.job_report import CommunicatorScale, Key, TypeAndOperation

# Variables that RCCLX alone has begin so.
_RCCLX: Final = "RCCL_ENABLE_DDA"


def find_paths_around(
    key: Key, call_type: Iterable[TypeAndOperation], job: JobLogs
) -> dict[str, str | None]:
    """Paths that may take such calls before a tuner is asked, each with what switches it off.

    Args:
        key: scale, collective and size.
        call_type: types and operations of the calls.
        job: its library and variables.
    """
    where, collective, nbytes = key
    variables = {name: values[0] for name, values in job.variables.items()}
    site = VariantSite(
        library=job.library, n_nodes=where.n_nodes, n_ranks=where.n_ranks, collectives=(collective,)
    )
    is_rcclx = any(name.startswith(_RCCLX) for name in variables)
    release = release_of(job.library)
    # Meta's RCCLX prints RCCL's number, so that a path of its own may be the only one.
    for here in (replace(site, is_rcclx=is_rcclx), replace(site, is_rcclx=True)):
        paths = {
            past.path: past.switch
            for one in call_type
            for past in paths_past(
                replace(here, dtype=one.dtype, op=one.op), (collective,), variables
            )
            if past.min_nbytes <= nbytes <= past.max_nbytes
        }
        if paths:
            return dict(paths)
        if release is not None and release.has_symmetric:
            # No sweep measures them, so that the catalog does not list them.
            return {"symmetric kernels or copy engines": None}
    return {}


class JobKnowledge:
    """Knowledge of other packages, asked for one job.

    Attributes:
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
        self.file_rules: tuple[Rule, ...] | None = None
        self.file_name, self.file_sha256 = "", ""
        self.file_libraries: tuple[str, ...] = ()
        self._holes: tuple[LeftToLibrary, ...] = ()
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

    def is_of_another_library(self, loaded: str | None) -> bool:
        """Whether the file is known to be measured with other releases than a job loads."""
        return (
            bool(self.file_libraries)
            and loaded is not None
            and not any(_is_same_release(one, loaded) for one in self.file_libraries)
        )

    def find_overwrite(self, library: str | None, key: Key, requested: Setting) -> Overwrite | None:
        """What the library sets, or may set, after a tuner answered something else."""
        where, collective, nbytes = key
        if where.n_nodes is None:
            return None
        # Without the number of ranks nothing is known of anybody's share.
        scale = _scale(where) or Scale(n_nodes=where.n_nodes, n_ranks=where.n_nodes)
        call = Rule(collective=collective, min_nbytes=nbytes, max_nbytes=nbytes, setting=requested)
        rows = overwrites(library, collective, scale, self._arch)
        return next((row for row in rows if row.takes(call, scale, self._arch)), None)

    def explain_never(
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

    def find_rules(self, key: Key) -> tuple[Rule, ...] | None:
        """Rules of the file that speak of a call, in its order; None without a file."""
        if self.file_rules is None:
            return None
        return tuple(
            rule
            for rule in self.file_rules
            if rule.collective is key.collective
            and rule.reaches(key.nbytes)
            and (rule.n_nodes is None or key.where.n_nodes in (None, rule.n_nodes))
            and (rule.n_ranks is None or key.where.n_ranks in (None, rule.n_ranks))
        )

    def find_hole(self, key: Key) -> str | None:
        """The file's own words for a size without a rule."""
        scale = _scale(key.where)
        if scale is None:
            return None
        holes = (one for one in self._holes if one.is_of(key.collective, scale))
        return next((one.reason for one in holes if one.reaches(key.nbytes)), None)

    @property
    def file_scales(self) -> tuple[str, ...]:
        """Scales of the file's rules; a rule for any ranks or nodes is for ``any``."""
        scales = (CommunicatorScale(rule.n_nodes, rule.n_ranks) for rule in self.file_rules or ())
        return tuple(dict.fromkeys("any" if None in where else str(where) for where in scales))

    def has_rules_for(self, where: CommunicatorScale) -> bool:
        """Whether the file has a rule for a scale; one that is not known may be in it."""
        scales = self.file_scales
        return None in where or str(where) in scales or "any" in scales


def describe_conditions(rule: Rule) -> str:
    """Conditions of a rule beside sizes and scale; empty where it has none."""
    conditions = (("numPipeOps", rule.num_pipe_ops), ("regBuff", rule.reg_buff))
    words = [f"{name}={value}" for name, value in conditions if value is not None]
    words += [f"mode {rule.only_mode}"] if rule.only_mode is not None else []
    return " and ".join(words)


def _scale(where: CommunicatorScale) -> Scale | None:
    if where.n_nodes is None or where.n_ranks is None or where.n_ranks < where.n_nodes:
        return None
    return Scale(n_nodes=where.n_nodes, n_ranks=where.n_ranks)


def _is_same_release(measured: str, loaded: str) -> bool:
    """Whether two libraries are of one family and release; builds of one release count as one."""
    one, other = measured.split(), loaded.split()
    same_family = len(one) < 2 or one[0] == other[0]
    return same_family and _release(one[-1]) == _release(other[-1])


def _release(text: str) -> tuple[str, ...]:
    return tuple(text.replace("-", "+").split("+")[0].split(".")[:3])
