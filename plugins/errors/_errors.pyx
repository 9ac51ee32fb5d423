"""Errors of the plugins below, logged after the reply is fitted: a line at once, or an entry for the thread that consolidates.

Memory order. The worker that has taken a position of the queue (an exchange of `put_at`) releases the entry by its `turn`; the taker acquires it, and
releases the place by the next turn, which the worker that gets it acquires. The taker sleeps by fastdns/system/futex.pxd: `sleeper_begin`, then a look
at the turn.
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, strlen

from fastdns.api.query cimport ERROR_MAX, Handler, NativeHandler, Query, handler_init
from fastdns.api.names cimport NAME_MAX
from fastdns.api.log cimport LOG_ERROR, LOG_LINE_MAX, log_put
from fastdns.api.text cimport Text, text_char, text_name, text_number, text_printable, text_put, text_type
from fastdns.api.memory cimport (atomic_count64, atomic_exchange64, atomic_load64, atomic_store64, atomic_swap64, sleeper_begin, sleeper_end,
                                 sleeper_wait_for, sleeper_wake)

cdef enum:
    WAITING = 512               # entries; a power of two

cdef struct Entry:              # of a bounded queue: many workers put, one thread at a time takes, with the GIL
    uint64_t turn               # atomic; whose it is: position to put, position + 1 to take
    uint64_t handler
    uint16_t rcode
    uint16_t type
    uint8_t name[NAME_MAX]      # lower case
    char error[ERROR_MAX]

cdef Entry entries[WAITING]
cdef uint64_t put_at = 0        # atomic
cdef uint64_t take_at = 0       # atomic; written with the GIL
cdef uint32_t asleep = 0        # 1 while the thread that consolidates waits for an entry
cdef uint64_t lost = 0          # errors that found the queue full

cdef uint32_t position
for position in range(WAITING):
    entries[position].turn = position


cdef void report_done(Handler *self, Query *q) noexcept nogil:
    if not q.error[0]:
        return
    if self.state == NULL:
        write_line(q)
    else:
        put_entry(<uint64_t>self.state, q)


cdef void write_line(const Query *q) noexcept nogil:
    cdef char line[LOG_LINE_MAX]
    cdef Text text
    text.out, text.used, text.capacity, text.full = line, 0, LOG_LINE_MAX, 0
    describe(&text, q.reply.rcode, q.name.lower, q.qtype, q.error)
    log_put(q.worker.id, LOG_ERROR, b"errors", line, text.used)


cdef void describe(Text *text, uint16_t rcode, const uint8_t *name, uint16_t type, const char *error) noexcept nogil:
    text_number(text, rcode)
    text_char(text, c' ')
    text_name(text, name)
    text_char(text, c' ')
    text_type(text, type)
    text_put(text, b": ", 2)
    text_printable(text, error)


cdef void put_entry(uint64_t handler, const Query *q) noexcept nogil:
    cdef uint64_t at
    cdef Entry *entry
    while True:
        at = atomic_load64(&put_at)
        entry = &entries[at % WAITING]
        if atomic_load64(&entry.turn) == at:
            if atomic_swap64(&put_at, at, at + 1):
                break
        elif atomic_load64(&put_at) == at:
            atomic_count64(&lost, 1)
            return
    entry.handler = handler
    entry.rcode = q.reply.rcode
    entry.type = q.qtype
    memcpy(entry.name, q.name.lower, q.name.length)
    memcpy(entry.error, q.error, ERROR_MAX)
    atomic_store64(&entry.turn, at + 1)
    sleeper_wake(&asleep)


def take(double seconds) -> list:
    """Errors that wait to be consolidated, [(handler, error, line)]; none after so many seconds (negative: no end)."""
    cdef list found = []
    cdef Entry *entry
    cdef char line[LOG_LINE_MAX]
    cdef Text text
    if seconds != 0:            # only the thread that consolidates sleeps
        with nogil:
            sleeper_begin(&asleep)
            if is_empty():
                sleeper_wait_for(&asleep, seconds)
            sleeper_end(&asleep)
    while len(found) < WAITING:
        entry = &entries[take_at % WAITING]
        if atomic_load64(&entry.turn) != take_at + 1:
            break
        text.out, text.used, text.capacity, text.full = line, 0, LOG_LINE_MAX, 0
        describe(&text, entry.rcode, entry.name, entry.type, entry.error)
        found.append((entry.handler, entry.error[:strlen(entry.error)].decode("utf-8", "replace"), line[:text.used].decode("ascii", "replace")))
        atomic_store64(&entry.turn, take_at + WAITING)
        atomic_store64(&take_at, take_at + 1)
    return found


cdef bint is_empty() noexcept nogil:
    """Without the GIL: another thread may take meanwhile, and then the position to look at is another one."""
    cdef uint64_t at, turn
    while True:
        at = atomic_load64(&take_at)
        turn = atomic_load64(&entries[at % WAITING].turn)
        if turn == at or turn == at + 1:
            return turn == at


def take_lost() -> int:
    """Errors since the last call that nobody could look at."""
    return atomic_exchange64(&lost, 0)


cdef class ErrorLog(NativeHandler):
    """ErrorLog(name, number): number 0 logs each error at once, any other is what `take` tells of errors to be consolidated."""

    def __cinit__(self, name, uint64_t number):
        handler_init(self)
        self.handler.done = report_done
        self.handler.state = <void *>number

    def __init__(self, str name, uint64_t number):
        super().__init__(name)
