"""Connections of a process that hands its sockets over (SIGUSR2); the native side is in ``engine/quic/handover.pxd``."""

from typing import TypedDict

class Letter(TypedDict):
    """What the process that takes over has to know."""

    #: Of messages between the two: they have to agree.
    format: int
    #: Its own tag.
    tag: int
    #: Tags of the processes before it, and descriptors of channels to those that still run, or -1. The last one is the process that wrote this.
    processes: list[list[int]]

def message_format() -> int:
    """The number of the messages' layout."""

def offered() -> Letter:
    """The letter for a successor, with a new channel to it: the last descriptor, which is the caller's to close. OSError."""

def adopt(letter: Letter) -> None:
    """Be the successor, before there is a listener. ValueError, KeyError for what is no letter."""
