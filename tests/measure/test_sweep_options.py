"""An option of a sweep is declared once: file, command line, presets and sessions have the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yamls

from rccltune.cli.help import HEADINGS, GroupedOption
from rccltune.cli.sweep import sweep
from rccltune.measure.request import ORDERS, merge_request, named_options, site_keys
from rccltune.measure.sweep_file import dump_sweep, options_in_words, read_sweep_file
from rccltune.measure.sweep_schema import PRESETS, SweepOptions, default_of, flag
from rccltune.model.errors import CommandLineError
from rccltune.model.units import short_size

# A value of each that is not its default, as YAML has it.
SAID: dict[str, Any] = {
    "mode": "cpx-nps4",
    "simulate": "mi300x",
    "rccl_tests": "/opt/rccl-tests",
    "runner": "perf",
    "librccl": "/opt/librccl.so",
    "launcher": "srun",
    "hostfile": "/home/hosts",
    "np": 16,
    "rank_placement": "one-oam",
    "preset": "cpx-64",
    "collective": ["all_gather", "reduce_scatter"],
    "setting": ["ring/ll", "ring/simple/8"],
    "channels": [8, 16],
    "min_bytes": 4096,
    "max_bytes": 1 << 20,
    "factor": 4,
    "sizes": ["all_reduce/1024", "broadcast/8"],
    "workload": "/home/record.csv",
    "dtype": ["bfloat16"],
    "op": "max",
    "placement": "in",
    "same_bits": True,
    "communicators": 6,
    "timing": "loop",
    "budget": "3600s",
    "timeout": "0.5s",
    "env": {"NCCL_NET": "Socket", "A": ""},
    "seed": 9,
}
# What a session has in another form: a preset's values, a workload's sizes; and what belongs to a
# command and not to what is measured.
RESOLVED = {"preset", "workload", "budget", "timeout"}
# What the rank program alone understands, whose sessions tests/measure looks at.
RESOLVED |= {"runner", "communicators", "timing"}


def in_file(name: str) -> str:
    """A sweep.yaml with this alone."""
    return yamls.dumped({name: SAID[name]})


def words(name: str) -> list[str]:
    """The same on the command line."""
    value = SAID[name]
    if value is True:
        return [flag(name)]
    if isinstance(value, dict):
        return [word for pair in value.items() for word in (flag(name), "=".join(pair))]
    if value is True:
        return [flag(name)]
    if isinstance(value, list):
        return [word for each in value for word in (flag(name), str(each))]
    return [flag(name), str(value)]


FIELDS = SweepOptions.model_fields
TYPED = [name for name in SAID if FIELDS[name].description is not None]
LISTS = [name for name in TYPED if isinstance(SAID[name], list)]


def test_each_option_is_here() -> None:
    """A new one has a value to be tried with."""
    assert set(SAID) == set(FIELDS)


@pytest.mark.parametrize("name", SAID)
def test_a_file_says_it_and_a_file_is_made_of_it(name: str) -> None:
    """What is read is no default, and what is written of it reads back."""
    read = read_sweep_file(f"{name}: {yamls.dumped(SAID[name], default_flow_style=True)}", "s")
    assert read[name] != default_of(name)
    assert options_in_words(read) == {name: SAID[name]}


@pytest.mark.parametrize("name", TYPED)
def test_the_command_line_says_the_same(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an option of its name, with a help, and with the value that a file would give."""
    # What a command line names is there.
    if isinstance(SAID[name], str) and SAID[name].startswith("/"):
        monkeypatch.setitem(SAID, name, str(tmp_path / name))
        (tmp_path / name).mkdir() if name == "rccl_tests" else (tmp_path / name).touch()
    # click keeps a command's help option as the first context wants it.
    context = sweep.make_context("sweep", words(name), help_option_names=["-h", "--help"])
    params = {one: value for one, value in context.params.items() if one in FIELDS}
    assert named_options(params) == read_sweep_file(
        yamls.dumped({name: SAID[name]}, sort_keys=False), "s"
    )
    (option,) = (one for one in sweep.params if flag(name) in one.opts)
    assert isinstance(option, GroupedOption)
    assert option.group in HEADINGS


@pytest.mark.parametrize("name", LISTS)
def test_words_of_a_list_stand_between_commas_too(name: str) -> None:
    """In a file, and on the command line."""
    joined = ",".join(map(str, SAID[name]))
    read = read_sweep_file(in_file(name), "s")
    assert read_sweep_file(f"{name}: {joined}\n", "s") == read
    context = sweep.make_context("sweep", [flag(name), joined], help_option_names=["-h", "--help"])
    assert context.params[name] == read[name]


@pytest.mark.parametrize("name", sorted(set(SAID) - RESOLVED))
def test_a_session_keeps_it(name: str, tmp_path: Path) -> None:
    """Its sweep.yaml makes the same wish again."""
    file = tmp_path / "sweep.yaml"
    file.write_text(in_file(name), encoding="utf-8")
    request = merge_request(file, {})
    kept = dump_sweep(request.sweep, site_keys(request.site))
    assert read_sweep_file(kept, "s")[name] == read_sweep_file(in_file(name), "s")[name]
    file.write_text(kept, encoding="utf-8")
    again = merge_request(file, {})
    # A resolved sweep says where; what nobody said is the whole node.
    placement = request.site.placement or again.site.placement
    assert (again.sweep, again.site) == (
        request.sweep,
        type(request.site)(**{**fields_of(request.site), "placement": placement}),
    )


def fields_of(record: object) -> dict[str, Any]:
    """A record's values by name."""
    return {name: getattr(record, name) for name in type(record).__dataclass_fields__}


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_values_of_options(name: str) -> None:
    """Each could stand in a file, and one at its default stays a wish."""
    preset = PRESETS[name]
    read = read_sweep_file(yamls.dumped(options_in_words(preset)), "s")
    assert read == preset


def test_what_names_programs_is_nobody_elses_to_say() -> None:
    """Programs, files and variables of somebody else's session are not followed."""
    assert {
        *("rccl_tests", "librccl", "runner", "launcher", "hostfile"),
        *("env", "simulate", "workload"),
    } == ORDERS


def test_a_default_in_a_help_is_the_default() -> None:
    """A word and a number are themselves; ends of the range are those of the runner."""
    for name, text in (("op", "sum"), ("factor", "2")):
        assert f"{text}]" in (FIELDS[name].description or "")
        assert read_sweep_file(f"{name}: {text}\n", "s")[name] == default_of(name)


@pytest.mark.parametrize("runner", ["perf", "rccl-tests"])
def test_the_range_in_the_help_is_what_every_runner_measures(runner: str) -> None:
    """1K and 256M, declared once."""
    sweep = merge_request(None, {}, runner=runner).sweep
    for name, nbytes in (("min_bytes", sweep.min_nbytes), ("max_bytes", sweep.max_nbytes)):
        assert f"[default: {short_size(nbytes)}" in (FIELDS[name].description or "")
    assert (sweep.min_nbytes, sweep.max_nbytes) == (1024, 256 << 20)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"launcher": "torchrun"}, "torchrun is rccltune-perf's"),
        ({"launcher": "local"}, "local is rccltune-perf's"),
        ({"librccl": Path("torch")}, "rccl-tests take a library by its file"),
    ],
)
def test_what_the_rank_program_alone_understands(said: dict[str, Any], why: str) -> None:
    """Refused where rccl-tests are to be driven, as tune and verify do so far."""
    with pytest.raises(CommandLineError, match=why) as caught:
        merge_request(None, said)
    assert caught.value.hint
