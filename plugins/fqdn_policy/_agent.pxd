"""A worker's connection to the policy agent: SOCK_SEQPACKET over a unix socket, so that each message comes whole.

A message to the agent, numbers in network order (README.md has it for who writes an agent):

    0   version (1)
    1   type: MESSAGE_TAKE wants an acknowledgement, MESSAGE_EXTEND does not
    2   number of addresses (2 octets)
    4   id (8 octets)
    12  family of the client: 4 or 6
    13  0
    14  length of the name
    15  0
    16  address of the client (16 octets; IPv4 in the first four)
    32  name, in lower case and wire form
    ..  addresses: TTL in seconds (4 octets), family, 4 or 16 octets

An acknowledgement has version, MESSAGE_TAKEN, two octets of 0, and the id; one message may have several.

Clients take turns at the agent (_turns). Everything belongs to the worker: no locks, no threads. An id names a place of the link's, and how often it was
used: what comes too late finds another number there.
"""
from libc.stdint cimport uint8_t, uint32_t, int64_t
from fastdns.api.query cimport Handler, Query, query_scratch
from fastdns.api.worker cimport WORKERS_MAX, Source, Timer, WaitLimit, Worker
from fastdns.api.memory cimport List, ListNode
from fastdns.plugins.fqdn_policy._known cimport Known
from fastdns.plugins.fqdn_policy._turns cimport TurnEntry, Turns, Window

cdef enum:
    VERSION = 1
    MESSAGE_TAKE = 1
    MESSAGE_EXTEND = 2
    MESSAGE_TAKEN = 3
    HEAD = 32                   # octets in front of the name
    TAKEN_SIZE = 12
    MESSAGE_SIZE = 131072       # more than what the addresses of any reply take

cdef enum Outcome:              # of a query that waits
    OUTCOME_NONE
    OUTCOME_TAKEN
    OUTCOME_LATE                # the time is up
    OUTCOME_LOST                # the connection has ended

cdef struct Work:               # in each query's scratch
    Timer timer
    int64_t asked               # ns, monotonic
    uint32_t place
    uint8_t outcome

cdef struct Place:              # of a query that waits, or of a message that the agent has
    TurnEntry turn              # first; while the message waits for its turn
    ListNode order              # of Link.sent, while `sent`
    int64_t sent                # when the agent got the message; 0: it has not
    Query *query                # NULL: the query waits no more
    uint32_t uses               # of the place
    uint32_t next               # of the free ones

cdef struct Agent               # of the handler

cdef struct Link:               # of one worker
    Source source               # fd -1: not connected
    Worker *worker
    Agent *agent
    int64_t tried               # when it was last to be connected; ns, monotonic
    Place *places               # agent.places
    uint32_t free               # place, or agent.places
    Turns turns                 # messages that wait for their turn
    Window window
    List sent                   # places whose messages the agent has, the oldest first
    uint32_t length             # octets of `message`
    uint8_t message[MESSAGE_SIZE]
    Known known

cdef struct Agent:
    WaitLimit limit
    uint32_t places             # of each link; more than the limit, since who is evicted leaves in the next turn, and the agent may have more messages
    int64_t timeout             # ns that a reply waits
    const uint8_t *address      # sockaddr_un; owned by the handler
    uint32_t address_length
    uint32_t connections        # atomic
    uint32_t lost_cell          # metric
    Handler *handler            # whose scratch has a Work for each query
    Link *links[WORKERS_MAX]    # each worker's own

cdef inline Work *work_of(const Agent *agent, Query *q) noexcept nogil:
    return <Work *>query_scratch(agent.handler, q)

# The worker's link; NULL when there is no memory.
cdef Link *agent_link(Agent *agent, Worker *worker) noexcept nogil
# Whether it is connected, or could be now.
cdef bint link_connect(Link *link) noexcept nogil
# Parks a query until `deadline`; link.message, which is about it, is sent when it is the client's turn. False: it does not wait, since the agent takes no
# more, or there is no place.
cdef bint link_ask(Link *link, Query *q, int64_t deadline) noexcept nogil
# Whether one more message without an acknowledgement may be sent now.
cdef bint link_may_tell(Link *link) noexcept nogil
# Sends link.message, as long as the agent takes it, and waits for nothing. False: it was not sent.
cdef bint link_tell(Link *link) noexcept nogil
# A query that waits is gone.
cdef void link_forget(Link *link, Query *q) noexcept nogil
# Closes the link of a worker that has no query in it any more.
cdef void link_close(Agent *agent, Worker *worker) noexcept nogil

# ---- the addresses of a reply ----

cdef enum Novelty:
    NOVELTY_NONE                # the reply has no addresses, or the agent knows all of them for as long as their TTLs
    NOVELTY_LONGER              # it knows all, but not for so long
    NOVELTY_NEW

cdef struct Found:
    uint32_t count              # addresses
    Novelty novelty

# Writes link.message but for type and id.
cdef Found link_write(Link *link, const Query *q) noexcept nogil
# The agent knows the addresses of this reply from now on.
cdef void link_learn(Link *link, const Query *q) noexcept nogil
