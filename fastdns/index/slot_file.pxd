"""Slots of a version whose nodes are in a file (index/node_file.pxd), in another such file.

It is mapped privately: what the writer stores is memory of the process, which no full disk can refuse, until `slot_file_cool` has written it to the file. All
functions are the writer's, under its lock, but for `slot_file_free`.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from fastdns.index.nodes cimport IndexSlot

cdef enum:
    SLOT_PAGE = 4096                # octets that are written at once
    SLOT_PAGES = 512

cdef struct SlotFile:
    int fd
    uint8_t whole                   # more was changed than `pages` has
    IndexSlot *slots
    uint64_t size                   # octets
    uint32_t count
    uint32_t pages[SLOT_PAGES]      # that were changed, by their number

# A copy of slots that nobody else reads or changes yet. NULL: there is none, the slots stay memory.
cdef SlotFile *slot_file_make(const char *folder, const IndexSlot *slots, uint32_t capacity) noexcept nogil
cdef void slot_file_free(SlotFile *file) noexcept nogil
# A slot is changed. file may be NULL, and the slot another one's.
cdef void slot_file_note(SlotFile *file, const IndexSlot *slot) noexcept nogil
# Writes what was changed, and has the process forget the pages.
cdef void slot_file_cool(SlotFile *file) noexcept nogil
