"""check.sh on made-up nodes: good, in another mode, tampered with, and what is set besides."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from deliveries import CPX, NAME, Make, let_others_in, place, rules, shell_here, sourced
from trees import put as put_file
from trees import write
from wording import lacks

SHELLS = ("sh", "dash", "bash", "busybox sh")
shells = pytest.mark.parametrize("shell", SHELLS)
# Nobody's /bin/sh, but somebody may name them.
more_shells = pytest.mark.parametrize("shell", [*SHELLS, "zsh", "ksh93", "mksh"])


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """An MI300X node in CPX/NPS4."""
    return write("mi300x-cpx-nps4", tmp_path / "node")


def check(
    site: Path,
    root: Path,
    *options: str,
    under: str | None = None,
    env: Mapping[str, str] | None = None,
    program: str = "check.sh",
    user: int | None = None,
) -> tuple[int, list[str], list[str]]:
    """Exit code, findings that fail, and warnings; without the host's name."""
    start = [] if under is None else shell_here(under)
    given = {"PATH": os.environ["PATH"], "HOME": "/proc/nowhere", **(env or {})}
    command = [*start, str(site / program), *options, "--root", str(root)]
    done = subprocess.run(
        command,
        env=given,
        cwd="/",
        user=user,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stderr == ""
    host = os.uname().nodename
    lines = [line.removeprefix(f"{host}: ") for line in done.stdout.splitlines()]
    assert lines[-1].startswith("ready" if done.returncode == 0 else "NOT ready")
    failed = [line.removeprefix("FAIL: ") for line in lines if line.startswith("FAIL: ")]
    assert bool(failed) == (done.returncode == 1)
    warned = [line.removeprefix("warning: ") for line in lines if line.startswith("warning: ")]
    return done.returncode, failed, warned


@more_shells
def test_a_good_node_is_ready(make: Make, tmp_path: Path, node: Path, shell: str) -> None:
    """With what env.sh sets; nothing to say of verified rules."""
    place(make(rules(verified="2026-11-21, 3.1 % faster in the median")))
    site = tmp_path / "site"
    code, _, warned = check(site, node, under=shell, env=sourced(site))
    assert code == 0
    assert warned == []


def test_it_is_a_program_by_itself(make: Make, tmp_path: Path, node: Path) -> None:
    """As srun starts it; also through its version's own folder, or from a copy elsewhere."""
    placed = place(make())
    site = tmp_path / "site"
    copy = put_file(tmp_path / "spool", "slurm_script", (site / "check.sh").read_bytes())
    copy.chmod(0o755)
    for path in (site, site / "current", placed.folder):
        assert check(path, node)[0] == 0
    assert check(copy.parent, node, program=copy.name)[0] == 0


@shells
@pytest.mark.parametrize("name", ["mi300x-spx-nps1", "mi300x-mixed"])
def test_another_mode_is_found_gpu_by_gpu(
    make: Make, tmp_path: Path, shell: str, name: str
) -> None:
    """Eight GPUs, one line each; in the mixed node four are in the other compute mode."""
    place(make())
    root = write(name, tmp_path / "other")
    code, failed, _ = check(tmp_path / "site", root, under=shell)
    assert code == 1
    assert len(failed) == 8
    assert sum("is in SPX and NPS1" in line for line in failed) == (4 if "mixed" in name else 8)
    assert all(lacks(line, "cpx-nps4", "the rules") == [] for line in failed)


@shells
def test_another_product_is_found(make: Make, tmp_path: Path, shell: str) -> None:
    """MI355X has other rules, whatever its mode; so does a node without AMD GPUs."""
    place(make())
    _, failed, _ = check(tmp_path / "site", write("mi355x-spx-nps1", tmp_path / "a"), under=shell)
    assert all("is gfx950" in line for line in failed)
    _, failed, _ = check(tmp_path / "site", write("no-amd-gpu", tmp_path / "b"), under=shell)
    assert failed == ["there is no AMD GPU here that could be seen, and the rules are for gfx942"]


def test_a_required_device_is_the_pci_id(make: Make, tmp_path: Path, node: Path) -> None:
    """A decimal number in the file is the same id; an MI325X is gfx942 as well."""
    place(make(rules(requires={**CPX, "device": str(0x74A1)})))
    assert check(tmp_path / "site", node)[0] == 0
    place(make(rules(requires={**CPX, "device": "0x74a5"})))
    code, failed, _ = check(tmp_path / "site", node)
    assert (code, len(failed)) == (1, 8)


def test_a_driver_without_partition_files_is_a_warning(make: Make, tmp_path: Path) -> None:
    """An old driver does not say the mode; nothing is known to be wrong."""
    place(make())
    root = write("mi300x-cpx-nps4", tmp_path / "node")
    for path in root.glob("sys/bus/pci/devices/*/current_*_partition"):
        path.unlink()
    code, _, warned = check(tmp_path / "site", root)
    assert code == 0
    assert any(lacks(line, "GPUs") == [] for line in warned)


def test_rules_that_require_nothing_fit_any_node(make: Make, tmp_path: Path) -> None:
    """NVIDIA's GPUs have no partitions, and sysfs is not looked at."""
    place(make(rules("rccl_tuner.csv", {})))
    assert check(tmp_path / "site", tmp_path / "empty")[0] == 0


@more_shells
@pytest.mark.parametrize("kind", ["changed", "gone", "more", "manifest", "listed"])
def test_a_folder_that_was_tampered_with_is_not_ready(
    make: Make, tmp_path: Path, node: Path, shell: str, kind: str
) -> None:
    """A bit in the plugin, a missing rule file, one more rule file, a cut MANIFEST."""
    placed = place(make())
    library = placed.folder / "librccl-tuner-rccltune.so"
    manifest = placed.folder / "MANIFEST"
    for path in (library, manifest):
        path.chmod(0o644)
    match kind:
        case "changed":
            content = bytearray(library.read_bytes())
            content[-1] ^= 1
            library.write_bytes(content)
            expected = ["librccl-tuner-rccltune.so is not the file that was deployed"]
        case "gone":
            (placed.folder / NAME).unlink()
            expected = [f"{NAME} is missing or cannot be read"]
        case "more":
            (placed.folder / "rccl_tuner_gfx942_spx-nps1.csv").write_text("#\n")
            expected = ["rccl_tuner_gfx942_spx-nps1.csv was not deployed"]
        case "manifest":
            manifest.unlink()
            expected = [f"{placed.folder}/MANIFEST cannot be read"]
        case _:
            lines = manifest.read_text().splitlines(keepends=True)
            manifest.write_text("".join(line for line in lines if NAME not in line[60:]))
            expected = [f"MANIFEST does not list {NAME}", f"{NAME} was not deployed"]
    code, failed, _ = check(tmp_path / "site", node, under=shell)
    assert code == 1
    assert len(failed) == len(expected)
    assert all(said.startswith(words) for said, words in zip(failed, expected, strict=True))


@shells
@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("NCCL_TUNER_PLUGIN", "/other.so", "is not this version's plugin"),
        ("NCCL_TUNER_CONFIG_FILE", "/other.csv", "are not this version's rules"),
        ("RCCLTUNE_CONFIG_DIR", "/other", "are not this version's rules"),
        ("RCCLTUNE_SCHEDULE", "/steps", "overrides what the rules choose"),
        ("RCCLTUNE_MODE", "spx-nps1", "the rules are for cpx-nps4"),
        ("NCCL_ALGO", "Ring", "overrides what the rules choose"),
        ("NCCL_PROTO", "^LL128;allreduce:LL", "overrides what the rules choose"),
        ("RCCL_OVERRIDE_ALGO", "Ring", "overrides what the rules choose"),
        ("RCCL_LL128_FORCE_ENABLE", "0", "the rules need RCCL_LL128_FORCE_ENABLE=1"),
    ],
)
def test_what_overrides_the_rules_is_found(
    make: Make, tmp_path: Path, node: Path, shell: str, name: str, value: str, says: str
) -> None:
    """In the environment, and in a file that the library reads into it where it is not set."""
    place(make())
    site = tmp_path / "site"
    given = sourced(site)
    _, failed, _ = check(site, node, under=shell, env={**given, name: value})
    assert len(failed) == 1
    assert failed[0].startswith(f"environment: {name}={value}")
    assert says in failed[0]

    put_file(node, "etc/nccl.conf", f"# the site's\n {name} = {value}")
    _, failed, _ = check(site, node, under=shell, env=given)
    if name in given:
        assert failed == []
    else:
        assert len(failed) == 1
        assert failed[0].startswith(f"{node}/etc/nccl.conf: {name}={value}")


