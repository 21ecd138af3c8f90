"""Environments as a file of exports for a shell, each with its gain and what that rests on."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence

from rccltune.model import (
    Environment,
    Gain,
    GainRange,
    VariantGain,
    VerificationError,
    format_size,
    format_span,
)
from rccltune.rules.line_format import comment

_WIDTH = 98
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def render_environment(
    provenance: Iterable[str],
    environments: Sequence[Environment],
    needs: Sequence[tuple[str, str]],
    use: Sequence[tuple[str, str]],
) -> str:
    """The file's text; ``source`` it, or take over what it exports.

    Args:
        provenance: where all figures come from.
        environments: every variant that was measured; only the chosen one is exported.
        needs: (name, value) of all that the rules need.
        use: (name, value) of what makes a job use the rules; none where there is no rule.

    Raises:
        VerificationError: a name is none of a variable, or a value is more than a line.
    """
    lines = [line for text in provenance for line in _comment(text)]
    chosen = next((one for one in environments if one.chosen), None)
    lines.append("#")
    if chosen is None and not needs:
        lines += _comment("The untouched site's own environment stands: no variant is exported.")
    elif chosen is not None:
        lines += _comment(f"{chosen.variant.name}: the rules are for this environment.")
        lines += _findings(chosen)
    lines += [_export(name, value) for name, value in needs]
    if use:
        lines += _comment(
            "The plugin reads the rules; only RCCL with a CSV tuner of its own (ROCm 7.13 and "
            "later) does without. For production: rccltune deploy."
        )
        lines += [_export(name, value) for name, value in use]
    else:
        lines += _comment("There is no rule: nothing is to be loaded.")
    for one in environments:
        if one is not chosen:
            lines += ["#", *_not_exported(one)]
    return "\n".join(lines) + "\n"


def _export(name: str, value: str) -> str:
    # A shell would run the rest of what is no name; nothing that was read decides that.
    if not _NAME.fullmatch(name) or not value.isprintable():
        raise VerificationError(
            f"{name!r}={value!r} cannot be exported: it is no variable of a shell",
            hint="correct the variant that has it (rccltune variants --variants FILE).",
        )
    return f"export {name}={shlex.quote(value)}"


def _not_exported(one: Environment) -> Iterator[str]:
    why = one.against or "another one gains more"
    yield from _comment(f"{one.variant.name}: not exported, since {why}.")
    yield from _findings(one)
    for name, value in one.variant.environment:
        yield f"# {_export(name, value)}"
    for letter, value in one.variant.options:
        yield f"# (measured with {letter} {value} of the benchmark)"


def _findings(one: Environment) -> Iterator[str]:
    if one.threshold_nbytes is not None:
        measured = max((n for gain in one.gains for n, _ in gain.points), default=0)
        whole = one.threshold_nbytes >= measured
        why = "the largest size measured" if whole else "where the curves cross"
        yield from _comment(
            f"threshold: {one.threshold_nbytes} bytes ({one.variant.threshold}), {why}"
        )
    for gain in one.gains:
        for line in finding_lines(gain):
            yield from _comment(line)


def finding_lines(one: VariantGain) -> list[str]:
    """What a variant does to one collective, in sentences."""
    where = f"{one.target.collective.value}, {one.target.scale}"
    if one.target.rank_placement not in (None, "node"):
        where += f", {one.target.rank_placement}"
    lines = [f"{where}: {_range(found)} than the untouched site" for found in one.better]
    lines += [f"{where}: {_range(found)} than the untouched site" for found in one.worse]
    lines += [
        f"{where}: {_range(found)} than the site with its rules"
        for found in (*one.ahead, *one.behind)
    ]
    if not lines:
        lines = [f"{where}: no difference from the untouched site that noise could not make"]
    if one.wrong is not None and one.wrong.from_nbytes is not None:
        lines.append(
            f"{where}: from {format_size(one.wrong.from_nbytes)} on results differ by more than "
            f"the benchmark allows, up to {100 * one.wrong.share:.2g} % of all elements (at "
            f"{format_size(one.wrong.at_nbytes)})"
        )
    elif one.wrong is not None:
        lines.append(f"{where}: all results are within the benchmark's tolerance")
    return lines


def _range(found: GainRange) -> str:
    return f"{format_span(found.min_nbytes, found.max_nbytes)} {_gain(found.gain)}"


def _gain(gain: Gain) -> str:
    """``5.0 % faster in the median (2.1 to 14.7 %)``, or slower."""
    is_faster = gain.median >= 0
    shares = [gain.median, gain.low, gain.high]
    if not is_faster:
        shares = [1 / (1 + share) - 1 for share in (gain.median, gain.high, gain.low)]
    middle, low, high = (f"{100 * share:.1f}" for share in shares)
    word = "faster" if is_faster else "slower"
    return f"{middle} % {word}" + ("" if low == high else f" in the median ({low} to {high} %)")


def _comment(text: str) -> list[str]:
    return comment(text, _WIDTH)
