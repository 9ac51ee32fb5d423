"""The table of rdata. What the kinds of fields are stands in zonefile/formats.pxd."""
from libc.stdint cimport uint16_t, uint32_t

from fastdns.protocol.parameters import TYPES

cdef enum:
    NEAR = 512                  # types below it stand in `near`
    FAR = 4

cdef Format near[NEAR]
cdef Format far[FAR]
cdef uint16_t far_types[FAR]

KINDS = {
    "u8": U8, "u16": U16, "u32": U32, "period": PERIOD, "moment": MOMENT, "type": TYPE, "algorithm": ALGORITHM, "Algorithm": ALGORITHM_ANY_CASE,
    "certificate": CERTIFICATE, "a": A, "aaaa": AAAA, "name": NAME, "string": STRING, "quoted": QUOTED, "float": FLOAT, "strings": STRINGS,
    "pair": PAIR, "first": FIRST_STRING, "target": TARGET, "hex": HEX, "base64": BASE64, "bitmap": BITMAP,
    "salt": SALT, "hash": HASH32, "eui48": EUI48, "eui64": EUI64, "node": NODE, "gateway": GATEWAY, "discovery": DISCOVERY, "relay": RELAY,
    "location": LOCATION, "prefixes": PREFIXES, "host": HOST_IDENTITY, "parameters": PARAMETERS,
}

#: Each type's fields, with what follows "bad TYPE" when one is wrong (or, after a colon, all that is said).
FORMATS = {
    "A": "a A",
    "NS": "name Ns",
    "MD": "name Md",
    "MF": "name Mf",
    "CNAME": "name Target",
    "SOA": "name Ns, name Mbox, u32 zone parameter, period zone parameter, period zone parameter, period zone parameter, period zone parameter",
    "MB": "name Mb",
    "MG": "name Mg",
    "MR": "name Mr",
    "PTR": "name Ptr",
    "HINFO": "pair Fields",
    "MINFO": "name Rmail, name Email",
    "MX": "u16 Pref, name Mx",
    "TXT": "strings Txt",
    "RP": "name Mbox, name Txt",
    "AFSDB": "u16 Subtype, name Hostname",
    "X25": "string PSDNAddress",
    "ISDN": "pair Fields",
    "RT": "u16 Preference, name Host",
    "NSAP-PTR": "name Ptr",
    "SIG": "=RRSIG",
    "KEY": "u16 Flags, u8 Protocol, u8 Algorithm, base64 PublicKey",
    "PX": "u16 Preference, name Map822, name Mapx400",
    "GPOS": "float Longitude, float Latitude, float Altitude",
    "AAAA": "aaaa AAAA",
    "LOC": "location Latitude",
    "NXT": "=NSEC",
    "EID": "hex Endpoint",
    "NIMLOC": "hex Locator",
    "SRV": "u16 Priority, u16 Weight, u16 Port, name Target",
    "NAPTR": "u16 Order, u16 Preference, quoted Flags, quoted Service, quoted Regexp, name Replacement",
    "KX": "u16 Pref, name Exchanger",
    "CERT": "certificate Type, u16 KeyTag, algorithm Algorithm, base64 Certificate",
    "DNAME": "name Target",
    "APL": "prefixes field",
    "DS": "u16 KeyTag, Algorithm Algorithm, u8 DigestType, hex Digest",
    "SSHFP": "u8 Algorithm, u8 Type, hex Fingerprint",
    "IPSECKEY": "u8 value, u8 value, u8 value, gateway gateway, base64 PublicKey",
    "RRSIG": "type Typecovered, algorithm Algorithm, u8 Labels, u32 OrigTtl, moment Expiration, moment Inception, u16 KeyTag, name SignerName, "
             "base64 Signature",
    "NSEC": "name NextDomain, bitmap TypeBitMap",
    "DNSKEY": "u16 Flags, u8 Protocol, u8 Algorithm, base64 PublicKey",
    "DHCID": "base64 Digest",
    "NSEC3": "u8 Hash, u8 Flags, u16 Iterations, salt Salt, hash NextDomain, bitmap TypeBitMap",
    "NSEC3PARAM": "u8 Hash, u8 Flags, u16 Iterations, salt Salt",
    "TLSA": "u8 Usage, u8 Selector, u8 MatchingType, hex Certificate",
    "SMIMEA": "u8 Usage, u8 Selector, u8 MatchingType, hex Certificate",
    "HIP": "host PublicKeyAlgorithm",
    "NINFO": "strings ZSData",
    "RKEY": "u16 Flags, u8 Protocol, u8 Algorithm, base64 PublicKey",
    "TALINK": "name PreviousName, name NextName",
    "CDS": "u16 KeyTag, Algorithm Algorithm, u8 DigestType, hex Digest",
    "CDNSKEY": "u16 Flags, u8 Protocol, u8 Algorithm, base64 PublicKey",
    "OPENPGPKEY": "base64 PublicKey",
    "CSYNC": "u32 serial, u16 flags, bitmap TypeBitMap",
    "ZONEMD": "u32 Serial, u8 Scheme, u8 Hash Algorithm, hex Digest",
    "SVCB": "u16 priority, name Target, parameters values",
    "HTTPS": "=SVCB",
    "SPF": "strings Txt",
    "UINFO": "first Uinfo",
    "UID": "u32 Uid",
    "GID": "u32 Gid",
    "NID": "u16 Preference, node:bad NID/L64 NodeID/Locator64",
    "L32": "u16 Preference, a Locator",
    "L64": "u16 Preference, node:bad NID/L64 NodeID/Locator64",
    "LP": "u16 Preference, name Fqdn",
    "EUI48": "eui48 Address",
    "EUI64": "eui64 Address",
    "URI": "u16 Priority, u16 Weight, target Target",
    "CAA": "u8 Flag, string Tag, target Value",
    "AVC": "strings Txt",
    "AMTRELAY": "u8 value, discovery:bad discovery value, u8 value, relay gateway",
    "RESINFO": "strings Resinfo",
    "TA": "u16 KeyTag, Algorithm Algorithm, u8 DigestType, hex Digest",
    "DLV": "u16 KeyTag, Algorithm Algorithm, u8 DigestType, hex Digest",
}

