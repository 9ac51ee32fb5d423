"""What the CPU is asked to do with memory."""

cdef extern from * nogil:
    # Has the CPU fetch the cache line of an address, which need not be valid.
    void fetch_line "__builtin_prefetch"(const void *address) noexcept
