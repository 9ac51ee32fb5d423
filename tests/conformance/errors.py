"""How a case ends early."""

from __future__ import annotations

__all__ = ["Problem", "Skip"]


class Skip(Exception):
    """Something that the case needs is not available here; the text says what."""


class Problem(Exception):
    """The server or a connection to it failed; the text says how."""
