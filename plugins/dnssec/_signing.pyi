from collections.abc import Callable
from typing import NoReturn

def open_queue() -> None:
    """Once, before any handler serves. OSError when there are no descriptors."""

def serve_requests(sign: Callable[[int, bytes], bytes | None], idle: Callable[[], object]) -> NoReturn:
    """The signing thread: waits for requests and has their sets signed, for ever.

    ``sign(handler number, key)`` gives the signatures as the cache keeps them, or None when that failed; ``idle()`` is called after
    all requests that waited.
    """
