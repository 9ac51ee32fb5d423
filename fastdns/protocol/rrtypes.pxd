"""Resource record types: one table with number, mnemonic, rdata layout and presentation fields of each.

A layout is a sequence of blocks, as in Knot DNS's descriptors: octets of a fixed number, names, character strings, the rest. In every type that has names
at a fixed place, they follow one another.
"""
from libc.stdint cimport int8_t, uint8_t, uint16_t, uint32_t

cdef enum:                      # IANA, "Resource Record (RR) TYPEs"
    TYPE_NONE = 0
    TYPE_A = 1
    TYPE_NS = 2
    TYPE_MD = 3
    TYPE_MF = 4
    TYPE_CNAME = 5
    TYPE_SOA = 6
    TYPE_MB = 7
    TYPE_MG = 8
    TYPE_MR = 9
    TYPE_NULL = 10
    TYPE_PTR = 12
    TYPE_HINFO = 13
    TYPE_MINFO = 14
    TYPE_MX = 15
    TYPE_TXT = 16
    TYPE_RP = 17
    TYPE_AFSDB = 18
    TYPE_X25 = 19
    TYPE_ISDN = 20
    TYPE_RT = 21
    TYPE_NSAP_PTR = 23
    TYPE_SIG = 24
    TYPE_KEY = 25
    TYPE_PX = 26
    TYPE_GPOS = 27
    TYPE_AAAA = 28
    TYPE_LOC = 29
    TYPE_NXT = 30
    TYPE_EID = 31
    TYPE_NIMLOC = 32
    TYPE_SRV = 33
    TYPE_ATMA = 34
    TYPE_NAPTR = 35
    TYPE_KX = 36
    TYPE_CERT = 37
    TYPE_DNAME = 39
    TYPE_OPT = 41
    TYPE_APL = 42
    TYPE_DS = 43
    TYPE_SSHFP = 44
    TYPE_IPSECKEY = 45
    TYPE_RRSIG = 46
    TYPE_NSEC = 47
    TYPE_DNSKEY = 48
    TYPE_DHCID = 49
    TYPE_NSEC3 = 50
    TYPE_NSEC3PARAM = 51
    TYPE_TLSA = 52
    TYPE_SMIMEA = 53
    TYPE_HIP = 55
    TYPE_NINFO = 56
    TYPE_RKEY = 57
    TYPE_TALINK = 58
    TYPE_CDS = 59
    TYPE_CDNSKEY = 60
    TYPE_OPENPGPKEY = 61
    TYPE_CSYNC = 62
    TYPE_ZONEMD = 63
    TYPE_SVCB = 64
    TYPE_HTTPS = 65
    TYPE_SPF = 99
    TYPE_UINFO = 100
    TYPE_UID = 101
    TYPE_GID = 102
    TYPE_UNSPEC = 103
    TYPE_NID = 104
    TYPE_L32 = 105
    TYPE_L64 = 106
    TYPE_LP = 107
    TYPE_EUI48 = 108
    TYPE_EUI64 = 109
    TYPE_NXNAME = 128
    TYPE_TKEY = 249
    TYPE_TSIG = 250
    TYPE_IXFR = 251
    TYPE_AXFR = 252
    TYPE_MAILB = 253
    TYPE_MAILA = 254
    TYPE_ANY = 255
    TYPE_URI = 256
    TYPE_CAA = 257
    TYPE_AVC = 258
    TYPE_AMTRELAY = 260
    TYPE_RESINFO = 261
    TYPE_TA = 32768
    TYPE_DLV = 32769
    TYPE_RESERVED = 65535

cdef enum:                      # IANA, "DNS CLASSes"
    CLASS_IN = 1
    CLASS_CS = 2
    CLASS_CH = 3
    CLASS_HS = 4
    CLASS_NONE = 254
    CLASS_ANY = 255

cdef enum:                      # RRType.blocks; a positive number is that many octets
    BLOCK_END = 0
    BLOCK_COMPRESSIBLE = -1     # a name of the types of RFC 1035: may be sent compressed (RFC 3597 4)
    BLOCK_DECOMPRESSIBLE = -2   # a name that is sent uncompressed, but expanded where it is received compressed (RFC 3597 4)
    BLOCK_NAME = -3             # a name that is never compressed
    BLOCK_STRING = -4           # a <character-string>: an octet of length, then so many octets
    BLOCK_REMAINDER = -5        # anything, to the end; always the last one

cdef enum:                      # RRType.flags
    RR_META = 1                 # a pseudo-record, which no zone has (OPT, TKEY, TSIG)
    RR_QTYPE = 2                # a type of questions only (RFC 6895 3.1)
    RR_RESERVED = 4             # the mnemonic is printed, but not read
    RR_CANONICAL = 8            # names are in lower case in canonical form: RFC 4034 6.2 as RFC 6840 5.1 corrects it
    RR_ZONE_LOWER = 16          # zones keep the names in lower case, as CoreDNS's do
    RR_ADDITIONAL = 32          # addresses of the name belong into the additional section (RFC 1035 3.3.9, RFC 2782, RFC 9460 4.1); NS aside
    RR_RECEIVED = 64            # a received record may have compressed names

