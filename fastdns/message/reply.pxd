"""A reply while it is made: a table of records without inner pointers, and how it becomes a message.

Records borrow: owner and rdata point into the query's names, the query's arena, the index or a cache entry. What is borrowed
from index or cache is valid until the worker's batch ends; parking copies it (reply_own). `reply_fit` decides what fits
(spec/server.md 6 and 7), `reply_write` makes the octets.
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from fastdns._wire cimport Edns

cdef enum:
    SECTION_ANSWER = 0
    SECTION_AUTHORITY = 1
    SECTION_ADDITIONAL = 2

cdef enum:
    RECORDS_INLINE = 20         # in the query itself; more take a Large from the worker's pool
    RECORDS_MAX = 4400          # no message of 65,535 octets has more
    ARENA_INLINE = 1024
    ARENA_MAX = 98304

cdef enum:                      # Record.flags
    RECORD_OWNED = 1            # owner and rdata live in the query (its names or its arena), so parking need not copy
    RECORD_SIGNER = 2           # a TSIG that is made when the message is: a Signer stands directly before rdata, which is room of its length

cdef struct Record:
    const uint8_t *owner        # uncompressed wire form
    const uint8_t *rdata        # uncompressed wire form, without its length
    uint32_t ttl                # seconds
    uint16_t type
    uint16_t klass
    uint16_t rdlength
    uint8_t owner_length
    uint8_t section
    uint8_t flags

cdef struct Signer:             # of a whole message (RFC 8945)
    # Appends its record to the finished message, with as many octets as the table's record has, and returns the new length.
    uint32_t (*sign)(Signer *signer, uint8_t *message, uint32_t length) noexcept nogil

cdef struct Large:              # what a big reply takes from the worker's bounded pool
    Large *next
    Record records[RECORDS_MAX]
    uint8_t arena[ARENA_MAX]

cdef struct LargePool:          # a worker's; never shared
    Large *free
    uint32_t made
    uint32_t limit
    uint32_t refused            # replies cut because the pool was empty

cdef struct Reply:
    Record *records             # inline or in large
    uint16_t count
    uint16_t capacity
    uint8_t written             # 1: there is a message; 0: only a failure (`rcode`), for which the server writes one
    uint8_t overflow            # records were refused: TC
    uint16_t rcode              # 12 bits
    uint16_t flags              # AA, RA, AD, TC as the writer set them
    uint8_t verbatim            # RD and CD too are those of flags, an upstream's, and not the request's
    Edns edns                   # OPT set by a plugin or an upstream; options borrowed as records are
    uint8_t compress            # full compression is needed (set by reply_fit)
    uint32_t size               # uncompressed length of what is sent (metrics and log)
    uint32_t message_size       # octets on the wire
    uint8_t *arena
    uint32_t arena_used
    uint32_t arena_capacity
    Large *large
    LargePool *pool
    Record inline_records[RECORDS_INLINE]
    uint8_t inline_arena[ARENA_INLINE]

# Empties a reply; keeps nothing of a former one. pool may be NULL: then only the inline room is there.
cdef void reply_begin(Reply *reply, LargePool *pool) noexcept nogil
# Drops the records and flags but keeps what the arena holds (a name may point there).
cdef void reply_clear(Reply *reply) noexcept nogil
# Gives the large buffer back.
cdef void reply_end(Reply *reply) noexcept nogil
# Room for one more record with its fields zeroed, or NULL when the reply is full (overflow is then set). The pointer is valid until the next add.
cdef Record *reply_add(Reply *reply, int section) noexcept nogil
# Adds a record whose rdata and owner are borrowed. 0, or -1 when full.
cdef int reply_add_record(Reply *reply, int section, const uint8_t *owner, uint8_t owner_length, uint16_t type, uint16_t klass,
                          uint32_t ttl, const uint8_t *rdata, uint16_t rdlength) noexcept nogil
# Octets of the query's own, aligned to 8, living as long as the query; NULL when there are none left.
cdef uint8_t *reply_alloc(Reply *reply, uint32_t size) noexcept nogil
cdef uint8_t *reply_copy(Reply *reply, const uint8_t *data, uint32_t size) noexcept nogil
# Copies into the arena all that the records (and EDNS options) borrow from elsewhere. -1 when it does not fit: the reply is cut there.
cdef int reply_own(Reply *reply) noexcept nogil
# Appends a deep copy of the records of `section` (-1: all) of another reply. -1 when full.
cdef int reply_append(Reply *reply, const Reply *other, int section) noexcept nogil
# Parses a received message into the reply (rcode, flags, records, EDNS), copied. 0; -1 malformed; -2 too big.
cdef int reply_parse(Reply *reply, const uint8_t *packet, uint32_t length) noexcept nogil
# No TTL over `most` seconds.
cdef void reply_limit_ttl(Reply *reply, uint32_t most) noexcept nogil
