"""The files that a container sees, as far as ConfigMaps hold them: laid out in a folder, so that a Corefile can be checked with what it imports and reads."""

from __future__ import annotations

import base64
import binascii
import os
import posixpath
import re
from typing import NamedTuple

from fastdns.migrate.fields import Json, at, labels, name, rows, table, text
from fastdns.migrate.source import CONFIG_MAP, Source, Unread
from fastdns.migrate.workload import Workload

__all__ = ["Layout", "Mount"]

#: Folders that every pod has, whose files are the kubelet's.
RESOLVER = {"/etc/resolv.conf": b"nameserver 192.0.2.53\n", "/etc/hosts": b"127.0.0.1 localhost\n"}
#: Bits of a path's last character, that nothing longer may follow.
END = r"(?![\w.-])"


class Mount(NamedTuple):
    """A volume at a path of the container. ``files`` is None where its content is not known here."""

    path: str
    #: ``ConfigMap/coredns``, ``Secret/tls``, ``hostPath``.
    source: str
    files: dict[str, bytes] | None


class Layout:
    """The container's files below a folder of this machine."""

    def __init__(self, workload: Workload, source: Source, folder: str) -> None:
        self.folder = os.path.realpath(folder)
        #: ConfigMaps that are mounted, by name; None: not there, or not readable.
        self.maps: dict[str, Json | None] = {}
        self.optional: set[str] = set()
        self.mounts: list[Mount] = []
        volumes = {text(row, "name"): row for row in rows(workload.pod, "volumes")}
        for row in rows(workload.container, "volumeMounts"):
            self.mounts += self._mounted(row, volumes.get(text(row, "name"), {}), workload, source)
        # The longest path first: a mount may be inside of another one.
        self.mounts.sort(key=lambda mount: -len(mount.path))
        self._write()

    def inside(self, path: str) -> str:
        """Where a path of the container is on this machine."""
        return self.folder + posixpath.normpath(posixpath.join("/", path))

    def mount_of(self, path: str) -> Mount | None:
        """The mount that a path of the container is in."""
        path = posixpath.normpath(path)
        return next((mount for mount in self.mounts if path == mount.path or path.startswith(mount.path.rstrip("/") + "/")), None)

    def read(self, path: str) -> bytes | None:
        """A file of the container, as it is there; None for one that is not known."""
        mount = self.mount_of(path)
        if mount is None or mount.files is None:
            return None
        return mount.files.get(posixpath.relpath(posixpath.normpath(path), mount.path))

    def shown(self, text: str) -> str:
        """A text in which paths are the container's."""
        return text.replace(self.folder, "")

    def unknown(self, text: str) -> Mount | None:
        """The mount without known content that a text names a file of."""
        for mount in self.mounts:
            if mount.files is None and re.search(re.escape(self.folder + mount.path) + END, text):
                return mount
        return None

    def _write(self) -> None:
        paths = sorted({mount.path for mount in self.mounts} | set(RESOLVER), key=len, reverse=True)
        # A path that is written in a file becomes that of this machine. It has as many lines as before.
        written = re.compile(r"(?<![\w/.-])(" + "|".join(map(re.escape, paths)) + ")" + END) if paths else None
        for path, content in RESOLVER.items():
            self._put(path, content)
        for mount in reversed(self.mounts):
            os.makedirs(self.inside(mount.path), exist_ok=True) if _is_folder(mount) else None
            for file, content in (mount.files or {}).items():
                text = content.decode("utf-8", "surrogateescape")
                moved = written.sub(lambda found: self.folder + found[1], text) if written else text
                self._put(posixpath.join(mount.path, file) if file != "." else mount.path, moved.encode("utf-8", "surrogateescape"))

    def _put(self, path: str, content: bytes) -> None:
        target = self.inside(path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if not os.path.isdir(target):
            with open(target, "wb") as file:
                file.write(content)

    def _mounted(self, row: Json, volume: Json, workload: Workload, source: Source) -> list[Mount]:
        path = posixpath.normpath(posixpath.join("/", text(row, "mountPath") or "/"))
        if path == "/":
            return []
        mount = self._volume(path, volume, workload, source)
        below = text(row, "subPath")
        if not below:
            return [mount]
        # One file of the volume, at the path itself, or a folder of it.
        files = mount.files
        if files is not None and below in files:
            return [mount._replace(files={".": files[below]})]
        return [
            mount._replace(
                files=None if files is None else {file[len(below) + 1 :]: content for file, content in files.items() if file.startswith(below + "/")}
            )
        ]

    def _volume(self, path: str, volume: Json, workload: Workload, source: Source) -> Mount:
        if "configMap" in volume:
            part = table(volume, "configMap")
            return Mount(path, f"ConfigMap/{text(part, 'name')}", self._files(part, workload, source))
        if "secret" in volume:
            return Mount(path, f"Secret/{text(volume, 'secret', 'secretName')}", None)
        if "projected" in volume:
            parts = [table(part, "configMap") for part in rows(volume, "projected", "sources") if "configMap" in part]
            others = any("configMap" not in part for part in rows(volume, "projected", "sources"))
            found = [self._files(part, workload, source) for part in parts]
            known = not others and all(files is not None for files in found)
            names = ", ".join(f"ConfigMap/{text(part, 'name')}" for part in parts)
            return Mount(path, names or "projected", {file: content for files in found for file, content in (files or {}).items()} if known else None)
        if "emptyDir" in volume:
            return Mount(path, "emptyDir", {})
        return Mount(path, next((key for key in volume if key != "name"), "a volume that is not there"), None)

    def _files(self, part: Json, workload: Workload, source: Source) -> dict[str, bytes] | None:
        """The files of a ConfigMap as its volume has them; None where the map cannot be read."""
        wanted = text(part, "name")
        if at(part, "optional") is True:
            self.optional.add(wanted)
        if wanted not in self.maps:
            self.maps[wanted] = source.one(CONFIG_MAP, workload.namespace, wanted)
            if self.maps[wanted] is None and not source.complete and wanted not in self.optional:
                source.unread.append(Unread("get", CONFIG_MAP.resource, workload.namespace, wanted, 0, "no file has it"))
        found = self.maps[wanted]
        if found is None:
            return {} if wanted in self.optional and not any(row.name == wanted for row in source.unread) else None
        content = {key: value.encode("utf-8", "surrogateescape") for key, value in labels(found, "data").items()}
        for key, value in labels(found, "binaryData").items():
            try:
                content[key] = base64.b64decode(value)
            except (ValueError, binascii.Error):
                continue
        items = rows(part, "items")
        chosen = {text(item, "path"): content[text(item, "key")] for item in items if text(item, "key") in content} if items else content
        # The API server refuses paths that lead out of the volume; a file with objects may have them.
        return {file: octets for file, octets in chosen.items() if file and not file.startswith("/") and ".." not in file.split("/") and "\0" not in file}

    def names(self) -> list[str]:
        """The ConfigMaps that are there."""
        return [name(found) for found in self.maps.values() if found is not None]


def _is_folder(mount: Mount) -> bool:
    return mount.files is None or "." not in mount.files
