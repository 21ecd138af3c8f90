"""Variants from a sweep to rules: what is measured is the node file's truth, and so is the choice.

The node is the shipped one with two variants beside it: one that a tuner is still asked in, faster
in the middle and slower at small sizes; and a path with a threshold, faster up to a crossover.
"""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
import yamls
from truths import is_true
from wording import lacks

from rccltune.cli import run
from rccltune.rules.reader import RuleFile, read_rules
from rccltune.session import store
from rccltune.simulate import sources, true_times

pytestmark = pytest.mark.usefixtures("stand_ins", "here", "whole")
KIB, MIB = 1024, 1 << 20
# The truth: times are multiplied by these, straight between them on logarithmic axes.
MANY = [[8, 1.2], [64 * KIB, 1.1], [256 * KIB, 0.9], [16 * MIB, 0.9], [64 * MIB, 1.0]]
QUICK = [[8, 0.4], [MIB, 0.4], [4 * MIB, 1.6], [64 * MIB, 1.6]]
OWN = """
format: 1
variants:
  quick:
    summary: a path that takes all_reduce before the tuner
    environment: {RCCL_DDA_ENABLE: 1, RCCL_DDA_THRESHOLD: "{max_bytes}"}
    acts: path
    calls:
      - collectives: [all_reduce]
    threshold: {variable: RCCL_DDA_THRESHOLD}
"""


def node(folder: Path, sigma: float = 0.0) -> Path:
    """The shipped node with both."""
    raw = yamls.loaded(sources.node_path("mi300x", "cpx-nps4").read_text(encoding="utf-8"))
    raw["noise"] = {"sigma": sigma, "launch_sigma": sigma / 2}
    # A library that leaves ring/ll where ring/simple is as fast: what a variant does is not hidden by rules.
    del raw["library"]["graph"]["linked"]
    raw["library"]["channels"] = 32
    raw["variants"] = [
        *raw.get("variants", []),
        {"name": "many", "when": {"env": {"NCCL_MIN_NCHANNELS": "32"}}},
        {"name": "quick", "when": {"env": {"RCCL_DDA_ENABLE": "1"}}},
    ]
    raw["effects"] = [
        *raw.get("effects", []),
        {"variant": "many", "collective": "all_reduce", "points": MANY},
        {"variant": "quick", "collective": "all_reduce", "points": QUICK},
    ]
    path = folder / "node.yaml"
    path.write_text(yamls.dumped(raw), encoding="utf-8")
    (folder / "own.yaml").write_text(OWN, encoding="utf-8")
    return path


def sweep(path: Path, *more: str) -> int:
    """AllReduce from 1 KiB to 64 MiB."""
    words = ["--mode", "cpx-nps4", "--simulate", str(path), "--launcher", "none"]
    words += [
        "--collective",
        "all_reduce",
        "--min-bytes",
        "1K",
        "--max-bytes",
        "64M",
    ]
    return run(["sweep", "--runner", "rccl-tests", *words, "--variants", "own.yaml", *more, "-q"])


def samples() -> pd.DataFrame:
    """Those that count."""
    table = pd.read_csv("rccltune-session/samples.csv", keep_default_na=False)
    return table[table["unusable"] == ""]


def emitted(*more: str, variant: str = "") -> RuleFile:
    """The rules of the session: the site's, or a variant's own."""
    assert run(["emit-config", "--force", *more, "-q"]) == 0
    [path] = (Path("rccltune-session") / variant).glob("rccl_tuner_*.csv")
    return read_rules(path.read_bytes())


def exports(variant: str = "") -> list[str]:
    """Lines that a shell takes, of the site's file or of a variant's."""
    [path] = (Path("rccltune-session") / variant).glob("*.env")
    return [x for x in path.read_text(encoding="utf-8").splitlines() if x.startswith("export")]


