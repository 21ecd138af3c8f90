"""The shipped catalog: what issue and sources want in it, and how an entry is found."""

from __future__ import annotations

import re

import pytest

from rccltune.model.errors import CommandLineError
from rccltune.variants.catalog import SHIPPED, Substitutions, environment_of, load_catalog
from rccltune.variants.spec import DecidedBy, VariantSpec

CATALOG = load_catalog()
WHERE = Substitutions(max_nbytes=2**30, n_ranks=8)
SPECS = [spec for spec in CATALOG.specs if spec.not_tunable is None]


def parameter_of(spec: VariantSpec) -> str | None:
    """Some parameter for those that want one."""
    return {"channels": "32", "dir": "/xmls", None: None}[
        spec.parameter.value if spec.parameter else None
    ]


@pytest.mark.parametrize(
    ("word", "environment"),
    [
        ("msccl-off", "RCCL_MSCCL_ENABLE=0"),
        ("mscclpp", "RCCL_MSCCLPP_ENABLE=1 RCCL_MSCCLPP_THRESHOLD=1073741824"),
        ("channels-32", "NCCL_MIN_NCHANNELS=32"),
        ("dev-kernarg", "HIP_FORCE_DEV_KERNARG=1"),
        ("fine-grain-pcie", "HSA_FORCE_FINE_GRAIN_PCIE=1"),
        ("dda-off", "RCCL_DDA_ENABLE=0"),
        ("low-precision", "RCCL_LOW_PRECISION_ENABLE=1"),
        ("direct-allgather", "RCCL_DIRECT_ALLGATHER_THRESHOLD=1073741824"),
        # RCCLX asks the tree's limit, 29 MiB, first; its buffer holds 32 MiB (AlgoInit.h).
        (
            "rcclx-dda-flat",
            "RCCL_DDA_ALL_REDUCE_FLAT_MAX_BYTES=30408704 RCCL_ENABLE_DDA_ALL_REDUCE=1",
        ),
        (
            "rcclx-dda-tree",
            (
                "RCCL_DDA_ALL_REDUCE_FLAT_MAX_BYTES=0 "
                "RCCL_DDA_ALL_REDUCE_TREE_MAX_BYTES=33554432 RCCL_ENABLE_DDA_ALL_REDUCE=1"
            ),
        ),
    ],
)
def test_environments_are_those_of_the_sources(word: str, environment: str) -> None:
    """As AMD's usage tips, Meta's post and the libraries' sources write them, for 1 GiB."""
    made = environment_of(*CATALOG.find(word), WHERE)
    assert " ".join(f"{name}={value}" for name, value in made) == environment


def test_the_command_of_amds_tips_is_a_variant() -> None:
    """Seed 3's exports with its 1 GiB threshold, and graph capture needed."""
    spec, parameter = CATALOG.find("mscclpp-read")
    tips = {
        "HIP_FORCE_DEV_KERNARG": "1",
        "RCCL_MSCCLPP_THRESHOLD": "1073741824",
        "MSCCLPP_READ_ALLRED": "1",
    }
    assert tips.items() <= dict(environment_of(spec, parameter, WHERE)).items()
    assert spec.threshold is not None
    assert spec.threshold.variable == "RCCL_MSCCLPP_THRESHOLD"
    assert spec.needs.graph


# --- properties of every entry --------------------------------------------------------------------


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_every_entry_resolves(spec: VariantSpec) -> None:
    """Nothing is left in braces but an option's {ranks}; pairs are sorted."""
    made = environment_of(spec, parameter_of(spec), WHERE)
    assert not [value for _, value in made if "{" in value]
    assert {value for _, value in spec.options if "{" in value} <= {"{ranks}"}
    assert made == tuple(sorted(made))


@pytest.mark.parametrize("spec", CATALOG.specs, ids=lambda spec: spec.name)
def test_every_entry_names_known_kinds_of_variables_and_its_source(spec: VariantSpec) -> None:
    """Only what RCCL, NCCL, MSCCL, HIP, ROCr and PyTorch read, and where that was found."""
    kinds = re.compile(r"(N|R|MS)CCL(PP)?_[A-Z0-9_]+|(HIP|HSA|TORCH_NCCL)_[A-Z0-9_]+")
    assert all(kinds.fullmatch(name) for name, _ in spec.environment)
    assert spec.source
    assert not spec.own


def test_nothing_names_nvls() -> None:
    """Its variables are safety switches of shared machines: no variant touches them."""
    assert "nvls" not in SHIPPED.read_text(encoding="utf-8").lower()


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_a_threshold_is_the_variables_of_a_path(spec: VariantSpec) -> None:
    """The measured value lets the whole sweep through, so that the crossover is inside."""
    if spec.threshold is None:
        return
    assert spec.acts is DecidedBy.PATH
    made = environment_of(spec, None, Substitutions(max_nbytes=2**20, n_ranks=8))
    assert dict(made)[spec.threshold.variable] == str(2**20)


# --- finding --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("mscclp", "did you mean mscclpp"),
        ("nonsense", "known are default, ll128-forced, msccl-off"),
        ("channels", "write channels=32"),
        ("channels=", "write channels=32"),
        ("channels=many", "'many' is no number of channels"),
        ("channels-0", "'0' is no number of channels"),
        ("mscclpp=1", "takes no parameter, but '1' is given"),
        ("graph-3", "did you mean graph"),
        ("msccl-xml=/no/such/place", "there is no directory '/no/such/place'"),
        ("alltoallv-dynamic", "asks no tuner"),
    ],
)
def test_what_cannot_be_had_says_why(word: str, said: str) -> None:
    """Exit code 2, with what to write instead."""
    with pytest.raises(CommandLineError) as caught:
        CATALOG.find(word)
    assert said in str(caught.value)


# --- a file of one's own --------------------------------------------------------------------------


def test_a_shipped_entry_is_replaced_where_the_user_says_so() -> None:
    """In its place and marked as the user's."""
    text = (
        "format: 1\nvariants:\n"
        "  mscclpp-off:\n    summary: Mine\n    replaces: true\n    environment: {MSCCLPP_X: 0}\n"
    )
    catalog = load_catalog(text, "mine.yaml")
    spec, _ = catalog.find("mscclpp-off")
    assert (spec.summary, spec.own) == ("Mine", True)
    assert [one.name for one in catalog.specs] == [one.name for one in CATALOG.specs]
