"""Zones whose records are in a nameless file (`Zone.folder`): they are what they are in memory, whatever the disk does."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from fastdns.index.change import ZoneChange
from fastdns.index.zone import Zone
from fastdns.index.zone_dump import ZoneDump
from fastdns.index.zone_load import ZoneFile
from tests.index.test_change import APEX, SOA, Row, change, contents, outcomes, publish, random_rows, row, soa
from tests.programs import need, program

#: A type of records whose rdata may be anything.
LONG = 600


def long_rows(names: Iterable[int], octets: int = 3000, mark: int = 0) -> list[Row]:
    return [row(f"n{name}.example.org.", LONG, bytes([mark]) + name.to_bytes(4, "big") * (octets // 4)) for name in names]


def filed(folder: Path | str, rows: Iterable[Row]) -> Zone:
    zone = Zone("example.org.")
    zone.folder = str(folder)
    return publish(zone, rows)


def files(folder: Path | str) -> list[int]:
    """Sizes of this process's open files in the folder that have no name."""
    sizes = []
    for entry in Path("/proc/self/fd").iterdir():
        try:
            if str(entry.readlink()).startswith(f"{folder}/") and str(entry.readlink()).endswith(" (deleted)"):
                sizes.append(entry.stat().st_size)
        except FileNotFoundError:
            continue
    return sorted(sizes)


def test_a_zone_in_a_file_is_as_one_in_memory(tmp_path: Path) -> None:
    rows = [*long_rows(range(1000)), *random_rows(random.Random(1), 100)]
    zone, other = filed(tmp_path, rows), publish(Zone("example.org."), rows)
    assert len(files(tmp_path)) == 1
    assert not os.listdir(tmp_path)
    assert contents(zone) == contents(other)
    assert sorted(zone.index.snapshot(sorted=False)) == contents(other)
    assert list(zone.index.snapshot()) == list(other.index.snapshot())
    assert outcomes(zone) == outcomes(other)
    counts, wanted = zone.index.statistics, other.index.statistics
    assert all(counts[key] == wanted[key] for key in ("names", "nodes", "records"))
    assert counts["bytes"] < wanted["bytes"] // 10
    assert zone.folder == str(tmp_path)
    assert other.folder is None


def test_the_file_goes_with_the_zone(tmp_path: Path) -> None:
    zone = filed(tmp_path, long_rows(range(1000)))
    snapshot = zone.index.snapshot()
    publish(zone, long_rows(range(2000, 3000)), 2)
    assert len(files(tmp_path)) == 2
    assert len(list(snapshot)) == 1001
    del snapshot
    assert len(files(tmp_path)) == 1
    draft = zone.draft()
    for one in long_rows(range(1000)):
        draft.add(*one)
    assert len(files(tmp_path)) == 2
    del draft, zone
    assert not files(tmp_path)


def test_a_small_zone_needs_no_file(tmp_path: Path) -> None:
    zone = filed(tmp_path, long_rows(range(100)))
    change(zone, long_rows(range(10)), long_rows(range(10), mark=1)).publish()
    assert not files(tmp_path)
    assert len(contents(zone)) == 101


@pytest.mark.parametrize("seed", range(6))
def test_random_changes_are_equal_to_whole_zones(tmp_path: Path, seed: int) -> None:
    choice = random.Random(seed)
    kept = set(long_rows(range(700)))
    rows = random_rows(choice, 100)
    changed = filed(tmp_path, sorted(kept | rows))
    for serial in range(2, 30):
        deleted = set(choice.sample(sorted(rows), min(len(rows), choice.choice([0, 1, 3, 20, 150]))))
        gone = set(choice.sample(sorted(kept), choice.choice([0, 1, 50])))
        come = set(long_rows(choice.sample(range(700, 1000), choice.choice([0, 1, 50])), choice.choice([10, 3000, 60_000]), serial)) - kept
        added = random_rows(choice, choice.choice([0, 1, 3, 20, 150])) - rows
        rows, kept = (rows - deleted) | added, (kept - gone) | come
        before = changed.index.snapshot() if serial % 3 == 0 else None
        held = contents(changed) if before is not None else []
        change(changed, sorted(deleted | gone), sorted(added | come), serial, serial - 1).publish()
        whole = publish(Zone("example.org."), sorted(kept | rows), serial)
        assert contents(changed) == contents(whole)
        assert outcomes(changed) == outcomes(whole)
        assert before is None or sorted(before) == held
        counts, wanted = changed.index.statistics, whole.index.statistics
        assert [counts[key] for key in ("names", "nodes", "records", "pending")] == [wanted[key] for key in ("names", "nodes", "records", "pending")]
    assert files(tmp_path)


