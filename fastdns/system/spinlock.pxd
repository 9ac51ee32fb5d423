"""A lock that workers take for a few hundred nanoseconds, and give up soon: its holder may have lost its CPU.

Memory order: `spin_free` releases what its holder wrote, the exchange in `spin_try` acquires it. The load before the exchange spares the cache line and
orders nothing.
"""
from libc.stdint cimport uint32_t
from fastdns.system.atomic cimport atomic_exchange32, atomic_peek32, atomic_store32

cdef extern from * nogil:
    """
    #if defined(__x86_64__)
    #define spin_pause() __builtin_ia32_pause()
    #else
    #define spin_pause() ((void)0)
    #endif
    """
    void spin_pause() noexcept

cdef enum:
    SPIN_TURNS = 256

cdef inline bint spin_try(uint32_t *lock) noexcept nogil:
    """Whether the lock is the caller's now."""
    cdef int _turn
    for _turn in range(SPIN_TURNS):
        if not atomic_peek32(lock) and not atomic_exchange32(lock, 1):
            return True
        spin_pause()
    return False

cdef inline void spin_free(uint32_t *lock) noexcept nogil:
    atomic_store32(lock, 0)
