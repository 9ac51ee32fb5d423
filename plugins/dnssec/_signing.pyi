from collections.abc import Callable
from typing import NoReturn

def open_queue() -> None:
    """Once, before any handler serves. OSError when there are no descriptors."""

def serve_jobs(sign: Callable[[int, bytes], bytes | None], settle: Callable[[], object]) -> NoReturn:
    """The signing thread: waits for jobs and has their sets signed, for ever.

    ``sign(handler number, key)`` gives the signatures as the cache keeps them, or None when that failed; ``settle()`` is called after
    all jobs that waited.
    """
