"""What beside the chain belongs to a recorder: its section, its files, its rules, its commands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastdns.plugins.recorder import reading
from fastdns.plugins.recorder._memory import Recording
from fastdns.plugins.recorder.settings import Files
from fastdns.telemetry import status

__all__ = ["Service", "service"]

NAME = "recorder"

#: Those that run, by what the Corefile says: of blocks that say the same, and over reloads, there is one.
_running: dict[tuple[Recording, Files], Service] = {}


class Service:
    """Of a recording. Server blocks and configurations share one, which ends with the last of them."""

    def __init__(self, recording: Recording, files: Files) -> None:
        from fastdns.plugins.recorder.folder import Folder
        from fastdns.plugins.recorder.output import Output
        from fastdns.plugins.recorder.triggers import Triggers

        self.recording, self.files = recording, files
        self.users = 0
        self.output = Output(recording, Folder(files.folder, files.files, files.octets)) if files.folder else None
        self.triggers = Triggers(files.rules, self.output.dump) if self.output is not None else None

    def start(self) -> None:
        self.users += 1
        if self.users > 1:
            return
        _running[self.recording, self.files] = self
        status.provide(NAME, section)
        status.take_commands(NAME, command)
        if self.output is not None:
            self.output.prepare()
        if self.triggers is not None:
            self.triggers.start()

    def stop(self) -> None:
        self.users -= 1
        if self.users:
            return
        del _running[self.recording, self.files]
        if self.triggers is not None:
            self.triggers.stop()
        if not _running:
            status.withdraw(NAME, section)
            status.take_commands(NAME, None)


def service(recording: Recording, files: Files) -> Service:
    """The one that runs, or another that is to be started."""
    return _running.get((recording, files)) or Service(recording, files)


def section(request: Mapping[str, Any]) -> dict[str, Any]:
    """The section ``recorder`` of the status document, see `reading.section`."""
    return reading.section(list(dict.fromkeys(recording for recording, _ in list(_running))), request)


def command(request: Mapping[str, Any]) -> dict[str, Any]:
    """``action`` dump writes all that is recorded, list tells what is in the folders. Raises ValueError."""
    outputs = [running.output for running in list(_running.values()) if running.output is not None]
    if not outputs:
        raise ValueError("recorder has no folder: 'to DIR' gives one")
    match request.get("action"):
        case "dump":
            written = [output.dump("command", "fastdns recorder dump") for output in outputs]
            if not all(found["files"] for found in written):
                raise ValueError("the files could not be written: the server's log says why")
            return {"files": [path for found in written for path in found["files"]], "queries": sum(found["queries"] for found in written)}
        case "list":
            try:
                listed = [stored for path in sorted({output.folder.path for output in outputs}) for stored in _folder(outputs, path)]
            except OSError as error:
                raise ValueError(f"{error.filename}: {error.strerror}") from None
            return {"files": [stored._asdict() for stored in listed]}
    raise ValueError("action is dump or list")


def _folder(outputs: list[Any], path: str) -> list[Any]:
    return next(output.folder.listed() for output in outputs if output.folder.path == path)
