"""rccltune gather machine: what a user sends makes the same machine again, and names nobody."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from gathered import FORMAT, Gathered, unpack
from hypothesis import given, settings
from hypothesis import strategies as st
from machines import Machine, all_machines
from trees import MI325X, add, add_links, put, seen, write

from rccltune import gather
from rccltune.gather import ArchiveBlock, NameHasher
from rccltune.machine.checks.doctor import doctor
from rccltune.machine.checks.host_state import HostState
from rccltune.machine.gpu_findings import gpu_findings
from rccltune.machine.records import as_plain

SCRIPT = Path(gather.__file__)
KEY = b"the user's own"
CASES = sorted((Path(__file__).parent / "gathered").glob("*.txt"))
MACHINES = (*all_machines(), MI325X)
BOOT = "3f2504e0-4f89-11d3-9a0c-0305e82c3301"


def text_of(root: Path) -> str:
    """What is gathered of the machine below a root."""
    (data,) = gather.machine(KEY, root).files.values()
    return data.decode()


def gathered(root: Path, folder: Path) -> Gathered:
    """The machine below a root, made again."""
    return unpack(text_of(root), folder / "again")


def without_names(value: object, table: dict[str, str]) -> object:
    """An answer in which identities are numbers in the order of appearance."""
    if isinstance(value, dict):
        return {
            key: table.setdefault(v, str(len(table))) if key == "identity" and v else
            without_names(v, table)
            for key, v in value.items()
            if key not in ("root", "host", "boot_id", "sha256")
        }  # fmt: skip
    return [without_names(item, table) for item in value] if isinstance(value, list) else value


def answer(root: Path) -> object:
    """All that detection says of a tree, without what names the machine or its place."""
    system = seen(root)
    plain = as_plain(system, gpu_findings(system, {}))
    for found in (*plain["libraries"], *plain["benchmarks"]):
        found["path"] = str(Path(found["path"]).relative_to(root.resolve()))
    return without_names(plain, {})


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_the_same_machine_again(machine: Machine, probe: Path, tmp_path: Path) -> None:
    """Detection and the plugin say of it what they said of the original, denied files included."""
    root = tmp_path / "original"
    root.mkdir()
    machine.write(root)
    if machine.name == "mi300x-spx-nps1":
        add_links(root)
    again = gathered(root, tmp_path).root
    again.mkdir(exist_ok=True)

    assert answer(again) == answer(root)
    asked = [
        subprocess.run([probe, place], check=True, capture_output=True, timeout=30).stdout
        for place in (root, again)
    ]
    assert asked[0] == asked[1]


def busy(folder: Path) -> Path:
    """A node of which the doctor has much to say, with names of hosts, people and cards."""
    root = write("mi300x-spx-nps1", folder)
    gpu = "sys/bus/pci/devices/0000:05:00.0"
    for name, content in {
        "proc/sys/kernel/hostname": "frontier04711.example.org",
        "proc/sys/kernel/osrelease": "5.14.0-427.el9.x86_64",
        "proc/sys/kernel/random/boot_id": BOOT,
        "proc/sys/kernel/numa_balancing": "1",
        "proc/cmdline": "root=UUID=" + BOOT + " rd.iscsi.password=hush iommu=pt quiet",
        "proc/cpuinfo": "processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: fpu hypervisor\n\n"
        "processor\t: 1\nSerial\t\t: 00000000deadbeef",
        "proc/4711/comm": "numad",
        "proc/4712/comm": "very-secret-tool",
        "sys/module/amdgpu/version": "6.10.5",
        "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never",
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave",
        "sys/class/kfd/kfd/proc/991/pasid": "32771",
        f"{gpu}/power_dpm_force_performance_level": "high",
        f"{gpu}/numa_node": "-1",
        f"{gpu}/hwmon/hwmon3/power1_cap": "550000000",
        f"{gpu}/hwmon/hwmon3/power1_cap_default": "750000000",
        f"{gpu}/hwmon/hwmon3/temp1_input": "95000",
        f"{gpu}/serial_number": "692251001124",
        "opt/rocm/.info/version": "6.2.0-66",
        "etc/rccl.conf": "NCCL_ALGO=Tree",
        "dev/shm/nccl-x9K1": "what a job left",
        "dev/kfd": "",
    }.items():
        put(root, name, content)
    library = put(root, "opt/rocm/lib/librccl.so.1.0.60200", "RCCL version 2.20.5+hip6.2\0code")
    (library.parent / "librccl.so.1").symlink_to(library.name)
    put(root, "opt/rccl-tests/build/all_reduce_perf", "rccl-tests version 2.13.6\0libmpi.so.40")
    add(root, 2, {"hive_id": 7777777777777777777, "fw_version": 150})
    return root


def test_the_doctor_says_the_same(tmp_path: Path) -> None:
    """Clocks, caps, heat, other users, kernel, hidden files: each finding, in the same words."""
    root = busy(tmp_path / "original")
    again = gathered(root, tmp_path).root
    found = []
    for place in (root, again):
        findings = doctor(HostState(system=seen(place)))
        found.append([(f.name, f.message.replace(str(place), "")) for f in findings])

    assert found[0] == found[1]
    wanted = {"clocks", "power-cap", "heat", "numad", "other-users", "hidden-file", "cpu-governor"}
    assert wanted <= {name for name, _ in found[0]}
    assert answer(again) == answer(root)
    assert seen(again).libraries[0].version == "RCCL 2.20.5+hip6.2"
    assert seen(again).libraries[0].rocm == "6.2.0"
    assert seen(again).benchmarks[0].mpi == "openmpi"


def test_nobody_is_named(tmp_path: Path) -> None:
    """Hosts, serial numbers, UUIDs, passwords, other programs: none is in the file."""
    root = busy(tmp_path / "original")
    put(root, "etc/rccl.conf", "NCCL_ALGO=Tree\nNCCL_API_KEY=hush\nPROXY=http://me:hush@proxy")
    text = text_of(root)

    for secret in (
        "frontier", "example.org", BOOT, "hush", "very-secret", "692251001124", "deadbeef",
        "7777777777777777777", "what a job left", "32771", "PROXY", "quiet",
    ):  # fmt: skip
        assert secret not in text
    assert "NCCL_ALGO=Tree\n" in text


def test_equal_identities_stay_equal_and_only_under_one_key() -> None:
    """Hosts by their short name, identities of devices, UUIDs; no identity stays none."""
    one, again, other = NameHasher(KEY), NameHasher(KEY), NameHasher(b"another")
    assert one.name("host", "node17.example.org") == again.name("host", "NODE17")
    assert one.name("host", "node17") != one.name("host", "node18")
    assert one.name("host", "node17") != other.name("host", "node17")
    assert one.name("host", "") == ""
    assert one.number(5) == again.number(5) != other.number(5)
    assert (one.number(0), len(one.uuid(BOOT))) == (0, len(BOOT))
    assert one.uuid(BOOT) == again.uuid(BOOT.upper()) != BOOT


def test_of_a_running_machine(tmp_path: Path) -> None:
    """By the one file where nothing else is: listed variables and lines alone; listed first."""
    alone = tmp_path / "elsewhere" / "gather.py"
    alone.parent.mkdir()
    shutil.copy(SCRIPT, alone)
    program = tmp_path / "bin" / "amd-smi"
    program.parent.mkdir()
    program.write_text(
        f"#!/bin/sh\necho '    UUID: {BOOT}'\necho 'GPU: 0'\necho ASIC_SERIAL: 0xE5C8A6B5D35F4D8C\n"
    )
    program.chmod(0o755)
    own = tmp_path / "ada's" / "librccl.so.1"
    own.parent.mkdir()
    own.write_bytes(b"RCCL version 2.27.7\0")
    variables = {
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "LD_LIBRARY_PATH": str(own.parent),
        "NCCL_SOCKET_IFNAME": "ens1",
        "NCCL_TUNER_CONFIG_FILE": "/home/ada/project-x/mine.csv",
        "NCCL_IB_AUTH_TOKEN": "hush",
        "AWS_SECRET_ACCESS_KEY": "hush",
        "EDITOR": "vi",
    }
    target = tmp_path / "here.tar.gz"
    command = [sys.executable, "-S", alone, "machine", "-o", target]
    done = subprocess.run(
        command, env=variables, capture_output=True, text=True, check=True, timeout=120
    )
    with tarfile.open(target) as archive:
        names = [member.name for member in archive]
        texts = [stream.read().decode() for name in names if (stream := archive.extractfile(name))]
    here = unpack(texts[1], tmp_path / "again")

    assert names == [
        f"rccltune-gathered/{n}" for n in ("CONTENTS.txt", "machine/gathered-system.txt")
    ]
    assert "machine/gathered-system.txt" in done.stdout.splitlines()[1]
    assert "Nothing was sent" in done.stdout
    assert here.variables == {"NCCL_SOCKET_IFNAME": "ens1", "NCCL_TUNER_CONFIG_FILE": "left-out"}
    assert here.told["amd-smi list"] == "GPU: 0"
    assert int(here.facts["cores"]) > 0
    for secret in ("hush", BOOT, "E5C8", "/ada", "project-x", os.uname().nodename + "\n"):
        assert secret not in "".join(texts)
    assert seen(here.root).kernel == os.uname().release
    assert f"{seen(here.root).host} stands for {os.uname().nodename.split('.')[0]}" in done.stdout
    assert "RCCL version 2.27.7" in texts[1]
    assert (tmp_path / ".local/state/rccltune/gather.key").stat().st_mode & 0o777 == 0o600


def test_it_runs_where_rccltune_does_not() -> None:
    """Python 3.8's grammar; only the standard library is imported."""
    tree = ast.parse(SCRIPT.read_text(encoding="utf-8"), feature_version=(3, 8))
    wanted = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            wanted |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level
            wanted.add((node.module or "").split(".")[0])
    assert wanted <= set(sys.stdlib_module_names)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no gathered system"),
        (f"{FORMAT}\nfile /etc/passwd\n\tx\n", "outside of the machine"),
        (f"{FORMAT}\nfile sys/../../x\n\tx\n", "outside of the machine"),
        (f"{FORMAT}\nlink sys/x\n\t../../../etc\n", "outside of the machine"),
        (f"{FORMAT}\nlink sys/x\n\t/etc\n", "outside of the machine"),
        (f"{FORMAT}\nrun rm\n", "no kind of block"),
    ],
)
def test_somebody_elses_file_is_not_trusted(text: str, said: str, tmp_path: Path) -> None:
    """It may come from anybody: places outside of the folder are refused."""
    with pytest.raises(ValueError, match=said):
        unpack(text, tmp_path / "inside")


@settings(max_examples=60)
@given(content=st.text(st.characters(max_codepoint=255), max_size=60))
def test_any_content_comes_back(content: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Each byte, with and without a last line's end, behind every other block."""
    blocks = [
        ArchiveBlock("file", "sys/one", content),
        ArchiveBlock("file", "sys/two", "2\n"),
    ]
    text = f"{FORMAT}\n" + "".join(block.written() for block in blocks)
    root = unpack(text, tmp_path_factory.mktemp("content")).root
    assert (root / "sys/one").read_bytes() == content.encode("latin-1")
    assert (root / "sys/two").read_bytes() == b"2\n"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_machines_that_were_sent(case: Path, probe: Path, tmp_path: Path) -> None:
    """What somebody who knows the machine expects, said by detection and plugin alike."""
    here = unpack(case.read_text(encoding="utf-8"), tmp_path)
    system = seen(here.root)
    run = subprocess.run([probe, here.root], check=True, capture_output=True, text=True, timeout=30)
    plugin = dict(line.split("=", 1) for line in run.stdout.splitlines())

    assert here.expected
    for expected in here.expected:
        assert {key: plugin[key] for key in expected} == expected
        assert expected["mode"] == system.mode_text
        assert int(expected["visible"]) == len(system.gpus)
