"""The table of resource record types. The contract is in rrtypes.pxd."""
from libc.stdint cimport int8_t, uint8_t, uint16_t, uint32_t
from libc.string cimport memcpy, memset

cdef enum:
    SPARSE = 4                  # rows of types from RRTYPES_DENSE on
    ROWS_MAX = 96
    NAME_MAX = 255              # octets of a name (RFC 1035 2.3.4)
    LABEL_MAX = 63
    BUCKETS = 1024              # of the table of mnemonics; far more than there are

#: Word of a presentation field -> its FieldKind and its block in wire form.
KINDS = {
    "u8": (FIELD_U8, 1), "u16": (FIELD_U16, 2), "u32": (FIELD_U32, 4), "period": (FIELD_PERIOD, 4), "time": (FIELD_TIME, 4), "type": (FIELD_TYPE, 2),
    "algorithm": (FIELD_ALGORITHM, 1), "Algorithm": (FIELD_ALGORITHM_ANY_CASE, 1), "certificate": (FIELD_CERTIFICATE, 2), "a": (FIELD_A, 4),
    "aaaa": (FIELD_AAAA, 16), "compressible": (FIELD_NAME, BLOCK_COMPRESSIBLE), "decompressible": (FIELD_NAME, BLOCK_DECOMPRESSIBLE),
    "name": (FIELD_NAME, BLOCK_NAME), "string": (FIELD_STRING, BLOCK_STRING), "quoted": (FIELD_QUOTED, BLOCK_STRING), "float": (FIELD_FLOAT, BLOCK_STRING),
    "strings": (FIELD_STRINGS, BLOCK_REMAINDER), "pair": (FIELD_PAIR, BLOCK_REMAINDER), "first": (FIELD_FIRST_STRING, BLOCK_STRING),
    "target": (FIELD_TARGET, BLOCK_REMAINDER), "hex": (FIELD_HEX, BLOCK_REMAINDER), "base64": (FIELD_BASE64, BLOCK_REMAINDER),
    "bitmap": (FIELD_BITMAP, BLOCK_REMAINDER), "salt": (FIELD_SALT, BLOCK_STRING), "hash": (FIELD_HASH32, BLOCK_STRING), "eui48": (FIELD_EUI48, 6),
    "eui64": (FIELD_EUI64, 8), "node": (FIELD_NODE, 8), "gateway": (FIELD_GATEWAY, BLOCK_REMAINDER), "discovery": (FIELD_DISCOVERY, 0),
    "relay": (FIELD_RELAY, BLOCK_REMAINDER), "location": (FIELD_LOCATION, 16), "prefixes": (FIELD_PREFIXES, BLOCK_REMAINDER),
    "host": (FIELD_HOST_IDENTITY, BLOCK_REMAINDER), "parameters": (FIELD_PARAMETERS, BLOCK_REMAINDER), "remainder": (FIELD_END, BLOCK_REMAINDER),
}

