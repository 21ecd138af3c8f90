"""Rule files: what is written is read back, and other people's files are judged as promised."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readers import Call, rccl_answer, rccl_rows

from rccltune.model.estimate import Estimate
from rccltune.model.measurement import Fingerprint
from rccltune.model.rule import Rule
from rccltune.model.settings import LL128_FORCED, Scale, Setting, Target
from rccltune.model.units import MAX_NBYTES
from rccltune.model.vocabulary import Algorithm, Collective, Protocol
from rccltune.model.zone import Zone
from rccltune.releases import exact_release, name_library
from rccltune.rules.emission import requirements_of
from rccltune.rules.line_format import requirement
from rccltune.rules.rule_document import RuleDocument
from rccltune.rules.rule_file import read_rules
from rccltune.rules.writer import render

TARGET = Target(
    collective=Collective.ALL_REDUCE,
    scale=Scale(n_nodes=1, n_ranks=64),
    rank_placement="node",
)
SETTINGS = st.builds(
    Setting,
    algorithm=st.just(Algorithm.RING),
    protocol=st.sampled_from(Protocol),
    channels=st.none() | st.integers(1, 64),
)


@st.composite
def zone_lists(draw: st.DrawFn) -> list[Zone]:
    """Zones that cover every size, some of them holes."""
    cuts = draw(st.lists(st.integers(1, MAX_NBYTES), unique=True, max_size=8).map(sorted))
    edges = [0, *cuts, MAX_NBYTES + 1]
    zones = []
    for low, after in pairwise(edges):
        setting = draw(st.none() | SETTINGS)
        zones.append(
            Zone(
                target=TARGET,
                min_nbytes=low,
                max_nbytes=after - 1,
                setting=setting,
                reason=None if setting else draw(st.sampled_from(["not measured", "x" * 400])),
                n_sizes=3,
                worst_regret=0.01,
                gain=Estimate(value=1.2, low=1.1, high=1.3, n=4),
                fallback=draw(st.none() | SETTINGS) if setting else None,
            )
        )
    return zones


def document(zones: list[Zone]) -> RuleDocument:
    """A document around some zones."""
    return RuleDocument(
        provenance=("measured by somebody " * 20, "@ is no instruction here"),
        requires=(("arch", "gfx942"), ("cus", "38"), ("compute", "CPX"), ("memory", "NPS4")),
        library="RCCL 2.27.7",
        needs=(LL128_FORCED,),
        zones=tuple(zones),
    )


@given(zone_lists())
def test_what_is_written_is_read_back(zones: list[Zone]) -> None:
    """Writing zones and reading the file gives the same rules, holes and conditions."""
    text = render(document(zones))

    read = read_rules(text.encode())
    chosen = [r for r in read.rules if not _is_fallback(r, text)]

    assert read.findings == ()
    assert [(z.min_nbytes, z.max_nbytes, z.setting) for z in zones if z.setting] == [
        (r.min_nbytes, r.max_nbytes, r.setting) for r in chosen
    ]
    assert [(z.min_nbytes, z.max_nbytes) for z in zones if not z.setting] == [
        (hole.min_nbytes, hole.max_nbytes) for hole in read.holes
    ]
    assert dict(read.requires)["memory"] == "NPS4"
    assert read.library == "RCCL 2.27.7"
    assert read.needs == (LL128_FORCED,)


@pytest.mark.parametrize(
    ("product", "required"),
    [
        ("NVIDIA H100 80GB HBM3", "NVIDIA-H100-80GB-HBM3"),
        ("NVIDIA  H200\t", "NVIDIA-H200"),
        # A driver before 470 left the vendor out.
        ("A100-SXM4-40GB", "NVIDIA-A100-SXM4-40GB"),
        # The driver's list has no slices, and the plugin cannot tell which of two models is its own.
        ("NVIDIA H200 MIG 1g.18gb", None),
        ("NVIDIA H100 NVL + NVIDIA H200", None),
        ("AMD Instinct MI300X", None),
        (None, None),
    ],
)
def test_a_file_of_an_nvidia_machine_requires_its_product(
    product: str | None, required: str | None
) -> None:
    """In one word, as the Kubernetes label nvidia.com/gpu.product has it; AMD's have their arch."""
    found = requirements_of(
        Fingerprint(product=product, arch="gfx942" if product is None else None)
    )
    assert dict(found).get("product") == required
    if required is not None:
        assert requirement("product", required) == required


