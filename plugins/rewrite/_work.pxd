"""What a query's rules leave behind for its answer: the list of what is to be undone in it."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.string cimport memset
from fastdns.api.query cimport Query
from fastdns.api.reply cimport Record, reply_alloc
from fastdns.plugins.rewrite._rules cimport Answer, Rule

cdef enum Kind:
    REVERT_NAME                 # owners and values at or below `from_` lead to `to`
    REVERT_SUFFIX               # owners and values that end in the rule's TO get its FROM
    REVERT_ANSWER               # an explicit answer rule
    REVERT_TTL
    REVERT_RCODE
    REVERT_CNAME
    REVERT_OPTION               # of `code`: removed (data NULL) or given back

cdef struct Revert:             # in the query's arena; a list, the last collected first: that is their order
    Revert *next
    const Rule *rule
    const Answer *answer
    const uint8_t *from_        # names in wire form
    const uint8_t *to
    const uint8_t *data
    uint16_t data_length
    uint16_t code
    uint8_t from_length
    uint8_t to_length
    uint8_t kind

cdef enum:
    NOWHERE = 0xFFFF

cdef struct Work:               # a query's scratch
    Revert *newest
    Revert *at                  # of the alias that waits for its new target
    Record *former              # the answer section as it was before the first alias changed, in the arena
    uint32_t former_count
    uint32_t index              # of the record at work: in the table, or in `former`
    uint32_t place              # in the table, of the alias at work once it has its new target; else NOWHERE
    uint8_t active              # the answer passes through the reverts, failures too
    uint8_t renamed             # q.name is q.second_name
    uint8_t options             # q.edns is not the client's
    uint8_t aliases             # some revert is REVERT_CNAME
    uint8_t messages            # some revert is REVERT_RCODE or REVERT_OPTION
    uint16_t applied            # number of the last rule that applied, from 1; 0: none

cdef inline Revert *revert_add(Query *q, Work *work, Kind kind, const Rule *rule) noexcept nogil:
    """A new one on top of the list, zeroed; NULL when the query's memory is full."""
    cdef Revert *revert = <Revert *>reply_alloc(&q.reply, sizeof(Revert))
    if revert == NULL:
        return NULL
    memset(revert, 0, sizeof(Revert))
    revert.next = work.newest
    revert.kind = <uint8_t>kind
    revert.rule = rule
    work.newest = revert
    if kind == REVERT_CNAME:
        work.aliases = 1
    elif kind == REVERT_RCODE or kind == REVERT_OPTION:
        work.messages = 1
    return revert
