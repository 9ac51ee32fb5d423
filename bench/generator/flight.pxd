"""Queries under way on one socket or connection: their ids, when they were due, when they expire, and whether a reply is right."""
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from fastdns.bench.generator.histogram cimport Latencies
from fastdns.bench.generator.queries cimport PackedQuery

cdef enum:
    FLIGHT_SLOTS_MAX = 32768        # half of all ids, so that one is not used again at once
    NO_SLOT = 0xFFFF

cdef enum:                          # what is wrong with a reply; see WRONG_NAMES
    RIGHT
    WRONG_ID                        # no query with that id is under way
    WRONG_QUESTION
    WRONG_RCODE
    WRONG_ANSWER
    MALFORMED
    WRONG_STATUS                    # HTTP's, where it is not 200
    WRONG_KINDS

cdef enum Check:
    CHECK_NONE                      # id, question and rcode are looked at all the same
    CHECK_SAMPLE
    CHECK_ALL

cdef enum:
    SAMPLE = 16                     # one reply in so many has its answers checked

cdef enum:
    RCODES = 64
    STATUSES = 600

cdef struct Counters:                  # of one interval and one thread
    int64_t began                   # ns since the counting began
    int64_t ended
    double rate                     # queries per second that were due; 0: closed loop
    uint64_t sent
    uint64_t answered
    uint64_t lost                   # sent, but without a reply within the timeout
    uint64_t unsent                 # due, but neither the kernel nor the ids took it
    uint64_t late                   # replies after the timeout
    uint64_t refused                # sockets that were told of a closed port, connections that were refused or broke
    uint64_t resets                 # streams that the server reset or did not take; their queries are lost
    uint64_t truncated
    uint64_t octets                 # of replies
    uint64_t wrong[WRONG_KINDS]
    uint64_t rcodes[RCODES]         # the last counts all above, too
    uint64_t statuses[STATUSES]     # of HTTP, but for 200; the first counts all that are none
    Latencies latencies

cdef struct Slot:
    int64_t due                     # ns, monotonic
    uint32_t query                  # index into the set
    uint16_t id
    uint16_t next                   # in the list of those under way, the oldest first, or of those free
    uint16_t previous
    uint8_t busy
    uint8_t counted                 # not of the warm-up

cdef struct Flight:
    Slot *slots                     # owned
    uint32_t mask                   # number of slots, a power of two, less one
    uint32_t under_way
    uint32_t first_free, last_free
    uint32_t oldest, newest
    uint32_t replies                # for the sample
    uint64_t expired[1024]          # a bit an id: its query was given up

# Room for so many queries, rounded up to a power of two. -1 without memory.
cdef int flight_open(Flight *flight, uint32_t capacity) noexcept nogil
cdef void flight_close(Flight *flight) noexcept nogil
# Gives back a slot whose query did not leave.
cdef void flight_undo(Flight *flight, uint32_t slot) noexcept nogil
# Gives up queries that were due before `limit`, and says whether there were any; those that count are lost.
cdef bint flight_expire(Flight *flight, int64_t limit, Counters *counters) noexcept nogil
# Ends the query of a slot with a reply: RIGHT has the message judged but for its id, anything else is what is wrong with it.
cdef void flight_complete(Flight *flight, uint32_t at, int verdict, const PackedQuery *queries, const uint8_t *packet, uint32_t length, int64_t now,
                          Check check, bint edns, Counters *counters) noexcept nogil
# Ends the query of a slot that will have no reply.
cdef void flight_lose(Flight *flight, uint32_t at, Counters *counters) noexcept nogil
# Looks at a received message and ends the query that it belongs to. The slot of that query, or NO_SLOT.
cdef uint32_t flight_reply(Flight *flight, const PackedQuery *queries, const uint8_t *packet, uint32_t length, int64_t now, Check check, bint edns,
                           Counters *counters) noexcept nogil

cdef inline bint flight_holds(const Flight *flight, uint32_t at, int64_t due) noexcept nogil:
    """Whether a slot still has the query that was due then, and not another one since."""
    return flight.slots[at].busy and flight.slots[at].due == due


cdef inline uint32_t flight_take(Flight *flight, uint32_t query, int64_t due, bint counted) noexcept nogil:
    """A slot with an id of its own for a query, which is the newest then; NO_SLOT when all are taken."""
    cdef uint32_t at = flight.first_free
    cdef Slot *slot
    if at == NO_SLOT:
        return NO_SLOT
    slot = &flight.slots[at]
    flight.first_free = slot.next
    if slot.next == NO_SLOT:
        flight.last_free = NO_SLOT
    slot.id = <uint16_t>(slot.id + flight.mask + 1)
    slot.due = due
    slot.query = query
    slot.busy = 1
    slot.counted = counted
    slot.next = NO_SLOT
    slot.previous = <uint16_t>flight.newest
    if flight.newest == NO_SLOT:
        flight.oldest = at
    else:
        flight.slots[flight.newest].next = <uint16_t>at
    flight.newest = at
    flight.under_way += 1
    flight.expired[slot.id >> 6] &= ~(<uint64_t>1 << (slot.id & 63))
    return at
