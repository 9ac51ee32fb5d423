"""The atomic operations of the project (GCC and clang builtins). No other file has any.

Suffixes name the type: `32` and `64` are unsigned, `_ns` and `_count` are int64_t, `_fd` is int. Unless stated otherwise, loads are acquire, stores
release, and what reads and writes is both.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t, int64_t

cdef extern from * nogil:
    """
    #include <stdint.h>
    #define ATOMIC_LOAD(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
    #define ATOMIC_STORE(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
    #define ATOMIC_EXCHANGE(p, v) __atomic_exchange_n((p), (v), __ATOMIC_ACQ_REL)
    #define ATOMIC_ADD(p, n) __atomic_add_fetch((p), (n), __ATOMIC_ACQ_REL)
    #define ATOMIC_COUNT(p, n) __atomic_add_fetch((p), (n), __ATOMIC_RELAXED)
    #define ATOMIC_PEEK(p) __atomic_load_n((p), __ATOMIC_RELAXED)
    #define ATOMIC_POKE(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)
    #define ATOMIC_BUMP(p, n) __atomic_store_n((p), __atomic_load_n((p), __ATOMIC_RELAXED) + (n), __ATOMIC_RELAXED)
    #define atomic_take_pointer(p) __atomic_exchange_n((p), (void *)0, __ATOMIC_ACQ_REL)
    static inline int atomic_swap_pointer(void **p, void *from, void *to) {
        return __atomic_compare_exchange_n(p, &from, to, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    }
    static inline int atomic_swap64(uint64_t *p, uint64_t from, uint64_t to) {
        return __atomic_compare_exchange_n(p, &from, to, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    }
    static inline int atomic_swap_ns(int64_t *p, int64_t from, int64_t to) {
        return __atomic_compare_exchange_n(p, &from, to, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    }
    static inline void atomic_fence(void) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
    """
    void *atomic_load_pointer "ATOMIC_LOAD"(void **p) noexcept
    uint32_t atomic_load32 "ATOMIC_LOAD"(const uint32_t *p) noexcept
    uint64_t atomic_load64 "ATOMIC_LOAD"(const uint64_t *p) noexcept
    int64_t atomic_load_ns "ATOMIC_LOAD"(const int64_t *p) noexcept
    void atomic_store_pointer "ATOMIC_STORE"(void **p, void *v) noexcept
    void atomic_store32 "ATOMIC_STORE"(uint32_t *p, uint32_t v) noexcept
    void atomic_store64 "ATOMIC_STORE"(uint64_t *p, uint64_t v) noexcept
    void atomic_store_ns "ATOMIC_STORE"(int64_t *p, int64_t v) noexcept
    uint32_t atomic_exchange32 "ATOMIC_EXCHANGE"(uint32_t *p, uint32_t v) noexcept      # the former value
    uint64_t atomic_exchange64 "ATOMIC_EXCHANGE"(uint64_t *p, uint64_t v) noexcept
    void *atomic_take_pointer(void **p) noexcept                # exchanges it for NULL
    uint32_t atomic_add32 "ATOMIC_ADD"(uint32_t *p, uint32_t n) noexcept                # the new value
    # Compare and exchange: whether *p was `old` and is `new` now.
    bint atomic_swap_pointer(void **p, void *old, void *new) noexcept
    bint atomic_swap64(uint64_t *p, uint64_t old, uint64_t new) noexcept
    bint atomic_swap_ns(int64_t *p, int64_t old, int64_t new) noexcept
    # Sequentially consistent: what this thread stored before it is seen before what it loads after it.
    void atomic_fence() noexcept
    # ---- relaxed: values are whole, and no order is implied ----
    # What several threads add to. The new value.
    uint64_t atomic_count64 "ATOMIC_COUNT"(uint64_t *p, uint64_t n) noexcept
    int64_t atomic_add_count "ATOMIC_COUNT"(int64_t *p, int64_t n) noexcept
    # What plain loads and stores cost.
    uint8_t atomic_peek8 "ATOMIC_PEEK"(const uint8_t *p) noexcept
    uint32_t atomic_peek32 "ATOMIC_PEEK"(const uint32_t *p) noexcept
    uint64_t atomic_peek64 "ATOMIC_PEEK"(const uint64_t *p) noexcept
    int64_t atomic_peek_ns "ATOMIC_PEEK"(const int64_t *p) noexcept
    int64_t atomic_peek_count "ATOMIC_PEEK"(const int64_t *p) noexcept
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
