"""Versions in a folder: whole or not there, switched at once, and back."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from deliveries import Make, place, rules

from rccltune import session
from rccltune.deploy import assemble, current, put, roll_back
from rccltune.model import CommandLineError, SessionError

NEEDS = (("A", "1"),), (("A", "2"),), (("A", "3"),)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def rolled_back(directory: Path) -> str:
    """The version that is current after going back."""
    return roll_back(directory, write=session.write_atomically).name


def test_the_same_delivery_is_the_same_version(make: Make, tmp_path: Path) -> None:
    """Bytes and name; a second deploy changes nothing and has nothing to go back to."""
    first = place(make())
    before = contents(tmp_path / "site")
    second = place(make())
    assert (second.name, second.before) == (first.name, first.name)
    assert contents(tmp_path / "site") == before
    with pytest.raises(SessionError, match="version"):
        rolled_back(tmp_path / "site")


def test_what_users_may_do_with_the_files(make: Make, tmp_path: Path) -> None:
    """Everybody reads, nobody writes, whatever the umask; programs are programs."""
    before = os.umask(0o077)
    try:
        placed = place(make())
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in placed.folder.rglob("*")}
    runs = {"check.sh", "librccl-tuner-rccltune.so"}
    assert modes.pop("modulefiles") == 0o755
    assert all(modes.pop(name) == 0o555 for name in runs)
    assert set(modes.values()) == {0o444}
    assert stat.S_IMODE(placed.folder.stat().st_mode) == 0o755
    assert stat.S_IMODE((tmp_path / "site" / "versions").stat().st_mode) == 0o755


@pytest.mark.parametrize(("umask", "mode"), [(0o002, 0o775), (0o027, 0o755), (0o000, 0o775)])
def test_colleagues_may_deploy_where_the_umask_lets_them(
    make: Make, tmp_path: Path, umask: int, mode: int
) -> None:
    """A group that keeps a site's software; never everybody. The history is for all to read."""
    before = os.umask(umask)
    try:
        place(make())
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "site" / "versions").stat().st_mode) == mode
    assert stat.S_IMODE((tmp_path / "site" / "history").stat().st_mode) == 0o644


def test_manifest_has_every_file_as_sha256sum_reads_it(make: Make) -> None:
    """And none but itself is left out."""
    placed = place(make())
    done = subprocess.run(
        ["/usr/bin/sha256sum", "-c", "MANIFEST"],
        cwd=placed.folder,
        capture_output=True,
        text=True,
        check=True,
    )
    names = {line.removesuffix(": OK") for line in done.stdout.splitlines()}
    assert names == contents(placed.folder).keys() - {"MANIFEST"}


def test_back_and_back_again(make: Make, tmp_path: Path) -> None:
    """A, B, C; back to B and A, then no further; D follows A, and B is not behind it."""
    site = tmp_path / "site"
    a, b, c = (place(make(rules(needs=needs))).name for needs in NEEDS)
    assert current(site) == c
    assert rolled_back(site) == b
    assert rolled_back(site) == a
    with pytest.raises(SessionError, match=f"no version before {a}"):
        rolled_back(site)
    d = place(make(rules(needs=(("A", "4"),)))).name
    assert current(site) == d
    assert rolled_back(site) == a
    # All are there for jobs that run with them.
    assert {path.name for path in (site / "versions").iterdir()} == {a, b, c, d}


def test_a_version_that_comes_again_goes_back_to_the_one_before(make: Make, tmp_path: Path) -> None:
    """A, B, A: back is B, then A, then nothing."""
    site = tmp_path / "site"
    a, b, _ = (place(make(rules(needs=n))).name for n in (NEEDS[0], NEEDS[1], NEEDS[0]))
    assert current(site) == a
    assert rolled_back(site) == b
    assert rolled_back(site) == a
    with pytest.raises(SessionError):
        rolled_back(site)


def test_going_back_to_a_damaged_version_is_refused(make: Make, tmp_path: Path) -> None:
    """The one that works stays."""
    site = tmp_path / "site"
    first = place(make(rules(needs=NEEDS[0])))
    second = place(make(rules(needs=NEEDS[1])))
    (first.folder / "env.sh").unlink()
    with pytest.raises(SessionError, match=r"not as it was \(env.sh\)"):
        rolled_back(site)
    assert current(site) == second.name


def test_nothing_was_deployed(tmp_path: Path) -> None:
    """An empty folder, and one that is not there."""
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(SessionError, match="deployed"):
            rolled_back(folder)


