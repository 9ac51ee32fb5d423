"""The TLVs of a PROXY header. The contract is in proxy/tlvs.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy
from fastdns.system.atomic cimport atomic_add32
from fastdns.system.byteorder cimport load16, store16
from fastdns.system.sanitizer cimport ADDRESS_SANITIZER
from fastdns.telemetry.metrics cimport METRIC_CONTROL

cdef enum:
    NOOP = 4                        # PP2_TYPE_NOOP, which pads a header
    TLV_HEADER = 3                  # octets of type and length
    SPARES_MAX = 64                 # that a worker keeps

cdef struct Spares:                 # of a worker
    void *first                     # each begins with the next one's address
    uint32_t count

cdef Spares spares[METRIC_CONTROL + 1]


cdef uint32_t kept_length(const uint8_t *octets, uint32_t length) noexcept nogil:
    """Octets without the values of no-ops; 0: there are no TLVs, or they are malformed."""
    cdef uint32_t at = 0, kept = 0, size
    while at < length:
        if length - at < TLV_HEADER:
            return 0
        size = load16(octets + at + 1)
        if length - at - TLV_HEADER < size:
            return 0
        kept += TLV_HEADER if octets[at] == NOOP else TLV_HEADER + size
        at += TLV_HEADER + size
    return kept


cdef ProxyTlvs *allocate(uint32_t length, uint32_t worker) noexcept nogil:
    cdef Spares *own = &spares[worker]
    cdef ProxyTlvs *tlvs
    if length > TLVS_SPARE_SIZE:
        return <ProxyTlvs *>malloc(sizeof(ProxyTlvs) + length)
    if own.first == NULL or worker == METRIC_CONTROL:
        return <ProxyTlvs *>malloc(sizeof(ProxyTlvs) + TLVS_SPARE_SIZE)
    tlvs = <ProxyTlvs *>own.first
    own.first = (<void **>own.first)[0]
    own.count -= 1
    return tlvs


cdef ProxyTlvs *tlvs_new(const uint8_t *octets, uint32_t length, uint32_t worker) noexcept nogil:
    cdef uint32_t kept = kept_length(octets, length)
    cdef uint32_t at = 0, used = 0, size
    cdef ProxyTlvs *tlvs
    if kept == 0 or kept > TLVS_MAX:
        return NULL
    tlvs = allocate(kept, worker)
    if tlvs == NULL:
        return NULL
    tlvs.references = 1
    tlvs.length = <uint16_t>kept
    if kept == length:
        memcpy(tlvs.octets, octets, length)
        return tlvs
    while at < length:
        size = TLV_HEADER + load16(octets + at + 1)
        if octets[at] == NOOP:
            tlvs.octets[used] = NOOP
            store16(tlvs.octets + used + 1, 0)
            used += TLV_HEADER
        else:
            memcpy(tlvs.octets + used, octets + at, size)
            used += size
        at += size
    return tlvs


cdef ProxyTlvs *tlvs_ref(ProxyTlvs *tlvs) noexcept nogil:
    if tlvs != NULL:
        atomic_add32(&tlvs.references, 1)
    return tlvs


cdef void tlvs_unref(ProxyTlvs *tlvs, uint32_t worker) noexcept nogil:
    cdef Spares *own = &spares[worker]
    if tlvs == NULL or atomic_add32(&tlvs.references, <uint32_t>-1):
        return
    if tlvs.length > TLVS_SPARE_SIZE or worker == METRIC_CONTROL or own.count == SPARES_MAX or ADDRESS_SANITIZER:
        free(tlvs)
        return
    (<void **>tlvs)[0] = own.first
    own.first = tlvs
    own.count += 1


def keep(bytes octets not None):
    """See proxy/tlvs.pyi."""
    cdef ProxyTlvs *tlvs = tlvs_new(octets, <uint32_t>len(octets), METRIC_CONTROL)
    if tlvs == NULL:
        return b""
    kept = (<const uint8_t *>tlvs.octets)[:tlvs.length]
    tlvs_unref(tlvs, METRIC_CONTROL)
    return kept
