"""Why rules were or were not used, from a job's logs: files to evidence to answers."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from rccltune import emit, parse, variants, why, zones
from rccltune.errors import InputFileError, OutputError, RccltuneError, TooLittleDataError
from rccltune.model import DEFAULT_VARIANT, Rule, Scale, Setting, Stated, Target
from rccltune.pipeline import overwriting
from rccltune.variants import Acts, VariantSpec
from rccltune.vocab import Collective
from rccltune.why import Around, Kindred, Known, RuleHere, Verdict, Where

# A row of a benchmark with -A whose columns name a path, which has no protocol.
_PATH_ROW: Final = re.compile(rb"(?:^|\s)(\d+) +\d+ +[a-z]\w* .*? ([A-Za-z][\w*-]+) +N/A +\d+\s*$")
# How the catalog of variants calls what columns name.
_FEATURES: Final = {"Direct": "direct AllGather", "DDA-IPC": "DDA"}
# Whatever else a job prints, only lines with one of these are looked at. Searching for each costs
# less than one expression for all of them, which every line of a gigabyte would be tried against.
_WANTED: Final = (
    *(b"rccltune: ", b" rank ", b"set by environment", b"set to /", b"tuner", b"Tuner", b"TUNER"),
    *(b"CCL version", b"ccl path", b" |", b"line "),
)
_MAX_REPEATED: Final = 65536
_ANSI: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_TRACE: Final = b"#@ format 1\n" + why.COLUMNS.encode()
_RULE_ROW: Final = re.compile(
    rb"^(?:broadcast|reduce|allgather|reducescatter|allreduce),\d+,\d+,[\w-]+,[\w-]+,", re.MULTILINE
)
_LIBRARY: Final = re.compile(rb"^# library: ([RN]CCL \d\S*)", re.MULTILINE)
_RCCLX: Final = "RCCL_ENABLE_DDA"


def explain_job(
    paths: Sequence[Path], rules: Path | None, collective: Collective | None = None
) -> Verdict:
    """Read a job's files and answer for each communicator, collective and size.

    Args:
        paths: the library's logs, the plugin's logs and traces, in any mixture.
        rules: the job's rule file, None where it is not given.
        collective: of benchmarks' tables that do not name theirs.

    Raises:
        OutputError: a file cannot be read, or is none of these.
        InputFileError: the rule file is refused.
        TooLittleDataError: the files tell nothing that an answer could be built on.
    """
    known = _known(rules)
    evidence = why.Evidence()
    library, own = why.LibraryLog(evidence), why.OwnLines(evidence)
    for path in paths:
        rows = _read(path, evidence, library, own)
        if rows is not None:
            _read_table(path, rows, evidence, collective)
    job = evidence.finish(library.finish())
    is_rcclx = any(name.startswith(_RCCLX) for name in job.variables)
    known = replace(known, around=_Around(variables=job.variables, is_rcclx=is_rcclx))
    found = why.verdict(job, known)
    if job.is_empty or not found.answers:
        raise _nothing(paths, job)
    return found


def _nothing(paths: Sequence[Path], job: why.Job) -> TooLittleDataError:
    tables = "".join(f"\n  {text}" for text in sorted(job.unread))
    return TooLittleDataError(
        "nothing here tells what a tuner was asked: no line of the library's log of tuners, "
        f"communicators or choices, none of the plugin's, no record of a trace{tables}",
        where=", ".join(map(str, paths[:8])),
        hint=f"{why.TELL_ALL}.",
    )


# --- reading --------------------------------------------------------------------------------------


# What a table's own columns name as a path, by size.
Named = dict[int, str]


def _read(
    path: Path, evidence: why.Evidence, library: why.LibraryLog, own: why.OwnLines
) -> Named | None:
    """Put down what one file says; what a benchmark's table in it names, None without a table."""
    name = str(path)
    with parse.open_log(path) as stream:
        head = parse.head_of(stream, name)
        if head.startswith(_TRACE):
            lines = (line.decode("utf-8", "replace") for line in parse.lines_of(stream, name))
            next(lines, None)
            next(lines, None)
            why.read_trace(lines, name, evidence)
            return None
        if b"NCCL" not in head and why.MARK.encode() not in head and _RULE_ROW.search(head):
            raise OutputError(
                "this is a rule file, not a job's log",
                where=name,
                hint=f"give it as the job's rules: --rules {name}, beside the job's own files.",
            )
        return _read_log(parse.lines_of(stream, name), name, library, own)


