"""Which entry of a full cache is evicted: SIEVE (Zhang and others, NSDI 2024).

Entries stand in a list in the order they came. A hit sets the mark of an entry, an octet. The hand goes from the oldest entry to newer ones; it
clears the mark of those that it passes and stops at the first entry that has none, or that has expired. Readers only set marks; everything else is
for one writer at a time.
"""
from libc.stdint cimport uint8_t, uint32_t
from fastdns.system.atomic cimport atomic_peek8, atomic_poke8

cdef struct SieveLink:          # in an entry; once removed from its list, the links are free for other use
    SieveLink *newer
    SieveLink *older

cdef struct Sieve:              # begins zeroed; owns no entry
    SieveLink *newest
    SieveLink *oldest
    SieveLink *hand             # NULL: it goes on at the oldest
    uint32_t count              # entries


cdef inline void sieve_hit(uint8_t *mark) noexcept nogil:
    """Any thread, at every hit: writes to the entry only where the mark is not set."""
    if not atomic_peek8(mark):
        atomic_poke8(mark, 1)


cdef inline void sieve_add(Sieve *sieve, SieveLink *entry) noexcept nogil:
    """As the newest."""
    entry.older = sieve.newest
    entry.newer = NULL
    if sieve.newest != NULL:
        sieve.newest.newer = entry
    else:
        sieve.oldest = entry
    sieve.newest = entry
    sieve.count += 1


cdef inline void sieve_remove(Sieve *sieve, SieveLink *entry) noexcept nogil:
    """The hand, where it stands there, goes on to the next newer entry."""
    if sieve.hand == entry:
        sieve.hand = entry.newer
    if entry.newer != NULL:
        entry.newer.older = entry.older
    else:
        sieve.newest = entry.older
    if entry.older != NULL:
        entry.older.newer = entry.newer
    else:
        sieve.oldest = entry.newer
    sieve.count -= 1


# How a victim is found: from sieve_hand, sieve_advance as long as sieve_passes. It ends, because a second round finds no marks.

cdef inline SieveLink *sieve_hand(Sieve *sieve) noexcept nogil:
    """The entry where the hand stands; NULL: there are no entries."""
    if sieve.hand == NULL:
        sieve.hand = sieve.oldest
    return sieve.hand


cdef inline SieveLink *sieve_advance(Sieve *sieve) noexcept nogil:
    """The next newer entry, behind the newest the oldest. There are entries."""
    sieve.hand = sieve.hand.newer
    return sieve_hand(sieve)


cdef inline bint sieve_passes(uint8_t *mark, bint alive) noexcept nogil:
    """Does the hand pass an entry? Then its mark is cleared. `alive`: it has not expired."""
    if not atomic_peek8(mark) or not alive:
        return False
    atomic_poke8(mark, 0)
    return True