#: Number, mnemonic as the Go library behind CoreDNS prints it, flags, presentation fields: each with what follows "bad TYPE" in a zone file's error
#: (or, after a colon, the whole of it). "=TYPE" stands for another type's fields.
ROWS = (
    (TYPE_NONE, "None", RR_META | RR_RESERVED, ""),
    (TYPE_A, "A", 0, "a A"),
    (TYPE_NS, "NS", RR_CANONICAL | RR_ZONE_LOWER, "compressible Ns"),
    (TYPE_MD, "MD", RR_CANONICAL, "compressible Md"),
    (TYPE_MF, "MF", RR_CANONICAL, "compressible Mf"),
    (TYPE_CNAME, "CNAME", RR_CANONICAL | RR_ZONE_LOWER, "compressible Target"),
    (TYPE_SOA, "SOA", RR_CANONICAL | RR_ZONE_LOWER, "compressible Ns, compressible Mbox, u32 zone parameter, period zone parameter, "
        "period zone parameter, period zone parameter, period zone parameter"),
    (TYPE_MB, "MB", RR_CANONICAL, "compressible Mb"),
    (TYPE_MG, "MG", RR_CANONICAL, "compressible Mg"),
    (TYPE_MR, "MR", RR_CANONICAL, "compressible Mr"),
    (TYPE_NULL, "NULL", 0, ""),
    (TYPE_PTR, "PTR", RR_CANONICAL, "compressible Ptr"),
    (TYPE_HINFO, "HINFO", 0, "pair Fields"),
    (TYPE_MINFO, "MINFO", RR_CANONICAL, "compressible Rmail, compressible Email"),
    (TYPE_MX, "MX", RR_CANONICAL | RR_ZONE_LOWER | RR_ADDITIONAL, "u16 Pref, compressible Mx"),
    (TYPE_TXT, "TXT", 0, "strings Txt"),
    (TYPE_RP, "RP", RR_CANONICAL, "decompressible Mbox, decompressible Txt"),
    (TYPE_AFSDB, "AFSDB", RR_CANONICAL, "u16 Subtype, decompressible Hostname"),
    (TYPE_X25, "X25", 0, "string PSDNAddress"),
    (TYPE_ISDN, "ISDN", 0, "pair Fields"),
    (TYPE_RT, "RT", RR_CANONICAL, "u16 Preference, decompressible Host"),
    (TYPE_NSAP_PTR, "NSAP-PTR", 0, "name Ptr"),
    (TYPE_SIG, "SIG", RR_CANONICAL, "=RRSIG"),
    (TYPE_KEY, "KEY", 0, "u16 Flags, u8 Protocol, u8 Algorithm, base64 PublicKey"),
    (TYPE_PX, "PX", RR_CANONICAL, "u16 Preference, decompressible Map822, decompressible Mapx400"),
    (TYPE_GPOS, "GPOS", 0, "float Longitude, float Latitude, float Altitude"),
    (TYPE_AAAA, "AAAA", 0, "aaaa AAAA"),
    (TYPE_LOC, "LOC", 0, "location Latitude"),
    (TYPE_NXT, "NXT", RR_CANONICAL, "=NSEC"),
    (TYPE_EID, "EID", 0, "hex Endpoint"),
    (TYPE_NIMLOC, "NIMLOC", 0, "hex Locator"),
    (TYPE_SRV, "SRV", RR_CANONICAL | RR_ADDITIONAL, "u16 Priority, u16 Weight, u16 Port, decompressible Target"),
    (TYPE_ATMA, "ATMA", 0, ""),
    (TYPE_NAPTR, "NAPTR", RR_CANONICAL, "u16 Order, u16 Preference, quoted Flags, quoted Service, quoted Regexp, decompressible Replacement"),
    (TYPE_KX, "KX", RR_CANONICAL, "u16 Pref, decompressible Exchanger"),
    (TYPE_CERT, "CERT", 0, "certificate Type, u16 KeyTag, algorithm Algorithm, base64 Certificate"),
    (TYPE_DNAME, "DNAME", RR_CANONICAL, "decompressible Target"),
    (TYPE_OPT, "OPT", RR_META, ""),
    (TYPE_APL, "APL", 0, "prefixes field"),
    (TYPE_DS, "DS", 0, "u16 KeyTag, Algorithm Algorithm, u8 DigestType, hex Digest"),
    (TYPE_SSHFP, "SSHFP", 0, "u8 Algorithm, u8 Type, hex Fingerprint"),
    (TYPE_IPSECKEY, "IPSECKEY", 0, "u8 value, u8 value, u8 value, gateway gateway, base64 PublicKey"),
    (TYPE_RRSIG, "RRSIG", RR_CANONICAL, "type Typecovered, algorithm Algorithm, u8 Labels, u32 OrigTtl, time Expiration, time Inception, "
        "u16 KeyTag, decompressible SignerName, base64 Signature"),
    (TYPE_NSEC, "NSEC", 0, "decompressible NextDomain, bitmap TypeBitMap"),
    (TYPE_DNSKEY, "DNSKEY", 0, "u16 Flags, u8 Protocol, u8 Algorithm, base64 PublicKey"),
    (TYPE_DHCID, "DHCID", 0, "base64 Digest"),
    (TYPE_NSEC3, "NSEC3", 0, "u8 Hash, u8 Flags, u16 Iterations, salt Salt, hash NextDomain, bitmap TypeBitMap"),
    (TYPE_NSEC3PARAM, "NSEC3PARAM", 0, "u8 Hash, u8 Flags, u16 Iterations, salt Salt"),
    (TYPE_TLSA, "TLSA", 0, "u8 Usage, u8 Selector, u8 MatchingType, hex Certificate"),
    (TYPE_SMIMEA, "SMIMEA", 0, "u8 Usage, u8 Selector, u8 MatchingType, hex Certificate"),
    (TYPE_HIP, "HIP", 0, "host PublicKeyAlgorithm"),
    (TYPE_NINFO, "NINFO", 0, "strings ZSData"),
    (TYPE_RKEY, "RKEY", 0, "u16 Flags, u8 Protocol, u8 Algorithm, base64 PublicKey"),
    (TYPE_TALINK, "TALINK", 0, "name PreviousName, name NextName"),
    (TYPE_CDS, "CDS", 0, "u16 KeyTag, Algorithm Algorithm, u8 DigestType, hex Digest"),
    (TYPE_CDNSKEY, "CDNSKEY", 0, "u16 Flags, u8 Protocol, u8 Algorithm, base64 PublicKey"),
    (TYPE_OPENPGPKEY, "OPENPGPKEY", 0, "base64 PublicKey"),
    (TYPE_CSYNC, "CSYNC", 0, "u32 serial, u16 flags, bitmap TypeBitMap"),
    (TYPE_ZONEMD, "ZONEMD", 0, "u32 Serial, u8 Scheme, u8 Hash Algorithm, hex Digest"),
    (TYPE_SVCB, "SVCB", RR_ZONE_LOWER | RR_ADDITIONAL, "u16 priority, name Target, parameters values"),
    (TYPE_HTTPS, "HTTPS", RR_ZONE_LOWER | RR_ADDITIONAL, "=SVCB"),
    (TYPE_SPF, "SPF", 0, "strings Txt"),
    (TYPE_UINFO, "UINFO", 0, "first Uinfo"),
    (TYPE_UID, "UID", 0, "u32 Uid"),
    (TYPE_GID, "GID", 0, "u32 Gid"),
    (TYPE_UNSPEC, "UNSPEC", 0, ""),
    (TYPE_NID, "NID", 0, "u16 Preference, node:bad NID/L64 NodeID/Locator64"),
    (TYPE_L32, "L32", 0, "u16 Preference, a Locator"),
    (TYPE_L64, "L64", 0, "u16 Preference, node:bad NID/L64 NodeID/Locator64"),
    (TYPE_LP, "LP", 0, "u16 Preference, name Fqdn"),
    (TYPE_EUI48, "EUI48", 0, "eui48 Address"),
    (TYPE_EUI64, "EUI64", 0, "eui64 Address"),
    (TYPE_NXNAME, "NXNAME", 0, ""),
    (TYPE_TKEY, "TKEY", RR_META, "name, remainder"),
    (TYPE_TSIG, "TSIG", RR_META, "name, remainder"),
    (TYPE_IXFR, "IXFR", RR_QTYPE, ""),
    (TYPE_AXFR, "AXFR", RR_QTYPE, ""),
    (TYPE_MAILB, "MAILB", RR_QTYPE, ""),
    (TYPE_MAILA, "MAILA", RR_QTYPE, ""),
    (TYPE_ANY, "ANY", RR_QTYPE, ""),
    (TYPE_URI, "URI", 0, "u16 Priority, u16 Weight, target Target"),
    (TYPE_CAA, "CAA", 0, "u8 Flag, string Tag, target Value"),
    (TYPE_AVC, "AVC", 0, "strings Txt"),
    (TYPE_AMTRELAY, "AMTRELAY", 0, "u8 value, discovery:bad discovery value, u8 value, relay gateway"),
    (TYPE_RESINFO, "RESINFO", 0, "strings Resinfo"),
    (TYPE_TA, "TA", 0, "u16 KeyTag, Algorithm Algorithm, u8 DigestType, hex Digest"),
    (TYPE_DLV, "DLV", 0, "u16 KeyTag, Algorithm Algorithm, u8 DigestType, hex Digest"),
    (TYPE_RESERVED, "Reserved", RR_RESERVED, ""),
)