def _read_log(
    lines: Iterable[bytes], name: str, library: why.LibraryLog, own: why.OwnLines
) -> Named | None:
    known: set[bytes] = set()
    named: Named = {}
    table = False
    for raw in lines:
        if b" Bytes -> " in raw or b"opCount " in raw:
            # What a job repeats for hours is looked at once for each writer.
            if _is_known(raw, known):
                continue
        elif not any(word in raw for word in _WANTED):
            table = table or b"algbw" in raw
            if table and b" N/A " in raw and (row := _PATH_ROW.search(raw)) is not None:
                word = row[2].decode("ascii")
                named[int(row[1][:19])] = _FEATURES.get(word, word)
            continue
        elif b" rank " in raw:
            # A writer with another communicator says other things with the same words.
            known.clear()
        text = raw.decode("utf-8", "replace")
        label, body = parse.strip(_ANSI.sub("", text) if "\x1b" in text else text)
        # The library's messages first: what stands before the plugin's mark may be one of them.
        if why.MARK in body:
            own.line(f"{name}:{label}", body)
            body = body.split(why.MARK)[0]
        if body.strip():
            own.finding(body)
            library.line(body.rstrip("\n"))
    return named if table else None


def _is_known(raw: bytes, known: set[bytes]) -> bool:
    """Whether a writer said the same before; a call's number and addresses are no part of it."""
    at = raw.find(b" NCCL ")
    # host:pid:tid stands before [device]; times and labels before that differ from line to line.
    begin = raw.rfind(b" ", 0, max(raw.rfind(b" ", 0, at), 0)) + 1
    first, second = raw.find(b"opCount "), raw.find(b" count ")
    said = raw[begin:] if first < 0 else raw[begin:first] + raw[second:]
    if said in known:
        return True
    if len(known) >= _MAX_REPEATED:
        known.clear()
    known.add(said)
    return False


def _table_of(path: Path, collective: Collective | None) -> parse.Reading:
    """A benchmark's table, with what the user says where it does not name its collective."""
    try:
        with parse.open_log(path) as stream:
            return parse.read_stream(parse.lines_of(stream, str(path)), str(path), Stated(), "why")
    except RccltuneError:
        if collective is None:
            raise
    stated = Stated(collective=collective)
    with parse.open_log(path) as stream:
        return parse.read_stream(parse.lines_of(stream, str(path)), str(path), stated, "why")


def _read_table(
    path: Path, named: Named, evidence: why.Evidence, collective: Collective | None
) -> None:
    """What a benchmark called, and what its own columns say of what ran."""
    try:
        reading = _table_of(path, collective)
    except RccltuneError as error:
        # All else in the file was read; what its rows lack is said.
        evidence.unread(f"{path}: {error.message}")
        return
    evidence.job.tables += reading.tables
    for sample in reading.samples:
        scale = sample.key.scale
        where = Where(scale.n_nodes, scale.n_ranks)
        if sample.nbytes <= 0:
            continue
        seen = evidence.at(where, sample.key.collective, sample.nbytes)
        seen.called = True
        if len(seen.kindred) < 64:
            seen.kindred.add(Kindred(sample.key.dtype, sample.key.redop))
        if sample.nbytes in named:
            seen.paths.add(named[sample.nbytes])
        elif sample.executed is not None and sample.executed not in seen.ran:
            seen.ran[sample.executed] += 1
            evidence.job.tuning.add(where)


# --- what other rooms know ------------------------------------------------------------------------


class _Around:
    """Paths that the catalog of variants knows to take calls before a tuner is asked."""

    def __init__(self, *, variables: dict[str, set[str]], is_rcclx: bool) -> None:
        self._variables = variables
        self._is_rcclx = is_rcclx
        self._specs = [s for s in variants.load_catalog().specs if s.name.endswith("-off")]

    def __call__(
        self,
        collective: Collective,
        nbytes: int,
        where: Where,
        kindred: Kindred,
        library: str | None,
    ) -> tuple[Around, ...]:
        found = self._of(collective, nbytes, where, kindred, library, is_rcclx=False)
        if found and not self._is_rcclx:
            return found
        # Meta's RCCLX prints RCCL's number, so that a path of its own may be the only one.
        return self._of(collective, nbytes, where, kindred, library, is_rcclx=True) or found

    def _of(
        self,
        collective: Collective,
        nbytes: int,
        where: Where,
        kindred: Kindred,
        library: str | None,
        *,
        is_rcclx: bool,
    ) -> tuple[Around, ...]:
        site = variants.Site(
            library=library,
            is_rcclx=is_rcclx,
            n_nodes=where.n_nodes,
            n_ranks=where.n_ranks,
            collectives=(collective,),
            dtype=kindred.dtype,
            redop=kindred.redop,
        )
        specs = (spec for spec in self._specs if variants.why_absent(spec, site) is None)
        return tuple(
            Around(name=spec.feature, export=" ".join(f"{n}={v}" for n, v in spec.environment))
            for spec in specs
            if self._is_on(spec) and _may_take(spec, collective, nbytes, where, kindred)
        )

    def _is_on(self, spec: VariantSpec) -> bool:
        """Whether the job has not switched it off already."""
        return not any(value in self._variables.get(name, ()) for name, value in spec.environment)


