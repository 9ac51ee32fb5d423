"""The few atomic operations that threads share memory with (GCC and clang builtins)."""
from libc.stdint cimport uint32_t, uint64_t, int64_t

cdef extern from * nogil:
    """
    #include <stdint.h>
    #define atomic_load_pointer(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
    #define atomic_store_pointer(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
    #define atomic_take_pointer(p) __atomic_exchange_n((p), (void *)0, __ATOMIC_ACQ_REL)
    static inline int atomic_swap_pointer(void **p, void *from, void *to) {
        return __atomic_compare_exchange_n(p, &from, to, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    }
    static inline uint32_t atomic_load32(const uint32_t *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
    static inline void atomic_store32(uint32_t *p, uint32_t v) { __atomic_store_n(p, v, __ATOMIC_RELEASE); }
    static inline uint32_t atomic_exchange32(uint32_t *p, uint32_t v) { return __atomic_exchange_n(p, v, __ATOMIC_ACQ_REL); }
    static inline uint32_t atomic_add32(uint32_t *p, uint32_t v) { return __atomic_add_fetch(p, v, __ATOMIC_ACQ_REL); }
    static inline int64_t atomic_load64(const int64_t *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
    static inline void atomic_fence(void) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
    """
    void *atomic_load_pointer(void **p) noexcept
    void atomic_store_pointer(void **p, void *v) noexcept
    void *atomic_take_pointer(void **p) noexcept                # exchanges it for NULL
    bint atomic_swap_pointer(void **p, void *old, void *new) noexcept
    uint32_t atomic_load32(const uint32_t *p) noexcept
    void atomic_store32(uint32_t *p, uint32_t v) noexcept
    uint32_t atomic_exchange32(uint32_t *p, uint32_t v) noexcept
    uint32_t atomic_add32(uint32_t *p, uint32_t v) noexcept
    int64_t atomic_load64(const int64_t *p) noexcept
    void atomic_fence() noexcept