@pytest.mark.parametrize(
    ("library", "arch", "release"),
    [
        ("NCCL 2.28.9+cuda13.0", None, "NCCL 2.28.9"),
        ("RCCL 2.22.3-develop:1bc2", "gfx942", "RCCL 2.22.3"),
        # Benchmarks print the number alone.
        ("2.28.9", "nvidia", "NCCL 2.28.9"),
        ("2.28.3-SIMULATED", "gfx942", "RCCL 2.28.3"),
        ("2.28.9", None, None),
        ("NCCL 2.28", "nvidia", None),
        ("librccl.so", "gfx942", None),
        (None, "gfx942", None),
    ],
)
def test_a_file_is_bound_to_a_release_that_is_known(
    library: str | None, arch: str | None, release: str | None
) -> None:
    """Family and all three numbers, as the plugin reads them."""
    found = exact_release(name_library(library, arch))
    assert found == release
    if found is not None:
        assert read_rules(f"#@ library {found}\n".encode()).library == release


def test_two_spellings_of_a_product_are_one() -> None:
    """Files that were merged or written by hand; another product contradicts."""
    text = "#@ requires product=A100-SXM4-40GB\n#@ requires product=NVIDIA-{}\n"
    assert read_rules(text.format("A100-SXM4-40GB").encode()).errors == ()
    assert [f.code for f in read_rules(text.format("H200").encode()).errors] == ["bad-requires"]


def test_a_product_says_whose_gpus_a_file_is_for() -> None:
    """So the limits of its library hold, and not RCCL's."""
    assert read_rules(b"#@ requires product=NVIDIA-H200\n").arch_or_vendor == "nvidia"


def _is_fallback(rule: Rule, text: str) -> bool:
    lines = text.splitlines()
    assert rule.line is not None
    return any("reached only" in line for line in lines[: rule.line])


@given(zone_lists())
def test_rccls_own_reader_answers_as_the_zones(zones: list[Zone]) -> None:
    """Both forms of its built-in tuner, at every bound and beside it, LL128 on offer or not."""
    text = render(document(zones))
    bounds = {bound for zone in zones for bound in (zone.min_nbytes, zone.max_nbytes)}
    sizes = {b + step for b in bounds for step in (-1, 0, 1) if 0 <= b + step <= MAX_NBYTES}
    for new in (False, True):
        rows = rccl_rows(text, new=new)
        for nbytes in sizes:
            zone = next(z for z in zones if z.min_nbytes <= nbytes <= z.max_nbytes)
            call = Call("allreduce", nbytes, 1, 64)
            for offered in (CELLS, CELLS - {("ring", "ll128")}):
                wanted = [
                    _as_rccl(one)
                    for one in (zone.setting, zone.fallback)
                    if one is not None and _as_rccl(one)[0] in offered
                ]
                found = rccl_answer(rows, call, offered)
                assert found == (wanted[0] if wanted else None)
            assert rccl_answer(rows, Call("allreduce", nbytes, 1, 8), CELLS) is None


CELLS = {("ring", protocol.value) for protocol in Protocol}


def _as_rccl(setting: Setting) -> tuple[tuple[str, str], int]:
    assert setting.algorithm is not None
    assert setting.protocol is not None
    return (setting.algorithm.value, setting.protocol.value), setting.channels or 0


@given(zone_lists())
def test_the_file_is_in_the_dialect_that_every_reader_takes(zones: list[Zone]) -> None:
    """cli.md: ten fields, lower case, LF, comments in column 0, lines under 200 characters."""
    text = render(document(zones))
    n_rows = sum(line.startswith("allreduce,") for line in text.splitlines())

    assert text.startswith("#@ format 1\n")
    assert text.endswith(f"\n#@ end {n_rows}\n")
    assert "\r" not in text
    for line in text.splitlines():
        assert len(line) < 200
        assert line.startswith("#") or len(line.split(",")) == 10
        assert line.startswith("#") or line == line.lower()


