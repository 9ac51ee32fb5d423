"""A worker's timers, as tests see them."""
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.stdlib cimport calloc, free
from fastdns.walk.query cimport Timer, Worker
from fastdns.engine.timer cimport Wheel, wheel_init, wheel_start, wheel_stop, wheel_timeout, wheel_turn

cdef struct Bench

cdef struct Alarm:                  # a timer of a Timers, and what it does to others when it fires
    Timer timer
    Bench *bench                    # it stands on; owned by the Timers
    int64_t again                   # the deadline that it gives itself; 0: none
    int32_t stops                   # the number of the one it stops, or -1
    int32_t starts                  # of the one it starts, or -1
    int64_t when                    # with this deadline

cdef struct Bench:
    Wheel wheel
    uint32_t fired
    uint32_t limit                  # of `order`, which holds the numbers of those that fired
    uint32_t *order
    Alarm alarms[1]


cdef void on_alarm(Timer *timer, Worker *worker) noexcept nogil:
    cdef Alarm *alarm = <Alarm *>timer.data
    cdef Bench *bench = alarm.bench
    cdef int64_t again = alarm.again
    if bench.fired < bench.limit:
        bench.order[bench.fired] = <uint32_t>(alarm - bench.alarms)
    bench.fired += 1
    alarm.again = 0
    if again:
        wheel_start(&bench.wheel, timer, again)
    if alarm.stops >= 0:
        wheel_stop(&bench.wheel, &bench.alarms[alarm.stops].timer)
    if alarm.starts >= 0:
        wheel_start(&bench.wheel, &bench.alarms[alarm.starts].timer, alarm.when)


cdef class Timers:
    """A wheel with numbered timers; see _timers.pyi."""
    cdef Bench *bench
    cdef readonly uint32_t number

    def __cinit__(self, uint32_t number, int64_t now=0):
        cdef uint32_t i
        self.bench = <Bench *>calloc(1, sizeof(Bench) + <size_t>number * sizeof(Alarm))
        if self.bench == NULL:
            raise MemoryError
        self.number = number
        self.bench.limit = 4 * number + 64
        self.bench.order = <uint32_t *>calloc(self.bench.limit, sizeof(uint32_t))
        if self.bench.order == NULL:
            raise MemoryError
        wheel_init(&self.bench.wheel, now)
        for i in range(number):
            self.bench.alarms[i].bench = self.bench
            self.bench.alarms[i].timer.fire = on_alarm
            self.bench.alarms[i].timer.data = &self.bench.alarms[i]
            self.bench.alarms[i].stops = self.bench.alarms[i].starts = -1

    def __dealloc__(self):
        if self.bench != NULL:
            free(self.bench.order)
            free(self.bench)

    cdef Alarm *alarm(self, uint32_t which) except NULL:
        if which >= self.number:
            raise IndexError(which)
        return &self.bench.alarms[which]

    def start(self, uint32_t which, int64_t deadline) -> None:
        wheel_start(&self.bench.wheel, &self.alarm(which).timer, deadline)

    def stop(self, uint32_t which) -> None:
        wheel_stop(&self.bench.wheel, &self.alarm(which).timer)

    def plan(self, uint32_t which, int64_t again=0, int32_t stops=-1, starts=(-1, 0)) -> None:
        cdef Alarm *alarm = self.alarm(which)
        if stops >= 0:
            self.alarm(<uint32_t>stops)
        if starts[0] >= 0:
            self.alarm(starts[0])
        alarm.again = again
        alarm.stops = stops
        alarm.starts, alarm.when = starts

    def turn(self, int64_t now) -> list:
        self.bench.fired = 0
        wheel_turn(&self.bench.wheel, NULL, now)
        if self.bench.fired > self.bench.limit:
            raise OverflowError("more timers fired than are counted")
        return [self.bench.order[i] for i in range(self.bench.fired)]

    def timeout(self, int64_t now) -> int:
        return wheel_timeout(&self.bench.wheel, now)

    def running(self, uint32_t which) -> bool:
        return self.alarm(which).timer.deadline != 0

    def __len__(self):
        return self.bench.wheel.count
