"""A container as the DaemonSet declares it: its capabilities, a read-only root, and a user without privileges for the server."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import yaml

from tests.programs import program

MANIFEST = Path(__file__).resolve().parents[2] / "deploy" / "node-local" / "daemonset.yaml"
#: Where the test's folder is inside; the image has the folder, empty.
INSIDE = Path("/mnt")


def container(name: str) -> dict[str, Any]:
    """A container of the DaemonSet, by its name."""
    pod = yaml.safe_load(MANIFEST.read_text())["spec"]["template"]["spec"]
    (found,) = [one for one in pod["containers"] if one["name"] == name]
    return dict(found)


def confine(command: list[str], context: dict[str, Any], folder: Path, writable: list[str]) -> list[str]:
    """The command with the rights of a securityContext. It sees ``folder`` as `INSIDE`, and may write its folders ``writable`` alone."""
    assert context["readOnlyRootFilesystem"]
    assert not context["allowPrivilegeEscalation"]
    assert context["capabilities"]["drop"] == ["ALL"]
    rights = ",".join(["-all", *(f"+{right.lower()}" for right in context["capabilities"]["add"])])
    script = ["set -e", "mount --make-rprivate /", *_shown(folder), f"mount --bind {shlex.quote(str(folder))} {INSIDE}"]
    script += [f"mount --bind {shlex.quote(str(folder / name))} {INSIDE / name}" for name in writable]
    script += ["mount -o remount,bind,ro /", f"mount -o remount,bind,ro {INSIDE}"]
    script += ['exec "$@"']
    confined = [program("setpriv"), f"--bounding-set={rights}", "--inh-caps=-all", "--no-new-privs", "--", *command]
    return [program("unshare"), "--mount", "sh", "-c", "\n".join(script), "sh", *confined]


def _shown(folder: Path) -> list[str]:
    """Commands that open the interpreter's folders to other users, where one above them is closed, such as /root."""
    wanted = {Path(path).resolve() for path in (sys.prefix, sys.base_prefix, MANIFEST.parents[2])}
    closed_ones = {above for path in wanted for above in path.parents if not above.stat().st_mode & 0o001}
    script = []
    for closed in (folder for folder in closed_ones if not closed_ones.intersection(folder.parents)):
        shown = sorted(path for path in wanted if closed in path.parents)
        for number, path in enumerate(shown):
            kept = folder / f"shown{number}"
            kept.mkdir()
            script.append(f"mount --bind {path} {kept}")
        script.append(f"mount -t tmpfs -o mode=755 tmpfs {closed}")
        for number, path in enumerate(shown):
            script.append(f"mkdir -p {path} && mount --bind {folder / f'shown{number}'} {path}")
    return script
