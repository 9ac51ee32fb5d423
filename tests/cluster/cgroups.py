"""Control groups of the nodes, below one of their own in each hierarchy, of cgroup v1 and v2."""

from __future__ import annotations

import contextlib
from pathlib import Path

__all__ = ["Cgroups"]


class Cgroups:
    """The group NAME, with one for each node in it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def add(self, node: str) -> str:
        """Make the group of a node. Its path in a hierarchy, for kubelet."""
        for root in hierarchies("cgroup") or hierarchies("cgroup2"):
            folder = root
            for part in (self.name, node):
                _enable(folder)
                folder = folder / part
                folder.mkdir(exist_ok=True)
                _inherit_processors(folder)
        return f"/{self.name}/{node}"

    def remove(self) -> None:
        """All groups below, of which the processes have ended. Beside cgroup v1 runc makes them in v2 too, where that is mounted."""
        for root in (*hierarchies("cgroup"), *hierarchies("cgroup2")):
            top = root / self.name
            # A folder's own folders come before it.
            for folder in [*sorted((path for path in top.rglob("*") if path.is_dir()), reverse=True), top]:
                with contextlib.suppress(FileNotFoundError):
                    folder.rmdir()


def hierarchies(kind: str) -> list[Path]:
    """Where the system mounts file systems of a kind: ``cgroup`` for v1, ``cgroup2``."""
    fields = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    return [Path(mount) for _, mount, found, *_ in fields if found == kind]


def _enable(folder: Path) -> None:
    """In cgroup v2 a group's controllers are enabled in the one above it."""
    if (folder / "cgroup.subtree_control").exists():
        controllers = (folder / "cgroup.controllers").read_text().split()
        (folder / "cgroup.subtree_control").write_text(" ".join(f"+{controller}" for controller in controllers))


def _inherit_processors(folder: Path) -> None:
    """In cgroup v1 a new group of the controller cpuset has none."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        if (folder / name).exists() and not (folder / name).read_text().strip() and not (folder / "cgroup.controllers").exists():
            (folder / name).write_text((folder.parent / name).read_text())