def test_what_chooses_besides_is_a_warning(make: Make, tmp_path: Path, node: Path) -> None:
    """It was cleared where the rules were measured; logs and modes of the right name are fine."""
    place(make(rules(verified="yes")))
    site = tmp_path / "site"
    fine = {"RCCLTUNE_LOG": "summary", "RCCLTUNE_MODE": "cpx-nps4", "NCCL_DEBUG": "INFO"}
    assert check(site, node, env={**sourced(site), **fine}) == (0, [], [])
    odd = {"NCCL_MIN_NCHANNELS": "32", "RCCL_MSCCL_ENABLE": "0", "RCCLTUNE_ON_ERROR": "ignore"}
    _, _, warned = check(site, node, env={**sourced(site), **odd})
    assert {line.split(": ")[1].split("=")[0] for line in warned} == odd.keys()


def test_what_the_rules_need_and_is_not_set_is_found(
    make: Make, tmp_path: Path, node: Path
) -> None:
    """Where the plugin is set, its environment must be, too; else env.sh was not sourced."""
    place(make())
    site = tmp_path / "site"
    given = sourced(site)
    del given["RCCL_LL128_FORCE_ENABLE"]
    _, failed, _ = check(site, node, env=given)
    assert failed == ["the rules need RCCL_LL128_FORCE_ENABLE=1, and it is not set"]
    code, _, warned = check(site, node)
    assert code == 0
    assert any(lacks(line, "NCCL_TUNER_PLUGIN") == [] for line in warned)


