"""A worker's timers. The contract is in engine/timer.pxd."""
from libc.stdint cimport uint32_t, uint64_t, int64_t
from libc.string cimport memset
from fastdns.system.debug cimport debug_freed, debug_made
from fastdns.system.list cimport list_append, list_first, list_init, list_is_empty, list_move_all, list_remove

cdef extern from * nogil:
    int __builtin_ctzll(unsigned long long) noexcept


cdef void wheel_init(Wheel *wheel, int64_t now) noexcept nogil:
    cdef uint32_t i
    memset(wheel, 0, sizeof(Wheel))
    for i in range(WHEEL_SLOTS):
        list_init(&wheel.slots[i])
    wheel.turned = now >> WHEEL_SHIFT


cdef void wheel_start(Wheel *wheel, Timer *timer, int64_t deadline) noexcept nogil:
    cdef int64_t tick
    cdef uint32_t slot
    if timer.deadline:
        wheel_stop(wheel, timer)
    # Rounded up, so that nothing fires early; what is past goes into the slot that is turned next.
    tick = (deadline >> WHEEL_SHIFT) + 1
    if tick <= wheel.turned:
        tick = wheel.turned + 1
    slot = <uint32_t>tick & (WHEEL_SLOTS - 1)
    timer.deadline = deadline if deadline > 0 else 1
    list_append(&wheel.slots[slot], &timer.node)
    wheel.occupied[slot >> 6] |= <uint64_t>1 << (slot & 63)
    wheel.count += 1
    debug_made("running timers")


cdef void wheel_stop(Wheel *wheel, Timer *timer) noexcept nogil:
    if timer.deadline == 0:
        return
    list_remove(&timer.node)
    timer.deadline = 0
    wheel.count -= 1
    debug_freed("running timers")
    # An empty slot must not wake the worker.
    cdef int64_t slot
    if timer.node.next == timer.node.previous:
        slot = <List *>timer.node.next - &wheel.slots[0]
        if 0 <= slot < WHEEL_SLOTS:
            wheel.occupied[slot >> 6] &= ~(<uint64_t>1 << (slot & 63))


cdef void wheel_turn(Wheel *wheel, Worker *worker, int64_t now) noexcept nogil:
    cdef int64_t upto = now >> WHEEL_SHIFT
    cdef uint32_t slot
    cdef List due
    cdef Timer *timer
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
        if list_is_empty(&wheel.slots[slot]):
            continue
        # The slot's list moves aside: a timer that fires may stop or start any other.
        list_move_all(&due, &wheel.slots[slot])
        while not list_is_empty(&due):
            timer = <Timer *>list_first(&due)
            if timer.deadline <= now:
                wheel_stop(wheel, timer)
                timer.fire(timer, worker)
                continue
            # A later turn of the wheel: back into the slot.
            list_remove(&timer.node)
            list_append(&wheel.slots[slot], &timer.node)
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
