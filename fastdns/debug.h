/* Counters of native memory in a debug build: setup.py includes this before every C file of one, and in no other build.

   malloc, calloc and realloc count at the place that calls them, free takes off again what its block counted for. Each extension module has a list
   of its counters, fastdns_debug_list; system/debug.pyx reads them all. */
#ifndef FASTDNS_DEBUG_H
#define FASTDNS_DEBUG_H

#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct fastdns_debug_counter {
    const char *what;           /* the octets asked for, as the source says it, or the name of a counter that is not of memory */
    const char *function;       /* NULL: not of memory */
    int64_t made;
    int64_t live;
    struct fastdns_debug_counter *next;
    int listed;
};

struct fastdns_debug_block {    /* before each block: its 16 octets keep the alignment */
    struct fastdns_debug_counter *counter;
    uint64_t mark;              /* tells our blocks from those that libc made */
};

__attribute__((visibility("default"))) struct fastdns_debug_counter *fastdns_debug_list;

#define FASTDNS_DEBUG_MARK(block) (0x6661737464627567ULL ^ (uint64_t)(uintptr_t)(block))

static inline void fastdns_debug_add(struct fastdns_debug_counter *counter, int n)
{
    struct fastdns_debug_counter *first;
    if (!__atomic_exchange_n(&counter->listed, 1, __ATOMIC_ACQ_REL)) {
        first = __atomic_load_n(&fastdns_debug_list, __ATOMIC_ACQUIRE);
        do {
            counter->next = first;
        } while (!__atomic_compare_exchange_n(&fastdns_debug_list, &first, counter, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
    }
    if (n > 0)
        __atomic_fetch_add(&counter->made, n, __ATOMIC_RELAXED);
    __atomic_fetch_add(&counter->live, n, __ATOMIC_RELAXED);
}

static inline struct fastdns_debug_block *fastdns_debug_block_of(void *memory)
{
    struct fastdns_debug_block *block = (struct fastdns_debug_block *)memory - 1;
    return ((uintptr_t)memory & 15) == 0 && block->mark == FASTDNS_DEBUG_MARK(block) ? block : NULL;
}

static inline void *fastdns_debug_begin(struct fastdns_debug_counter *counter, void *memory)
{
    struct fastdns_debug_block *block = (struct fastdns_debug_block *)memory;
    if (block == NULL)
        return NULL;
    block->counter = counter;
    block->mark = FASTDNS_DEBUG_MARK(block);
    fastdns_debug_add(counter, 1);
    return block + 1;
}

static inline void *fastdns_debug_malloc(struct fastdns_debug_counter *counter, size_t size)
{
    return size > SIZE_MAX - sizeof(struct fastdns_debug_block) ? NULL : fastdns_debug_begin(counter, malloc(sizeof(struct fastdns_debug_block) + size));
}

static inline void *fastdns_debug_calloc(struct fastdns_debug_counter *counter, size_t count, size_t size)
{
    size_t all;
    if (__builtin_mul_overflow(count, size, &all) || all > SIZE_MAX - sizeof(struct fastdns_debug_block))
        return NULL;
    return fastdns_debug_begin(counter, calloc(1, sizeof(struct fastdns_debug_block) + all));
}

static inline void *fastdns_debug_realloc(struct fastdns_debug_counter *counter, void *memory, size_t size)
{
    struct fastdns_debug_block *block, *moved;
    if (memory == NULL)
        return fastdns_debug_malloc(counter, size);
    block = fastdns_debug_block_of(memory);
    if (block == NULL)
        return realloc(memory, size);
    if (size > SIZE_MAX - sizeof(struct fastdns_debug_block))
        return NULL;
    moved = (struct fastdns_debug_block *)realloc(block, sizeof(struct fastdns_debug_block) + size);
    if (moved == NULL)
        return NULL;
    moved->mark = FASTDNS_DEBUG_MARK(moved);
    return moved + 1;
}

static inline void fastdns_debug_free(void *memory)
{
    struct fastdns_debug_block *block = memory != NULL ? fastdns_debug_block_of(memory) : NULL;
    if (block == NULL) {
        free(memory);
        return;
    }
    fastdns_debug_add(block->counter, -1);
    block->mark = 0;
    free(block);
}

#define FASTDNS_DEBUG_COUNTER(what) __extension__({ static struct fastdns_debug_counter counter = {what, __func__, 0, 0, NULL, 0}; &counter; })
#define malloc(size) fastdns_debug_malloc(FASTDNS_DEBUG_COUNTER(#size), size)
#define calloc(count, size) fastdns_debug_calloc(FASTDNS_DEBUG_COUNTER(#count ", " #size), count, size)
#define realloc(memory, size) fastdns_debug_realloc(FASTDNS_DEBUG_COUNTER(#size), memory, size)
/* Without its parentheses: its address is taken, too. */
#define free fastdns_debug_free

#endif