@shells
def test_an_old_c_library_and_one_that_does_not_load_are_found(
    make: Make, tmp_path: Path, node: Path, shell: str
) -> None:
    """What getconf and ldd say of a node from before 2.14, put before the real ones."""
    place(make())
    bin_ = tmp_path / "bin"
    for name, said in (
        ("getconf", "glibc 2.12"),
        ("ldd", "librccl-tuner-rccltune.so: /lib64/libc.so.6: version `GLIBC_2.14' not found"),
    ):
        put_file(bin_, name, f"#!/bin/sh\necho '{said}'").chmod(0o755)
    env = {"PATH": f"{bin_}:{os.environ['PATH']}"}
    _, failed, _ = check(tmp_path / "site", node, under=shell, env=env)
    assert lacks(failed[0], "librccl-tuner-rccltune.so") == []
    assert lacks(failed[1], "2.12", "librccl-tuner-rccltune.so", "2.14") == []


@shells
def test_a_library_without_the_symbols_is_found(
    make: Make, tmp_path: Path, node: Path, shell: str
) -> None:
    """By readelf, or by the bytes where there is none."""
    place(make(abi_versions=(7, 8)))
    _, failed, _ = check(tmp_path / "site", node, under=shell)
    assert failed == ["librccl-tuner-rccltune.so has no symbol ncclTunerPlugin_v8"]


@pytest.mark.parametrize("lacking", ["sha256sum", "readelf ldd getconf"])
def test_a_bare_node_is_told_what_could_not_be_checked(
    make: Make, tmp_path: Path, node: Path, lacking: str
) -> None:
    """A compute node's image: without sha256sum nothing is known; the rest can be missing."""
    place(make())
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    for name in ("uname", "env", "sed", "tr", "id", "cut", "grep", "sha256sum", "ldd", "getconf"):
        found = next(Path(f) / name for f in ("/usr/bin", "/bin") if (Path(f) / name).exists())
        if name not in lacking.split():
            (bin_ / name).symlink_to(found)
    _, failed, warned = check(tmp_path / "site", node, env={"PATH": str(bin_)}, under="/bin/sh")
    if lacking == "sha256sum":
        assert failed == ["there is no sha256sum here, so no file could be checked"]
    else:
        assert failed == []
        assert any("version of the C library is not known" in line for line in warned)


