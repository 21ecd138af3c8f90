"""scripts/fetch-rccl: nothing half-made, nothing installed, and a clear word where it cannot be.

Programs of the system that would be asked (uname, df, apt-get, apt-cache) are played where a test is about
their answer; what is downloaded for real is tests/simulate/test_real_library.py's.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from wording import lacks

SCRIPT = Path(__file__).parents[2] / "scripts/fetch-rccl"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


class Fetch:
    """The script with a cache of its own and programs of the test's in front."""

    def __init__(self, folder: Path) -> None:
        """Nothing cached, nothing played."""
        self.cache = folder / "cache/rccltune/rccl"
        self._programs = folder / "bin"
        self._programs.mkdir()

    def play(self, program: str, script: str) -> None:
        """Put a program before the system's."""
        path = self._programs / program
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Start it."""
        environment = {
            **os.environ,
            "XDG_CACHE_HOME": str(self.cache.parents[1]),
            "PATH": f"{self._programs}:{os.environ['PATH']}",
        }
        return subprocess.run(
            [SCRIPT, *arguments],
            check=False,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )

    def left(self) -> list[str]:
        """What stands in the cache beside the lock."""
        there = self.cache.iterdir() if self.cache.is_dir() else iter(())
        return sorted(path.name for path in there if path.name != ".lock")


@pytest.fixture
def fetch(tmp_path: Path) -> Fetch:
    """The script, offline: every program that would reach the network fails unless a test plays it."""
    made = Fetch(tmp_path)
    made.play("apt-get", "echo 'no network in this test' >&2; exit 100")
    made.play("uname", "echo x86_64")
    return made


needs_keyring = pytest.mark.skipif(not KEYRING.exists(), reason="not a Debian machine")


def test_what_is_cached_needs_no_network_and_no_apt(fetch: Fetch) -> None:
    """Once there it is found again, whatever the machine can reach."""
    library = fetch.cache / "7.2.4-1~exp3/usr/lib/x86_64-linux-gnu/librccl.so.1"
    library.parent.mkdir(parents=True)
    library.touch()
    for arguments in ((), ("--path",)):
        ended = fetch.run(*arguments)
        assert (ended.returncode, ended.stdout.strip()) == (0, str(library))


@needs_keyring
def test_a_full_disk_is_seen_before_anything_is_downloaded(fetch: Fetch) -> None:
    """By the room that the packages and what is in them take together."""
    fetch.play("df", "printf 'h\\n/dev/x 100 90 10 90%% /\\n'")
    ended = fetch.run()
    assert ended.returncode == 1
    assert "10 MiB free" in ended.stderr
    assert fetch.left() == []


@needs_keyring
def test_no_network_leaves_nothing_behind(fetch: Fetch) -> None:
    """And shows what apt said."""
    ended = fetch.run()
    assert ended.returncode == 1
    assert lacks(ended.stderr, "no network") == []
    assert lacks(ended.stderr, "be read") == []
    assert fetch.left() == []


@needs_keyring
def test_a_registry_that_has_lost_the_version_has_a_status_of_its_own(fetch: Fetch) -> None:
    """So that continuous integration can tell it from a mistake."""
    fetch.play("apt-get", "exit 0")
    fetch.play("apt-cache", "echo ' librccl1 | 9.9.9-1 | http://x unstable/main amd64 Packages'")
    ended = fetch.run()
    assert ended.returncode == 3
    assert lacks(ended.stderr, "pinned versions") == []
    assert fetch.left() == []


@needs_keyring
def test_another_file_than_the_pinned_one_is_not_used(fetch: Fetch) -> None:
    """Its hash is part of this repository."""
    fetch.play("apt-get", '[ "$2" != download ] || touch librccl1_7.2.4.deb libc6_2.43.deb')
    fetch.play(
        "apt-cache",
        'case $2 in librccl1) v="7.2.4-1~exp3";; libc6) v=2.43;; *) v=16.1;; esac\n'
        'echo " $2 | $v | http://x unstable/main amd64 Packages"',
    )
    ended = fetch.run()
    assert ended.returncode == 1
    assert lacks(ended.stderr, "is pinned") == []
    assert fetch.left() == []
