"""Memory of HTTP connections. The contract is in engine/http/memory.pxd."""
from libc.stddef cimport size_t
from libc.stdint cimport uint32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy
from posix.mman cimport MAP_ANONYMOUS, MAP_FAILED, MAP_PRIVATE, PROT_READ, PROT_WRITE, mmap, munmap
from fastdns.engine.io.connection cimport TcpConnection, connection_charge, connection_discharge
from fastdns.system.sanitizer cimport ADDRESS_SANITIZER
from fastdns.walk.query cimport WORKERS_MAX

cdef enum:
    STEP = 64                       # octets: what is kept has a multiple of it
    CLASSES = 32                    # larger blocks are malloc's alone
    MAPPED = 256                    # still larger ones are the kernel's: what is not used of them takes no memory
    MAPPED_KEPT = 8                 # of these a worker keeps, all of one size: each session of HTTP/2 has one for its frames
    KEPT_MAX = 1048576              # octets that a worker keeps

cdef struct Block:                  # before the octets that are given out, which are aligned to 16
    Block *next                     # of those that are kept
    uint32_t size                   # octets with this struct
    uint32_t kind                   # size / STEP, or CLASSES and more

cdef struct Kept:                   # of a worker, which alone uses it
    Block *blocks[CLASSES]
    uint32_t octets
    uint32_t given                  # blocks that connections have
    Block *mapped
    uint32_t mapped_count

cdef Kept kept[WORKERS_MAX]


cdef inline Block *allocate(uint32_t kind) noexcept nogil:
    cdef void *pages
    if kind < MAPPED or ADDRESS_SANITIZER:
        return <Block *>malloc(kind * STEP)
    pages = mmap(NULL, kind * STEP, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
    return NULL if pages == MAP_FAILED else <Block *>pages


cdef void *http_alloc(TcpConnection *connection, size_t size) noexcept nogil:
    cdef Kept *own = &kept[connection.tcp.base.worker.id]
    cdef uint32_t kind = <uint32_t>((size + sizeof(Block) + STEP - 1) // STEP)
    cdef Block *block
    if size > 1 << 30 or not connection_charge(connection, kind * STEP):
        return NULL
    if kind < CLASSES and own.blocks[kind] != NULL:
        block = own.blocks[kind]
        own.blocks[kind] = block.next
        own.octets -= block.size
        own.given += 1
        return block + 1
    if own.mapped != NULL and own.mapped.kind == kind:
        block = own.mapped
        own.mapped = block.next
        own.mapped_count -= 1
        own.given += 1
        return block + 1
    block = allocate(kind)
    if block == NULL:
        connection_discharge(connection, kind * STEP)
        return NULL
    block.size = kind * STEP
    block.kind = kind
    own.given += 1
    return block + 1


cdef void http_free(TcpConnection *connection, void *pointer) noexcept nogil:
    cdef Kept *own = &kept[connection.tcp.base.worker.id]
    cdef Block *block
    if pointer == NULL:
        return
    block = <Block *>pointer - 1
    connection_discharge(connection, block.size)
    own.given -= 1
    if ADDRESS_SANITIZER:
        free(block)
    elif block.kind < CLASSES and own.octets + block.size <= KEPT_MAX:
        block.next = own.blocks[block.kind]
        own.blocks[block.kind] = block
        own.octets += block.size
    elif MAPPED <= block.kind < 2 * MAPPED and own.mapped_count < MAPPED_KEPT and (own.mapped == NULL or own.mapped.kind == block.kind):
        block.next = own.mapped
        own.mapped = block
        own.mapped_count += 1
    elif block.kind >= MAPPED:
        munmap(block, block.size)
    else:
        free(block)


cdef void *http_realloc(TcpConnection *connection, void *pointer, size_t size) noexcept nogil:
    cdef Block *block
    cdef void *bigger
    if pointer == NULL:
        return http_alloc(connection, size)
    block = <Block *>pointer - 1
    if size + sizeof(Block) <= block.size:
        return pointer
    bigger = http_alloc(connection, size)
    if bigger != NULL:
        memcpy(bigger, pointer, block.size - sizeof(Block))
        http_free(connection, pointer)
    return bigger


cdef uint32_t http_blocks(uint32_t worker) noexcept nogil:
    return kept[worker].given