def test_a_folder_with_other_things_is_left_alone(make: Make, tmp_path: Path) -> None:
    """But with --force; a file in the way of a link of ours never."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "notes.txt").write_text("mine")
    with pytest.raises(CommandLineError, match="things"):
        place(make())
    assert contents(site) == {"notes.txt": b"mine"}
    place(make(), force=True)
    assert (site / "notes.txt").read_text() == "mine"
    (site / "env.sh").unlink()
    (site / "env.sh").write_text("mine")
    with pytest.raises(CommandLineError, match=r"'env.sh' is in the way"):
        place(make(rules(needs=NEEDS[0])), force=True)
    assert (site / "env.sh").read_text() == "mine"


def test_a_file_is_no_folder(make: Make, tmp_path: Path) -> None:
    """Nor becomes one."""
    (tmp_path / "site").write_text("x")
    with pytest.raises(CommandLineError, match="no folder"):
        place(make(), force=True)


def test_a_changed_version_is_put_back_only_by_force(make: Make) -> None:
    """Somebody edited the rules in place: that is not what was verified."""
    placed = place(make())
    path = placed.folder / "env.sh"
    content = path.read_bytes()
    path.chmod(0o644)
    path.write_text("edited")
    with pytest.raises(CommandLineError, match=r"was changed \(env.sh\)"):
        place(make())
    assert path.read_text() == "edited"
    place(make(), force=True)
    assert path.read_bytes() == content
    assert [p.name for p in placed.folder.parent.iterdir()] == [placed.name]


def failing_at(number: int) -> Callable[[Path, bytes], None]:
    """Writes until the disk is full."""
    left = number

    def write(path: Path, content: bytes) -> None:
        nonlocal left
        if left == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        left -= 1
        session.write_atomically(path, content)

    return write


def test_a_disk_that_fills_at_any_write_leaves_the_version_before(
    make: Make, tmp_path: Path
) -> None:
    """No half version, no temporary file; with room again the same deploy goes through."""
    site = tmp_path / "site"
    first = place(make(rules(needs=NEEDS[0])))
    before = contents(site)
    version = assemble(make(rules(needs=NEEDS[1])))
    n_writes = len(version.files) + 1
    for number in range(n_writes):
        with pytest.raises(OSError, match="space"):
            put(site, version, write=failing_at(number))
        assert current(site) == first.name
        left = contents(site)
        if number < n_writes - 1:
            assert left == before
        assert not [name for name in left if "/." in name or name.startswith(".")]
    placed = put(site, version, write=failing_at(n_writes))
    assert (placed.name, placed.before) == (version.name, first.name)
    assert rolled_back(site) == first.name


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from rccltune import session
from rccltune.deploy import File, Version, put
left = int(sys.argv[2])
def step(real):
    def wrapped(*a, **k):
        global left
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1
        return real(*a, **k)
    return wrapped
for name in ("rename", "replace", "symlink", "mkdir", "chmod"):
    setattr(os, name, step(getattr(os, name)))
files = tuple(File(name=n, content=b"new") for n in ("one.csv", "env.sh", "MANIFEST"))
put(Path(sys.argv[1]), Version(name="b" * 12, files=files), write=session.write_atomically)
"""


@pytest.mark.long
def test_a_kill_at_any_moment_leaves_one_whole_version(tmp_path: Path) -> None:
    """Before or after the switch; the next deploy clears what was left half-way."""
    from rccltune.deploy import File, Version

    def version(letter: str) -> Version:
        content = {"b": b"new"}.get(letter, letter.encode())
        names = ("one.csv", "env.sh", "MANIFEST")
        files = tuple(File(name=n, content=content) for n in names)
        return Version(name=letter * 12, files=files)

    for number in range(200):
        site = tmp_path / str(number)
        put(site, version("a"), write=session.write_atomically)
        script = [sys.executable, "-c", KILLED, str(site), str(number), ""]
        done = subprocess.run(script, check=False, capture_output=True, text=True)
        name = current(site)
        assert name is not None
        seen = {path.read_bytes() for path in (site / "current").iterdir()}
        assert seen == ({b"a"} if name == "a" * 12 else {b"new"})
        if done.returncode == 0:
            assert name == "b" * 12
            break
        if number % 5 == 0:
            put(site, version("c"), write=session.write_atomically)
            assert not [*site.glob(".*"), *site.glob("versions/.*")]
            assert rolled_back(site) == name
    assert number > 10


READ = """
import sys
from pathlib import Path
site = Path(sys.argv[1])
seen = set()
print("on", flush=True)
for _ in range(20_000):
    folder = site / "versions" / (site / "current").readlink().name
    found = {path.read_bytes() for path in (folder / "one.csv", folder / "env.sh")}
    assert len(found) == 1, found
    assert (site / "env.sh").read_bytes() in (b"a", b"b"), "no env.sh"
    seen |= found
print(len(seen))
"""


def test_who_reads_meanwhile_sees_one_version_or_the_other(tmp_path: Path) -> None:
    """20,000 looks while versions are deployed and rolled back; a file that is open stays."""
    from rccltune.deploy import File, Version

    site = tmp_path / "site"
    write = session.write_atomically
    versions = [
        Version(
            name=letter * 12,
            files=tuple(
                File(name=n, content=letter.encode()) for n in ("one.csv", "env.sh", "MANIFEST")
            ),
        )
        for letter in "ab"
    ]
    for version in versions:
        put(site, version, write=write)
    opened = (site / "env.sh").open("rb")
    script = [sys.executable, "-c", READ, str(site)]
    n_switches = 0
    with opened, subprocess.Popen(script, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "on\n"
        while reader.poll() is None:
            put(site, versions[n_switches % 2], write=write)
            rolled_back(site)
            put(site, versions[1], write=write)
            n_switches += 1
        assert reader.returncode == 0
        assert reader.stdout.read() == "2\n"
        assert opened.read() == b"b"
    assert n_switches > 5
