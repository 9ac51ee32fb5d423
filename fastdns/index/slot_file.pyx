"""Slots in a file. The contract is in index/slot_file.pxd."""
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free
from posix.mman cimport MADV_DONTNEED, MAP_FAILED, MAP_PRIVATE, PROT_READ, PROT_WRITE, madvise, mmap, munmap
from posix.unistd cimport close
from fastdns.index.node_file cimport open_nameless, write_all_at
from fastdns.index.regions cimport root_region_add, root_region_remove

cdef enum:
    LEAST = 1 << 18                 # octets that are worth a file


cdef SlotFile *slot_file_make(const char *folder, const IndexSlot *slots, uint32_t capacity) noexcept nogil:
    cdef uint64_t size = <uint64_t>capacity * sizeof(IndexSlot)
    cdef SlotFile *file = <SlotFile *>calloc(1, sizeof(SlotFile)) if size >= LEAST else NULL
    cdef void *mapped = MAP_FAILED
    if file == NULL:
        return NULL
    file.fd = open_nameless(folder)
    if file.fd >= 0 and write_all_at(file.fd, slots, size, 0):
        mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, file.fd, 0)
    if mapped == MAP_FAILED:
        if file.fd >= 0:
            close(file.fd)
        free(file)
        return NULL
    file.slots = <IndexSlot *>mapped
    file.size = size
    root_region_add(file.slots, size)
    return file


cdef void slot_file_free(SlotFile *file) noexcept nogil:
    root_region_remove(file.slots, file.size)
    munmap(file.slots, file.size)
    close(file.fd)
    free(file)


cdef void slot_file_note(SlotFile *file, const IndexSlot *slot) noexcept nogil:
    cdef uint64_t offset
    if file == NULL or file.whole:
        return
    offset = <uintptr_t>slot - <uintptr_t>file.slots
    if offset >= file.size:
        return
    if file.count == SLOT_PAGES:
        file.whole = 1
        return
    file.pages[file.count] = <uint32_t>(offset // SLOT_PAGE)
    file.count += 1


cdef bint write_pages(SlotFile *file) noexcept nogil:
    cdef uint64_t offset
    cdef uint32_t i
    if file.whole:
        return write_all_at(file.fd, file.slots, file.size, 0)
    for i in range(file.count):
        offset = <uint64_t>file.pages[i] * SLOT_PAGE
        if not write_all_at(file.fd, <const uint8_t *>file.slots + offset, min(<uint64_t>SLOT_PAGE, file.size - offset), <int64_t>offset):
            return False
    return True


cdef void slot_file_cool(SlotFile *file) noexcept nogil:
    if write_pages(file):
        file.count = 0
        file.whole = 0
        madvise(file.slots, file.size, MADV_DONTNEED)
