"""A thread that sleeps on a word of memory (futex(2)), woken by others only while it sleeps.

The sleeper says so (`sleeper_begin`), looks once more for work, and waits. Whoever has put work where the sleeper looks calls `sleeper_wake`:
it makes a system call only while the word is 1. Neither the work nor the wake-up can be missed.

Memory order: as in a mailbox. Each side stores (the work, the word), has a full fence, and loads what the other one stores: with less than the two
fences both may load the old value. The work has a release and acquire pair of its own.
"""
from libc.stdint cimport uint32_t
from fastdns.system.atomic cimport atomic_exchange32, atomic_fence, atomic_load32, atomic_peek32, atomic_store32

cdef extern from * nogil:
    """
    #include <linux/futex.h>
    #include <sys/syscall.h>
    #include <time.h>
    #include <unistd.h>

    static inline void futex_wake(uint32_t *word) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0); }
    static inline void futex_wait(uint32_t *word, uint32_t value, double seconds) {
        struct timespec left = { (time_t)seconds, (long)((seconds - (time_t)seconds) * 1e9) };
        syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, seconds < 0 ? NULL : &left, NULL, 0);
    }
    """
    void futex_wake(uint32_t *word) noexcept
    void futex_wait(uint32_t *word, uint32_t value, double seconds) noexcept

cdef inline void sleeper_wake(uint32_t *asleep) noexcept nogil:
    atomic_fence()
    if atomic_peek32(asleep) and atomic_exchange32(asleep, 0):
        futex_wake(asleep)

cdef inline void sleeper_begin(uint32_t *asleep) noexcept nogil:
    """From here on others wake the thread; it looks for work before it waits."""
    atomic_store32(asleep, 1)
    atomic_fence()

cdef inline void sleeper_end(uint32_t *asleep) noexcept nogil:
    atomic_store32(asleep, 0)

cdef inline void sleeper_wait(uint32_t *asleep) noexcept nogil:
    """Until woken."""
    while atomic_load32(asleep):
        futex_wait(asleep, 1, -1)

cdef inline void sleeper_wait_for(uint32_t *asleep, double seconds) noexcept nogil:
    """Until woken, or a signal came, or so many seconds have passed (negative: no limit)."""
    futex_wait(asleep, 1, seconds)