#: Mnemonics by number.
TYPES = {number: mnemonic for number, mnemonic, _, _ in ROWS}

cdef RRType sparse[SPARSE]
cdef RRType unassigned
cdef Field formats[ROWS_MAX][FIELDS_MAX]
cdef const RRType *by_mnemonic[BUCKETS]

failures = []                   # keeps the texts of `formats`


cdef inline uint32_t mnemonic_hash(const char *text, uint32_t length) noexcept nogil:
    cdef uint32_t hash = 2166136261u, i
    for i in range(length):
        hash = (hash ^ (<uint8_t>text[i] & 0xDF)) * 16777619u
    return hash


cdef int fill_format(Field *out, str mnemonic, str fields) except -1:
    """Presentation fields from a row's text."""
    cdef uint32_t i
    cdef bytes failure
    for i, field in enumerate(fields.split(", ")):
        if i + 1 >= FIELDS_MAX:
            raise ValueError(f"{mnemonic} has too many fields")
        kind, colon, text = field.partition(":")
        if not colon:
            kind, _, text = field.partition(" ")
            text = f"bad {mnemonic} {text}"
        failure = text.encode("ascii")
        failures.append(failure)
        out[i].kind, out[i].block = KINDS[kind]
        out[i].failure = failure
    return 0


cdef int fill_blocks(RRType *row, const Field *field) except -1:
    """The wire layout of a type's fields: adjacent fields of a fixed size are one block."""
    cdef uint32_t used = 0
    while field.failure != NULL:
        if used and row.blocks[used - 1] > 0 and field.block > 0:
            row.blocks[used - 1] += field.block
        elif field.block:
            row.blocks[used] = field.block
            used += 1
        if field.block == BLOCK_COMPRESSIBLE or field.block == BLOCK_DECOMPRESSIBLE:
            row.flags |= RR_RECEIVED
        if field.block == BLOCK_REMAINDER:
            break
        if used + 1 >= BLOCKS_MAX:
            raise ValueError(f"{row.mnemonic.decode()} has too many blocks")
        field += 1
    if used == 0:
        row.blocks[0] = BLOCK_REMAINDER
    return 0


