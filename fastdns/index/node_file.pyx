"""Nodes in a file. The contract is in index/node_file.pxd."""
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy, strlen
from posix.fcntl cimport O_CLOEXEC, O_RDWR, open as open_file
from posix.mman cimport (MADV_DONTNEED, MAP_ANONYMOUS, MAP_FAILED, MAP_FIXED, MAP_NORESERVE, MAP_PRIVATE, MAP_SHARED, PROT_NONE, PROT_READ, PROT_WRITE,
                         madvise, mmap, mprotect, munmap)
from posix.unistd cimport close, ftruncate, unlink
from fastdns.system.atomic cimport atomic_add32
from fastdns.index.mutex cimport pthread_mutex_destroy, pthread_mutex_init, pthread_mutex_lock, pthread_mutex_unlock
from fastdns.index.regions cimport region_hide, region_show

cdef extern from "<fcntl.h>" nogil:
    enum:
        O_TMPFILE

cdef extern from * nogil:
    """
    #include <sys/mman.h>
    #ifndef MREMAP_DONTUNMAP
    #define MREMAP_DONTUNMAP 4      /* Linux 5.7, glibc 2.32 */
    #endif
    """
    enum:
        MREMAP_DONTUNMAP
        MREMAP_FIXED
        MREMAP_MAYMOVE
    void *mremap(void *old, size_t old_size, size_t size, int flags, void *to)

cdef extern from "<stdlib.h>" nogil:
    int mkostemp(char *template_, int flags)

cdef extern from "<sys/ioctl.h>" nogil:
    int ioctl(int fd, unsigned long request, int *argument)

cdef extern from "<linux/fs.h>" nogil:
    enum:
        FS_NOCOW_FL
    unsigned long FS_IOC_GETFLAGS
    unsigned long FS_IOC_SETFLAGS

cdef extern from "<unistd.h>" nogil:
    ssize_t pwrite(int fd, const void *data, size_t length, int64_t offset)

cdef enum:
    FIRST = FILE_CHUNK              # offset of the first block: the chunk before has the address of the NodeFile alone
    HEAD = 4096
    PIECE = 1 << 16
    MODE = 0o600


# ---- sizes ----

