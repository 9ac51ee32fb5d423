"""Counts of what clients get while there are two configurations: out of line, so that replies pay for them in a branch alone (`ChainSet.tallies`).

Besides the sums of each worker (`Tally`) there are counts by client, because no single client decides about a canary. The table of a worker has a fixed
size and is part of the same block of memory. A client is an IPv4 address or an IPv6 /64. Requests that prove their address (TCP and what stands on it,
QUIC, a valid server cookie) are counted apart from datagrams, so that forged addresses neither add to those nor evict them.

If a bucket is full, a new client evicts the entry with the fewest answers: of those without proof if there are any, else of those with proof if it has one
itself. So forged addresses evict each other, and a client that asks more than once stays.

One worker writes a table, and the control side reads it. An entry is whole while its key stays the same: the worker stores 0 to the key before it
replaces the entry, and the new key (release) afterwards; a reader loads the key before (acquire) and after it reads the rest. Counts are relaxed.
"""
from libc.stdint cimport uint32_t, uint64_t
from fastdns.system.address cimport Address
from fastdns.walk.query cimport TALLY_PLACES, Query, Tally

cdef enum:
    TALLY_CLIENTS = 1024        # entries of a worker
    TALLY_WAYS = 8              # entries of a bucket

cdef struct ClientTally:        # of one client, by one worker
    uint64_t key                # hash of the client, whose lowest bit says whether it has proven its address; 0: free. Atomic
    uint64_t network            # an IPv4 /24 or IPv6 /56
    uint32_t round              # of ClientTallies when it was made: others are free
    uint32_t total              # answers
    uint32_t counts[TALLY_PLACES]

cdef struct ClientTallies:      # of one worker
    uint32_t round              # of the canary that runs; atomic, written by the control side
    ClientTally clients[TALLY_CLIENTS]

cdef inline size_t tally_size(uint32_t workers) noexcept nogil:
    """Octets of the block of all workers: an array of Tally, then one of ClientTallies."""
    return workers * (sizeof(Tally) + sizeof(ClientTallies))

cdef inline ClientTallies *tally_clients(Tally *tallies, uint32_t workers, uint32_t worker) noexcept nogil:
    return <ClientTallies *>(tallies + workers) + worker

cdef void tally_reply(const Query *q) noexcept nogil
cdef void tally_dropped(const Query *q) noexcept nogil
# Counts an answer of a client. proven: the request proves that the address is its own.
cdef void tally_client(ClientTallies *tallies, const Address *client, bint proven, uint32_t place) noexcept nogil
# Appends (network, client, proven, answers at `place`, answers) of each client to `rows`.
cdef int tally_rows(ClientTallies *tallies, uint32_t place, list rows) except -1
