"""The few atomic operations that threads share memory with (GCC and clang builtins)."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t, int64_t

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
    #define ATOMIC_PEEK(p) __atomic_load_n((p), __ATOMIC_RELAXED)
    #define ATOMIC_POKE(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)
    #define ATOMIC_BUMP(p, n) __atomic_store_n((p), __atomic_load_n((p), __ATOMIC_RELAXED) + (n), __ATOMIC_RELAXED)
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
    # Relaxed: values are whole, and nothing is said about order. What plain loads and stores cost.
    uint8_t atomic_peek8 "ATOMIC_PEEK"(const uint8_t *p) noexcept
    uint32_t atomic_peek32 "ATOMIC_PEEK"(const uint32_t *p) noexcept
    uint64_t atomic_peek64 "ATOMIC_PEEK"(const uint64_t *p) noexcept
    int64_t atomic_peek_ns "ATOMIC_PEEK"(const int64_t *p) noexcept
    int atomic_peek_fd "ATOMIC_PEEK"(const int *p) noexcept
    void atomic_poke8 "ATOMIC_POKE"(uint8_t *p, uint8_t v) noexcept
    void atomic_poke32 "ATOMIC_POKE"(uint32_t *p, uint32_t v) noexcept
    void atomic_poke64 "ATOMIC_POKE"(uint64_t *p, uint64_t v) noexcept
    void atomic_poke_ns "ATOMIC_POKE"(int64_t *p, int64_t v) noexcept
    void atomic_poke_fd "ATOMIC_POKE"(int *p, int v) noexcept
    # Adds to a number that no other thread writes, though others read it.
    void atomic_bump32 "ATOMIC_BUMP"(uint32_t *p, int n) noexcept
    void atomic_bump64 "ATOMIC_BUMP"(uint64_t *p, uint64_t n) noexcept
    void atomic_bump_count "ATOMIC_BUMP"(int64_t *p, int n) noexcept
