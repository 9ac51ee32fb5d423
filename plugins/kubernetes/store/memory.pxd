"""Memory and hash tables of the store: one writer, readers without locks.

A table's slot is one word: the upper 16 bits of an entry's hash, and the entry's pointer (user-space pointers have 48 bits on x86_64 and aarch64), so a
reader follows a pointer only where the hash agrees. What is unlinked is freed after the grace period of fastdns.system.epoch.

Memory order. Table.slots releases a block of slots, a slot's word the entry; readers acquire both, and likewise the atomic pointers of records.pxd.
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from fastdns.api.memory cimport (ADDRESS_SANITIZER, EpochMark, atomic_load32 as load_count, atomic_load64 as load_word,
                                 atomic_load_pointer as load_pointer, atomic_store32 as store_count, atomic_store64 as store_word,
                                 atomic_store_pointer as store_pointer, fetch_line)

cdef enum:
    CLASS_STEP = 8                  # octets between two size classes
    CLASSES = 64                    # up to 512 octets; larger blocks come from malloc
    PAGE = 65536                    # octets carved into blocks at a time
    LINE = 64                       # of the cache; blocks of its multiples (up to the largest class) begin at one
    ENTRIES_MAX = 1 << 26           # of a table, whose slots then have 2**30 octets: memory_alloc gives them
    AHEAD = 8                       # entries between one that is read and one that the CPU fetches meanwhile, where all are read

cdef struct Retired:
    void *block
    uint32_t size

cdef struct Limbo:
    Retired *items
    uint32_t count
    uint32_t capacity

cdef struct Memory:                 # the writer's
    void *free[CLASSES]             # blocks of each class, chained by their first word
    uint8_t *bump                   # rest of the newest page
    uint32_t left
    void *pages                     # chained by their first word
    uint64_t held                   # octets taken from the system
    uint64_t used                   # octets in blocks given out and not freed
    Limbo fresh                     # unlinked since the mark below was taken
    Limbo waiting                   # unlinked before it
    EpochMark mark

# What readers meet in one look-up had better lie in one line: sizes that are its multiples.
cdef inline uint32_t lines(uint32_t size) noexcept nogil:
    return (size + LINE - 1) & ~<uint32_t>(LINE - 1)

# Octets, not zeroed; NULL when memory ran out. size is 1 to 2**31.
cdef void *memory_alloc(Memory *memory, uint32_t size) noexcept nogil
# Frees at once what no reader ever saw.
cdef void memory_free(Memory *memory, void *block, uint32_t size) noexcept nogil
# Frees an unlinked block once no reader can hold it.
cdef void memory_retire(Memory *memory, void *block, uint32_t size) noexcept nogil
# Frees what can be freed by now; cheap.
cdef void memory_reclaim(Memory *memory) noexcept nogil
# Gives pages and unlinked blocks back. Nobody may read any more, and standing blocks above the largest class were freed.
cdef void memory_end(Memory *memory) noexcept nogil

ctypedef uint64_t (*entry_hash_func)(const void *entry) noexcept nogil

cdef enum:
    TOMBSTONE = 1

cdef struct Slots:
    uint32_t mask
    uint32_t size                   # octets of this block
    uint64_t slot[1]                # mask + 1 of them: 0 empty, TOMBSTONE, or an entry

cdef struct Table:
    Slots *slots                    # NULL while empty
    uint32_t used                   # entries
    uint32_t filled                 # entries and tombstones
    entry_hash_func hash            # of an entry, to grow the table; NULL where its owner refills it

cdef inline void *slot_entry(uint64_t word) noexcept nogil:
    return <void *><size_t>(word & <uint64_t>0xFFFFFFFFFFFF)

cdef inline uint64_t slot_bits(uint64_t hash) noexcept nogil:
    """What a slot has of its entry's hash, above the pointer. LeakSanitizer sees blocks by plain pointers alone."""
    return 0 if ADDRESS_SANITIZER else hash & <uint64_t>0xFFFF000000000000

cdef inline bint slot_agrees(uint64_t word, uint64_t hash) noexcept nogil:
    """May this slot hold an entry with this hash? Not for tombstones."""
    return (ADDRESS_SANITIZER or (word ^ hash) >> 48 == 0) and (word & <uint64_t>0xFFFFFFFFFFFF) != TOMBSTONE

cdef inline void table_fetch(const Table *table, uint32_t place) noexcept nogil:
    """Has the CPU fetch the entry in a slot, if there are so many."""
    if place <= table.slots.mask:
        fetch_line(slot_entry(table.slots.slot[place]))

cdef inline void *table_next(const Table *table, uint32_t *place) noexcept nogil:
    """For the writer: the entries one after another, from `place` 0 on; NULL at the end. The entry given last may be removed meanwhile."""
    cdef uint64_t word
    while table.slots != NULL and place[0] <= table.slots.mask:
        table_fetch(table, place[0] + AHEAD)
        word = table.slots.slot[place[0]]
        place[0] += 1
        if word > TOMBSTONE:
            return slot_entry(word)
    return NULL

cdef inline Slots *table_slots(const Table *table) noexcept nogil:
    return <Slots *>load_pointer(<void **>&table.slots)

# Adds an entry (the caller knows that it is not there). -1 when memory ran out.
cdef int table_insert(Table *table, Memory *memory, uint64_t hash, const void *entry) noexcept nogil
# Adds an entry unless a reader that looks for the hash meets it already. For entries all of whose hashes are removed together. -1 when memory ran out.
cdef int table_insert_once(Table *table, Memory *memory, uint64_t hash, const void *entry) noexcept nogil
# Takes the entry's slot out; False when it is not there.
cdef bint table_remove(Table *table, uint64_t hash, const void *entry) noexcept nogil
# Puts another entry with the same hash into the entry's slot; False when it is not there.
cdef bint table_replace(Table *table, uint64_t hash, const void *entry, const void *by) noexcept nogil
# Are there free slots for so many more? Where table.hash is NULL the caller has to ask first, and refill the table if not.
cdef bint table_room(const Table *table, uint32_t entries) noexcept nogil
# An empty block of slots for `entries` entries; NULL when memory ran out.
cdef Slots *slots_new(Memory *memory, uint32_t entries) noexcept nogil
# Puts an entry into slots that no reader sees yet.
cdef void slots_put(Slots *slots, uint64_t hash, const void *entry) noexcept nogil
# Likewise, as table_insert_once does. False: it was there.
cdef bint slots_put_once(Slots *slots, uint64_t hash, const void *entry) noexcept nogil

cdef struct Filling:                # of slots that no reader sees yet, with entries, once each, whose slots the CPU fetches meanwhile
    Slots *slots
    uint32_t count                  # of those that wait
    uint32_t used                   # entries in the slots
    uint64_t hash[AHEAD]
    const void *entry[AHEAD]

# Puts an entry there; `slots_filled` those that wait.
cdef inline void slots_fill(Filling *filling, uint64_t hash, const void *entry) noexcept nogil:
    fetch_line(&filling.slots.slot[<uint32_t>hash & filling.slots.mask])
    filling.hash[filling.count] = hash
    filling.entry[filling.count] = entry
    filling.count += 1
    if filling.count == AHEAD:
        slots_filled(filling)

cdef inline void slots_filled(Filling *filling) noexcept nogil:
    cdef uint32_t i
    for i in range(filling.count):
        filling.used += slots_put_once(filling.slots, filling.hash[i], filling.entry[i])
    filling.count = 0

# Publishes refilled slots that hold `used` entries.
cdef void table_publish(Table *table, Memory *memory, Slots *slots, uint32_t used) noexcept nogil
