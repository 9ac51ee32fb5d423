"""The verdict cache: verdicts that Python plugins gave for a scope and a time, in tables that workers read without a lock.

A `CachedVerdict` is a verdict with its scope: exactly a name or all at and below it, one type or all, a class, all clients or those of a prefix. The
verdicts of a name belong to its `Branch`. Both are in hash tables that workers read without a lock, between epoch_online and epoch_quiescent. The
threads of Python plugins write, one at a time under a lock that no worker takes. A verdict does not change once it is published, but for the mark of
a hit. What is unlinked is freed when every worker has passed a quiescent state (fastdns.system.epoch).

Memory order. `branches` releases the empty tables and their mask; the head of a bucket and `next` release a branch or a verdict. Readers acquire these.
Masks and depths are relaxed hints: a reader with an old one asks the plugin once more. `forgets` is relaxed: a call reads it with the GIL or the lock
behind it, and one that reads it too early is not cached.

Neither the record index (no lifetimes, no eviction) nor the cache's store (workers write it, one key is one name) fits this.

Eviction is SIEVE (fastdns.system.eviction).
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t, int64_t
from fastdns.system.epoch cimport EpochMark
from fastdns.system.eviction cimport Sieve, SieveLink
from fastdns.system.address cimport Address
from fastdns.message.reply cimport Record
from fastdns._wire cimport Edns, Name

cdef enum:
    VERDICTS_MAX = 4194304      # the most that a plugin may ask for
    VERDICT_OCTETS = 256        # memory for each verdict allowed, on average,
    OCTETS_MIN = 1048576        # and beside that
    SWEEP = 4                   # verdicts looked at with each new one, whether they have expired

cdef struct Prefix:             # addresses; octets big-endian, zero behind `bits`
    uint64_t high
    uint64_t low
    uint8_t family              # 4 or 6; 0: all
    uint8_t bits

cdef struct Scope:
    Name name
    Prefix client
    uint16_t qtype              # 0 unless typed
    uint16_t qclass
    uint8_t exact
    uint8_t typed

cdef struct Block:              # what waits to be freed
    Block *next
    uint32_t size               # octets, as malloc rounds them

cdef struct Branch:             # a name that has verdicts; masks by scope: 0 at and below the name, 1 exactly
    Block block                 # first
    Branch *next                # of its bucket; readers follow it, also after the branch was unlinked
    uint32_t hash               # Name.hash of the name
    uint32_t verdicts           # of this name; the writer's
    uint64_t v4[2]              # bit n: there may be verdicts for IPv4 prefixes of n bits
    uint64_t v6[2][3]           # the same for IPv6
    uint8_t whole[2]            # there may be verdicts for all clients
    uint8_t labels              # without the root
    uint8_t length              # octets, root included
    uint8_t name[1]             # lower case; goes on behind the struct

cdef struct Key:                # of a verdict, compared as a whole
    const Branch *branch
    uint64_t shape              # class, type (0 for all), bits and family of the prefix, exact, typed: see shape_of
    uint64_t high               # the client's prefix, big-endian
    uint64_t low

cdef struct CachedVerdict:
    Block block                 # first
    SieveLink link              # second: see cached_of; the writer's
    CachedVerdict *next         # of its bucket; as for Branch
    uint64_t hash
    Key key
    int64_t expires             # ns, monotonic
    uint8_t verdict             # NEXT, ANSWERED, FAILED or DROPPED
    uint8_t visited             # atomic: mark of SIEVE
    uint16_t rcode
    uint16_t flags              # of the reply: AA
    uint16_t count              # records
    uint32_t counter            # cell of the plugin's own metric, or 0
    const uint8_t *text         # of FAILED: the error, zero-terminated; in this block
    Edns edns                   # of the reply; options in this block
    # Behind it: Record[count], then owners and rdata, options, text. An owner that is NULL is the name asked.

cdef struct VerdictTable:
    Branch **branches           # atomic: NULL until something is remembered
    CachedVerdict **verdicts
    uint32_t mask               # of both
    uint32_t count              # atomic: verdicts
    uint64_t depths[2]          # bit n: names of n labels have verdicts
    # ---- the writer's ----
    uint32_t at_depth[128]      # branches of so many labels
    uint32_t limit              # verdicts
    uint64_t octets             # of branches and verdicts, without what waits to be freed
    uint64_t ceiling            # of octets
    uint64_t unlinked           # octets that wait to be freed
    uint64_t forgets            # atomic; written under the lock. Withdrawals so far: the verdict of a call that began before the last one is not kept
    Sieve order                 # of the verdicts
    SieveLink *broom            # where the search for expired ones goes on; NULL: at the oldest
    Block *leaving              # unlinked since the mark was taken
    Block *waiting              # for the mark
    EpochMark mark

cdef inline CachedVerdict *cached_of(SieveLink *link) noexcept nogil:
    """The verdict of a link, which may be NULL."""
    return <CachedVerdict *>(<Block *>link - 1) if link != NULL else NULL

cdef inline Record *cached_records(CachedVerdict *cached) noexcept nogil:
    return <Record *>(cached + 1)

cdef inline uint32_t cached_seconds(const CachedVerdict *cached, int64_t now) noexcept nogil:
    """Whole seconds of its time that are left, the one at work included: no TTL is longer."""
    return <uint32_t>((cached.expires - now + 999999999) // 1000000000)

# The verdict for a question, or NULL: the closest name's first (exactly it before all below it), then the longest prefix of the client, then the one
# for its type. Borrowed until the worker's batch ends.
cdef CachedVerdict *verdict_find(VerdictTable *table, const Name *name, uint16_t qtype, uint16_t qclass, const Address *client, int64_t now) noexcept nogil

# ---- for one thread at a time ----

# An empty block of memory (a CachedVerdict and what stands behind it) that verdict_put takes over, or free(); NULL: no memory.
cdef void *verdict_block(uint64_t size) noexcept nogil
# Puts a verdict under its scope, in place of the former one. How many others had to go before their time; -1: not kept.
cdef int verdict_put(VerdictTable *table, CachedVerdict *cached, const Scope *scope, int64_t now) noexcept nogil
# Removes the verdicts that hold for some name at or below the suffix and some client of the prefix (NULL: any), and grows table.forgets. How many.
cdef int verdicts_withdraw(VerdictTable *table, const Name *suffix, const Prefix *client) noexcept nogil
# Frees everything; no worker may read it any more. A table begins zeroed, with limit and ceiling.
cdef void verdict_table_close(VerdictTable *table) noexcept nogil

# ---- scopes ----

# An address as a prefix of all its bits. One of a link, with its zone, is in no prefix (family 0): the same octets are another host on another link.
cdef void prefix_load(const Address *address, Prefix *out) noexcept nogil
# The first bits of it; the others are zero.
cdef Prefix prefix_of(const Prefix *address, uint32_t bits) noexcept nogil
# Is a name, in lower case, the other one or below it?
cdef bint name_is_below(const uint8_t *name, uint32_t length, const uint8_t *above, uint32_t above_length) noexcept nogil
