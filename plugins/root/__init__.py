"""root: where relative paths of a server block begin."""

from __future__ import annotations

import os

from fastdns.corefile.errors import system_error
from fastdns.setup import Controller
from fastdns.setup.traits import Traits
from fastdns.telemetry.log import Log

__all__ = ["setup"]

TRAITS = Traits(answers=False, runs_in_check=True)

log = Log("plugin/root")


def setup(controller: Controller) -> None:
    """``root PATH``; the last one counts. A path that does not exist is accepted with a warning. Raises CorefileError."""
    path = ""
    while controller.next():
        path = controller.arg()
    controller.config.root = path
    try:
        os.stat(path)
    except FileNotFoundError:
        log.warning(f"Root path does not exist: {path}")
    except OSError as error:
        raise controller.err(f"unable to access root path '{path}': {system_error(error, 'stat', path)}") from error