# What each public file must be found to be, from INDEX.md ("configs"): rules kept, and the
# classes of finding with their number.
EXPECTED = {
    "amd_ext_tuner_gfx950.conf": (126, {}),
    "amd_test_incorrect_values_config.conf": (
        0,
        {
            "unknown-collective": 1,
            "unknown-algorithm": 5,
            "unknown-protocol": 5,
            "not-a-number": 15,
            "too-few-fields": 5,
        },
    ),
    "amd_test_no_matching_config.conf": (30, {}),
    "amd_test_singlenode_config.conf": (15, {}),
    "amd_test_unsupported_algo_proto_config.conf": (30, {}),
    "amd_test_valid_config_with_wildcards.conf": (15, {}),
    "fork_gfx950_cpx_12fields.csv": (13, {}),
    "gpu107_generated_n5_BROKEN.conf": (12, {"header-row": 1}),
    "gpu107_sc2_plus_amd.conf": (16, {"header-row": 1}),
    "gpu107_v4_validated.csv": (7, {"header-row": 1}),
    "nvidia_example_nccl_tuner.conf": (6, {"tree-not-allreduce": 3}),
    "rocm_builtin_gfx950_4rows_rccl2.30.4.csv": (4, {}),
    "rocm_builtin_gfx950_7rows.csv": (7, {}),
}


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_public_files_are_judged_as_expected(shared_data: Path, name: str) -> None:
    """Every public rule file gives the number of rules and the findings that INDEX.md lists."""
    read = read_rules((shared_data / "configs" / name).read_bytes())

    n_rules, findings = EXPECTED[name]
    assert len(read.rules) == n_rules
    assert Counter(f.code for f in read.findings) == findings
    assert all(f.line > 0 and f.message for f in read.findings)


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"PK\x03\x04\x00\n", "not-text"),
        (b"allreduce,9,8,ring,ll,-1,1,8\n", "min-above-max"),
        (b"allreduce,0,8,ring,ll,-2,1,8\n", "number-range"),
        (b"allreduce,0,99999999999999999999,ring,ll,-1,1,8\n", "number-range"),
        (b"allreduce,0,8,-1,simple,-1,1,8\n", "half-setting"),
        (b"allreduce,0,8,ring,-1,-1,1,8\n", "half-setting"),
        (b"allreduce,0,8,Ring,ll,-1,1,8\n", "unknown-algorithm"),
        (b"allreduce,0,8K,ring,ll,-1,1,8\n", "not-a-number"),
        (b"allreduce,0,8,ring,ll\n", "too-few-fields"),
        (b"#@ format 2\n#@ end 1\n", "bad-format"),
        (b"#@ requires wings=2\n", "bad-requires"),
        (b"#@ requires cus=38\n#@ requires cus=304\n", "bad-requires"),
    ],
)
def test_mistakes_that_would_choose_wrongly_refuse_the_file(content: bytes, code: str) -> None:
    """Design section 7: errors refuse the file, with line and reason."""
    read = read_rules(b"allreduce,0,8,ring,ll,-1,1,8\n" + content)

    assert [f.code for f in read.errors] == [code]
    assert read.errors[0].line >= 2
    assert read.rules == ()


def test_todays_forms_are_tolerated() -> None:
    """BOM, CRLF, blanks, indented comments, trailing comments, 8 fields, no newline at the end."""
    read = read_rules(
        b"\xef\xbb\xbf# a\r\n  # b\r\n\r\n allreduce , 0,8,ring,ll,-1,1,8 # why\r\n"
        b"broadcast,0,8,-1,-1,16,-1,-1,-1,-1,,\n\tallreduce,9,9,-1,-1,-1,-1,-1"
    )

    assert read.findings == ()
    assert [str(r.setting) for r in read.rules] == ["ring/ll", "-/-/16", "idle"]


@given(st.binary(max_size=400))
def test_no_bytes_make_the_reader_fail(content: bytes) -> None:
    """Whatever is handed over becomes rules and findings."""
    read_rules(content)


def test_what_is_left_to_the_library_is_of_its_section_and_of_nobody_in_one_that_is_none() -> None:
    """Without a section it is of any call."""
    text = (
        "#@ hole 0 7 any\n#@ section allreduce nodes=1 ranks=8\n#@ hole 8 15 mine\n"
        "#@ section allreduce ranks=8\n#@ hole 16 31 whose\n"
    )
    scale = Scale(n_nodes=1, n_ranks=8)
    assert [(one.reason, one.collective, one.scale) for one in read_rules(text.encode()).holes] == [
        ("any", None, None),
        ("mine", Collective.ALL_REDUCE, scale),
    ]
