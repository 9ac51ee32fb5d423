"""Maps of names to small numbers, for policies over many names: a version is built beside the one that serves, and replaces it whole.

An entry holds for its name exactly, for all names below it, or for both with a value of each. A look-up takes the closest entry: the name itself, then
one label up after the other. A version is one block of entries and one open-addressing table of words over it, about 36 octets a name in all; neither
changes once it is published. Readers without the GIL load `NameMapCore.names` within a batch; the former version is freed after an epoch
(system/epoch.pxd).

The record index (index/index.pxd) has nodes for records and closest enclosers, five times as much memory, and is changed by single names.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from fastdns._wire cimport Name, octets_equal
from fastdns.system.atomic cimport atomic_load_pointer
from fastdns.system.memory cimport fetch_line

cdef enum:                      # scopes of an entry; its flags
    NAMES_EXACT = 1
    NAMES_BELOW = 2
    NAMES_BOTH = 3
    NAMES_MIXED = 4             # an entry below has another value than this one has for names below
    NAMES_LIMIT = 16777216      # the most names of a map
    NAMES_OCTETS = 1073741824   # of entries

cdef enum:                      # octets of an entry: its name in lower-case wire form comes last
    ENTRY_FLAGS = 0
    ENTRY_EXACT = 1             # value for the name itself
    ENTRY_BELOW = 2             # value for names below
    ENTRY_LENGTH = 3            # of the name
    ENTRY_NAME = 4

cdef struct Names:              # a version; constant once it is published
    uint64_t *slots             # Name.hash above, offset of the entry below; 0: empty. By hash: a search for what is not there ends early
    uint8_t *entries            # from offset 1 on
    uint32_t capacity           # slots that a hash leads to; at most three quarters are used
    uint32_t slots_count        # with those behind them, of which the last is empty: no search wraps around
    uint32_t count
    uint64_t used               # octets of entries
    uint64_t room
    uint8_t labels_least        # of all entries, without the root: other suffixes of a name are not looked up
    uint8_t labels_most

cdef struct NameMapCore:        # owned by a NameMap
    Names *names                # atomic; never NULL

cdef inline uint64_t names_first(const Names *names, uint32_t hash) noexcept nogil:
    return <uint64_t>hash * names.capacity >> 32

cdef inline uint8_t *names_entry(const Names *names, uint32_t hash, const uint8_t *lower, uint32_t length) noexcept nogil:
    """The entry of a name, or NULL."""
    cdef uint64_t i = names_first(names, hash)
    cdef uint64_t slot
    cdef uint8_t *entry
    while True:
        slot = names.slots[i]
        if slot == 0 or <uint32_t>(slot >> 32) > hash:
            return NULL
        if <uint32_t>(slot >> 32) == hash:
            entry = names.entries + <uint32_t>slot
            if entry[ENTRY_LENGTH] == length and octets_equal(entry + ENTRY_NAME, lower, length):
                return entry
        i += 1

cdef inline uint32_t names_begin(const Names *names, const Name *name) noexcept nogil:
    """The first label of the longest suffix that may have an entry."""
    return name.labels - names.labels_most if name.labels > names.labels_most else 0

cdef inline void names_fetch(const Names *names, const Name *name) noexcept nogil:
    """Has the CPU fetch the slots of all suffixes that are looked up."""
    cdef uint32_t label = names_begin(names, name)
    while label + names.labels_least <= name.labels:
        fetch_line(&names.slots[names_first(names, name.hash[label])])
        label += 1

cdef inline const uint8_t *names_find(const Names *names, const Name *name, uint32_t *at) noexcept nogil:
    """The entry that holds for a name, or NULL; *at is the label that the entry's name begins with."""
    cdef uint32_t label = names_begin(names, name)
    cdef const uint8_t *entry
    while label + names.labels_least <= name.labels:
        entry = names_entry(names, name.hash[label], name.lower + name.offset[label], name.length - name.offset[label])
        if entry != NULL and entry[ENTRY_FLAGS] & (NAMES_BELOW if label else NAMES_EXACT):
            at[0] = label
            return entry
        label += 1
    return NULL

cdef inline const Names *name_map_names(NameMapCore *core) noexcept nogil:
    """The version that serves. Borrowed until the worker's batch ends."""
    return <const Names *>atomic_load_pointer(<void **>&core.names)

cdef inline bint name_map_holds(NameMapCore *core, const Name *name) noexcept nogil:
    """Whether a name has a value other than 0."""
    cdef uint32_t label
    cdef const Names *names = name_map_names(core)
    cdef const uint8_t *entry = names_find(names, name, &label)
    return entry != NULL and entry[ENTRY_BELOW if label else ENTRY_EXACT] != 0

cdef class NameDraft:
    cdef Names *names           # owned until it is published; NULL from then on
    cdef uint64_t sealed        # entries before this offset take precedence over those that come
    cdef uint32_t limit
    cdef bint is_covered(self, const Name *name) noexcept nogil
    cdef bint put(self, const Name *name, uint8_t value, uint8_t scopes) except -1
    cdef uint8_t *unsealed(self, const Name *name) except NULL
    cpdef bint add(self, name, int value=*, int scopes=*) except -1

cdef class NameMap:             # a handler that uses `core` holds a reference
    cdef NameMapCore core
    cdef readonly uint32_t limit

cdef class NameMatch:
    cdef readonly int value
    cdef readonly str name
    cdef readonly bint exact
    cdef readonly int scopes
    cdef readonly str suffix
