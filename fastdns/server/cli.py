"""The command ``fastdns``."""

from __future__ import annotations

import gc
import os
import sys

from fastdns.server import early

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` would delay `early.install`
    from typing import NoReturn

__all__ = ["main"]

#: Seconds after which a Python thread must release the GIL to waiting threads (measured: they wait 0.2 ms in place of 2.8 ms).
SWITCH_INTERVAL = 1e-4


def main() -> None:
    """Run the command line and end the process with its status."""
    early.install()
    from fastdns.server import flags

    if sys.argv[1:2] and sys.argv[1] in flags.COMMANDS:
        early.restore()
        from fastdns.server import commands

        _exit(commands.main(sys.argv[1:]))

    try:
        asked = flags.parse(sys.argv[1:])
    except flags.FlagError as error:
        sys.stderr.write(f"{error}\n{flags.USAGE}")
        _exit(2)
    if asked.help:
        sys.stderr.write(flags.USAGE)
        _exit(0)
    if asked.log_format not in ("text", "json"):
        _refuse(f'unknown log format "{asked.log_format}": expected text or json')
    if asked.log_format == "json":
        from fastdns.telemetry import log

        log.set_json(True)
    if asked.rest:
        _refuse(f"extra command line arguments: [{' '.join(asked.rest)}]")
    if asked.version:
        from fastdns.server import banner

        _print([*banner.version(), *banner.features()])
    if asked.plugins:
        from fastdns.corefile.errors import CorefileError
        from fastdns.setup import registry

        try:
            _print([*registry.built(), ""])
        except CorefileError as error:
            sys.stderr.write(f"{error}\n")
            _exit(1)

    # What a start makes stays: a collection would find nothing. `Process.run` ends this.
    gc.disable()
    try:
        from fastdns.server.process import Process
    except (MemoryError, OSError) as error:  # native modules allocate memory when they are imported
        sys.stderr.write(f"{error.strerror if isinstance(error, OSError) else 'out of memory'}\n")
        _exit(1)

    sys.setswitchinterval(SWITCH_INTERVAL)
    _exit(Process(asked).run())


def _refuse(text: str) -> NoReturn:
    """End the process because of its command line."""
    import time

    from fastdns.telemetry import log

    sys.stderr.write(log.failure([text if log.is_json() else f"{time.strftime('%Y/%m/%d %H:%M:%S')} {text}"]))
    _exit(1)


def _print(lines: list[str]) -> NoReturn:
    try:
        sys.stdout.write("\n".join(lines) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    _exit(0)


def _exit(status: int) -> NoReturn:
    """End the process without waiting for its threads."""
    try:
        from fastdns.system import debug

        debug.report()
    except (MemoryError, ImportError):  # the same error a second time: it has been printed
        pass
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    main()
