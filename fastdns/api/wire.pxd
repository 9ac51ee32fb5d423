"""Messages as octets: numbers of types, classes, rcodes and flags, and the reader of received messages.

Octets from the network are read by these functions alone: they check every bound.
"""
from fastdns.system.byteorder cimport load16, load32, store16, store32
from fastdns._wire cimport copy_octets, octets_equal

from fastdns._wire cimport HEADER_SIZE, MESSAGE_MAX
# The bits of the header, and the table of RR types.
from fastdns.protocol.header cimport (FLAGS_OPCODE, FLAGS_OPCODE_SHIFT, FLAGS_RCODE, FLAG_AA, FLAG_AD, FLAG_CD, FLAG_QR, FLAG_RA, FLAG_RD, FLAG_TC,
                                      FLAG_Z, OPCODE_NOTIFY, OPCODE_QUERY, OPCODE_UPDATE, RCODE_BADCOOKIE, RCODE_BADVERS, RCODE_FORMERR, RCODE_NOERROR,
                                      RCODE_NOTAUTH, RCODE_NOTIMP, RCODE_NXDOMAIN, RCODE_REFUSED, RCODE_SERVFAIL, RCODE_YXDOMAIN, flags_opcode, flags_rcode)
from fastdns.protocol.rrtypes cimport (BLOCKS_MAX, BLOCK_COMPRESSIBLE, BLOCK_DECOMPRESSIBLE, BLOCK_END, BLOCK_NAME, BLOCK_REMAINDER, BLOCK_STRING,
                                       CLASS_ANY, CLASS_CH, CLASS_CS, CLASS_HS, CLASS_IN, CLASS_NONE, FIELDS_MAX, FIELD_A, FIELD_AAAA,
                                       FIELD_ALGORITHM, FIELD_ALGORITHM_ANY_CASE, FIELD_BASE64, FIELD_BITMAP, FIELD_CERTIFICATE, FIELD_DISCOVERY,
                                       FIELD_END, FIELD_EUI48, FIELD_EUI64, FIELD_FIRST_STRING, FIELD_FLOAT, FIELD_GATEWAY, FIELD_HASH32, FIELD_HEX,
                                       FIELD_HOST_IDENTITY, FIELD_LOCATION, FIELD_NAME, FIELD_NODE, FIELD_PAIR, FIELD_PARAMETERS, FIELD_PERIOD,
                                       FIELD_PREFIXES, FIELD_QUOTED, FIELD_RELAY, FIELD_SALT, FIELD_STRING, FIELD_STRINGS, FIELD_TARGET, FIELD_TIME,
                                       FIELD_TYPE, FIELD_U16, FIELD_U32, FIELD_U8, Field, FieldKind, MNEMONIC_MAX, RRTYPES_DENSE, RRType,
                                       RR_ADDITIONAL, RR_CANONICAL, RR_META, RR_QTYPE, RR_RECEIVED, RR_RESERVED, RR_ZONE_LOWER, TYPE_A, TYPE_AAAA,
                                       TYPE_AFSDB, TYPE_AMTRELAY, TYPE_ANY, TYPE_APL, TYPE_ATMA, TYPE_AVC, TYPE_AXFR, TYPE_CAA, TYPE_CDNSKEY,
                                       TYPE_CDS, TYPE_CERT, TYPE_CNAME, TYPE_CSYNC, TYPE_DHCID, TYPE_DLV, TYPE_DNAME, TYPE_DNSKEY, TYPE_DS, TYPE_EID,
                                       TYPE_EUI48, TYPE_EUI64, TYPE_GID, TYPE_GPOS, TYPE_HINFO, TYPE_HIP, TYPE_HTTPS, TYPE_IPSECKEY, TYPE_ISDN,
                                       TYPE_IXFR, TYPE_KEY, TYPE_KX, TYPE_L32, TYPE_L64, TYPE_LOC, TYPE_LP, TYPE_MAILA, TYPE_MAILB, TYPE_MB, TYPE_MD,
                                       TYPE_MF, TYPE_MG, TYPE_MINFO, TYPE_MR, TYPE_MX, TYPE_NAPTR, TYPE_NID, TYPE_NIMLOC, TYPE_NINFO, TYPE_NONE,
                                       TYPE_NS, TYPE_NSAP_PTR, TYPE_NSEC, TYPE_NSEC3, TYPE_NSEC3PARAM, TYPE_NULL, TYPE_NXNAME, TYPE_NXT,
                                       TYPE_OPENPGPKEY, TYPE_OPT, TYPE_PTR, TYPE_PX, TYPE_RESERVED, TYPE_RESINFO, TYPE_RKEY, TYPE_RP, TYPE_RRSIG,
                                       TYPE_RT, TYPE_SIG, TYPE_SMIMEA, TYPE_SOA, TYPE_SPF, TYPE_SRV, TYPE_SSHFP, TYPE_SVCB, TYPE_TA, TYPE_TALINK,
                                       TYPE_TKEY, TYPE_TLSA, TYPE_TSIG, TYPE_TXT, TYPE_UID, TYPE_UINFO, TYPE_UNSPEC, TYPE_URI, TYPE_X25, TYPE_ZONEMD,
                                       block_is_name, rrtype_get, rrtype_is_meta, rrtype_lower, rrtype_name_offset, rrtype_names,
                                       rrtype_number, rrtype_sparse)
# EDNS (RFC 6891), its options, and the address of a client-subnet option (RFC 7871).
from fastdns._wire cimport (EDNS_DO, EDNS_SIZE, OPTION_COOKIE, OPTION_ERROR, OPTION_EXPIRE, OPTION_KEEPALIVE, OPTION_NSID, OPTION_PADDING, OPTION_SUBNET,
                            Edns, option_is_hop_by_hop, wire_option, wire_subnet)

# A received message: header and question, then its records one by one.
from fastdns._wire cimport Message, Section, WireRecord, wire_answers, wire_begin_records, wire_next_record, wire_parse_reply
# Names and rdata in it, uncompressed.
from fastdns._wire cimport wire_expand_name, wire_expand_rdata, wire_read_name
# Rdata: whether octets are valid for a type, and its canonical form (RFC 4034 6.2).
from fastdns.zonefile.rdata cimport rdata_lower, rdata_valid
