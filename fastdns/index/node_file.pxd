"""Nodes of a version that are rarely read: in a file that this process alone has, and that is mapped.

What nobody reads for a while takes no memory of the process. The kernel has it in its cache of the file, and gives that up where memory is short; then a
reader waits for the disk. So it is for zones that hardly any query is answered from (`Zone.folder`).

    file = node_file_make(folder)                   # of a version that one thread makes; NULL: none can be made
    node = node_file_take(file, size)               # where a node goes. NULL: malloc has to do
    node_file_seal(file)                            # before readers see the version
    node = node_file_copy(file, node, size)         # from then on: the nodes of versions that follow by differences

A node that is in the file has NODE_FILED. Its octets come to the file by pwrite: a disk that is full, or fails, is noticed there, and nodes come from malloc
from then on. The file has no name, so nobody can cut it.
"""
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t, uintptr_t
from fastdns.index.mutex cimport pthread_mutex_t
from fastdns.index.nodes cimport IndexNode

cdef enum:
    FILE_SPAN = 1 << 30             # octets of addresses, at a multiple of it: the first page leads from a node to its file
    FILE_CHUNK = 1 << 20            # octets that are mapped at once
    FILE_LEAST_BITS = 3
    FILE_UNITS = 128                # a size class is up to 128 units of 8 octets, or 65 to 128 of a power of two
    FILE_LARGEST = FILE_UNITS << 12
    FILE_CLASSES = FILE_UNITS * 5 + FILE_UNITS // 2 + 1

cdef struct Places:                 # offsets of free blocks of one size
    uint32_t *items
    uint32_t count
    uint32_t capacity

cdef struct NodeFile:
    uint32_t refs                   # atomic: versions and snapshots that have nodes in it
    pthread_mutex_t mutex           # of all below
    uint8_t *base
    int fd                          # -1: no chunk was full yet
    uint8_t sealed                  # the version is made: blocks are written by pwrite alone
    uint8_t failed                  # no more nodes are taken
    uint32_t chunks                 # mapped; of these, the first `filed` are in the file, the others are memory
    uint32_t filed
    uint32_t used                   # offset behind the last block
    uint32_t pins                   # snapshots: what is freed meanwhile waits in `freed`
    Places freed                    # pairs of offset and class
    Places free[FILE_CLASSES]
    char folder[1]                  # in truth as long as it is

cdef inline bint node_file_has(const NodeFile *file, const IndexNode *node) noexcept nogil:
    """Whether the node is there, without reading it. file may be NULL."""
    return file != NULL and <uintptr_t>node - <uintptr_t>file.base < <uintptr_t>FILE_SPAN

# A file without a name in the folder, or -1.
cdef int open_nameless(const char *folder) noexcept nogil
# pwrite of all octets, some at a time: a read of what is mapped maps as much as the kernel has in one piece. False when not all could be written.
cdef bint write_all_at(int fd, const void *octets, uint64_t length, int64_t offset) noexcept nogil

cdef NodeFile *node_file_make(const char *folder) noexcept nogil
cdef IndexNode *node_file_take(NodeFile *file, uint64_t size) noexcept nogil
cdef void node_file_seal(NodeFile *file) noexcept nogil
cdef IndexNode *node_file_copy(NodeFile *file, const IndexNode *node, uint64_t size) noexcept nogil
# Frees a node, whose size that is. From any thread.
cdef void node_file_free(IndexNode *node, uint64_t size) noexcept nogil
cdef void node_file_hold(NodeFile *file) noexcept nogil
cdef void node_file_release(NodeFile *file) noexcept nogil
# Until it is unpinned, no node that is freed makes place for another one.
cdef void node_file_pin(NodeFile *file) noexcept nogil
cdef void node_file_unpin(NodeFile *file) noexcept nogil
# Has the process forget the pages that it has read. From any thread, also while others read.
cdef void node_file_cool(NodeFile *file) noexcept nogil
