"""Maps of names to small numbers. The contract is in index/name_map.pxd.

Python code reads a map while it holds the GIL, and a writer exchanges the version while it holds it. So a version that the writer waits to free without
the GIL is no longer read by Python code either.
"""
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy
from posix.mman cimport MAP_ANONYMOUS, MAP_FAILED, MAP_PRIVATE, PROT_READ, PROT_WRITE, mmap, munmap
from fastdns.system.atomic cimport atomic_store_pointer
from fastdns.system.epoch cimport epoch_wait
from fastdns.zonefile.spans cimport span_name
from fastdns._wire cimport NAME_MAX, Name, wire_expand_name, wire_name_copy
from fastdns._wire import name_text

cdef extern from "<sys/mman.h>" nogil:
    int MREMAP_MAYMOVE
    void *mremap(void *address, size_t size, size_t larger, int flags) noexcept

cdef enum:
    PAGE = 4096
    LEAST_SLOTS = 448               # a page, with
    LEAST_BEHIND = 64               # slots behind them

EXACT = NAMES_EXACT
BELOW = NAMES_BELOW
BOTH = NAMES_BOTH


# ---- memory ----

# Pages of the kernel's: a version that is freed goes back whole, whatever malloc keeps.

cdef inline size_t pages(uint64_t size) noexcept nogil:
    return <size_t>((size + PAGE - 1) & ~<uint64_t>(PAGE - 1))


