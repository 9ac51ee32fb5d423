"""A reply under construction: a table of records, which walk/finish.pxd fits to the client's size limit and encodes.

Records borrow their memory: owner and rdata point into the query's names, the query's arena, the index or a cache entry. What is borrowed
from the index or the cache is valid until the worker's batch ends; parking a query copies it (reply_own). A reply belongs to one query, and
only that query's worker touches it.
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from fastdns._wire cimport Edns

cdef enum:
    SECTION_ANSWER = 0
    SECTION_AUTHORITY = 1
    SECTION_ADDITIONAL = 2

cdef enum:
    RECORDS_INLINE = 20         # in the Reply itself; more records take a LargeReplyBuffer from the worker's pool
    RECORDS_MAX = 4400          # no message of 65,535 octets has more
    ARENA_INLINE = 1024
    ARENA_MAX = 98304

cdef enum:                      # Record.flags
    RECORD_OWNED = 1            # owner and rdata are in the query (its names or its arena): parking does not copy them
    RECORD_SIGNER = 2           # a TSIG that is computed when the message is encoded: a Signer is directly before rdata, which has the TSIG's length

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
    # Appends its record to the encoded message, with as many octets as the table's record has. Returns the new length.
    uint32_t (*sign)(Signer *signer, uint8_t *message, uint32_t length) noexcept nogil

cdef struct LargeReplyBuffer:   # records and arena of a reply that exceeds the inline ones; from the worker's bounded pool
    LargeReplyBuffer *next
    Record records[RECORDS_MAX]
    uint8_t arena[ARENA_MAX]

cdef struct LargeReplyPool:     # one per worker, never shared
    LargeReplyBuffer *free      # list
    uint32_t made               # buffers allocated
    uint32_t limit              # buffers allocated at most
    uint32_t refused            # replies truncated because the pool was empty

cdef struct Reply:
    Record *records             # inline_records or large.records
    uint16_t count
    uint16_t capacity
    uint8_t written             # 1: a plugin wrote a reply; 0: only `rcode` counts, for which the server writes a reply without records
    uint8_t overflow            # records did not fit into the table: TC is set
    uint16_t rcode              # 12 bits, extended rcode included (RFC 6891 6.1.3)
    uint16_t flags              # AA, RA, AD, TC as the plugin set them
    uint8_t verbatim            # RD and CD are taken from flags, not from the request: the reply is an upstream's
    Edns edns                   # OPT set by a plugin or an upstream; options are borrowed as records are
    uint8_t compress            # all names must be compressed to fit (set by finish_fit)
    uint32_t size               # octets of the sent message without compression (metrics and log)
    uint32_t message_size       # octets of the sent message
    uint8_t *arena
    uint32_t arena_used
    uint32_t arena_capacity
    LargeReplyBuffer *large
    LargeReplyPool *pool
    Record inline_records[RECORDS_INLINE]
    uint8_t inline_arena[ARENA_INLINE]

# Initialises a reply without records. pool may be NULL: the reply then has the inline records and arena only.
cdef void reply_begin(Reply *reply, LargeReplyPool *pool) noexcept nogil
# Removes the records and flags. The arena keeps its contents: the query's name may point there.
cdef void reply_clear(Reply *reply) noexcept nogil
# Returns the large buffer to the pool.
cdef void reply_end(Reply *reply) noexcept nogil
# Appends a record with its fields zeroed. NULL when the reply is full; overflow is then set. The pointer is valid until the next call.
cdef Record *reply_add(Reply *reply, int section) noexcept nogil
# Appends a record whose rdata and owner are borrowed. ttl: seconds. 0, or -1 when the reply is full.
cdef int reply_add_record(Reply *reply, int section, const uint8_t *owner, uint8_t owner_length, uint16_t type, uint16_t klass,
                          uint32_t ttl, const uint8_t *rdata, uint16_t rdlength) noexcept nogil
# Allocates octets in the query's arena, aligned to 8, valid as long as the query. NULL when the arena is full. reply_copy fills them from data.
cdef uint8_t *reply_alloc(Reply *reply, uint32_t size) noexcept nogil
cdef uint8_t *reply_copy(Reply *reply, const uint8_t *data, uint32_t size) noexcept nogil
# Copies all memory that the records and EDNS options borrow into the arena. 0, or -1 when it does not fit: the records from there on are removed.
cdef int reply_own(Reply *reply) noexcept nogil
# Appends a deep copy of the records of `section` (-1: all) of another reply. -1 when full.
cdef int reply_append(Reply *reply, const Reply *other, int section) noexcept nogil
# Parses a received message into the reply (rcode, flags, records, EDNS); everything is copied. 0, -1: malformed, -2: the reply is full.
cdef int reply_parse(Reply *reply, const uint8_t *packet, uint32_t length) noexcept nogil
# Whether a section has a record of a type.
cdef bint reply_has(const Reply *reply, int section, uint16_t type) noexcept nogil
# Lowers all TTLs to at most `most` seconds.
cdef void reply_limit_ttl(Reply *reply, uint32_t most) noexcept nogil
