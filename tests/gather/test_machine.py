"""What is taken of a machine: the listed fields of detect --json, and nobody's name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from trees import add, put, seen, write

from rccltune import gather
from rccltune.machine.gpu_findings import find_gpu_findings
from rccltune.machine.system import System, export_system
from rccltune.model.schema import to_plain

BOOT = "3f2504e0-4f89-11d3-9a0c-0305e82c3301"
IDENTITY = 692251001124


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> System:
    """A node with names of a host, a card, a boot and a folder."""
    root = write("mi300x-cpx-nps4", tmp_path / "lovelace" / "project-x")
    put(root, "proc/sys/kernel/hostname", "frontier04711.example.org")
    put(root, "proc/sys/kernel/osrelease", "5.14.0-427.el9.x86_64")
    put(root, "proc/sys/kernel/random/boot_id", BOOT)
    put(root, "opt/rocm/lib/librccl.so.1", "RCCL version 2.20.5+hip6.2\0code")
    put(root, "opt/rccl-tests/build/all_reduce_perf", "rccl-tests version 2.13.6\0libmpi.so.40")
    add(root, 2, {"unique_id": IDENTITY})
    found = seen(root)
    monkeypatch.setattr(gather, "detect_this_machine", lambda _root: found)
    return found


def sent(made: gather.ArchiveContent) -> dict[str, Any]:
    """The one file of the archive."""
    ((name, data),) = made.files.items()
    assert name == "machine/detect.json"
    plain: dict[str, Any] = json.loads(data)
    return plain


def test_it_is_what_detection_says(system: System) -> None:
    """Devices, modes, links, versions: equal, but for names, which are hashes."""
    said, found = (
        to_plain(export_system(system, find_gpu_findings(system, {}))),
        sent(gather.gather_machine()),
    )
    for name in ("mode", "n_devices", "xgmi_hops", "arch", "product", "kernel"):
        assert found[name] == said[name]
    assert found["mode"] == "cpx-nps4"
    assert found["n_devices"] == len(found["gpus"]) == 64
    assert found["gpus"][9]["address"] == said["gpus"][9]["address"]
    assert found["host"].startswith("host-")
    (library,) = found["libraries"]
    assert (library["path"], library["version"]) == ("librccl.so.1", "RCCL 2.20.5+hip6.2")


def test_nobody_is_named(system: System) -> None:
    """Neither host, boot, card nor folder; the host's hash is told to its owner."""
    made = gather.gather_machine()
    identities = {one.identity for one in (*system.oams, *system.gpus) if one.identity}
    assert identities
    text = b"".join(made.files.values()).decode() + "".join(made.contents())
    for secret in ("frontier", "example.org", BOOT, "lovelace", "project-x", *identities):
        assert secret not in text
    assert list(made.hosts) == ["frontier04711"]


def test_equal_names_stay_equal_in_one_archive_only() -> None:
    """Hosts by their short name."""
    one, other = gather.NameHasher(), gather.NameHasher()
    assert one.name("host", "node17.example.org") == one.name("host", "NODE17")
    assert one.name("host", "node17") != one.name("host", "node18")
    assert one.name("host", "node17") != other.name("host", "node17")
    assert one.name("host", "") == ""


@pytest.mark.usefixtures("system")
def test_what_is_left_out_is_left_out_on_purpose() -> None:
    """Words and places; a field of a new record is on the list or here."""

    def names(value: object) -> set[str]:
        if isinstance(value, dict):
            return set(value).union(*map(names, value.values()))
        return set().union(*map(names, value)) if isinstance(value, list) else set()

    system = gather.detect_this_machine(None)
    plain = to_plain(export_system(system, find_gpu_findings(system, {})))
    for one in plain["oams"]:
        one["sources"] = None
    on_purpose = {"root", "source", "sources", "detail", "message", "where", "remedy"}
    assert names(plain) - gather.MACHINE_FIELDS <= on_purpose
