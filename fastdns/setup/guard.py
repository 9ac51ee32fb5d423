"""Calls of plugins' functions on threads of the server: whatever they raise is an Exception with a text."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

__all__ = ["call"]


def call(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of a plugin. SystemExit and its like would end the thread: RuntimeError is raised for them, and for what has no text.

    A child that the function has forked does not come back.
    """
    process = os.getpid()
    try:
        return function(*arguments)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and _is_interrupted():
            raise
        text = _text(error)
        if isinstance(error, Exception) and text is not None:
            raise
        raise RuntimeError(text or f"{type(error).__name__}, whose text cannot be had") from error
    finally:
        if os.getpid() != process:
            os._exit(1)


def _text(error: BaseException) -> str | None:
    """Type and text of an exception; None where the text cannot be had."""
    try:
        return f"{type(error).__name__}: {error}"
    except BaseException:
        return None


def _is_interrupted() -> bool:
    """True if KeyboardInterrupt is raised for Ctrl-C, as in commands."""
    return threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.default_int_handler
