"""Codes of extended DNS errors. The contract is in _reason.pxd.

libunbound's functions give a text and no code. The texts are those of Unbound's validator (validator/ in its source). The first cause counts: where
signatures of a zone's keys have expired, that is the reason, and not that the keys are missing then, which Unbound's daemon tells of some causes.
"""
from libc.string cimport strstr

cdef enum:
    EDE_UNSUPPORTED_ALGORITHM = 1
    EDE_BOGUS = 6
    EDE_EXPIRED = 7
    EDE_NOT_YET_VALID = 8
    EDE_DNSKEY_MISSING = 9
    EDE_RRSIGS_MISSING = 10
    EDE_NO_ZONE_KEY = 11
    EDE_NSEC_MISSING = 12
    REASONS = 19

cdef struct Reason:
    const char *text
    uint16_t code

# The first that is part of the text counts.
cdef Reason reasons[REASONS]
reasons[:] = [
    Reason(b"signature expired", EDE_EXPIRED),
    Reason(b"signature before inception date", EDE_NOT_YET_VALID),
    Reason(b"signature inception after expiration", EDE_NOT_YET_VALID),
    Reason(b"dnskey without ZSK flag", EDE_NO_ZONE_KEY),
    Reason(b"no signatures over NSEC", EDE_NSEC_MISSING),
    Reason(b"no DNSSEC records", EDE_NSEC_MISSING),
    Reason(b"NSEC does not prove", EDE_NSEC_MISSING),
    Reason(b"NSEC for wildcard does not prove", EDE_NSEC_MISSING),
    Reason(b"no valid NSEC3s", EDE_NSEC_MISSING),
    Reason(b"no NSEC3", EDE_NSEC_MISSING),
    Reason(b"no signatures", EDE_RRSIGS_MISSING),
    Reason(b"signature missing", EDE_RRSIGS_MISSING),
    Reason(b"signatures from unknown keys", EDE_DNSKEY_MISSING),
    Reason(b"DNSKEY RRset did not match", EDE_DNSKEY_MISSING),
    Reason(b"no DNSKEY rrset", EDE_DNSKEY_MISSING),
    Reason(b"No DNSKEY record", EDE_DNSKEY_MISSING),
    Reason(b"while building chain of trust", EDE_DNSKEY_MISSING),
    Reason(b"unsupported algorithm", EDE_UNSUPPORTED_ALGORITHM),
    Reason(b"zone has no known algorithms", EDE_UNSUPPORTED_ALGORITHM),
]


cdef uint16_t reason_code(const char *why) noexcept nogil:
    cdef int i
    for i in range(REASONS):
        if strstr(why, reasons[i].text) != NULL:
            return reasons[i].code
    return EDE_BOGUS
