"""A worker's timers. The contract is in engine/timer.pxd."""
from libc.stdint cimport int32_t, uint32_t, uint64_t, int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

cdef extern from * nogil:
    int __builtin_ctzll(unsigned long long) noexcept


cdef void wheel_init(Wheel *wheel, int64_t now) noexcept nogil:
    cdef uint32_t i
    memset(wheel, 0, sizeof(Wheel))
    for i in range(WHEEL_SLOTS):
        wheel.slots[i].next = &wheel.slots[i]
        wheel.slots[i].previous = &wheel.slots[i]
    wheel.turned = now >> WHEEL_SHIFT


cdef void wheel_start(Wheel *wheel, Timer *timer, int64_t deadline) noexcept nogil:
    cdef int64_t tick
    cdef uint32_t slot
    cdef Timer *head
    if timer.deadline:
        wheel_stop(wheel, timer)
    # Rounded up, so that nothing fires early; what is past goes into the slot that is turned next.
    tick = (deadline >> WHEEL_SHIFT) + 1
    if tick <= wheel.turned:
        tick = wheel.turned + 1
    slot = <uint32_t>tick & (WHEEL_SLOTS - 1)
    head = &wheel.slots[slot]
    timer.deadline = deadline if deadline > 0 else 1
    timer.next = head
    timer.previous = head.previous
    head.previous.next = timer
    head.previous = timer
    wheel.occupied[slot >> 6] |= <uint64_t>1 << (slot & 63)
    wheel.count += 1


cdef void wheel_stop(Wheel *wheel, Timer *timer) noexcept nogil:
    if timer.deadline == 0:
        return
    timer.previous.next = timer.next
    timer.next.previous = timer.previous
    timer.deadline = 0
    wheel.count -= 1
    # An empty slot must not wake the worker.
    cdef int64_t slot
    if timer.next == timer.previous:
        slot = timer.next - &wheel.slots[0]
        if 0 <= slot < WHEEL_SLOTS:
            wheel.occupied[slot >> 6] &= ~(<uint64_t>1 << (slot & 63))


cdef void wheel_turn(Wheel *wheel, Worker *worker, int64_t now) noexcept nogil:
    cdef int64_t upto = now >> WHEEL_SHIFT
    cdef uint32_t slot
    cdef Timer due
    cdef Timer *timer
    cdef Timer *head
    if wheel.count == 0:
        wheel.turned = upto
        return
    if upto - wheel.turned > WHEEL_SLOTS:
        wheel.turned = upto - WHEEL_SLOTS
    while wheel.turned < upto:
        wheel.turned += 1
        slot = <uint32_t>wheel.turned & (WHEEL_SLOTS - 1)
        if wheel.occupied[slot >> 6] & (<uint64_t>1 << (slot & 63)) == 0:
            continue
        wheel.occupied[slot >> 6] &= ~(<uint64_t>1 << (slot & 63))
        head = &wheel.slots[slot]
        if head.next == head:
            continue
        # The slot's list moves aside: a timer that fires may stop or start any other.
        due.next = head.next
        due.previous = head.previous
        due.next.previous = &due
        due.previous.next = &due
        head.next = head
        head.previous = head
        while due.next != &due:
            timer = due.next
            if timer.deadline <= now:
                wheel_stop(wheel, timer)
                timer.fire(timer, worker)
                continue
            # A later turn of the wheel: back into the slot.
            timer.previous.next = timer.next
            timer.next.previous = timer.previous
            timer.next = head
            timer.previous = head.previous
            head.previous.next = timer
            head.previous = timer
            wheel.occupied[slot >> 6] |= <uint64_t>1 << (slot & 63)


cdef int wheel_timeout(const Wheel *wheel, int64_t now) noexcept nogil:
    cdef uint32_t i, slot, word
    cdef uint64_t bits
    cdef int64_t ahead
    if wheel.count == 0:
        return -1
    slot = <uint32_t>(wheel.turned + 1) & (WHEEL_SLOTS - 1)
    for i in range(WHEEL_WORDS + 1):
        word = ((slot >> 6) + i) & (WHEEL_WORDS - 1)
        bits = wheel.occupied[word]
        if i == 0:
            bits &= ~<uint64_t>0 << (slot & 63)
        if bits:
            ahead = (((word << 6) + <uint32_t>__builtin_ctzll(bits)) - slot) & (WHEEL_SLOTS - 1)
            ahead = ((wheel.turned + 1 + ahead) << WHEEL_SHIFT) - now
            return <int>(ahead // 1000000) + 1 if ahead > 0 else 0
    return -1


# ---- the Python side: tests ----

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
    """A wheel with numbered timers; see engine/timer.pyi."""
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
