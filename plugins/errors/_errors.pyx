"""Errors of the plugins below, told after the reply is fitted: a line at once, or an entry for the thread that consolidates."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, strlen

from fastdns.telemetry.log_writer cimport LOG_LINE_MAX, log_put
from fastdns.walk.query cimport ERROR_MAX, Handler, Query
from fastdns._mux cimport NativeHandler
from fastdns.message.text cimport Text, text_char, text_name, text_number, text_printable, text_put, text_type
from fastdns._wire cimport NAME_MAX

cdef extern from *:
    """
    #include <linux/futex.h>
    #include <stdint.h>
    #include <sys/syscall.h>
    #include <time.h>
    #include <unistd.h>

    static inline uint64_t errors_load(const uint64_t *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
    static inline void errors_store(uint64_t *p, uint64_t v) { __atomic_store_n(p, v, __ATOMIC_RELEASE); }
    static inline void errors_count(uint64_t *p) { __atomic_fetch_add(p, 1, __ATOMIC_RELAXED); }
    static inline uint64_t errors_take(uint64_t *p) { return __atomic_exchange_n(p, 0, __ATOMIC_RELAXED); }
    static inline int errors_claim(uint64_t *p, uint64_t from) {
        return __atomic_compare_exchange_n(p, &from, from + 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
    }

    static uint32_t errors_asleep;

    static inline void errors_wake(void) {
        __atomic_thread_fence(__ATOMIC_SEQ_CST);    /* the entry is seen by a thread that is about to sleep, or we see that it sleeps */
        if (__atomic_load_n(&errors_asleep, __ATOMIC_RELAXED) && __atomic_exchange_n(&errors_asleep, 0, __ATOMIC_SEQ_CST))
            syscall(SYS_futex, &errors_asleep, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    }
    static inline void errors_doze(uint32_t asleep) { __atomic_store_n(&errors_asleep, asleep, __ATOMIC_SEQ_CST); }
    static inline void errors_sleep(double seconds) {
        struct timespec left = { (time_t)seconds, (long)((seconds - (time_t)seconds) * 1e9) };
        syscall(SYS_futex, &errors_asleep, FUTEX_WAIT_PRIVATE, 1, seconds < 0 ? NULL : &left, NULL, 0);
    }
    """
    uint64_t errors_load(const uint64_t *p) noexcept nogil
    void errors_store(uint64_t *p, uint64_t v) noexcept nogil
    void errors_count(uint64_t *p) noexcept nogil
    uint64_t errors_take(uint64_t *p) noexcept nogil
    bint errors_claim(uint64_t *p, uint64_t expected) noexcept nogil
    void errors_wake() noexcept nogil
    void errors_doze(uint32_t asleep) noexcept nogil
    void errors_sleep(double seconds) noexcept nogil

cdef enum:
    WAITING = 512               # entries; a power of two

cdef struct Entry:              # of a bounded queue: many workers put, one thread takes
    uint64_t turn               # whose it is: position to put, position + 1 to take
    uint64_t handler
    uint16_t rcode
    uint16_t type
    uint8_t name[NAME_MAX]      # lower case
    char error[ERROR_MAX]

cdef Entry entries[WAITING]
cdef uint64_t put_at = 0
cdef uint64_t take_at = 0
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
    text.out, text.used, text.room, text.full = line, 0, LOG_LINE_MAX, 0
    text_put(&text, b"[ERROR] plugin/errors: ", 23)
    describe(&text, q.reply.rcode, q.name.lower, q.qtype, q.error)
    log_put(q.worker.id, line, text.used)


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
        at = errors_load(&put_at)
        entry = &entries[at % WAITING]
        if errors_load(&entry.turn) == at:
            if errors_claim(&put_at, at):
                break
        elif errors_load(&put_at) == at:
            errors_count(&lost)
            return
    entry.handler = handler
    entry.rcode = q.reply.rcode
    entry.type = q.qtype
    memcpy(entry.name, q.name.lower, q.name.length)
    memcpy(entry.error, q.error, ERROR_MAX)
    errors_store(&entry.turn, at + 1)
    errors_wake()


def take(double seconds) -> list:
    """Errors that wait to be consolidated, [(handler, error, line)]; none after so many seconds (negative: no end)."""
    global take_at
    cdef list found = []
    cdef Entry *entry = &entries[take_at % WAITING]
    cdef char line[LOG_LINE_MAX]
    cdef Text text
    if seconds != 0:            # only the thread that consolidates sleeps
        with nogil:
            errors_doze(1)
            if errors_load(&entry.turn) != take_at + 1:
                errors_sleep(seconds)
            errors_doze(0)
    while len(found) < WAITING:
        entry = &entries[take_at % WAITING]
        if errors_load(&entry.turn) != take_at + 1:
            break
        text.out, text.used, text.room, text.full = line, 0, LOG_LINE_MAX, 0
        describe(&text, entry.rcode, entry.name, entry.type, entry.error)
        found.append((entry.handler, entry.error[:strlen(entry.error)].decode("utf-8", "replace"), line[:text.used].decode("ascii", "replace")))
        errors_store(&entry.turn, take_at + WAITING)
        take_at += 1
    return found


def wake() -> None:
    """Let `take` return."""
    errors_wake()


def take_lost() -> int:
    """Errors since the last call that nobody could look at."""
    return errors_take(&lost)


cdef class ErrorLog(NativeHandler):
    """ErrorLog(name, number): number 0 logs each error at once, any other is what `take` tells of errors to be consolidated."""

    def __cinit__(self, name, uint64_t number):
        self.handler.done = report_done
        self.handler.state = <void *>number

    def __init__(self, str name, uint64_t number):
        super().__init__(name)
