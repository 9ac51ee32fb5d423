"""Latencies counted in log-linear buckets, so that a histogram has one size, loses under 0.8 % and adds up exactly."""
from libc.stdint cimport uint32_t, uint64_t

cdef enum:
    HISTOGRAM_BITS = 7              # 128 buckets an octave: a bucket is at most 1/128 of its values wide
    HISTOGRAM_OCTAVES = 30          # above the linear part; ends at 2**37 ns, 137 s
    HISTOGRAM_BUCKETS = 3968        # (HISTOGRAM_OCTAVES + 1) << HISTOGRAM_BITS

cdef extern from * nogil:
    """
    #define histogram_octave(v) (63 - __builtin_clzll(v))
    """
    int histogram_octave(uint64_t v) noexcept

cdef struct Latencies:
    uint64_t count
    uint64_t sum                    # ns
    uint64_t least                  # ns; of no meaning while count is 0
    uint64_t most                   # ns
    uint64_t buckets[HISTOGRAM_BUCKETS]

cdef inline uint32_t histogram_bucket(uint64_t ns) noexcept nogil:
    """Values below 256 have buckets of their own; longer ones than the last bucket's are in the last."""
    cdef uint32_t shift
    if ns < (1 << HISTOGRAM_BITS):
        return <uint32_t>ns
    shift = <uint32_t>histogram_octave(ns) - HISTOGRAM_BITS
    if shift >= HISTOGRAM_OCTAVES:
        return HISTOGRAM_BUCKETS - 1
    return (shift << HISTOGRAM_BITS) + <uint32_t>(ns >> shift)

cdef inline void latencies_record(Latencies *latencies, uint64_t ns) noexcept nogil:
    latencies.buckets[histogram_bucket(ns)] += 1
    latencies.sum += ns
    if latencies.count == 0 or ns < latencies.least:
        latencies.least = ns
    if ns > latencies.most:
        latencies.most = ns
    latencies.count += 1

cdef void latencies_clear(Latencies *latencies) noexcept nogil
cdef void latencies_add(Latencies *latencies, const Latencies *other) noexcept nogil
# The smallest time, in ns, that a share p (0 to 1) of all took at most; 0 when there is none.
cdef uint64_t latencies_quantile(const Latencies *latencies, double p) noexcept nogil


cdef class Histogram:
    cdef Latencies latencies