def test_a_wrong_option_is_no_verdict(make: Make, tmp_path: Path) -> None:
    """Exit code 2: 1 would mean a bad node."""
    place(make())
    done = subprocess.run(
        [tmp_path / "site" / "check.sh", "--all"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "usage" in done.stderr


@more_shells
def test_in_a_job_the_variables_must_be_there(
    make: Make, tmp_path: Path, node: Path, shell: str
) -> None:
    """With --sourced their absence fails, for the job would run untuned; without, it is said."""
    place(make(rules(verified="yes")))
    site = tmp_path / "site"
    code, failed, warned = check(site, node, "--sourced", under=shell)
    assert (code, len(failed), warned) == (1, 1, [])
    assert lacks(failed[0], "NCCL_TUNER_PLUGIN") == []
    assert check(site, node, "--sourced", under=shell, env=sourced(site)) == (0, [], [])
    code, failed, warned = check(site, node, under=shell)
    assert (code, failed, len(warned)) == (0, [], 1)
    # One that arrives and is another is not said to be missing.
    env = {"NCCL_TUNER_PLUGIN": "/other.so"}
    for options in ((), ("--sourced",)):
        code, failed, warned = check(site, node, *options, under=shell, env=env)
        assert (code, len(failed), warned) == (1, 1, [])
        assert lacks(failed[0], "NCCL_TUNER_PLUGIN=/other.so") == []


@shells
def test_files_that_anybody_may_write_are_said(
    make: Make, tmp_path: Path, node: Path, shell: str
) -> None:
    """In the version, and the folders above it that say which version is current."""
    placed = place(make(rules(verified="yes")))
    site = tmp_path / "site"
    given = sourced(site)
    assert check(site, node, under=shell, env=given) == (0, [], [])
    for path in (site, site / "versions", placed.folder, placed.folder / NAME):
        before = path.stat().st_mode
        path.chmod(before | 0o002)
        code, _, warned = check(site, node, under=shell, env=given)
        path.chmod(before)
        assert code == 0
        assert len(warned) == 1
        assert lacks(warned[0], f"{path}", "anybody") == []
    # Through the version's own folder, as slurm.sh starts it, and in a folder of its own.
    placed.folder.chmod(0o757)
    _, _, warned = check(placed.folder, node, under=shell, env=given)
    assert [line.split(",")[0] for line in warned] == [f"anybody may write to {placed.folder}"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
@shells
def test_a_folder_that_is_mounted_twice_is_one_folder(
    make: Make, tmp_path: Path, node: Path, shell: str
) -> None:
    """An automounter's path and the plain one; the second mount is read-only, as on nodes."""
    place(make(rules(verified="yes")))
    site, again = tmp_path / "site", tmp_path / "again"
    again.mkdir()
    mount = f"mount --bind {site} {again} && mount -o remount,ro,bind {again}"
    command = ["unshare", "-m", "/bin/sh", "-c", f'{mount} && exec "$@"', "sh"]
    command += [*shell_here(shell), str(again / "check.sh"), "--root", str(node), "--sourced"]
    inside = subprocess.run(
        command,
        env={"PATH": os.environ["PATH"], "HOME": "/proc/nowhere", **sourced(site)},
        capture_output=True,
        text=True,
        check=False,
    )
    if "unshare" in inside.stderr or "mount" in inside.stderr:
        pytest.skip(f"no mounts here: {inside.stderr}")
    assert inside.returncode == 0, inside.stdout
    assert f"ready: version {(site / 'current').readlink().name}" in inside.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="root reads as somebody else")
@pytest.mark.parametrize("name", [NAME, "librccl-tuner-rccltune.so", "MANIFEST"])
def test_what_only_its_owner_may_read_is_not_ready(
    make: Make, tmp_path: Path, node: Path, name: str
) -> None:
    """Asked as a user: root reads everything."""
    placed = place(make())
    (placed.folder / name).chmod(0o400)
    let_others_in(tmp_path)
    code, failed, _ = check(tmp_path / "site", node, user=65534)
    assert code == 1
    assert len(failed) == 1
    assert re.match(rf"(.*/)?{name} (is missing or )?cannot be read", failed[0])


def test_a_folder_in_place_of_a_file_is_found(make: Make, tmp_path: Path, node: Path) -> None:
    """And nothing else is said of it."""
    placed = place(make())
    (placed.folder / NAME).unlink()
    (placed.folder / NAME).mkdir()
    _, failed, _ = check(tmp_path / "site", node)
    assert failed == [f"{NAME} is not the file that was deployed (sha256 none)"]
