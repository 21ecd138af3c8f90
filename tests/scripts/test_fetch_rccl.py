"""scripts/fetch-rccl: nothing half-made, nothing installed, and a clear word where it cannot be.

Programs of the system that would be asked (uname, df, apt-get, apt-cache) are played where a test is about
their answer; what is downloaded for real is tests/simulate/test_real_library.py's.
"""

from __future__ import annotations

import os
import shutil
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


def test_path_downloads_nothing(fetch: Fetch) -> None:
    """It only looks."""
    ended = fetch.run("--path")
    assert ended.returncode == 1
    assert lacks(ended.stderr, "scripts/fetch-rccl") == []
    assert fetch.left() == []


def test_another_architecture(fetch: Fetch) -> None:
    """The packages are for one."""
    fetch.play("uname", "echo aarch64")
    ended = fetch.run()
    assert ended.returncode == 1
    assert "aarch64" in ended.stderr
    assert "--librccl FILE" in ended.stderr
    assert fetch.left() == []


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


@needs_keyring
def test_a_killed_download_is_swept_away(fetch: Fetch) -> None:
    """Its folder does not stay for ever."""
    (fetch.cache / ".part-abc").mkdir(parents=True)
    fetch.run()
    assert fetch.left() == []


def test_words_it_does_not_know(fetch: Fetch) -> None:
    """Are no wish to download 400 MB."""
    ended = fetch.run("--force")
    assert ended.returncode == 1
    assert "--path" in ended.stderr


@pytest.mark.parametrize(
    ("status", "code", "said"),
    [
        (0, 0, "tests ran"),
        (3, 0, "its tests are skipped: fetch-rccl: lost"),
        (1, 1, "could not be fetched (status 1): fetch-rccl: lost"),
    ],
)
def test_continuous_integration_skips_only_what_the_registry_lost(
    tmp_path: Path, status: int, code: int, said: str
) -> None:
    """Another file under the pinned version, or no registry at all, ends it before any test."""
    for folder in (".ci", "scripts"):
        (tmp_path / folder).mkdir()
    run = shutil.copy(SCRIPT.parents[1] / ".ci/run", tmp_path / ".ci/run")
    played = {"fetch-rccl": f"echo fetch-rccl: lost >&2; exit {status}", "test": "echo tests ran"}
    for name, script in played.items():
        (tmp_path / "scripts" / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "scripts" / name).chmod(0o755)
    ended = subprocess.run([run], check=False, capture_output=True, text=True, timeout=60)
    assert ended.returncode == code, ended.stderr
    assert said in ended.stdout + ended.stderr
    assert ("tests ran" in ended.stdout) == (code == 0)
