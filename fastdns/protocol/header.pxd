"""The flags of the header: the 16 bits behind the message id (RFC 1035 4.1.1), in host byte order."""
from libc.stdint cimport uint16_t

cdef enum:
    FLAG_QR = 0x8000
    FLAG_AA = 0x0400
    FLAG_TC = 0x0200
    FLAG_RD = 0x0100
    FLAG_RA = 0x0080
    FLAG_Z = 0x0040
    FLAG_AD = 0x0020
    FLAG_CD = 0x0010
    FLAGS_OPCODE = 0x7800       # mask of the opcode
    FLAGS_OPCODE_SHIFT = 11
    FLAGS_RCODE = 0x000F        # mask of the low four bits of the response code; with EDNS the OPT record has eight more (RFC 6891 6.1.3)

cdef enum:
    OPCODE_QUERY = 0
    OPCODE_NOTIFY = 4
    OPCODE_UPDATE = 5

cdef enum:
    RCODE_NOERROR = 0
    RCODE_FORMERR = 1
    RCODE_SERVFAIL = 2
    RCODE_NXDOMAIN = 3
    RCODE_NOTIMP = 4
    RCODE_REFUSED = 5
    RCODE_YXDOMAIN = 6
    RCODE_NOTAUTH = 9
    RCODE_BADVERS = 16
    RCODE_BADCOOKIE = 23

cdef inline uint16_t flags_opcode(uint16_t flags) noexcept nogil:
    return (flags & FLAGS_OPCODE) >> FLAGS_OPCODE_SHIFT

cdef inline uint16_t flags_rcode(uint16_t flags) noexcept nogil:
    return flags & FLAGS_RCODE
