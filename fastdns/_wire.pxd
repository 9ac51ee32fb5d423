"""The DNS wire format: the only module that parses messages from the network.

Every read goes through `Cursor` or through a loop that checks its bound. Callers get structs whose offsets and lengths are inside the message.
Nothing here allocates memory or uses Python objects. RFC 1035 (messages), RFC 6891 (EDNS), RFC 3597 (unknown types).
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memcmp
from fastdns.system.byteorder cimport load16, load32, store16, store32
# Other modules cimport these names from here.
from fastdns.protocol.header cimport (FLAG_AA, FLAG_AD, FLAG_CD, FLAG_QR, FLAG_RA, FLAG_RD, FLAG_TC, FLAG_Z, FLAGS_OPCODE, OPCODE_NOTIFY,
                                      OPCODE_QUERY, OPCODE_UPDATE, RCODE_BADVERS, RCODE_FORMERR, RCODE_NOERROR, RCODE_NOTAUTH, RCODE_NOTIMP,
                                      RCODE_NXDOMAIN, RCODE_REFUSED, RCODE_SERVFAIL, flags_opcode, flags_rcode)
from fastdns.protocol.rrtypes cimport (CLASS_ANY, CLASS_CH, CLASS_IN, CLASS_NONE, TYPE_A, TYPE_AAAA, TYPE_ANY, TYPE_AXFR, TYPE_CNAME, TYPE_DNAME,
                                       TYPE_DNSKEY, TYPE_DS, TYPE_HINFO, TYPE_HTTPS, TYPE_IXFR, TYPE_MB, TYPE_MD, TYPE_MF, TYPE_MG, TYPE_MINFO,
                                       TYPE_MR, TYPE_MX, TYPE_NAPTR, TYPE_NS, TYPE_NSEC, TYPE_NSEC3, TYPE_OPT, TYPE_PTR, TYPE_RRSIG, TYPE_SOA,
                                       TYPE_SRV, TYPE_SVCB, TYPE_TSIG, TYPE_TXT)

cdef enum:
    NAME_MAX = 255              # octets of a name on the wire, root included (RFC 1035 2.3.4)
    LABELS_MAX = 127
    HEADER_SIZE = 12
    OPT_SIZE = 11               # of an OPT record without options
    EDNS_SIZE = 1232            # octets over UDP that this server takes, of clients and of upstreams: such datagrams are not fragmented
    REJECTION_MAX = 283         # octets of a rejection: header, question, OPT
    MESSAGE_MAX = 65535
    POINTER_HOPS = 126          # compression pointers followed in one name

cdef enum:                      # EDNS flags, as the 16 bits of the OPT's TTL
    EDNS_DO = 0x8000

cdef enum:                      # EDNS options
    OPTION_NSID = 3             # RFC 5001
    OPTION_SUBNET = 8           # RFC 7871
    OPTION_EXPIRE = 9           # RFC 7314
    OPTION_COOKIE = 10          # RFC 7873
    OPTION_KEEPALIVE = 11       # RFC 7828
    OPTION_PADDING = 12         # RFC 7830
    OPTION_ERROR = 15           # extended DNS errors, RFC 8914

cdef struct Name:
    uint8_t length              # octets of the wire form, root included; 1 is the root
    uint8_t labels              # labels without the root
    uint8_t offset[LABELS_MAX + 1]  # of each label in wire and lower; offset[labels] is the root's
    uint32_t hash[LABELS_MAX + 1]   # of the suffix that begins at each label; hash[labels] is the root's
    uint8_t wire[NAME_MAX + 17]     # uncompressed, case as received; 17 spare octets for loads and stores of 16
    uint8_t lower[NAME_MAX + 17]    # the same in lower case

cdef struct Edns:
    uint8_t present
    uint8_t version
    uint8_t extended_rcode
    uint16_t udp_size           # as advertised, unclamped
    uint16_t flags              # EDNS_DO and the unassigned bits
    uint16_t options_length     # octets
    const uint8_t *options      # borrowed from the packet

cdef struct Message:            # header and question, and the offsets of what follows
    uint16_t id
    uint16_t flags              # raw, opcode and rcode included
    uint16_t counts[4]          # as in the header
    uint16_t qtype
    uint16_t qclass
    uint16_t question_length    # octets of the question section, from HEADER_SIZE on, as received
    uint16_t records            # offset behind the question
    uint16_t soa_serial_found   # 1 when the authority section has exactly one SOA (IXFR, RFC 1995 3)
    uint32_t soa_serial
    uint16_t tsig               # offset of the TSIG record, 0 for none
    Edns edns

cdef struct Cursor:             # after the first read beyond the end `bad` is set, and all reads return 0
    const uint8_t *base
    uint32_t length
    uint32_t offset
    uint8_t bad

cdef struct Section:            # iterator over the records of a message; see wire_next_record
    Cursor cursor
    uint16_t left[3]            # records not yet read of answer, authority, additional
    uint8_t index               # 0 answer, 1 authority, 2 additional

cdef struct WireRecord:         # one record of a received message; offsets are from the message's first octet
    uint32_t owner              # offset of the owner name
    uint16_t type
    uint16_t klass
    uint32_t ttl
    uint16_t rdlength
    uint32_t rdata              # offset
    uint8_t section             # 0 answer, 1 authority, 2 additional

# Key of the name hash, random for each process. bench/_replay sets a fixed key before the first name is hashed, so that instruction counts repeat.
cdef uint64_t wire_seed
cdef uint64_t wire_multiplier   # odd

cdef inline void copy_octets(uint8_t *out, const uint8_t *octets, uint32_t n) noexcept nogil:
    """memcpy for a few dozen octets whose number the compiler does not know: gcc would emit `rep movs`, which has a high start-up cost."""
    cdef uint32_t at = 0
    if n >= 16:
        while at + 16 < n:
            memcpy(out + at, octets + at, 16)
            at += 16
        memcpy(out + n - 16, octets + n - 16, 16)
    elif n >= 8:
        memcpy(out, octets, 8)
        memcpy(out + n - 8, octets + n - 8, 8)
    elif n >= 4:
        memcpy(out, octets, 4)
        memcpy(out + n - 4, octets + n - 4, 4)
    else:
        while at < n:
            out[at] = octets[at]
            at += 1

cdef inline bint octets_equal(const uint8_t *a, const uint8_t *b, uint32_t n) noexcept nogil:
    """memcmp for names and keys: they are short and mostly equal, and a function call would cost more than the comparison."""
    cdef uint64_t x, y
    cdef uint32_t at = 0
    if n < 8:
        while at < n:
            if a[at] != b[at]:
                return False
            at += 1
        return True
    while at + 8 < n:
        memcpy(&x, a + at, 8)
        memcpy(&y, b + at, 8)
        if x != y:
            return False
        at += 8
    memcpy(&x, a + n - 8, 8)
    memcpy(&y, b + n - 8, 8)
    return x == y

cdef inline uint64_t lower8(uint64_t v) noexcept nogil:
    """Lower-cases eight ASCII octets at once; length octets (<= 63) are below 'A' and stay."""
    cdef uint64_t heptets = v & 0x7f7f7f7f7f7f7f7fULL
    cdef uint64_t above_z = heptets + 0x2525252525252525ULL    # bit 7 set where > 'Z'
    cdef uint64_t from_a = heptets + 0x3f3f3f3f3f3f3f3fULL     # bit 7 set where >= 'A'
    cdef uint64_t ascii = ~v & 0x8080808080808080ULL
    return v | (((from_a ^ above_z) & ascii) >> 2)

cdef inline bint option_is_hop_by_hop(uint16_t code) noexcept nogil:
    """Is the option meant for the next server only? It is neither forwarded nor copied into replies."""
    return OPTION_EXPIRE <= code <= OPTION_PADDING

# ---- names ----

# Fills labels, offsets, lower case and hashes of a name from name.wire and name.length. The wire form must be valid.
cdef void wire_name_index(Name *name) noexcept nogil
# Reads the name at *offset of a message into name, with all its fields, and moves *offset behind it. Compression pointers must point backwards.
# 0, or -1 when the name is malformed.
cdef int wire_read_name(const uint8_t *message, uint32_t length, uint32_t *offset, Name *name) noexcept nogil
# As wire_read_name, but writes the uncompressed wire form only; out has NAME_MAX octets. Returns its length, or -1.
cdef int wire_expand_name(const uint8_t *message, uint32_t length, uint32_t *offset, uint8_t *out) noexcept nogil
# The first option of a code, from its code on: 4 octets, then as many as its length says. NULL without one.
cdef const uint8_t *wire_option(const Edns *edns, uint16_t code) noexcept nogil
# The address of the first client-subnet option (RFC 7871), padded with zeros, into octets (16). Returns 4 or 6; 0 when there is no such option
# or it is malformed. An option with family 0 gives 0.0.0.0.
cdef uint8_t wire_subnet(const Edns *edns, uint8_t *octets) noexcept nogil
# Moves *offset behind a name without expanding it. 0, or -1 when the name exceeds the message or a label is malformed.
cdef int wire_skip_name(const uint8_t *message, uint32_t length, uint32_t *offset) noexcept nogil
# Sets all fields of name from a valid uncompressed wire form, such as that of an index node.
cdef void wire_name_copy(Name *name, const uint8_t *wire, int length) noexcept nogil
# Length in octets of a valid uncompressed name, root included.
cdef int wire_name_length(const uint8_t *wire) noexcept nogil
# True when two uncompressed names of this length are equal without regard to case.
cdef bint wire_name_equal(const uint8_t *a, const uint8_t *b, int length) noexcept nogil
# Hash of a lower-case uncompressed name, equal to Name.hash[0].
cdef uint32_t wire_name_hash(const uint8_t *lower) noexcept nogil
# Presentation form with a final dot and \DDD escapes (RFC 1035 5.1), as CoreDNS prints it; out has 1024 octets. Returns the length.
cdef int wire_name_text(const uint8_t *wire, char *out) noexcept nogil

# ---- messages ----

cdef enum Acceptance:           # what the server does with a received message
    ACCEPT                      # it is a query: the plugins get it
    IGNORE                      # too short, or a reply: no answer
    REJECT_HEADER               # the reply is a header only, with *rcode
    REJECT_QUESTION             # the reply is header and question, with *rcode

# Checks a received message, for all transports. Fills message and name; sets *rcode for the two rejections.
cdef Acceptance wire_accept(const uint8_t *packet, uint32_t length, Message *message, Name *name, uint8_t *rcode) noexcept nogil
# Its second half, all behind the header: for an UPDATE (RFC 2136), which wire_accept rejects with NOTIMP once message has the header. rcode is FORMERR.
cdef Acceptance wire_accept_sections(const uint8_t *packet, uint32_t length, Message *message, Name *name, uint8_t *rcode) noexcept nogil
# Writes the reply for REJECT_HEADER or REJECT_QUESTION, with an OPT where one was read. out has REJECTION_MAX octets. Returns the reply's length.
cdef uint32_t wire_reject(const uint8_t *packet, const Message *message, Acceptance how, uint8_t rcode, uint8_t *out) noexcept nogil

# Parses a reply from an upstream or a primary: header, question, EDNS. name may be NULL. 0, or -1 when the message is malformed.
cdef int wire_parse_reply(const uint8_t *packet, uint32_t length, Message *message, Name *name) noexcept nogil
# Begins to iterate the records of a message that wire_accept or wire_parse_reply has parsed.
cdef void wire_begin_records(const uint8_t *packet, uint32_t length, const Message *message, Section *section) noexcept nogil
# Reads the next record. 1: record is filled, 0: no more records, -1: malformed.
cdef int wire_next_record(Section *section, WireRecord *record) noexcept nogil
# Copies the rdata of a record from wire_next_record, with its names uncompressed (types with RR_RECEIVED). out has `capacity` octets.
# Returns the length, -1 when the rdata is malformed, -2 when out is too small.
cdef int wire_expand_rdata(const uint8_t *packet, uint32_t length, const WireRecord *record, uint8_t *out, uint32_t capacity) noexcept nogil

cdef inline bint wire_answers(const uint8_t *packet, uint32_t length, const uint8_t *request, uint32_t question_length) noexcept nogil:
    """True when a received message is a reply to a request: QR is set, id and opcode are equal, and so is the one question (the name without
    regard to case). The request begins with header and question. The caller checks the rest of the message when it parses it."""
    return (length >= HEADER_SIZE + question_length and packet[0] == request[0] and packet[1] == request[1] and packet[2] & 0x80 != 0
            and (load16(packet + 2) ^ load16(request + 2)) & FLAGS_OPCODE == 0 and packet[4] == 0 and packet[5] == 1
            and memcmp(packet + HEADER_SIZE + question_length - 4, request + HEADER_SIZE + question_length - 4, 4) == 0
            and wire_name_equal(packet + HEADER_SIZE, request + HEADER_SIZE, <int>question_length - 4))