def test_what_is_freed_makes_place(tmp_path: Path) -> None:
    zone = filed(tmp_path, long_rows(range(1000)))
    (size,) = files(tmp_path)
    for serial in range(2, 40):
        change(zone, long_rows(range(300), mark=serial - 2), long_rows(range(300), mark=serial - 1), serial, serial - 1).publish()
    (grown,) = files(tmp_path)
    assert grown <= size + (3 << 20)  # the nodes of two versions, and what else a chunk has


def test_many_names_have_their_slots_in_a_file(tmp_path: Path) -> None:
    """They change there, and go to a larger one when there are too few."""
    rows = long_rows(range(20_000), 120)
    zone, other = filed(tmp_path, rows), publish(Zone("example.org."), rows)
    assert len(files(tmp_path)) == 2
    assert zone.index.statistics["bytes"] < 100_000
    for serial in range(2, 30):
        more = long_rows(range(20_000 + serial * 1000, 21_000 + serial * 1000), 120)
        less = long_rows(range(serial * 300, serial * 300 + 200), 120)
        for one in (zone, other):
            change(one, less, more, serial, serial - 1).publish()
    assert contents(zone) == contents(other)
    for owner, kind, _, _ in rows[::97]:
        assert zone.index.find(owner, kind).outcome == other.index.find(owner, kind).outcome
    assert len(files(tmp_path)) == 2
    zone.index.put("extra.example.org.", [(LONG, 5, b"x")])
    for number in range(30_000):
        zone.index.put(f"e{number}.example.org.", [(LONG, 5, b"x")])
    assert all(zone.index.get(owner) == other.index.get(owner) for owner, _, _, _ in rows[::89])
    assert len(contents(zone)) == len(contents(other)) + 30_001


def test_a_zone_goes_from_file_to_file(tmp_path: Path) -> None:
    """What is kept on disk is read into the nameless file, and written from there."""
    zone = filed(tmp_path, long_rows(range(1000)))
    path = tmp_path / "kept"
    with path.open("wb") as output:
        ZoneDump(zone).write(output.fileno())
    again = Zone("example.org.")
    again.folder = str(tmp_path)
    with path.open("rb") as source:
        again.publish(ZoneFile(again, source.fileno(), path.stat().st_size).read())
    assert len(files(tmp_path)) == 2
    assert contents(again) == contents(zone)


def test_without_a_folder_it_is_memory(tmp_path: Path) -> None:
    zone = filed(tmp_path / "none", long_rows(range(1000)))
    change(zone, long_rows(range(10)), long_rows(range(10), mark=1)).publish()
    assert contents(zone) == contents(publish(Zone("example.org."), long_rows(range(10, 1000)) + long_rows(range(10), mark=1), 2))


def test_a_change_that_is_never_published(tmp_path: Path) -> None:
    zone = filed(tmp_path, long_rows(range(1000)))
    left = change(zone, long_rows(range(10)), long_rows(range(10), mark=1))
    refused = ZoneChange(zone, 1)
    refused.delete(*long_rows([5000])[0])
    refused.add(APEX, SOA, 300, soa(2))
    with pytest.raises(ValueError, match="delete what is not there"):
        refused.finish()
    publish(zone, long_rows(range(1000), mark=2), 3)
    del left
    assert contents(zone) == contents(publish(Zone("example.org."), long_rows(range(1000), mark=2), 3))
    assert len(files(tmp_path)) == 1


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A script in a process of its own, with the modules that this one has."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run([sys.executable, "-P", "-c", script, *arguments], env=environment, check=False, capture_output=True, text=True)


