"""``rccltune tune``: sweep, fit, emit-config, verify, plot and report in one go."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rccltune.cli.console import Console, common
from rccltune.cli.help import verb
from rccltune.cli.options import Choosing, base_option, choosing_of_tune
from rccltune.cli.progress import minutes, progress_of
from rccltune.cli.sweep import check_hardware, plan_text, site_of, talk_before
from rccltune.cli.sweep import sweep as _sweep
from rccltune.cli.verify import by_environment, no_hardware
from rccltune.model.chosen import NOT_MEASURED
from rccltune.model.errors import CommandLineError, LaunchError
from rccltune.model.vocabulary import Laid, format_span, lay

if TYPE_CHECKING:
    from rccltune.measure.preparation import Prepared
    from rccltune.rules.sheets import Emitted
    from rccltune.tune import Tuned
    from rccltune.verify.begun import Outlook
    from rccltune.verify.verifying import Verified


_SHOWN = 4
# It proves its rules, at one scale.
_LEFT_OUT = frozenset(("scales",))


@verb("tune")
@base_option
@choosing_of_tune
@common
def tune(
    *,
    console: Console,
    choosing: Choosing,
    config: Path | None,
    output: Path,
    plan_only: bool,
    apply_mode: bool,
    force: bool,
    base: Path | None,
    **options: Any,  # noqa: ANN401 - the options of a sweep file, by name
) -> None:
    """Find the best settings of this machine, prove them here, and say how to use them.

    Sweep, fit, emit-config, verify, plot and report, with the options of sweep and of emit-config.
    Safe to interrupt: the same command goes on. Where nothing is to be won it says so and leaves
    no rule. With --base the vendor's rows stand behind the verified ones. Rules that need a
    variable, as LL128 does on gfx942, are a file of their own: the site's .env names it only where
    it is proven faster than the site's somewhere, and slower nowhere.

    \b
    Example:
      rccltune tune --mode cpx-nps4
      rccltune tune --mode cpx-nps4 --simulate mi300x
      rccltune tune --mode cpx-nps4 --plan

    Exit codes: 0 done, also where nothing is to be won, 2 command line, 3 sweep.yaml, 4 the
    machine cannot run it, 5 launches failed, 7 another machine's session, 9 verification failed,
    130 interrupted.
    """
    from rccltune.measure import preparation
    from rccltune.measure.request import merge_request, on_kept_node
    from rccltune.measure.site import in_mode
    from rccltune.rules import savings
    from rccltune.tune import tune as tune_tune
    from rccltune.verify import begun

    request = merge_request(config, options)
    # Its sizes are measured, and weigh by its calls.
    choosing = replace(choosing, workload=request.workload)
    if request.scales:
        raise CommandLineError(
            "tune is for one scale, where it proves its rules",
            where=str(config),
            hint="rccltune sweep takes several; or say which one with --np and --hostfile.",
        )
    console.say(f"Session: {output}")
    request = on_kept_node(request, [output])
    check_hardware(request, apply_mode=apply_mode)
    with in_mode(request.sweep.mode, apply=apply_mode, reporter=console):
        site = site_of(console, request, output)
        prepared = preparation.prepare_request(request, site, output)
        if plan_only:
            expected = begun.outlook(prepared.sweep, prepared.site, prepared.done)
            _show(console, prepared, expected)
            return
        talk_before(console, prepared)
        with progress_of(console, n_launches=len(prepared.left)) as reporter:
            done = tune_tune(
                prepared,
                choosing.options,
                reporter=reporter,
                command=shlex.join(["rccltune", *sys.argv[1:]]),
                force=force,
                base=base,
            )
    console.warn(done.notices)
    plain, text = done.as_plain(), _text(done)
    if choosing.workload is not None:
        rules = [standing.rule for one in done.verified for standing in one.standings]
        chosen = savings.by_rules(rules)
        saved = savings.saving_in(choosing.workload, [output], chosen, reporter=console)
        plain["saving"] = savings.saving_plain(saved)
        text = lay([text, savings.saving_text(saved)])
    console.result(plain, text)
    if done.swept.quarantined or done.swept.left:
        names = [str(one) for one in done.swept.quarantined]
        raise LaunchError(
            f"not everything could be measured: {', '.join(names) or 'launches failed'}; "
            "what is said above holds for the rest",
            where=str(output),
            hint="look into the logs under launches/; a new session (-o DIR) tries again.",
        )


def _show(console: Console, prepared: Prepared, expected: Outlook) -> None:
    """What would be measured, and what it roughly takes to prove what is found."""
    from rccltune.measure.sweeps import plan_as_plain
    from rccltune.model.schema import to_plain

    plain = {**plan_as_plain(prepared), "verification": to_plain(expected)}
    # Several rules, and what stays undecided, were seen to take five times as many.
    line = (
        f"verification: at least {expected.n_launches} launches, "
        f"about {minutes(expected.starts_s)}; more with each rule"
    )
    console.result(plain, lay([plan_text(prepared), line]))
    console.say("Next: the same command without --plan.")


def _text(done: Tuned) -> Laid:
    """Where it is faster and by how much, what is undecided, and how to use it now."""
    lines = [no_hardware(done.runner)] if done.simulated else []
    files = {one.path: one for one in (done.emitted, *done.emitted.beside)}
    site = [one for one in done.verified if files[one.path].environment is None]
    named = [one for one in done.verified if one.path in done.named]
    beside = [one for one in done.verified if one not in site and one not in named]
    gaining = [one for one in (*named, *beside) if _rules(one) or one.environment_gains]
    rows = [line for one in site for line in _rules(one)]
    if rows:
        lines += ["Verified, faster than the library's own choice:", *rows]
    elif gaining:
        lines.append("In the environment as it is, no rule gains enough to be kept.")
    else:
        lines += [
            "Nothing to gain here: the library's own choices are as fast as any rule.",
            "The rule file is empty; leave everything as it is.",
        ]
    for one in site:
        lines += _beside_rules(one)
    lines += _unmeasured(done)
    if rows and done.emitted.base is not None:
        base = done.emitted.base
        lines.append(f"Behind them {len(base.rules)} rows of {base.place}")
    for one in named:
        lines.append(
            f"Faster still somewhere, slower nowhere: {_exports(files[one.path])} with rules of "
            "its own, verified too; the site's .env names them:"
        )
        lines += [*_rules(one), *_beside_rules(one)]
    if rows or named:
        lines.append(f"To use it now: source {shlex.quote(str(done.exports.resolve()))}")
    for one in beside:
        emitted = files[one.path]
        if one in gaining:
            lines += _in_environment(one, emitted)
        else:
            lines.append(f"{_exports(emitted)}: no gain is certain after {one.n_launches} launches")
    lines.append(f"The page to mail: {done.report.path}")
    lines.append(f"Figures: {done.figures}; all of it: {done.folder}")
    return lay(lines)


def _beside_rules(one: Verified) -> list[str]:
    """What the environment does by itself, what was not kept, and what is undecided."""
    lines = [f"  {line}" for line in by_environment(one)]
    lines += [
        f"  not kept: {cut.collective.value} "
        f"{format_span(cut.min_nbytes, cut.max_nbytes)}: {cut.reason}"
        for cut in one.cuts[:_SHOWN]
    ]
    says = _rules(one) or one.environment_gains
    return lines + (list(_undecided(one)) if says else [])


def _in_environment(one: Verified, emitted: Emitted) -> list[str]:
    """The second pair of files: first what it costs, then what it gains."""
    exports = _exports(emitted)
    against = ", its rules against the library in it" if _rules(one) else ""
    lines = [f"Or with {exports} in the job's environment, verified too{against}:"]
    costs = _costs(emitted.environment or "")
    if costs is not None:
        lines.append(f"  It costs: {costs}.")
    lines += [*_rules(one), *_beside_rules(one)]
    if emitted.environment_path is not None:
        path = shlex.quote(str(emitted.environment_path.resolve()))
        lines.append(f"To use that instead: source {path}")
    return lines


def _costs(name: str) -> str | None:
    """What a shipped variant costs a job; of a user's own nobody knows."""
    from rccltune.variants import catalog

    with suppress(CommandLineError):
        return catalog.read_catalog(None).find(name)[0].costs
    return None


