"""The label of proxyproto: the TLVs of the PROXY header that a query's client is of."""
from libc.stdint cimport uint8_t, uint32_t
from fastdns.api.metadata cimport Label, LabelHandle
from fastdns.api.query cimport NativeHandler, ProxyTlvs, Query, handler_init, query_tlvs
from fastdns.api.text cimport Text, text_put

cdef enum:
    PIECE = 32                      # octets that are written at once: of what does not fit, the beginning is written

cdef const char *DIGITS = b"0123456789abcdef"


cdef bint publish(const Label *label, Query *q, Text *out) noexcept nogil:
    """In hexadecimal digits."""
    cdef const ProxyTlvs *tlvs = query_tlvs(q)
    cdef char digits[2 * PIECE]
    cdef uint32_t at = 0, i, size
    cdef uint8_t octet
    if tlvs == NULL:
        return False
    while at < tlvs.length:
        size = min(<uint32_t>PIECE, tlvs.length - at)
        for i in range(size):
            octet = tlvs.octets[at + i]
            digits[2 * i] = DIGITS[octet >> 4]
            digits[2 * i + 1] = DIGITS[octet & 15]
        text_put(out, digits, 2 * size)
        at += size
    return True


cdef class TlvPublisher(NativeHandler):
    def __init__(self):
        handler_init(self)
        NativeHandler.__init__(self, "proxyproto")

    def label(self, str name not None):
        cdef LabelHandle handle
        if name != "tlv":
            return None
        handle = LabelHandle()
        handle.label.value = publish
        handle.label.handler = &self.handler
        return handle
