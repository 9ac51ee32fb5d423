"""The floor of forwarding: a relay between askers and one upstream.

It takes a batch of queries, sends them on under ids of its own through one of several connected sockets in turn, takes the replies in batches and
returns each to its asker. No parsing, no cache, no retry: the least that forwarding costs on kernel sockets.
"""

from collections.abc import Sequence
from typing import NoReturn

def relay(front: int, upstreams: Sequence[int]) -> NoReturn:
    """Relays for ever, without the GIL, from the bound UDP socket `front` to connected UDP sockets (descriptors, at most 64).

    The sockets do not block. Raises ValueError for too many or no upstreams, OSError when waiting fails.
    """