def test_every_time_is_that_of_its_variant(here: Path) -> None:
    """Settings in a variant and what the library does in it by itself."""
    path = node(here)
    assert sweep(path, "--variant", "channels-32", "--variant", "quick") == 0
    table = samples()
    in_many = table[table["variant"] == "channels-32"]
    names = {"baseline", "idle", "tree/ll", "ring/ll", "ring/simple"}
    assert set(in_many["setting"]) == names
    assert set(table.loc[table["variant"] == "quick", "setting"]) == {"baseline"}
    forced = in_many[~in_many["setting"].isin(["baseline", "idle"])]
    is_true(forced.assign(variant="many"), sources.load_node(path))
    # The untouched launches of a variant are as many as the site's.
    for variant in ("default", "channels-32", "quick"):
        of = table[(table["variant"] == variant) & (table["setting"] == "baseline")]
        assert of["run"].nunique() == 3


def test_a_path_gets_the_threshold_at_which_it_stops_to_win(here: Path) -> None:
    """0.4 and 1.6 times the untouched site at 1 and 4 MiB: equal at 2 MiB on logarithmic axes.

    Above 512 KiB the site's own rules are up to 1.2 times faster than it, so that the crossover
    with them lies where 0.4 * 4^(log2(n/1 MiB)/2) is one over their gain.
    """
    path = node(here, 0.005)
    assert sweep(path, "--variant", "quick") == 0
    rules = emitted(variant="quick")
    truth = sources.load_node(path)

    def us(name: str, n: int, *, variants: tuple[str, ...] = ()) -> float:
        found = true_times.truth(truth, "all_reduce", name, n, ranks=64, variants=variants)
        assert found is not None
        return found

    [line] = [x for x in exports("quick") if "RCCL_DDA_THRESHOLD" in x]
    threshold = int(line.partition("RCCL_DDA_THRESHOLD=")[2])
    # The library runs ring/simple there by itself, and no rule of ours beats that from 2 MiB on.
    plain, quick = us("ring/simple", threshold), us("ring/simple", threshold, variants=("quick",))
    best = min(plain, us("tree/ll128", threshold, variants=("ll128-forced",)))
    assert quick / best == pytest.approx(1, abs=0.04)
    assert any("RCCL_DDA_ENABLE=1" in x for x in exports("quick"))
    needs = dict(rules.needs)
    assert needs["RCCL_DDA_THRESHOLD"] == str(threshold)
    assert all(rule.min_nbytes > threshold for rule in rules.rules)
    assert any("quick serves it up to" in hole.reason for hole in rules.holes)


