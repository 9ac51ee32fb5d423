"""Log lines: a ring for each worker, and one native thread that writes them to standard output. The contract is in telemetry/log_writer.pxd.

The writer sleeps on a futex. After a wake-up it waits a few milliseconds for further lines before it writes, so that a line per query costs one wake-up
per batch of lines.

Memory order. `head` releases a line to the writer, `tail` its space to the worker; each side loads the other's with acquire. A ring is released by the
pointer to it. `flush` counts on the batch growing before `tail` does: it loads them the other way round.
"""
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport calloc
from libc.string cimport memchr, memcpy
from posix.unistd cimport usleep

from fastdns.system.atomic cimport (atomic_count64, atomic_exchange32, atomic_load64, atomic_load_pointer, atomic_peek32, atomic_peek_fd,
                                    atomic_poke32, atomic_poke_fd, atomic_store64, atomic_store_pointer)
from fastdns.system.futex cimport sleeper_begin, sleeper_end, sleeper_wait, sleeper_wake
from fastdns.telemetry.metrics cimport METRIC_CONTROL
from fastdns.system.socket cimport POLLOUT, poll, pollfd, write
from fastdns.system.thread cimport thread_start

cdef extern from *:
    """
    #include <pthread.h>

    static pthread_mutex_t log_control = PTHREAD_MUTEX_INITIALIZER;

    static inline void log_lock(void) { pthread_mutex_lock(&log_control); }
    static inline void log_unlock(void) { pthread_mutex_unlock(&log_control); }

    """
    void log_lock() noexcept nogil
    void log_unlock() noexcept nogil

cdef enum:
    RING_SIZE = 262144          # octets; a power of two
    BATCH = 65536               # octets of one write
    COMPANY = 4000              # microseconds from the first line of a batch to its write

cdef struct Head:               # header of a line in a ring, aligned to 8; the text follows
    uint64_t number             # lines are numbered across all rings and written in this order
    uint64_t length             # octets of the text, newline included

cdef struct Ring:               # one producer, one consumer; positions are never reset
    uint64_t head               # atomic; octets put, up to the end of a line, rounded up to 8
    uint64_t dropped            # atomic; lines
    uint64_t padding[6]
    uint64_t tail               # atomic; octets taken
    uint64_t more_padding[7]
    char data[RING_SIZE]

cdef void *rings[METRIC_CONTROL + 1]    # allocated by a worker's first line
cdef uint64_t last_number = 0
cdef uint32_t asleep = 0                # 1 while the writer waits for a line
cdef uint32_t started = 0               # 1 once there is a writer
cdef char batch[BATCH]                  # used by the writer only
cdef uint64_t batch_length = 0          # octets taken from the rings and not yet written
cdef uint64_t refused = 0               # lines lost because writing failed
cdef int output = 1
cdef uint32_t log_debug = 0


cdef int log_write(uint32_t worker, const char *line, uint32_t length) noexcept nogil:
    cdef int status
    if worker < METRIC_CONTROL:
        status = ring_put(worker, line, length)
    else:
        log_lock()
        status = ring_put(METRIC_CONTROL, line, length)
        log_unlock()
    if not atomic_peek32(&started) and not atomic_exchange32(&started, 1):
        thread_start(write_lines, b"log")
    sleeper_wake(&asleep)
    return status


cdef int ring_put(uint32_t worker, const char *line, uint32_t length) noexcept nogil:
    cdef Ring *ring = <Ring *>rings[worker]
    cdef Head line_head
    if ring == NULL:
        ring = <Ring *>calloc(1, sizeof(Ring))
        if ring == NULL:
            return -1
        atomic_store_pointer(&rings[worker], ring)
    if record_size(length + 1) > RING_SIZE - (ring.head - atomic_load64(&ring.tail)):
        atomic_count64(&ring.dropped, 1)
        return -1
    line_head.number = atomic_count64(&last_number, 1)
    line_head.length = length + 1
    ring_write(ring, ring.head, &line_head, sizeof(Head))
    ring_write(ring, ring.head + sizeof(Head), line, length)
    ring_write(ring, ring.head + sizeof(Head) + length, b"\n", 1)
    atomic_store64(&ring.head, ring.head + record_size(length + 1))
    return 0


cdef inline uint64_t record_size(uint64_t length) noexcept nogil:
    return sizeof(Head) + ((length + 7) & ~<uint64_t>7)


cdef inline void ring_write(Ring *ring, uint64_t position, const void *what, uint64_t length) noexcept nogil:
    cdef uint64_t at = position % RING_SIZE
    cdef uint64_t part = min(length, RING_SIZE - at)
    memcpy(ring.data + at, what, part)
    memcpy(ring.data, <const char *>what + part, length - part)


