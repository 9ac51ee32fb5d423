"""A worker's timers: one wheel of slots of about 4 ms, so that starting and stopping cost nothing to speak of."""
from libc.stdint cimport uint32_t, uint64_t, int64_t
from fastdns.system.list cimport List
from fastdns.walk.query cimport Timer, Worker

cdef enum:
    WHEEL_SLOTS = 1024
    WHEEL_WORDS = 16                # of 64 slots
    WHEEL_SHIFT = 22                # ns in a slot, as a power of two: 4.19 ms; the wheel turns in 4.3 s

cdef struct Wheel:
    List slots[WHEEL_SLOTS]
    uint64_t occupied[WHEEL_WORDS]
    int64_t turned                  # slots since the epoch of the clock up to which all timers have fired
    uint32_t count

cdef void wheel_init(Wheel *wheel, int64_t now) noexcept nogil
cdef void wheel_start(Wheel *wheel, Timer *timer, int64_t deadline) noexcept nogil
cdef void wheel_stop(Wheel *wheel, Timer *timer) noexcept nogil
# Fires what is due; a timer that fires is stopped first and may start itself again.
cdef void wheel_turn(Wheel *wheel, Worker *worker, int64_t now) noexcept nogil
# Milliseconds until something may be due, -1 when nothing is running.
cdef int wheel_timeout(const Wheel *wheel, int64_t now) noexcept nogil
