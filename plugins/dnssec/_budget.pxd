"""The process's budget of signatures, in ns that they take: which replies may have some of it.

It is a clock: until then signatures are spoken for. It may be ahead of the time by a second. Half of that is for whoever comes first. The next quarter is for
client networks (IPv4 /24, IPv6 /56) that take less than a sixteenth of all, and the last one for zones that take less than a quarter: nobody else finds it
used up by one network, or by questions for one zone from however many networks.

What a network or zone has taken of its part is a clock likewise, in a table by a keyed hash; two that meet in one place share it.
Memory order: each clock is a number of its own, exchanged atomically. Nothing is published by it.
"""
from libc.stdint cimport int64_t, uint64_t

cdef enum:
    BUDGET_ACCOUNTS = 4096      # a power of two
    NETWORK_SHARE = 16
    ZONE_SHARE = 4

cdef struct Budget:             # of the process; zeroed
    int64_t until               # ns, monotonic
    int64_t accounts[BUDGET_ACCOUNTS]

# Takes `cost` ns for a reply of a zone to a client network (numbers that tell them apart). False: too many signatures are wanted. Any thread.
cdef bint budget_take(Budget *budget, int64_t now, int64_t cost, uint64_t zone, uint64_t network) noexcept nogil