cdef void *pages_make(uint64_t size) noexcept nogil:
    """Zeros; NULL: no memory."""
    cdef void *made = mmap(NULL, pages(size), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
    return NULL if made == MAP_FAILED else made


cdef int pages_resize(uint8_t **block, uint64_t *size, uint64_t wanted) noexcept nogil:
    """0, or -1: no memory, and nothing has changed."""
    cdef void *moved
    if pages(size[0]) != pages(wanted):
        moved = mremap(block[0], pages(size[0]), pages(wanted), MREMAP_MAYMOVE)
        if moved == MAP_FAILED:
            return -1
        block[0] = <uint8_t *>moved
    size[0] = wanted
    return 0


cdef inline void pages_free(void *block, uint64_t size) noexcept nogil:
    if block != NULL:
        munmap(block, pages(size))


# ---- versions ----

cdef Names *names_make() noexcept nogil:
    cdef Names *names = <Names *>calloc(1, sizeof(Names))
    if names == NULL:
        return NULL
    names.capacity = LEAST_SLOTS
    names.slots_count = LEAST_SLOTS + LEAST_BEHIND
    names.slots = <uint64_t *>pages_make(names.slots_count * sizeof(uint64_t))
    names.room = PAGE
    names.entries = <uint8_t *>pages_make(names.room)
    names.used = 1                  # offset 0 is that of an empty slot
    names.labels_least = 255
    if names.slots == NULL or names.entries == NULL:
        names_free(names)
        return NULL
    return names


cdef void names_free(Names *names) noexcept nogil:
    if names != NULL:
        pages_free(names.slots, names.slots_count * sizeof(uint64_t))
        pages_free(names.entries, names.room)
        free(names)


cdef inline bint slots_insert(uint64_t *slots, uint64_t i, uint32_t count, uint64_t slot) noexcept nogil:
    """Puts a slot behind those of smaller hashes, from the one on that its hash leads to. False: there is no room behind the last ones."""
    cdef uint64_t held
    if slots[count - 2] != 0:
        return False
    while slots[i] != 0 and slots[i] >> 32 <= slot >> 32:
        i += 1
    while slot != 0:                # those of larger hashes move up
        held = slots[i]
        slots[i] = slot
        slot = held
        i += 1
    return True


cdef inline bint slots_fill(uint64_t *slots, uint32_t capacity, uint32_t count, const Names *names) noexcept nogil:
    cdef uint32_t i
    for i in range(names.slots_count):
        if names.slots[i] != 0 and not slots_insert(slots, (names.slots[i] >> 32) * capacity >> 32, count, names.slots[i]):
            return False
    return True


cdef int names_resize(Names *names, uint32_t capacity) noexcept nogil:
    """Gives the slots another number. 0, or -1: no memory."""
    cdef uint32_t behind = LEAST_BEHIND
    cdef uint64_t *slots
    while True:
        slots = <uint64_t *>pages_make((<uint64_t>capacity + behind) * sizeof(uint64_t))
        if slots == NULL:
            return -1
        if slots_fill(slots, capacity, capacity + behind, names):
            break
        pages_free(slots, (<uint64_t>capacity + behind) * sizeof(uint64_t))
        behind *= 2
    pages_free(names.slots, names.slots_count * sizeof(uint64_t))
    names.slots = slots
    names.capacity = capacity
    names.slots_count = capacity + behind
    return 0


cdef uint8_t *names_append(Names *names, const Name *name) noexcept nogil:
    """An entry without scopes behind all others; NULL: no memory."""
    cdef uint8_t *entry
    if names.used + ENTRY_NAME + NAME_MAX > names.room and pages_resize(&names.entries, &names.room, names.room + names.room // 2) < 0:
        return NULL
    entry = names.entries + names.used
    entry[ENTRY_FLAGS] = entry[ENTRY_EXACT] = entry[ENTRY_BELOW] = 0
    entry[ENTRY_LENGTH] = name.length
    memcpy(entry + ENTRY_NAME, name.lower, name.length)
    names.used += ENTRY_NAME + name.length
    return entry


cdef uint8_t *names_put(Names *names, const Name *name) noexcept nogil:
    """A new name's entry; NULL: no memory."""
    cdef uint64_t offset = names.used
    cdef uint64_t slot = <uint64_t>name.hash[0] << 32 | offset
    if names.count >= names.capacity // 4 * 3 and names_resize(names, 2 * names.capacity) < 0:
        return NULL
    if names_append(names, name) == NULL:
        return NULL
    while not slots_insert(names.slots, names_first(names, name.hash[0]), names.slots_count, slot):
        if names_resize(names, 2 * names.capacity) < 0:
            return NULL
    names.count += 1
    names.labels_least = min(names.labels_least, name.labels)
    names.labels_most = max(names.labels_most, name.labels)
    return names.entries + offset


cdef inline bint differs(const uint8_t *entry, const uint8_t *above) noexcept nogil:
    """Has an entry another value than one above it has for names below?"""
    return (entry[ENTRY_FLAGS] & NAMES_EXACT and entry[ENTRY_EXACT] != above[ENTRY_BELOW]
            or entry[ENTRY_FLAGS] & NAMES_BELOW and entry[ENTRY_BELOW] != above[ENTRY_BELOW])


cdef int names_finish(Names *names) noexcept nogil:
    """Gives memory back that is not used, and marks entries with others below. 0, or -1: no memory."""
    cdef Name name
    cdef uint8_t *entry
    cdef uint8_t *above
    cdef uint64_t at = 1
    cdef uint32_t label
    if names_resize(names, max(LEAST_SLOTS, names.count + names.count // 3 + 1)) < 0:
        return -1
    pages_resize(&names.entries, &names.room, names.used)
    while at < names.used:
        entry = names.entries + at
        at += ENTRY_NAME + entry[ENTRY_LENGTH]
        wire_name_copy(&name, entry + ENTRY_NAME, entry[ENTRY_LENGTH])
        for label in range(1, name.labels + 1):
            if label + names.labels_least > name.labels:
                break
            above = names_entry(names, name.hash[label], name.lower + name.offset[label], name.length - name.offset[label])
            if above != NULL and above[ENTRY_FLAGS] & NAMES_BELOW and differs(entry, above):
                above[ENTRY_FLAGS] |= NAMES_MIXED
    return 0


# ---- Python ----

cdef int read_name(object given, Name *name) except -1:
    cdef uint8_t wire[NAME_MAX]
    cdef const char *text
    cdef Py_ssize_t size
    cdef uint32_t at = 0
    cdef int length = -1
    if isinstance(given, str):
        text = PyUnicode_AsUTF8AndSize(given, &size)
        if 0 < size <= 4 * NAME_MAX and not (size == 1 and text[0] == c'@'):    # the origin of a master file
            length = span_name(text, <uint32_t>size, b"\0", 1, wire)
    elif isinstance(given, bytes):
        length = wire_expand_name(given, <uint32_t>len(given), &at, wire)
        if length != len(given):
            length = -1
    if length < 0:
        raise ValueError(f"not a name: {given!r}")
    wire_name_copy(name, wire, length)
    return 0


cdef class NameDraft:
    def __cinit__(self, uint32_t limit):
        self.limit = limit
        self.names = names_make()
        if self.names == NULL:
            raise MemoryError

    def __dealloc__(self):
        names_free(self.names)

    cdef bint is_covered(self, const Name *name) noexcept nogil:
        """Is there an entry above with precedence, for names below it?"""
        cdef Names *names = self.names
        cdef const uint8_t *entry
        cdef uint32_t label = max(1, names_begin(names, name))
        while label + names.labels_least <= name.labels:
            entry = names_entry(names, name.hash[label], name.lower + name.offset[label], name.length - name.offset[label])
            if entry != NULL and <uint64_t>(entry - names.entries) < self.sealed and entry[ENTRY_FLAGS] & NAMES_BELOW:
                return True
            label += 1
        return False

    cdef bint put(self, const Name *name, uint8_t value, uint8_t scopes) except -1:
        cdef Names *names = self.names
        cdef uint8_t *entry
        if self.sealed and self.is_covered(name):
            return False
        entry = names_entry(names, name.hash[0], name.lower, name.length)
        if entry != NULL:
            scopes &= ~entry[ENTRY_FLAGS]
            if scopes == 0:
                return False
        if names.used > NAMES_OCTETS - NAME_MAX - ENTRY_NAME or entry == NULL and names.count >= self.limit:
            raise ValueError(f"more than {self.limit} names" if names.count >= self.limit else f"more than {NAMES_OCTETS} octets of names")
        if entry == NULL:
            entry = names_put(names, name)
            if entry == NULL:
                raise MemoryError
        elif scopes & NAMES_BELOW and <uint64_t>(entry - names.entries) < self.sealed:
            entry = self.unsealed(name)
        if scopes & NAMES_EXACT:
            entry[ENTRY_EXACT] = value
        if scopes & NAMES_BELOW:
            entry[ENTRY_BELOW] = value
        entry[ENTRY_FLAGS] |= scopes
        return True

    cdef uint8_t *unsealed(self, const Name *name) except NULL:
        """A copy of a name's entry without precedence over names below, in place of the one that had it for the name itself."""
        cdef Names *names = self.names
        cdef uint8_t *copy = names_append(names, name)
        cdef uint8_t *entry = names_entry(names, name.hash[0], name.lower, name.length)
        cdef uint64_t i = names_first(names, name.hash[0])
        if copy == NULL:
            raise MemoryError
        memcpy(copy, entry, ENTRY_NAME)
        while <uint32_t>names.slots[i] != <uint64_t>(entry - names.entries):
            i += 1
        names.slots[i] = <uint64_t>name.hash[0] << 32 | <uint64_t>(copy - names.entries)
        return copy

    cpdef bint add(self, name, int value=1, int scopes=NAMES_BOTH) except -1:
        cdef Name read
        if self.names == NULL:
            raise ValueError("the draft is used up")
        if not 0 <= value <= 255:
            raise ValueError(f"a name's value is 0 to 255, not {value}")
        if not NAMES_EXACT <= scopes <= NAMES_BOTH:
            raise ValueError(f"a name's scopes are EXACT, BELOW or BOTH, not {scopes}")
        read_name(name, &read)
        return self.put(&read, <uint8_t>value, <uint8_t>scopes)

    def seal(self):
        if self.names == NULL:
            raise ValueError("the draft is used up")
        self.sealed = self.names.used

    def __len__(self):
        return 0 if self.names == NULL else self.names.count


cdef class NameMap:
    def __cinit__(self, entries=(), *, limit=4194304):
        if not 0 <= limit <= NAMES_LIMIT:
            raise ValueError(f"a map has at most {NAMES_LIMIT} names, not {limit}")
        self.limit = limit
        self.core.names = names_make()
        if self.core.names == NULL:
            raise MemoryError

    def __init__(self, entries=(), *, limit=4194304):
        self.replace(entries)

    def __dealloc__(self):
        names_free(self.core.names)

    def replace(self, entries):
        cdef NameDraft draft = NameDraft(self.limit)
        for entry in entries:
            if isinstance(entry, tuple):
                draft.add(*entry)
            else:
                draft.add(entry)
        self.publish(draft)

    def draft(self):
        return NameDraft(self.limit)

    def publish(self, NameDraft draft not None):
        cdef Names *made = draft.names
        cdef Names *former
        cdef int status
        if made == NULL:
            raise ValueError("the draft is used up")
        draft.names = NULL
        with nogil:
            status = names_finish(made)
            if status < 0:
                names_free(made)
        if status < 0:
            raise MemoryError
        former = self.core.names
        atomic_store_pointer(<void **>&self.core.names, made)
        with nogil:
            epoch_wait()
            names_free(former)

    def match(self, str name not None):
        cdef Name read
        cdef const uint8_t *entry
        cdef uint32_t label
        cdef NameMatch found
        cdef uint8_t value
        read_name(name, &read)
        entry = names_find(self.core.names, &read, &label)
        if entry == NULL:
            return None
        value = entry[ENTRY_BELOW if label else ENTRY_EXACT]
        if value == 0:
            return None
        found = NameMatch.__new__(NameMatch)
        found.value = value
        found.name = name_text(entry[ENTRY_NAME:ENTRY_NAME + entry[ENTRY_LENGTH]])
        found.exact = label == 0
        found.scopes = entry[ENTRY_FLAGS] & NAMES_BOTH
        if entry[ENTRY_FLAGS] == NAMES_BOTH and entry[ENTRY_EXACT] == entry[ENTRY_BELOW]:
            found.suffix = found.name
        return found

    def __len__(self):
        return self.core.names.count

    @property
    def octets(self):
        cdef Names *names = self.core.names
        return pages(names.room) + pages(names.slots_count * sizeof(uint64_t)) + sizeof(Names)


cdef class NameMatch:
    def __repr__(self):
        return f"NameMatch({self.name!r}, {self.value}, exact={self.exact}, scopes={self.scopes}, suffix={self.suffix!r})"