def _may_take(
    spec: VariantSpec, collective: Collective, nbytes: int, where: Where, kindred: Kindred
) -> bool:
    # What switches a path off names the calls that the path would take.
    path = replace(spec, acts=Acts.PATH)
    return (
        variants.takes(
            path,
            collective,
            nbytes,
            kindred.dtype,
            kindred.redop,
            where.n_ranks or 8,
            where.n_nodes or 1,
        )
        is not False
    )


def _overwrites(library: str | None, collective: Collective, where: Where) -> bool:
    return collective in overwriting.CONCERNED and overwriting.overwrites(library, where.n_nodes)


def _known(path: Path | None) -> Known:
    """What is known without a rule file, or with one.

    Raises:
        InputFileError: it cannot be read, or the plugin refuses it.
    """
    around = _Around(variables={}, is_rcclx=False)
    if path is None:
        return Known(around=around, why_not=_WhyNot(None), overwrites=_overwrites)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputFileError(
            f"the rule file cannot be read: {error.strerror}", where=str(path)
        ) from error
    file = emit.read_rules(content)
    if file.errors:
        listed = "\n".join(f"  {path}:{f.line}: {f.message} [{f.code}]" for f in file.errors)
        raise InputFileError(
            f"the plugin refuses this file:\n{listed}",
            where=str(path),
            hint="correct these lines; a job with this file stops for them.",
        )
    library = _LIBRARY.search(content)
    rules = _Rules(file)
    return Known(
        around=around,
        why_not=_WhyNot(dict(file.requires).get("arch")),
        overwrites=_overwrites,
        rules=rules.at,
        hole=rules.hole,
        line_range=rules.range_of,
        file_scales=rules.scales(),
        file_name=str(path),
        file_sha256=hashlib.sha256(content).hexdigest(),
        file_library=library[1].decode("ascii", "replace") if library else None,
    )


class _WhyNot:
    """Why no rule can choose a setting at all, on GPUs of an architecture."""

    def __init__(self, arch: str | None) -> None:
        self._arch = arch

    def __call__(self, setting: Setting, collective: Collective, where: Where) -> str | None:
        # Without any word of the GPUs, the limits of those that RCCL serves are not assumed.
        scale = _scale(where)
        if scale is None:
            return None
        target = Target(
            collective=collective, scale=scale, rank_placement=None, variant=DEFAULT_VARIANT
        )
        cell = Setting(algorithm=setting.algorithm, protocol=setting.protocol)
        return zones.why_not_selectable(cell, target, self._arch or "gfx942")


class _Rules:
    """A rule file, asked for what speaks of one call."""

    def __init__(self, file: emit.RuleFile) -> None:
        self._file = file

    def at(self, collective: Collective, nbytes: int, where: Where) -> tuple[RuleHere, ...]:
        """Rules in file order."""
        return tuple(
            RuleHere(line=rule.line or 0, setting=rule.setting, conditions=_conditions(rule))
            for rule in self._file.rules
            if rule.collective is collective
            and rule.min_nbytes <= nbytes <= rule.max_nbytes
            and (rule.n_nodes is None or where.n_nodes in (None, rule.n_nodes))
            and (rule.n_ranks is None or where.n_ranks in (None, rule.n_ranks))
        )

    def hole(self, collective: Collective, nbytes: int, where: Where) -> str | None:
        """The file's own words for a size without a rule."""
        scale = _scale(where)
        holes = (h for h in self._file.holes if scale is not None and h.is_of(collective, scale))
        return next((h.reason for h in holes if h.min_nbytes <= nbytes <= h.max_nbytes), None)

    def range_of(self, line: int) -> tuple[Collective, int, int] | None:
        """Collective and sizes of a line's rule."""
        found = (rule for rule in self._file.rules if rule.line == line)
        return next(((r.collective, r.min_nbytes, r.max_nbytes) for r in found), None)

    def scales(self) -> tuple[str, ...]:
        """What it has rules for; a rule for any ranks or nodes is for ``any``."""
        return tuple(dict.fromkeys(self._scales()))

    def _scales(self) -> Iterator[str]:
        for rule in self._file.rules:
            whole = rule.n_ranks is not None and rule.n_nodes is not None
            yield str(Where(rule.n_nodes, rule.n_ranks)) if whole else "any"


def _conditions(rule: Rule) -> str:
    asked = (("numPipeOps", rule.num_pipe_ops), ("regBuff", rule.reg_buff))
    words = [f"{name}={value}" for name, value in asked if value is not None]
    words += [f"mode {rule.only_mode}"] if rule.only_mode is not None else []
    return " and ".join(words)


def _scale(where: Where) -> Scale | None:
    if where.n_nodes is None or where.n_ranks is None or where.n_ranks < where.n_nodes:
        return None
    return Scale(n_nodes=where.n_nodes, n_ranks=where.n_ranks)
