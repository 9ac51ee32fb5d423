"""Octets changed at random: flipped, cut out, doubled, put in from a list of what means something."""

from __future__ import annotations

import random
from collections.abc import Sequence


def mutate(seed: bytes, words: Sequence[bytes], chance: random.Random) -> bytes:
    """A copy with a few changes."""
    out = bytearray(seed)
    for _ in range(chance.choice((1, 1, 2, 3, 8))):
        at = chance.randrange(len(out) + 1)
        match chance.randrange(6):
            case 0 if out:
                out[at % len(out)] = chance.randrange(256)
            case 1 if out:
                out[at % len(out)] ^= 1 << chance.randrange(8)
            case 2:
                del out[at : at + chance.choice((1, 2, 5, 20))]
            case 3:
                out[at:at] = out[at : at + chance.randrange(1, 40)]
            case 4:
                out[at:at] = chance.choice(words)
            case _:
                del out[at:]
    return bytes(out)
