"""Who is told to the agent next, and how many messages it has at a time.

A client that asks for many new names must not fill the agent's socket, where the messages of all others would wait behind its own. So the agent has a
window of messages that it has not acknowledged. The others stay with the server, in queues by the client's network and address, and these take turns: first
the networks, then the addresses of a network. Queues are found by a keyed hash. Of one client's messages the newest is next: a client that asks more than its
part has some of its replies in time, and not all of them late.

The window follows the time that acknowledgements take. As long as that exceeds the shortest one by no more than a part of the timeout, messages do not queue
at the agent, and the window grows; then it shrinks. So an agent that takes many at the same time has many, however late it acknowledges each of them. The
shortest time is measured again now and then, with a window of one message.

A message that is not acknowledged for EXPIRY leaves the window. Messages without an acknowledgement (EXTEND) have a budget in place of a window.

Everything belongs to one worker: no locks. Times are ns, monotonic.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t, int64_t
from fastdns.api.memory cimport List, ListNode
from fastdns.api.network cimport Address

cdef enum:
    TURN_NETWORKS = 64          # queues of networks, each of which has queues of clients
    TURN_CLIENTS = 64

cdef enum:
    EXPIRY = 1000000000         # ns
    MEASURED = 10000000000      # ns between two measurements of the shortest time
    WINDOW_FIRST = 8            # messages
    EXTENDS = 16                # messages without an acknowledgement at once
    EXTEND_EACH = 32000000      # ns that one more takes

cdef struct TurnEntry:          # in what waits
    ListNode node               # first
    uint8_t network
    uint8_t client
    uint8_t queued

cdef struct Turns:              # turns_init before anything else; never moves
    uint64_t networks           # bits: of those that have entries
    uint64_t clients[TURN_NETWORKS]     # likewise
    uint8_t next_network        # whose turn is next
    uint8_t next_client[TURN_NETWORKS]
    List queues[TURN_NETWORKS][TURN_CLIENTS]

cdef struct Window:
    uint32_t outstanding        # messages that the agent has
    uint32_t size               # in 256ths of a message
    uint32_t threshold          # likewise; below it the window grows faster
    uint32_t most               # messages
    uint8_t measuring           # the window is one message until the shortest time is known again
    uint8_t full                # was, since the last acknowledgement
    int64_t slack               # by how much an acknowledgement may take longer than the shortest
    int64_t shortest            # time of an acknowledgement; 0: not known
    int64_t measured            # when
    int64_t alone               # when a message was last sent while the agent had no other
    int64_t reduced             # when the window shrank last
    int64_t extended            # when the budget of EXTENDs is full

cdef void turns_init(Turns *turns) noexcept nogil
cdef void turns_add(Turns *turns, TurnEntry *entry, const Address *client) noexcept nogil
# Without effect for an entry that is in no queue.
cdef void turns_remove(Turns *turns, TurnEntry *entry) noexcept nogil
# Removes the entry whose turn it is; NULL: there is none.
cdef TurnEntry *turns_next(Turns *turns) noexcept nogil

# Of a new connection.
cdef void window_init(Window *window, uint32_t most, int64_t timeout) noexcept nogil
# Whether the agent may have one more message.
cdef bint window_open(Window *window, int64_t now) noexcept nogil
# The agent has acknowledged a message that was sent then.
cdef void window_taken(Window *window, int64_t sent, int64_t now) noexcept nogil
# It has not for EXPIRY.
cdef void window_expired(Window *window, int64_t now) noexcept nogil
# Whether an EXTEND may be sent, which is charged then.
cdef bint window_extend(Window *window, int64_t now) noexcept nogil