cdef int fill_row(RRType *row, const Field *format, uint16_t number, str mnemonic, uint8_t flags) except -1:
    cdef bytes octets = mnemonic.encode("ascii")
    cdef uint32_t at
    if len(octets) > MNEMONIC_MAX:
        raise ValueError(mnemonic)
    row.number = number
    row.flags = flags
    row.length = <uint8_t>len(octets)
    memcpy(row.mnemonic, <const char *>octets, len(octets) + 1)
    fill_blocks(row, format)
    row.fields = format if format[0].kind != FIELD_END and not flags & RR_META else NULL
    if not flags & RR_RESERVED:
        at = mnemonic_hash(octets, row.length) % BUCKETS
        while by_mnemonic[at] != NULL:
            at = (at + 1) % BUCKETS
        by_mnemonic[at] = row
    return 0


cdef int fill() except -1:
    cdef uint32_t i, used = 0
    cdef RRType *row
    texts = {mnemonic: fields for _, mnemonic, _, fields in ROWS}
    unassigned.blocks[0] = BLOCK_REMAINDER
    for i in range(RRTYPES_DENSE):
        rrtypes_dense[i] = unassigned
        rrtypes_dense[i].number = <uint16_t>i
    for i, (number, mnemonic, flags, fields) in enumerate(ROWS):
        if number < RRTYPES_DENSE:
            row = &rrtypes_dense[<uint32_t>number]
        else:
            if used == SPARSE:
                raise ValueError(mnemonic)
            row = &sparse[used]
            used += 1
            memset(row, 0, sizeof(RRType))
        if fields.startswith("="):
            fill_format(formats[i], fields[1:], texts[fields[1:]])
        elif fields:
            fill_format(formats[i], mnemonic, fields)
        fill_row(row, formats[i], number, mnemonic, flags)
    return 0


