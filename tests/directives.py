"""Directives given as one line of text."""

from __future__ import annotations

from fastdns.setup import Controller

__all__ = ["directives"]


def directives(text: str) -> Controller:
    """A controller for ``text``, in which ``{ a; b }`` stands for a block of two lines."""
    return Controller.of(text.replace("{ ", "{\n").replace("; ", "\n").replace(" }", "\n}"))