#: Types whose names are in lower case in canonical form: RFC 4034 6.2 as RFC 6840 5.1 has it, and what CoreDNS's zones put so.
LOWER = ("NS", "MD", "MF", "CNAME", "SOA", "MB", "MG", "MR", "PTR", "MINFO", "MX", "RP", "AFSDB", "RT", "SIG", "PX", "NXT", "NAPTR", "KX", "SRV",
         "DNAME", "RRSIG", "SVCB", "HTTPS")

failures = []                   # keeps the texts of the table


cdef int fill_format(Format *format, str type, str fields) except -1:
    cdef uint32_t i
    cdef bytes failure
    if fields.startswith("="):
        type = fields[1:]
        fields = FORMATS[type]
    format.known = 1
    for i, field in enumerate(fields.split(", ")):
        kind, colon, said = field.partition(":")
        if not colon:
            kind, _, said = field.partition(" ")
            said = f"bad {type} {said}"
        failure = said.encode("ascii")
        failures.append(failure)
        format.fields[i].kind = KINDS[kind]
        format.fields[i].failure = failure
    return 0


cdef int fill() except -1:
    cdef Format *format
    cdef uint32_t used = 0
    for number, name in TYPES.items():
        if name not in FORMATS:
            continue
        if number < NEAR:
            format = &near[number]
        else:
            format = &far[used]
            far_types[used] = number
            used += 1
        fill_format(format, name, FORMATS[name])
        format.lower = name in LOWER
    return 0


fill()


cdef const Format *format_find(uint16_t type) noexcept nogil:
    cdef uint32_t i
    if type < NEAR:
        return &near[type] if near[type].known else NULL
    for i in range(FAR):
        if far_types[i] == type and far[i].known:
            return &far[i]
    return NULL