cdef inline void ring_read(const Ring *ring, uint64_t position, void *out, uint64_t length) noexcept nogil:
    cdef uint64_t at = position % RING_SIZE
    cdef uint64_t part = min(length, RING_SIZE - at)
    memcpy(out, ring.data + at, part)
    memcpy(<char *>out + part, ring.data, length - part)


# ---- the writer ----

cdef void *write_lines(void *nothing) noexcept nogil:
    while True:
        if write_batch():
            usleep(COMPANY)
            continue
        sleeper_begin(&asleep)
        if waiting():
            sleeper_end(&asleep)
            continue
        sleeper_wait(&asleep)
        usleep(COMPANY)


cdef bint waiting() noexcept nogil:
    """Whether a line has not been written yet."""
    cdef Ring *ring
    cdef uint32_t i
    for i in range(METRIC_CONTROL + 1):
        ring = <Ring *>atomic_load_pointer(&rings[i])
        if ring != NULL and atomic_load64(&ring.head) != atomic_load64(&ring.tail):
            return True
    return atomic_load64(&batch_length) != 0


cdef bint write_batch() noexcept nogil:
    """Writes the contents of the rings in batches. Returns whether there was anything to write."""
    cdef bint any = False, full = True
    while full and collect():   # lines put after a batch that was not full wait for the next one
        any = True
        full = batch_length > BATCH // 2
        write_out()
    return any


cdef bint collect() noexcept nogil:
    """Fills the batch with lines in the order of their numbers. False when there are none."""
    cdef Ring *ring
    cdef Ring *first
    cdef Head head
    cdef Head first_head
    cdef uint32_t i
    while True:
        first = NULL
        for i in range(METRIC_CONTROL + 1):
            ring = <Ring *>atomic_load_pointer(&rings[i])
            if ring == NULL or atomic_load64(&ring.head) == ring.tail:
                continue
            ring_read(ring, ring.tail, &head, sizeof(Head))
            if first == NULL or head.number < first_head.number:
                first, first_head = ring, head
        if first == NULL or first_head.length > BATCH - batch_length:
            return batch_length > 0
        ring_read(first, first.tail + sizeof(Head), batch + batch_length, first_head.length)
        atomic_store64(&batch_length, batch_length + first_head.length)
        atomic_store64(&first.tail, first.tail + record_size(first_head.length))


cdef void write_out() noexcept nogil:
    """Writes the batch. When writing fails (the reader has closed, the disk is full) the lines are dropped and counted."""
    cdef pollfd ready
    cdef uint64_t done = 0
    cdef ssize_t written
    while done < batch_length:
        written = write(atomic_peek_fd(&output), batch + done, batch_length - done)
        if written > 0:
            done += written
        elif errno == EAGAIN:
            ready.fd = atomic_peek_fd(&output)
            ready.events = POLLOUT
            poll(&ready, 1, 1000)
        elif errno != EINTR:
            atomic_count64(&refused, count_lines(batch + done, batch + batch_length))
            break
    atomic_store64(&batch_length, 0)


cdef uint64_t count_lines(const char *at, const char *end) noexcept nogil:
    cdef uint64_t lines = 0
    while at < end:
        at = <const char *>memchr(at, c'\n', end - at)
        if at == NULL:
            break
        at += 1
        lines += 1
    return lines


# ---- Python ----

def flush(double timeout=1.0) -> bool:
    """Wait until all lines queued so far are written. False when that takes longer than `timeout` seconds (the output is blocked)."""
    cdef int naps = <int>(timeout * 1000)
    with nogil:
        while waiting():
            if naps <= 0:
                break
            naps -= 1
            usleep(1000)
    return not waiting()


def dropped() -> int:
    """The number of lines dropped: a ring was full, or writing failed."""
    cdef Ring *ring
    cdef uint32_t i
    count = atomic_load64(&refused)
    for i in range(METRIC_CONTROL + 1):
        ring = <Ring *>atomic_load_pointer(&rings[i])
        if ring != NULL:
            count += atomic_load64(&ring.dropped)
    return count


def set_output(int fd) -> int:
    """Set the descriptor that lines are written to. Returns the former one."""
    global output
    before = output
    atomic_poke_fd(&output, fd)
    return before


def set_debug(bint wanted) -> None:
    """Whether DEBUG lines are wanted."""
    atomic_poke32(&log_debug, wanted)


def debugging() -> bool:
    """Whether DEBUG lines are wanted."""
    return log_wants_debug()
