"""Memory and hash tables of the store; see _memory.pxd."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memset
from posix.mman cimport madvise
from fastdns.api.memory cimport epoch_passed, epoch_mark, epoch_wait

cdef inline uint32_t class_limit() noexcept nogil:
    """Octets of the largest block that is kept for the next use."""
    return 0 if ADDRESS_SANITIZER else CLASSES * CLASS_STEP

cdef extern from "<stdlib.h>" nogil:
    void *aligned_alloc(size_t alignment, size_t size)

cdef extern from * nogil:
    """
    #include <sys/mman.h>
    #ifndef MADV_POPULATE_WRITE
    #define MADV_POPULATE_WRITE 23  /* Linux 5.14 */
    #endif
    """
    enum:
        MADV_POPULATE_WRITE

cdef enum:
    KERNEL_PAGE = 4096              # at least, of all processors that Python's wheels are for


cdef inline void populate(void *block, uint32_t size) noexcept nogil:
    """Takes memory that is written to at once from the kernel in one call, not page by page as it is met. Where the kernel cannot, it comes so."""
    cdef size_t first = <size_t>block & ~<size_t>(KERNEL_PAGE - 1)
    madvise(<void *>first, <size_t>block + size - first, MADV_POPULATE_WRITE)


# ---- blocks ----

cdef void *memory_alloc(Memory *memory, uint32_t size) noexcept nogil:
    cdef void *block
    cdef uint32_t index, gap
    size = (size + CLASS_STEP - 1) & ~<uint32_t>(CLASS_STEP - 1)
    if size > class_limit():
        block = malloc(size)
        if block != NULL:
            if size >= PAGE:
                populate(block, size)
            memory.held += size
            memory.used += size
        return block
    index = size // CLASS_STEP - 1
    block = memory.free[index]
    if block != NULL:
        memory.free[index] = (<void **>block)[0]
        memory.used += size
        return block
    gap = <uint32_t>(-<size_t>memory.bump & (LINE - 1)) if size % LINE == 0 else 0
    if memory.left < gap + size:
        keep_rest(memory, memory.left)
        block = aligned_alloc(LINE, PAGE)
        if block == NULL:
            return NULL
        (<void **>block)[0] = memory.pages
        memory.pages = block
        memory.held += PAGE
        populate(block, PAGE)
        memory.bump = <uint8_t *>block + CLASS_STEP
        memory.left = PAGE - CLASS_STEP
        gap = LINE - CLASS_STEP if size % LINE == 0 else 0
    keep_rest(memory, gap)
    block = memory.bump
    memory.bump += size
    memory.left -= size
    memory.used += size
    return block


cdef void keep_rest(Memory *memory, uint32_t octets) noexcept nogil:
    """So many octets of a page are passed over: they become one free block, if there is a class for it."""
    cdef uint32_t index
    if octets >= CLASS_STEP:
        index = octets // CLASS_STEP - 1
        if index < CLASSES:
            (<void **>memory.bump)[0] = memory.free[index]
            memory.free[index] = memory.bump
    memory.bump += octets
    memory.left -= octets


cdef void memory_free(Memory *memory, void *block, uint32_t size) noexcept nogil:
    cdef uint32_t index
    size = (size + CLASS_STEP - 1) & ~<uint32_t>(CLASS_STEP - 1)
    memory.used -= size
    if size > class_limit():
        memory.held -= size
        free(block)
        return
    index = size // CLASS_STEP - 1
    (<void **>block)[0] = memory.free[index]
    memory.free[index] = block


# ---- the grace period ----

cdef void memory_retire(Memory *memory, void *block, uint32_t size) noexcept nogil:
    cdef Limbo *limbo = &memory.fresh
    cdef Retired *items
    cdef uint32_t capacity
    if limbo.count == limbo.capacity:
        capacity = limbo.capacity * 2 if limbo.capacity else 64
        items = <Retired *>realloc(limbo.items, capacity * sizeof(Retired))
        if items == NULL:
            epoch_wait()            # no place to remember it: wait for the readers here, which are done in microseconds
            memory_free(memory, block, size)
            return
        limbo.items = items
        limbo.capacity = capacity
    limbo.items[limbo.count].block = block
    limbo.items[limbo.count].size = size
    limbo.count += 1


cdef void memory_reclaim(Memory *memory) noexcept nogil:
    cdef Limbo swap
    cdef uint32_t i
    cdef int step
    for step in range(2):
        if memory.waiting.count:
            if not epoch_passed(&memory.mark):
                return
            for i in range(memory.waiting.count):
                memory_free(memory, memory.waiting.items[i].block, memory.waiting.items[i].size)
            memory.waiting.count = 0
            if memory.waiting.capacity > 4096:
                free(memory.waiting.items)
                memory.waiting.items = NULL
                memory.waiting.capacity = 0
        if memory.fresh.count == 0:
            return
        swap = memory.waiting
        memory.waiting = memory.fresh
        memory.fresh = swap
        epoch_mark(&memory.mark)


cdef void end_limbo(Memory *memory, Limbo *limbo) noexcept nogil:
    cdef uint32_t i
    for i in range(limbo.count):
        memory_free(memory, limbo.items[i].block, limbo.items[i].size)
    free(limbo.items)


cdef void memory_end(Memory *memory) noexcept nogil:
    cdef void *page
    end_limbo(memory, &memory.fresh)
    end_limbo(memory, &memory.waiting)
    while memory.pages != NULL:
        page = memory.pages
        memory.pages = (<void **>page)[0]
        free(page)
    memset(memory, 0, sizeof(Memory))


# ---- tables ----

cdef Slots *slots_new(Memory *memory, uint32_t entries) noexcept nogil:
    cdef uint32_t count = 16
    cdef uint32_t size
    cdef Slots *slots
    if entries > <uint32_t>ENTRIES_MAX:
        return NULL
    while count < entries + entries // 2:      # at most two thirds full
        count *= 2
    size = <uint32_t>(sizeof(Slots) + (count - 1) * sizeof(uint64_t))
    slots = <Slots *>memory_alloc(memory, size)
    if slots == NULL:
        return NULL
    memset(slots, 0, size)
    slots.mask = count - 1
    slots.size = size
    return slots


cdef void slots_put(Slots *slots, uint64_t hash, const void *entry) noexcept nogil:
    cdef uint32_t i = <uint32_t>hash & slots.mask
    while slots.slot[i] > TOMBSTONE:
        i = (i + 1) & slots.mask
    store_word(&slots.slot[i], slot_bits(hash) | <size_t>entry)


cdef bint slots_put_once(Slots *slots, uint64_t hash, const void *entry) noexcept nogil:
    cdef uint64_t word = slot_bits(hash) | <size_t>entry
    cdef uint32_t i = <uint32_t>hash & slots.mask
    while slots.slot[i] > TOMBSTONE:
        if slots.slot[i] == word:
            return False
        i = (i + 1) & slots.mask
    store_word(&slots.slot[i], word)
    return True


cdef bint table_room(const Table *table, uint32_t entries) noexcept nogil:
    return table.slots != NULL and (<uint64_t>table.filled + entries) * 4 <= (<uint64_t>table.slots.mask + 1) * 3


cdef void table_publish(Table *table, Memory *memory, Slots *slots, uint32_t used) noexcept nogil:
    cdef Slots *old = table.slots
    store_pointer(<void **>&table.slots, slots)
    table.used = used
    table.filled = used
    if old != NULL:
        memory_retire(memory, old, old.size)


cdef int table_grow(Table *table, Memory *memory) noexcept nogil:
    """A clean table with free slots; its entries know their hash."""
    cdef Slots *slots = slots_new(memory, table.used + 1)
    cdef uint64_t word
    cdef uint32_t i
    if slots == NULL:
        return -1
    if table.slots != NULL:
        for i in range(table.slots.mask + 1):
            table_fetch(table, i + AHEAD)
            word = table.slots.slot[i]
            if word > TOMBSTONE:
                slots_put(slots, table.hash(slot_entry(word)), slot_entry(word))
    table_publish(table, memory, slots, table.used)
    return 0


cdef int table_insert(Table *table, Memory *memory, uint64_t hash, const void *entry) noexcept nogil:
    cdef uint32_t i
    if not table_room(table, 1) and (table.hash == NULL or table_grow(table, memory) < 0):
        return -1
    i = <uint32_t>hash & table.slots.mask
    while table.slots.slot[i] > TOMBSTONE:
        i = (i + 1) & table.slots.mask
    if table.slots.slot[i] == 0:
        table.filled += 1
    table.used += 1
    store_word(&table.slots.slot[i], slot_bits(hash) | <size_t>entry)
    return 0


cdef uint64_t *find_slot(Table *table, uint64_t hash, const void *entry) noexcept nogil:
    cdef uint64_t wanted = slot_bits(hash) | <size_t>entry
    cdef uint32_t i
    if table.slots == NULL:
        return NULL
    i = <uint32_t>hash & table.slots.mask
    while table.slots.slot[i] != 0:
        if table.slots.slot[i] == wanted:
            return &table.slots.slot[i]
        i = (i + 1) & table.slots.mask
    return NULL


cdef int table_insert_once(Table *table, Memory *memory, uint64_t hash, const void *entry) noexcept nogil:
    return 0 if find_slot(table, hash, entry) != NULL else table_insert(table, memory, hash, entry)


cdef bint table_remove(Table *table, uint64_t hash, const void *entry) noexcept nogil:
    cdef uint64_t *slot = find_slot(table, hash, entry)
    if slot == NULL:
        return False
    store_word(slot, TOMBSTONE)
    table.used -= 1
    return True


cdef bint table_replace(Table *table, uint64_t hash, const void *entry, const void *by) noexcept nogil:
    cdef uint64_t *slot = find_slot(table, hash, entry)
    if slot == NULL:
        return False
    store_word(slot, slot_bits(hash) | <size_t>by)
    return True
