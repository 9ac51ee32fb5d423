"""Latencies in log-linear buckets. The contract is in _histogram.pxd."""
from libc.math cimport ceil
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcmp, memset


cdef void latencies_clear(Latencies *latencies) noexcept nogil:
    memset(latencies, 0, sizeof(Latencies))


cdef void latencies_add(Latencies *latencies, const Latencies *other) noexcept nogil:
    cdef uint32_t i
    if other.count == 0:
        return
    if latencies.count == 0 or other.least < latencies.least:
        latencies.least = other.least
    if other.most > latencies.most:
        latencies.most = other.most
    latencies.count += other.count
    latencies.sum += other.sum
    for i in range(HISTOGRAM_BUCKETS):
        latencies.buckets[i] += other.buckets[i]


cdef inline uint64_t bucket_start(uint32_t bucket) noexcept nogil:
    cdef uint32_t shift
    if bucket < (2 << HISTOGRAM_BITS):
        return bucket
    shift = (bucket >> HISTOGRAM_BITS) - 1
    return <uint64_t>((1 << HISTOGRAM_BITS) + (bucket & ((1 << HISTOGRAM_BITS) - 1))) << shift


cdef uint64_t latencies_quantile(const Latencies *latencies, double p) noexcept nogil:
    cdef uint64_t rank, seen = 0, middle
    cdef uint32_t i
    if latencies.count == 0:
        return 0
    rank = <uint64_t>ceil(p * <double>latencies.count)
    if rank < 1:
        return latencies.least
    if rank >= latencies.count:
        return latencies.most
    for i in range(HISTOGRAM_BUCKETS):
        seen += latencies.buckets[i]
        if seen >= rank:
            break
    middle = (bucket_start(i) + bucket_start(i + 1) - 1) // 2
    # The ends are known exactly, and the last bucket has no end.
    if i == HISTOGRAM_BUCKETS - 1 or middle > latencies.most:
        return latencies.most
    return middle if middle > latencies.least else latencies.least


cdef class Histogram:
    def __cinit__(self):
        latencies_clear(&self.latencies)

    def record(self, double seconds, uint64_t times=1):
        if not 0 <= seconds < 1e9:
            raise ValueError(f"not a time that something takes: {seconds} s")
        cdef uint64_t i
        for i in range(times):
            latencies_record(&self.latencies, <uint64_t>(seconds * 1e9 + 0.5))

    def add(self, Histogram other not None):
        latencies_add(&self.latencies, &other.latencies)

    def percentile(self, double p):
        if not 0 <= p <= 100:
            raise ValueError(f"percentile {p} is not from 0 to 100")
        return latencies_quantile(&self.latencies, p / 100) / 1e9

    @property
    def count(self):
        return self.latencies.count

    @property
    def mean(self):
        return self.latencies.sum / 1e9 / self.latencies.count if self.latencies.count else 0.0

    @property
    def minimum(self):
        return self.latencies.least / 1e9

    @property
    def maximum(self):
        return self.latencies.most / 1e9

    def buckets(self):
        cdef uint32_t i
        return [
            (bucket_start(i) / 1e9, bucket_start(i + 1) / 1e9, self.latencies.buckets[i])
            for i in range(HISTOGRAM_BUCKETS)
            if self.latencies.buckets[i]
        ]

    def to_json(self):
        cdef uint32_t i
        return {
            "bits": HISTOGRAM_BITS,
            "sum_ns": self.latencies.sum,
            "min_ns": self.latencies.least,
            "max_ns": self.latencies.most,
            "buckets": [[i, self.latencies.buckets[i]] for i in range(HISTOGRAM_BUCKETS) if self.latencies.buckets[i]],
        }

    @classmethod
    def from_json(cls, stored):
        cdef Histogram made = cls()
        cdef uint32_t i
        cdef uint64_t count
        if stored["bits"] != HISTOGRAM_BITS:
            raise ValueError(f"a histogram with {stored['bits']} bits, where this version has {HISTOGRAM_BITS}")
        for i, count in stored["buckets"]:
            if i >= HISTOGRAM_BUCKETS:
                raise ValueError(f"bucket {i} is beyond the last, {HISTOGRAM_BUCKETS - 1}")
            made.latencies.buckets[i] += count
            made.latencies.count += count
        made.latencies.sum = stored["sum_ns"]
        made.latencies.least = stored["min_ns"]
        made.latencies.most = stored["max_ns"]
        return made

    def __eq__(self, other):
        if not isinstance(other, Histogram):
            return NotImplemented
        return memcmp(&self.latencies, &(<Histogram>other).latencies, sizeof(Latencies)) == 0

    __hash__ = None

    def __repr__(self):
        return f"<Histogram of {self.count}: p50 {self.percentile(50) * 1e6:.1f} us, p99 {self.percentile(99) * 1e6:.1f} us>"
