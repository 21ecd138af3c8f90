"""Logs of NVIDIA's, AMD's and nobody's GPUs, imported: each is judged by its own library's limits.

Nothing here runs a collective; NVLS comes from a public log and goes into a file.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from wording import lacks

from rccltune.cli import run
from rccltune.rules import rule_file

pytestmark = pytest.mark.usefixtures("here")
DATA = Path(__file__).parent / "data" / "h100x4-algorithms.log"
# The log's out-of-place times in µs, at 256 MiB, 1 GiB and 8 GiB: NVLS 2.7 to 5.6 % before Ring.
RING, NVLS = (1187.29, 4528.41, 35175.3), (1120.54, 4336.86, 34221.4)
Capture = pytest.CaptureFixture[str]


def table(product: str, times: dict[int, float]) -> str:
    """What rccl-tests prints for all_reduce on eight GPUs; a rank list without names for ''."""
    ranks = "".join(
        f"#  Rank {r:2} Group  0 Pid {100 + r:6} on    node0 device {r:2} [0000:{r:02x}:00] {product}\n"
        for r in range(8)
    )
    head = (
        "# Collective test starting: all_reduce_perf\n# nThread 1 nGpus 8 minBytes 1 maxBytes 2\n"
    )
    names = "     time   algbw   busbw #wrong"
    columns = (
        "#                  out-of-place                       in-place\n"
        f"#       size         count      type   redop    root{names}{names}\n"
    )
    rows = ""
    for n, t in times.items():
        half = f" {t} {n / t / 1e3:.2f} {n / t / 1e3 * 1.75:.2f} 0"
        rows += f"{n:12} {n // 4:13} float sum -1{half}{half}\n"
    return f"{head}{ranks}{columns}{rows}"


def imported(text: str, *options: str) -> None:
    """One log more in the session."""
    path = Path(f"{abs(hash((text, options)))}.log")
    path.write_text(text, encoding="utf-8")
    assert run(["import", str(path), *options]) == 0


def product() -> str | None:
    """What the session says of its GPUs."""
    header = json.loads(Path("rccltune-session/session.json").read_text(encoding="utf-8"))
    found: str | None = header["fingerprint"].get("product")
    return found


def emitted(*words: str) -> tuple[rule_file.RuleFile, str]:
    """The rule file, and its text with each comment on one line."""
    assert run(["emit-config", "--force", *words]) == 0
    [path] = Path("rccltune-session").glob("rccl_tuner*.csv")
    content = path.read_bytes()
    return rule_file.read_rules(content), " ".join(content.decode().replace("\n# ", " ").split())


def named(file: rule_file.RuleFile) -> set[str]:
    """The settings of its rules."""
    return {str(rule.setting) for rule in file.rules}


def test_nvls_is_chosen_where_it_was_the_fastest(capsys: Capture) -> None:
    """Every size of a public log of four H100: NVLS, with nothing of RCCL's asked for."""
    assert all(nvls < ring for nvls, ring in zip(NVLS, RING, strict=True))
    assert run(["import", str(DATA), "--protocol", "simple"]) == 0
    assert product() == "NVIDIA H100 80GB HBM3"
    file, text = emitted()
    assert named(file) == {"nvls/simple"}
    assert file.needs == ()
    # Every rank line names the GPU; nothing in the log names the library.
    assert dict(file.requires) == {"product": "NVIDIA-H100-80GB-HBM3"}
    assert file.library is None
    assert "RCCL" not in text
    assert "whose GPUs" not in text + capsys.readouterr().err
    # The plugin itself reads the name, and gives the cell where a host offers it.
    [path] = Path("rccltune-session").glob("rccl_tuner*.csv")
    capsys.readouterr()
    assert run(["explain", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["parts"][0]["ranges"][1]["setting"]["algorithm"] == "nvls"
    assert found["never_selectable"] == []


def test_ll128_of_an_nvidia_log_needs_nothing(capsys: Capture) -> None:
    """RCCL_LL128_FORCE_ENABLE means nothing to NCCL; tree/simple is a cell of NCCL's like any."""
    times = dict.fromkeys((1024, 2048, 4096), 20.0)
    slow = dict.fromkeys(times, 40.0)
    h200 = "NVIDIA H200"
    imported(table(h200, times), "--algorithm", "tree", "--protocol", "ll128")
    imported(table(h200, slow), "--algorithm", "ring", "--protocol", "ll")
    file, _ = emitted()
    assert (named(file), file.needs) == ({"tree/ll128"}, ())
    imported(table(h200, dict.fromkeys(times, 10.0)), "--algorithm", "tree", "--protocol", "simple")
    file, _ = emitted()
    assert (named(file), file.needs) == ({"tree/simple"}, ())
    assert "whose GPUs" not in capsys.readouterr().err


def test_rules_of_an_imported_log_are_bound_to_what_it_names() -> None:
    """GPU and library of nccl-tests' heading, in the file; two releases are none."""
    head = "# nccl-tests version 2.17.6 nccl-headers=22809 nccl-library={}\n"
    times, slow = ({1024: us, 2048: us, 4096: us} for us in (20.0, 40.0))
    imported(
        head.format(22809) + table("NVIDIA H200", times), "--algorithm", "tree", "--protocol", "ll"
    )
    imported(
        head.format(22809) + table("NVIDIA H200", slow), "--algorithm", "ring", "--protocol", "ll"
    )
    file, text = emitted()
    assert (dict(file.requires), file.library) == ({"product": "NVIDIA-H200"}, "NCCL 2.28.9")
    assert "#@ requires product=NVIDIA-H200 #@ library NCCL 2.28.9 columns:" in text


def test_where_nothing_tells_nothing_is_barred_or_needed_and_the_option_is_named(
    capsys: Capture,
) -> None:
    """One line at import and one at emit-config, and the head of the file."""
    imported(table("", {1024: 10.0, 2048: 10.0}), "--algorithm", "nvls", "--protocol", "simple")
    assert product() is None
    assert capsys.readouterr().err.count("whose GPUs these are") == 1
    imported(table("", {1024: 9.0, 2048: 20.0}), "--algorithm", "ring", "--protocol", "ll128")
    capsys.readouterr()
    file, text = emitted()
    assert (named(file), file.needs) == ({"ring/ll128", "nvls/simple"}, ())
    said = '--assume arch=gfx942 or --assume product="NVIDIA H200"'
    assert said in text.partition("#@ section")[0]
    assert " ".join(capsys.readouterr().err.split()).count(said) == 1


@pytest.mark.parametrize("assumed", ["arch=gfx942", "product=AMD Instinct MI300X"])
def test_an_assumption_does_not_make_nvidias_log_amds(assumed: str, capsys: Capture) -> None:
    """A file is believed: exit code 2, and what it says."""
    assert run(["import", str(DATA), "--protocol", "simple", "--assume", assumed]) == 2
    assert lacks(capsys.readouterr().err, "NVIDIA", "H100", "80GB HBM3") == []