cdef enum:
    RRTYPES_DENSE = 264         # types below this number are array elements
    BLOCKS_MAX = 8              # of a layout, BLOCK_END included
    FIELDS_MAX = 10             # of a presentation format, FIELD_END included
    MNEMONIC_MAX = 11           # octets

cdef enum FieldKind:            # presentation form of a field in a master file
    FIELD_END
    FIELD_U8
    FIELD_U16
    FIELD_U32
    FIELD_PERIOD                # seconds, with units
    FIELD_TIME                  # YYYYMMDDHHmmSS or seconds (RFC 4034 3.2)
    FIELD_TYPE
    FIELD_ALGORITHM
    FIELD_ALGORITHM_ANY_CASE
    FIELD_CERTIFICATE
    FIELD_A
    FIELD_AAAA
    FIELD_NAME
    FIELD_STRING
    FIELD_QUOTED                # a string that must be quoted
    FIELD_FLOAT                 # a string that must be a number
    FIELD_STRINGS               # to the end of the line, as those below
    FIELD_PAIR                  # two strings; a single one is split at its first blank (HINFO)
    FIELD_FIRST_STRING          # one string; further ones are ignored (UINFO)
    FIELD_TARGET                # octets without a length octet
    FIELD_HEX
    FIELD_BASE64
    FIELD_BITMAP
    FIELD_SALT                  # hex with a length
    FIELD_HASH32
    FIELD_EUI48
    FIELD_EUI64
    FIELD_NODE                  # 64 bits as four groups of four hex digits (RFC 6742)
    FIELD_GATEWAY               # layout depends on the gateway type in octet 1 (IPSECKEY)
    FIELD_DISCOVERY             # the top bit of the next octet (AMTRELAY)
    FIELD_RELAY                 # layout depends on the relay type in the low bits of octet 1 (AMTRELAY)
    FIELD_LOCATION
    FIELD_PREFIXES              # APL
    FIELD_HOST_IDENTITY         # HIP
    FIELD_PARAMETERS            # SVCB

cdef struct Field:
    uint8_t kind                # FieldKind
    int8_t block                # its block in wire form; 0: part of the next field's
    const char *failure         # error text for a master file

cdef struct RRType:
    int8_t blocks[BLOCKS_MAX]   # ends with BLOCK_END or BLOCK_REMAINDER
    uint16_t number
    uint8_t flags
    uint8_t length              # octets of the mnemonic; 0: the type has none
    char mnemonic[MNEMONIC_MAX + 1]
    const Field *fields         # ends with FIELD_END; NULL: RFC 3597 5 is the only presentation form

# Constant after import.
cdef RRType rrtypes_dense[RRTYPES_DENSE]

# The type's row for numbers from RRTYPES_DENSE on.
cdef const RRType *rrtype_sparse(uint16_t type) noexcept nogil

cdef inline const RRType *rrtype_get(uint16_t type) noexcept nogil:
    """The type's row, never NULL. Unknown types have the layout BLOCK_REMAINDER (RFC 3597)."""
    if type < RRTYPES_DENSE:
        return &rrtypes_dense[type]
    return rrtype_sparse(type)

cdef inline bint rrtype_is_meta(uint16_t type) noexcept nogil:
    """Whether no zone can have records of the type: pseudo-records, question types and 0."""
    return rrtype_get(type).flags & (RR_META | RR_QTYPE) != 0

cdef inline bint block_is_name(int8_t block) noexcept nogil:
    return block <= BLOCK_COMPRESSIBLE and block >= BLOCK_NAME

cdef inline int rrtype_name_offset(uint16_t type, const uint8_t *rdata, uint32_t length) noexcept nogil:
    """Octets before the first name in rdata of a type; -1 when the type has no name or the rdata ends before it."""
    cdef const int8_t *block = <const int8_t *>rrtype_get(type).blocks
    cdef uint32_t at = 0
    while block[0] > 0 or block[0] == BLOCK_STRING:
        if block[0] > 0:
            at += <uint32_t>block[0]
        elif at < length:
            at += <uint32_t>rdata[at] + 1
        block += 1
    return <int>at if block_is_name(block[0]) and at < length else -1

# Offset at which the names of uncompressed rdata end; *start is where they begin. 0: the type has none, -1: the rdata does not fit the layout.
cdef int rrtype_names(uint16_t type, const uint8_t *rdata, uint32_t length, uint32_t *start) noexcept nogil

cdef inline void rrtype_lower(uint8_t *rdata, uint32_t start, uint32_t end) noexcept nogil:
    """Lower-cases names in wire form in place. Label lengths are below "A" and stay as they are."""
    while start < end:
        if c'A' <= rdata[start] <= c'Z':
            rdata[start] |= 0x20
        start += 1

# The number of a mnemonic in any case, or -1. TYPE123 (RFC 3597 5) is not a mnemonic.
cdef int rrtype_number(const char *text, uint32_t length) noexcept nogil
