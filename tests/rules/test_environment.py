"""The file of exports: what a shell makes of it, and what people read in it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from wording import lacks

from rccltune.model.choice import ExportedVariant, Gain, GainRange, VariantGain, WrongShare
from rccltune.model.errors import VerificationError
from rccltune.model.settings import DEFAULT_VARIANT, Scale, Target, Variant
from rccltune.model.vocabulary import Collective
from rccltune.rules.writer import render_environment

TARGET = Target(
    collective=Collective.ALL_REDUCE,
    scale=Scale(n_nodes=1, n_ranks=8),
    rank_placement="one-oam",
    variant=DEFAULT_VARIANT,
)


def span(low: int, high: int, *gains: float) -> GainRange:
    """A range with its least, median and largest gain."""
    return GainRange(
        min_nbytes=low,
        max_nbytes=high,
        n_sizes=3,
        gain=Gain(low=gains[0], median=gains[1], high=gains[2]),
    )


def gain(
    better: tuple[GainRange, ...] = (),
    worse: tuple[GainRange, ...] = (),
    wrong: WrongShare | None = None,
) -> VariantGain:
    """Of all_reduce, measured up to 16 MiB."""
    return VariantGain(
        target=TARGET,
        better=better,
        worse=worse,
        points=((1 << 24, 0.1),),
        wrong=wrong,
    )


CHOSEN = ExportedVariant(
    variant=Variant(
        name="mscclpp",
        environment=(("RCCL_MSCCLPP_ENABLE", "1"), ("RCCL_MSCCLPP_THRESHOLD", "3145728")),
        threshold="RCCL_MSCCLPP_THRESHOLD",
    ),
    threshold_nbytes=3145728,
    gains=(gain(better=(span(1 << 15, 1 << 21, 0.1, 0.25, 0.5),)),),
    chosen=True,
)
OTHER = ExportedVariant(
    variant=Variant(name="my own", environment=(("PATHS", "/a b;rm -rf $HOME"),)),
    threshold_nbytes=None,
    gains=(gain(worse=(span(1024, 4096, -0.5, -0.2, -0.1),)),),
)


def text(chosen: ExportedVariant | None, rules: str | None = "/r/rules.csv") -> str:
    """The file."""
    needs = () if chosen is None else chosen.variant.environment
    use = [] if rules is None else [("NCCL_TUNER_CONFIG_FILE", rules)]
    return render_environment(["SIMULATED", "by hand"], chosen, needs, use)


def sourced(content: str, folder: Path) -> dict[str, str]:
    """What a POSIX shell has after it read the file."""
    file = folder / "x.env"
    file.write_text(content, encoding="utf-8")
    done = subprocess.run(
        ["/bin/sh", "-euc", '. "$1"; env -0', "sh", str(file)],
        env={},
        capture_output=True,
        check=True,
    )
    pairs = (item.partition("=") for item in done.stdout.decode().split("\0") if item)
    return {name: value for name, _, value in pairs if name not in ("PWD", "_", "SHLVL", "OLDPWD")}


def test_a_shell_gets_what_the_variant_sets(tmp_path: Path) -> None:
    """With the rule file's path."""
    assert sourced(text(CHOSEN), tmp_path) == {
        "RCCL_MSCCLPP_ENABLE": "1",
        "RCCL_MSCCLPP_THRESHOLD": "3145728",
        "NCCL_TUNER_CONFIG_FILE": "/r/rules.csv",
    }


@pytest.mark.parametrize("name", ["A;touch x", "A B", "1A", "", "A-B", "Ä", "A\nB"])
def test_what_is_no_name_of_a_variable_is_refused(name: str) -> None:
    """A shell would run what is behind it."""
    with pytest.raises(VerificationError, match="variable"):
        render_environment(["x"], None, [(name, "1")], [])


@pytest.mark.parametrize("value", ["/a b", "$(touch x)", "a'b", 'a"b', "a\\b", "; exit 1"])
def test_values_are_taken_literally(tmp_path: Path, value: str) -> None:
    """Whatever a path or a user's file holds."""
    one = ExportedVariant(
        variant=Variant(name="odd", environment=(("ODD", value),)),
        threshold_nbytes=None,
        gains=(),
        chosen=True,
    )
    assert sourced(text(one, rules=value), tmp_path) == {
        "ODD": value,
        "NCCL_TUNER_CONFIG_FILE": value,
    }
    assert not (tmp_path / "x").exists()


def test_each_gain_stands_beside_its_export_with_what_it_rests_on() -> None:
    """25 % faster in the median; half the speed is 100 % slower, not 50 %."""
    made = " ".join((text(CHOSEN) + text(OTHER)).replace("\n# ", " ").split())
    assert "mscclpp: the rules are for this variant." in made
    assert lacks(made, "3145728 bytes", "RCCL_MSCCLPP_THRESHOLD") == []
    assert (
        lacks(made, "all_reduce", "8 ranks", "1 node", "32 KiB", "2 MiB", "25.0", "10.0", "50.0")
        == []
    )
    assert lacks(made, "1 KiB", "4 KiB", "25.0", "11.1", "100.0", "slower") == []
