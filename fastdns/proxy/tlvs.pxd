"""The TLVs of a PROXY header (haproxy's proxy-protocol.txt, 2.2), kept for the metadata label ``proxyproto/tlv``.

What has the client of a header has its TLVs, too: a connection, a UDP session, or the query of a single datagram. Each holds a reference.
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t

cdef enum:
    TLVS_MAX = 4096                 # octets of the TLVs of a header, at most; see PROXY_BLOCK_MAX
    TLVS_SPARE_SIZE = 512           # octets of those whose memory a worker keeps for the next ones

cdef struct ProxyTlvs:
    uint32_t references             # atomic
    uint16_t length                 # octets; not 0
    uint8_t octets[1]               # type, length (2 octets) and value of each; `length`

# Copies the TLVs of a header, with a reference. As in CoreDNS, the value of a no-op (type 4) is left out. NULL: there are none, one ends behind the others,
# or memory is out. worker: whose thread this is, or METRIC_CONTROL.
cdef ProxyTlvs *tlvs_new(const uint8_t *octets, uint32_t length, uint32_t worker) noexcept nogil
cdef ProxyTlvs *tlvs_ref(ProxyTlvs *tlvs) noexcept nogil        # NULL: nothing to do
cdef void tlvs_unref(ProxyTlvs *tlvs, uint32_t worker) noexcept nogil
