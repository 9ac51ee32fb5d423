"""Counters of a debug build (``FASTDNS_DEBUG=1``).

Memory is counted by debug.h, without a word in the modules. What is no memory of its own (a timer that runs, an entry in a pool) counts by these
macros, which are empty in every other build: `debug_made` where it begins, `debug_freed` where it ends, in the same module, with the same literal.
"""

cdef extern from *:
    """
    #ifdef FASTDNS_DEBUG_H
    static void fastdns_debug_named(const char *what, int n)
    {
        static struct fastdns_debug_counter named[4];
        int i = 0;
        while (i < 3 && named[i].what != NULL && strcmp(named[i].what, what) != 0)
            i++;
        __atomic_store_n(&named[i].what, what, __ATOMIC_RELEASE);
        fastdns_debug_add(&named[i], n);
    }
    #define debug_made(what) fastdns_debug_named(what, 1)
    #define debug_freed(what) fastdns_debug_named(what, -1)
    #else
    #define debug_made(what) ((void)0)
    #define debug_freed(what) ((void)0)
    #endif
    """
    void debug_made(const char *what) noexcept nogil
    void debug_freed(const char *what) noexcept nogil