FULL = """
import resource, sys
from pathlib import Path
from fastdns.index.zone import Zone
from tests.index.test_change import change, contents, publish
from tests.index.test_node_file import filed, long_rows

limit = int(sys.argv[2])
if limit < 2 << 20:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
zone = filed(sys.argv[1], long_rows(range(1000)) + long_rows(range(5000, 20_000), 80))
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
serial = 1
for serial in range(2, 12):
    change(zone, long_rows(range(300), mark=serial - 2), long_rows(range(300), 4000 + 100 * serial, mark=serial - 1) if serial == 11 else
           long_rows(range(300), mark=serial - 1), serial, serial - 1).publish()
rows = long_rows(range(300, 1000)) + long_rows(range(300), 5100, mark=10) + long_rows(range(5000, 20_000), 80)
assert contents(zone) == contents(publish(Zone("example.org."), rows, 11))
publish(zone, rows, 12)
assert contents(zone) == contents(publish(Zone("example.org."), rows, 12))
print("well")
"""


@pytest.mark.parametrize("limit", [0, 100_000, 1 << 20, 3 << 19, 4 << 20, 6 << 20])
def test_a_disk_that_is_full(tmp_path: Path, limit: int) -> None:
    """Here a limit of the file's size: what cannot be written is memory."""
    found = run(FULL, str(tmp_path), str(limit))
    assert found.stdout == "well\n", found.stderr


COPY_ON_WRITE = """
import os, sys
from fastdns.index.zone import Zone
from tests.index.test_change import change, contents, publish, row
from tests.index.test_node_file import filed, long_rows

folder, rows = sys.argv[1], long_rows(range(2000))
zone = filed(folder, rows)
os.sync()
with open(folder + "/full", "wb", buffering=0) as file:
    for size in (1 << 20, 4096):
        try:
            while True:
                file.write(os.urandom(size))
                os.fsync(file.fileno())
        except OSError:
            continue
wildcards = [row(f"*.n{name}.example.org.", 1, bytes(4)) for name in range(2000)]
change(zone, [], wildcards).publish()
os.sync()
assert contents(zone) == contents(publish(Zone("example.org."), rows + wildcards, 2))
print("well")
"""


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount")
def test_a_copy_on_write_disk_that_is_full(tmp_path: Path) -> None:
    """Flags of nodes change through the mapping, for which btrfs would need free blocks."""
    need("mkfs.btrfs")
    image, folder = tmp_path / "image", tmp_path / "disk"
    folder.mkdir()
    with image.open("wb") as file:
        file.truncate(256 << 20)
    subprocess.run([program("mkfs.btrfs"), "-q", "-m", "single", str(image)], check=True)
    subprocess.run(["mount", "-o", "loop", str(image), str(folder)], check=True)
    try:
        found = run(COPY_ON_WRITE, str(folder))
    finally:
        subprocess.run(["umount", str(folder)], check=True)
    assert found.stdout == "well\n", (found.returncode, found.stderr)


@pytest.mark.memory
def test_a_file_is_hardly_any_memory(tmp_path: Path) -> None:
    """After it was made, read as a whole and changed."""
    script = """
import sys
from tests.index.test_change import change
from tests.index.test_node_file import filed, long_rows

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

filed(sys.argv[1], long_rows(range(500)))
rows = (one for number in range(20_000) for one in long_rows([number]))
before = resident()
zone = filed(sys.argv[1], rows)
assert sum(1 for _ in zone.index.snapshot(sorted=False)) == 20_001
change(zone, long_rows(range(10)), long_rows(range(10), mark=1)).publish()
print(resident() - before)
"""
    assert int(run(script, str(tmp_path)).stdout) < 8 << 20  # of 60 MB