cdef inline uint32_t size_class(uint64_t *size) noexcept nogil:
    """Rounds a size, of at most FILE_LARGEST, up to that of its class."""
    cdef uint32_t bits = FILE_LEAST_BITS, units
    while (size[0] + (1 << bits) - 1) >> bits > FILE_UNITS:
        bits += 1
    units = <uint32_t>((size[0] + (1 << bits) - 1) >> bits)
    size[0] = <uint64_t>units << bits
    return (bits - FILE_LEAST_BITS) * (FILE_UNITS // 2) + units


cdef inline uint64_t class_size(uint32_t kind) noexcept nogil:
    cdef uint32_t bits = (kind - FILE_UNITS // 2 - 1) // (FILE_UNITS // 2) if kind > FILE_UNITS else 0
    return <uint64_t>(kind - bits * (FILE_UNITS // 2)) << (bits + FILE_LEAST_BITS)


cdef bint push(Places *places, uint32_t item) noexcept nogil:
    cdef uint32_t capacity
    cdef void *grown
    if places.count == places.capacity:
        capacity = places.capacity * 2 if places.capacity else 16
        grown = realloc(places.items, capacity * sizeof(uint32_t))
        if grown == NULL:
            return False
        places.items = <uint32_t *>grown
        places.capacity = capacity
    places.items[places.count] = item
    places.count += 1
    return True


cdef void make_place(NodeFile *file, uint32_t at, uint32_t kind) noexcept nogil:
    """Nobody reads the block any more. What cannot be noted for want of memory is not used again."""
    push(&file.free[kind], at)
    region_hide(file.base + at, class_size(kind))


cdef inline NodeFile *file_of(const IndexNode *node) noexcept nogil:
    return (<NodeFile **>(<uintptr_t>node & ~<uintptr_t>(FILE_SPAN - 1)))[0]


# ---- addresses and the file ----

cdef uint8_t *reserve() noexcept nogil:
    """Addresses at a multiple of FILE_SPAN, of which the first page can be written. NULL: there are none."""
    cdef void *found = mmap(NULL, <size_t>2 * FILE_SPAN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
    cdef uintptr_t at, base
    if found == MAP_FAILED:
        return NULL
    at = <uintptr_t>found
    base = (at + FILE_SPAN - 1) & ~<uintptr_t>(FILE_SPAN - 1)
    if base > at:
        munmap(found, base - at)
    munmap(<void *>(base + FILE_SPAN), at + FILE_SPAN - base)
    if mprotect(<void *>base, HEAD, PROT_READ | PROT_WRITE) < 0:
        munmap(<void *>base, FILE_SPAN)
        return NULL
    return <uint8_t *>base


cdef void write_in_place(int fd) noexcept nogil:
    """Has btrfs write the file, which is empty, in place. A change of flags through the mapping would else need a free block, and be
    SIGBUS on a full disk. Other file systems write in place, or take no notice."""
    cdef int flags = 0
    if ioctl(fd, FS_IOC_GETFLAGS, &flags) == 0:
        flags |= FS_NOCOW_FL
        ioctl(fd, FS_IOC_SETFLAGS, &flags)


cdef int open_nameless(const char *folder) noexcept nogil:
    cdef char path[4096]
    cdef size_t length = strlen(folder)
    cdef int fd = open_file(folder, O_RDWR | O_CLOEXEC | O_TMPFILE, MODE)
    if fd >= 0 or length + 16 > sizeof(path):
        return fd
    memcpy(path, folder, length)
    memcpy(path + length, b"/.nodes.XXXXXX", 15)
    fd = mkostemp(path, O_CLOEXEC)
    if fd >= 0:
        unlink(path)
    return fd


cdef bint write_all_at(int fd, const void *octets, uint64_t length, int64_t offset) noexcept nogil:
    cdef uint64_t done = 0
    cdef ssize_t n
    while done < length:
        n = pwrite(fd, <const uint8_t *>octets + done, min(length - done, <uint64_t>PIECE), offset + <int64_t>done)
        if n <= 0:
            return False            # EINTR too, which regular files do not give
        done += <uint64_t>n
    return True


cdef inline bint move(void *chunk, void *to, int flags) noexcept nogil:
    return mremap(chunk, FILE_CHUNK, FILE_CHUNK, MREMAP_MAYMOVE | MREMAP_FIXED | flags, to) != MAP_FAILED


cdef bint file_chunk(NodeFile *file, bint *kept) noexcept nogil:
    """Moves the last chunk to the file; its addresses stay. No other thread has any of it. If `kept` says
    so then, its memory is that of the next chunk."""
    cdef uint32_t offset = file.chunks * FILE_CHUNK
    cdef void *mapped
    if file.fd < 0:
        file.fd = open_nameless(file.folder)
        if file.fd >= 0:
            write_in_place(file.fd)
    if file.fd < 0 or ftruncate(file.fd, offset + FILE_CHUNK - FIRST) < 0:
        return False
    if not write_all_at(file.fd, file.base + offset, file.used - offset, offset - FIRST):
        return False
    # Mapped elsewhere first: what fails leaves the memory.
    mapped = mmap(NULL, FILE_CHUNK, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd, offset - FIRST)
    if mapped == MAP_FAILED:
        return False
    # Pages that are there already need not be found and cleared again.
    kept[0] = kept[0] and move(file.base + offset, file.base + offset + FILE_CHUNK, MREMAP_DONTUNMAP)
    if not move(mapped, file.base + offset, 0):
        munmap(mapped, FILE_CHUNK)
        if kept[0]:
            move(file.base + offset + FILE_CHUNK, file.base + offset, MREMAP_DONTUNMAP)
        return False
    file.filed += 1
    return True


cdef bint next_chunk(NodeFile *file) noexcept nogil:
    """While a version is made it is memory, afterwards of the file."""
    cdef uint32_t offset = (file.chunks + 1) * <uint32_t>FILE_CHUNK
    cdef int flags = MAP_FIXED | (MAP_SHARED if file.sealed else MAP_PRIVATE | MAP_ANONYMOUS)
    cdef bint kept = not file.sealed and file.chunks > 0
    if offset > <uint32_t>FILE_SPAN - FILE_CHUNK:
        return False
    if file.sealed:
        if ftruncate(file.fd, offset + FILE_CHUNK - FIRST) < 0:
            return False
    elif file.chunks and not file_chunk(file, &kept):
        return False
    if not kept and mmap(file.base + offset, FILE_CHUNK, PROT_READ | PROT_WRITE, flags, file.fd if file.sealed else -1,
                         offset - FIRST if file.sealed else 0) == MAP_FAILED:
        return False
    file.chunks += 1
    file.filed += file.sealed
    file.used = offset
    return True


cdef uint32_t next_block(NodeFile *file, uint64_t size) noexcept nogil:
    """The offset of a block that was never used; 0: there is none."""
    cdef uint32_t at
    if file.chunks == 0 or file.used + size > <uint64_t>(file.chunks + 1) * FILE_CHUNK:
        if not next_chunk(file):
            file.failed = 1
            return 0
    at = file.used
    file.used += <uint32_t>size
    return at


# ---- nodes ----

cdef NodeFile *node_file_make(const char *folder) noexcept nogil:
    cdef size_t length = strlen(folder)
    cdef NodeFile *file = <NodeFile *>calloc(1, sizeof(NodeFile) + length)
    if file == NULL:
        return NULL
    file.base = reserve()
    if file.base == NULL:
        free(file)
        return NULL
    pthread_mutex_init(&file.mutex, NULL)
    (<NodeFile **>file.base)[0] = file
    memcpy(file.folder, folder, length + 1)
    file.refs = 1
    file.fd = -1
    return file


cdef IndexNode *node_file_take(NodeFile *file, uint64_t size) noexcept nogil:
    cdef uint32_t at
    if file.sealed or file.failed or size > FILE_LARGEST:
        return NULL
    size_class(&size)
    at = next_block(file, size)
    return <IndexNode *>(file.base + at) if at else NULL


cdef void node_file_seal(NodeFile *file) noexcept nogil:
    cdef bint kept = False
    # Less than a chunk stays memory.
    if not file.failed and file.chunks > 1 and not file_chunk(file, &kept):
        file.failed = 1
    file.failed |= file.fd < 0
    file.sealed = 1


cdef IndexNode *node_file_copy(NodeFile *file, const IndexNode *node, uint64_t size) noexcept nogil:
    cdef uint64_t rounded = size
    cdef Places *places
    cdef uint32_t at = 0
    if not file.sealed or size > FILE_LARGEST:
        return NULL
    places = &file.free[size_class(&rounded)]
    pthread_mutex_lock(&file.mutex)
    if not file.failed:
        if places.count:
            places.count -= 1
            at = places.items[places.count]
            region_show(file.base + at, rounded)
        else:
            at = next_block(file, rounded)
        if at and not write_all_at(file.fd, node, size, at - FIRST):
            file.failed = 1
            at = 0
    pthread_mutex_unlock(&file.mutex)
    return <IndexNode *>(file.base + at) if at else NULL


cdef void node_file_free(IndexNode *node, uint64_t size) noexcept nogil:
    cdef NodeFile *file = file_of(node)
    cdef uint32_t at = <uint32_t>(<uint8_t *>node - file.base), kind = size_class(&size)
    pthread_mutex_lock(&file.mutex)
    # What is not in the file cannot be written by pwrite.
    if file.sealed and at < (file.filed + 1) * <uint32_t>FILE_CHUNK:
        if not file.pins:
            make_place(file, at, kind)
        elif push(&file.freed, at) and not push(&file.freed, kind):
            file.freed.count -= 1
    pthread_mutex_unlock(&file.mutex)


# ---- who has it ----

cdef void node_file_hold(NodeFile *file) noexcept nogil:
    atomic_add32(&file.refs, 1)


cdef void node_file_release(NodeFile *file) noexcept nogil:
    cdef uint32_t i
    if atomic_add32(&file.refs, <uint32_t>-1) != 0:
        return
    region_show(file.base + FIRST, <size_t>file.chunks * FILE_CHUNK)
    munmap(file.base, FILE_SPAN)
    if file.fd >= 0:
        close(file.fd)
    for i in range(FILE_CLASSES):
        free(file.free[i].items)
    free(file.freed.items)
    pthread_mutex_destroy(&file.mutex)
    free(file)


cdef void node_file_pin(NodeFile *file) noexcept nogil:
    node_file_hold(file)
    pthread_mutex_lock(&file.mutex)
    file.pins += 1
    pthread_mutex_unlock(&file.mutex)


cdef void node_file_unpin(NodeFile *file) noexcept nogil:
    cdef uint32_t i
    pthread_mutex_lock(&file.mutex)
    file.pins -= 1
    if file.pins == 0:
        for i in range(0, file.freed.count, 2):
            make_place(file, file.freed.items[i], file.freed.items[i + 1])
        file.freed.count = 0
    pthread_mutex_unlock(&file.mutex)
    node_file_cool(file)
    node_file_release(file)


cdef void node_file_cool(NodeFile *file) noexcept nogil:
    pthread_mutex_lock(&file.mutex)
    if file.sealed and file.filed:
        # Of mapped pages of a file, which keep what was written.
        madvise(file.base + FIRST, <size_t>file.filed * FILE_CHUNK, MADV_DONTNEED)
    pthread_mutex_unlock(&file.mutex)