def test_a_variant_has_files_of_its_own_and_stands_in_no_other(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its gain in the middle sizes is the node file's tenth, its loss below the node file's too."""
    # Only settings that the library runs by itself, so that no rule hides the harm.
    words = ("--setting", "ring/ll", "--setting", "ring/simple", "--variant", "channels-32")
    assert sweep(node(here, 0.003), *words) == 0
    assert "NCCL_MIN_NCHANNELS" not in dict(emitted().needs)
    assert not any("NCCL_MIN_NCHANNELS" in x for x in exports())
    assert dict(emitted(variant="channels-32").needs) == {"NCCL_MIN_NCHANNELS": "32"}
    assert "export NCCL_MIN_NCHANNELS=32" in exports("channels-32")
    [path] = Path("rccltune-session/channels-32").glob("*.env")
    said = " ".join(path.read_text(encoding="utf-8").replace("\n# ", " ").split())
    assert lacks(said, "channels-32: the rules are for this variant", "than the site's rules") == []
    assert lacks(said, "faster", "slower") == []
    assert f"NCCL_TUNER_CONFIG_FILE={path.with_suffix('.csv').resolve()}" in said

    # Asked for by name it is the one file that is written.
    rules = emitted("--variant", "channels-32")
    assert dict(rules.needs)["NCCL_MIN_NCHANNELS"] == "32"
    assert "export NCCL_MIN_NCHANNELS=32" in exports()
    capsys.readouterr()
    assert run(["emit-config", "--variant", "channels-32", "--json", "-o", "-", "-q"]) == 0
    [one] = json.loads(capsys.readouterr().out)["environments"]
    better = max(one["gains"][0]["better"], key=lambda found: found["n_sizes"])
    assert better["gain"]["median"] == pytest.approx(1 / 0.9 - 1, abs=0.02)
    assert better["min_nbytes"] <= 256 * KIB
    assert better["max_nbytes"] >= 16 * MIB
    [worse] = one["gains"][0]["worse"]
    assert worse["max_nbytes"] <= 128 * KIB


@pytest.mark.long
def test_a_search_is_the_same_whatever_variants_are_beside_it(here: Path) -> None:
    """Whatever they measure, no round of it is decided by them."""
    path = node(here, 0.01)
    assert sweep(path, "-o", "one", "--variant", "quick") == 0
    assert sweep(path, "-o", "other", "--variant", "channels-32") == 0
    rounds = [
        json.loads((Path(name) / "search.json").read_text(encoding="utf-8"))["rounds"]
        for name in ("one", "other")
    ]
    assert rounds[0] == rounds[1]


def test_the_site_and_variants_are_measured_alike(here: Path) -> None:
    """Both print their table twice, and of neither the first pass counts."""
    assert sweep(node(here), "--variant", "quick") == 0
    table = pd.read_csv("rccltune-session/samples.csv", keep_default_na=False)
    untouched = table[table["setting"] == "baseline"]
    for _, rows in untouched.groupby(["run", "placement", "nbytes"]):
        assert list(rows.sort_values("line")["unusable"]) == ["connecting", ""]
    assert set(untouched["variant"]) == {"default", "quick"}


def test_a_session_can_be_given_another_variant_later(here: Path) -> None:
    """What it has is kept, and its header knows both."""
    path = node(here)
    assert sweep(path, "--variant", "quick") == 0
    before = {p.parent.name for p in Path("rccltune-session").glob("launches/*/outcome.json")}
    assert sweep(path, "--variant", "quick", "--variant", "channels-32") == 0
    after = {p.parent.name for p in Path("rccltune-session").glob("launches/*/outcome.json")}
    assert before < after
    names = {one.name for one in store.open_session(Path("rccltune-session")).variants}
    assert {"quick", "channels-32", "channels-32+ll128-forced"} <= names
    assert set(samples()["variant"]) >= {"default", "quick", "channels-32"}


def test_a_variant_that_crashes_costs_itself_only(here: Path) -> None:
    """It is quarantined by name, and everything else is measured."""
    path = node(here)
    raw = yamls.loaded(path.read_text(encoding="utf-8"))
    raw["faults"] = [{"kind": "crash", "variant": "quick", "how": "segv"}]
    path.write_text(yamls.dumped(raw), encoding="utf-8")
    assert sweep(path, "--variant", "quick", "--variant", "channels-32") == 5
    kept = json.loads((here / "rccltune-session" / "quarantine.json").read_text(encoding="utf-8"))
    assert [one["variant"]["name"] for one in kept["quarantined"]] == ["quick"]
    assert set(samples()["variant"]) >= {"default", "channels-32"}


def test_variants_that_are_not_to_be_had_are_named(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the releases that have them; the rest is measured."""
    words = ["--variant", "mscclpp", "--variant", "channels-32", "--plan"]
    assert (
        run(
            [
                "sweep",
                "--runner",
                "rccl-tests",
                "--simulate",
                "mi300x",
                "--mode",
                "cpx-nps4",
                *words,
            ]
        )
        == 0
    )
    said = capsys.readouterr().out
    assert lacks(said, "RCCL", "2.28.3", "MSCCL++") == []
    assert "ROCm 6.3" in said
    assert "in channels-32" in said


def test_a_variant_that_was_not_measured_cannot_be_emitted(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error names those that were."""
    assert sweep(node(here), "--variant", "channels-32") == 0
    assert run(["emit-config", "--variant", "mscclpp"]) == 2
    assert lacks(capsys.readouterr().err, "channels-32", "measured") == []