fill()


cdef const RRType *rrtype_sparse(uint16_t type) noexcept nogil:
    cdef uint32_t i
    for i in range(SPARSE):
        if sparse[i].number == type and sparse[i].length:
            return &sparse[i]
    return &unassigned


cdef inline uint32_t name_end(const uint8_t *rdata, uint32_t at, uint32_t length) noexcept nogil:
    """Offset at which the uncompressed name at `at` ends; 0 when it is malformed."""
    cdef uint32_t start = at
    while at < length and rdata[at] <= LABEL_MAX:
        if rdata[at] == 0:
            return at + 1 if at - start < NAME_MAX else 0
        at += <uint32_t>rdata[at] + 1
    return 0


cdef int rrtype_names(uint16_t type, const uint8_t *rdata, uint32_t length, uint32_t *start) noexcept nogil:
    cdef const int8_t *block = <const int8_t *>rrtype_get(type).blocks
    cdef uint32_t end
    cdef int at
    start[0] = 0
    while block[0] > 0 or block[0] == BLOCK_STRING:
        block += 1
    if not block_is_name(block[0]):
        return 0
    at = rrtype_name_offset(type, rdata, length)
    if at < 0:
        return -1
    start[0] = end = <uint32_t>at
    while block_is_name(block[0]):
        end = name_end(rdata, end, length)
        if end == 0:
            return -1
        block += 1
    if block[0] != BLOCK_REMAINDER and length - end != <uint32_t>block[0]:
        return -1
    return <int>end


cdef int rrtype_number(const char *text, uint32_t length) noexcept nogil:
    cdef uint32_t at, i
    cdef const RRType *row
    if length == 0 or length > MNEMONIC_MAX:
        return -1
    at = mnemonic_hash(text, length) % BUCKETS
    while by_mnemonic[at] != NULL:
        row = by_mnemonic[at]
        at = (at + 1) % BUCKETS
        if row.length != length:
            continue
        for i in range(length):
            if text[i] != row.mnemonic[i] and not (c'a' <= text[i] <= c'z' and text[i] - 32 == row.mnemonic[i]):
                break
        else:
            return row.number
    return -1


# ---- Python: tests ----

WORDS = {BLOCK_COMPRESSIBLE: "compressible", BLOCK_DECOMPRESSIBLE: "decompressible", BLOCK_NAME: "name", BLOCK_STRING: "string",
         BLOCK_REMAINDER: "remainder"}
FLAGS = {"meta": RR_META, "qtype": RR_QTYPE, "reserved": RR_RESERVED, "canonical": RR_CANONICAL, "zone lower": RR_ZONE_LOWER,
         "additional": RR_ADDITIONAL, "received": RR_RECEIVED}


def layout(uint16_t number) -> tuple:
    cdef const RRType *row = rrtype_get(number)
    cdef uint32_t i = 0
    blocks = []
    while row.blocks[i] != BLOCK_END:
        blocks.append(WORDS.get(row.blocks[i], row.blocks[i]))
        i += 1
    return tuple(blocks)


def flags(uint16_t number) -> set:
    return {word for word, flag in FLAGS.items() if rrtype_get(number).flags & flag}


def names(uint16_t number, bytes rdata not None) -> tuple:
    cdef uint32_t start
    cdef int end = rrtype_names(number, rdata, <uint32_t>len(rdata), &start)
    return start, end


def number(bytes mnemonic not None) -> int:
    return rrtype_number(mnemonic, <uint32_t>len(mnemonic))