def _exports(emitted: Emitted) -> str:
    return " ".join(f"{name}={value}" for name, value in emitted.needs)


def _rules(one: Verified) -> list[str]:
    found = []
    for standing in one.standings:
        rule = standing.rule
        if standing.stands:
            span = format_span(rule.min_nbytes, rule.max_nbytes)
            found.append(
                f"  {rule.collective.value} {span}: {rule.setting}, "
                f"{standing.gain}, {standing.shown.value}"
            )
    return found


def _unmeasured(done: Tuned) -> Sequence[str]:
    """Where rules end because measuring did."""
    zones = [zone for one in (done.emitted, *done.emitted.beside) for zone in one.zones]
    ruled = {zone.target for zone in zones if zone.setting is not None}
    lines = []
    for zone in (zone for zone in zones if zone.target in ruled):
        name = f"  {zone.target.collective.value} "
        if zone.reason == NOT_MEASURED:
            lines.append(name + zone.why)
    return tuple(dict.fromkeys(lines))


def _undecided(one: Verified) -> Sequence[str]:
    """Sizes of which verification says nothing, since noise is larger than what matters."""
    from rccltune.verify.harm import in_words

    where = in_words(one.undecided)
    return [f"  undecided: {where}, where noise could hide a loss of 5 %"] if where else []


_own = {param.name for param in tune.params}
tune.params[:0] = [p for p in _sweep.params if p.name not in _own | _LEFT_OUT]
