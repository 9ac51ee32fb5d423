"""Zone transfers in. What a `Receiver` holds stands in _receive.pxd.

A whole zone becomes a draft, which is built beside the version that serves; differences become a change of that version. What is served is never
half of anything.
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy, memset
from fastdns.api.names cimport Name
from fastdns.api.wire cimport (CLASS_IN, FLAG_QR, MESSAGE_MAX, TYPE_AXFR, TYPE_IXFR, TYPE_SOA, TYPE_ZONEMD, Message, Section, WireRecord, flags_rcode, load32,
                               rdata_valid, wire_begin_records, wire_expand_rdata, wire_next_record, wire_parse_reply, wire_read_name)
from fastdns.api.records cimport (INDEX_MEMORY, ZONE_OK, ZONE_PRESENT, Differences, ZoneBuilder, ZoneChange, differences_add, differences_delete,
                                  differences_soa, zone_add)
from fastdns.plugins.transfer._digest cimport DIGEST_OCTETS, ContentDigest, digest_add, digest_read, digest_remove, same_content, zonemd_read
from fastdns.plugins.transfer._serial cimport serial_after
from fastdns.plugins.transfer._source cimport TransferRecord


cdef enum:                      # what taking a record comes to
    TOOK = 0
    NO_SOA = -100
    BEHIND = -101               # records after the end
    BROKEN = -102               # differences in no order
    MALFORMED = -103
    RECORDS = -104
    MEMORY = -105
    PRESENT = -106              # an addition of what was added
    REFUSED = -107              # by the zone

ERRORS = {
    NO_SOA: "dns: no SOA",
    BEHIND: "records behind the last SOA",
    BROKEN: "the differences do not follow each other",
    MALFORMED: "dns: malformed message",
    PRESENT: "the differences add what is there",
    REFUSED: "records that no zone holds",
}


class TransferError(ValueError):
    rcode = 0
    bound = ""


# ---- records as they come ----

cdef int take(Receiver self, ZoneBuilder *builder, const Name *owner, const WireRecord *record, uint8_t *rdata, uint32_t rdlength) noexcept nogil:
    cdef bint apex = record.type == TYPE_SOA and owner.length == self.zone.state.index.origin.length and (
        memcmp(owner.lower, self.zone.state.index.origin.lower, owner.length) == 0)
    cdef uint32_t serial = load32(rdata + rdlength - 20) if apex else 0
    if self.stage == DONE or self.stage == CURRENT:
        return BEHIND
    if self.stage == BEGIN:
        if not apex or rdlength > sizeof(self.soa):
            return NO_SOA
        self.target = serial
        self.soa_ttl = record.ttl
        self.soa_length = rdlength
        memcpy(self.soa, rdata, rdlength)
        self.stage = SECOND
        return TOOK
    if self.stage == SECOND:
        if self.incremental and apex and serial == self.serial and serial != self.target:
            self.reached = serial
            self.stage = DELETING
            return TOOK if differences_soa(&self.change.differences, self.soa_ttl, self.soa, self.soa_length) == ZONE_OK else REFUSED
        self.stage = WHOLE
        memset(&self.digest, 0, sizeof(ContentDigest))
        self.hashing = True
        if add(self, builder, &self.zone.state.index.origin, TYPE_SOA, CLASS_IN, self.soa_ttl, self.soa, self.soa_length) < 0:
            return REFUSED
    if self.stage == WHOLE:
        if apex:
            if serial != self.target:
                return BROKEN
            self.stage = DONE
            return TOOK
        hash_record(self, owner, record, rdata, rdlength, False)
        return TOOK if add(self, builder, owner, record.type, record.klass, record.ttl, rdata, rdlength) >= 0 else REFUSED
    return take_difference(self, owner, record, rdata, rdlength, apex, serial)


cdef void hash_record(Receiver self, const Name *owner, const WireRecord *record, const uint8_t *rdata, uint32_t rdlength, bint remove) noexcept nogil:
    """Of a zone without such a ZONEMD record at its beginning the records of the apex alone are hashed."""
    cdef bint apex = owner.length == self.zone.state.index.origin.length
    cdef TransferRecord one
    if not self.hashing or record.klass != CLASS_IN:
        return
    if record.type == TYPE_ZONEMD and apex:
        if not remove and zonemd_read(rdata, rdlength, &self.declared):
            self.declared_here = True
        return
    if self.stage == WHOLE and not self.declared_here and not apex:
        self.hashing = False
        return
    one.owner = owner.wire
    one.owner_length = owner.length
    one.type = record.type
    one.ttl = record.ttl
    one.rdata = rdata
    one.rdlength = <uint16_t>rdlength
    if remove:
        digest_remove(&self.digest, &one)
    else:
        digest_add(&self.digest, &one)


cdef int add(Receiver self, ZoneBuilder *builder, const Name *owner, uint16_t type, uint16_t klass, uint32_t ttl, const uint8_t *rdata,
             uint32_t rdlength) noexcept nogil:
    return zone_add(builder, owner, type, klass, ttl, rdata, <uint16_t>rdlength)


cdef int take_difference(Receiver self, const Name *owner, const WireRecord *record, uint8_t *rdata, uint32_t rdlength, bint apex,
                         uint32_t serial) noexcept nogil:
    """RFC 1995 4: SOA, deletions, SOA, additions, again and again; the zone's SOA ends it."""
    cdef Differences *differences = &self.change.differences
    cdef int status
    if apex:
        if self.stage == DELETING:
            if not serial_after(serial, self.reached):
                return BROKEN
            self.reached = serial
            self.stage = ADDING
            return TOOK
        if serial != self.reached:
            return BROKEN
        self.stage = DONE if serial == self.target else DELETING
        return TOOK
    if record.klass != CLASS_IN:
        return TOOK
    hash_record(self, owner, record, rdata, rdlength, self.stage == DELETING)
    if self.stage == ADDING:
        status = differences_add(differences, owner, record.type, record.ttl, rdata, <uint16_t>rdlength)
    else:
        status = differences_delete(differences, owner, record.type, record.ttl, rdata, <uint16_t>rdlength)
    if status == ZONE_OK:
        return TOOK
    return MEMORY if status == INDEX_MEMORY else PRESENT if status == ZONE_PRESENT else REFUSED


cdef int take_message(Receiver self, ZoneBuilder *builder, const uint8_t *packet, uint32_t length, const Message *message) noexcept nogil:
    cdef Section section
    cdef WireRecord record
    cdef Name owner
    cdef uint32_t at
    cdef int status, rdlength
    wire_begin_records(packet, length, message, &section)
    while True:
        status = wire_next_record(&section, &record)
        if status < 0:
            return MALFORMED
        if status == 0 or record.section != 0:
            break
        if self.left_records == 0:
            return RECORDS
        self.left_records -= 1
        at = record.owner
        if wire_read_name(packet, length, &at, &owner) < 0:
            return MALFORMED
        rdlength = wire_expand_rdata(packet, length, &record, self.scratch, MESSAGE_MAX)
        if rdlength < 0 or not rdata_valid(record.type, self.scratch, <uint32_t>rdlength):
            return MALFORMED
        status = take(self, builder, &owner, &record, self.scratch, <uint32_t>rdlength)
        if status < 0:
            return status
    if self.stage == BEGIN:
        return NO_SOA
    if self.stage == SECOND and self.incremental and not serial_after(self.target, self.serial):
        self.stage = CURRENT
    return TOOK


# ---- Python ----

def signature_place(bytes message not None):
    cdef const uint8_t *packet = message
    cdef uint32_t length = <uint32_t>len(message), at
    cdef Message parsed
    cdef Section section
    cdef WireRecord record
    cdef Name owner
    if length > MESSAGE_MAX or wire_parse_reply(packet, length, &parsed, NULL) < 0:
        raise ValueError("dns: malformed message")
    if parsed.tsig == 0:
        return None
    wire_begin_records(packet, length, &parsed, &section)
    while wire_next_record(&section, &record) > 0:
        if record.owner == parsed.tsig:
            at = record.owner
            if record.rdata + record.rdlength != length or wire_read_name(packet, length, &at, &owner) < 0:
                break
            return record.owner, owner.lower[:owner.length], record.rdata, record.rdlength
    raise ValueError("dns: malformed message")


cdef object bound_error(str what, uint64_t most):
    error = TransferError(f"too many {what}: more than {most} (max_{what})")
    error.bound = what
    return error


cdef object error_of(int status):
    if status == MEMORY:
        return MemoryError()
    return TransferError(ERRORS[status])


cdef class Receiver:

    def __init__(self, Zone zone not None, serial=None, *, uint64_t records, uint64_t octets, bytes digest=b""):
        self.zone = zone
        self.draft = zone.draft()
        self.incremental = serial is not None
        if self.incremental:
            self.change = ZoneChange(zone, serial)
        if len(digest) == DIGEST_OCTETS:
            digest_read(&self.digest, digest)
            self.hashing = True
        self.serial = serial or 0
        self.reached = self.serial
        self.qtype = TYPE_IXFR if self.incremental else TYPE_AXFR
        self.left_records = self.most_records = records
        self.left_octets = self.most_octets = octets
        self.scratch = <uint8_t *>malloc(MESSAGE_MAX + 1)
        if self.scratch == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.scratch)

    def feed(self, bytes message not None, uint16_t ident):
        cdef const uint8_t *packet = message
        cdef uint32_t length = <uint32_t>len(message)
        cdef ZoneBuilder *builder = self.draft.builder
        cdef Message parsed
        cdef Name question
        cdef int status
        if length > self.left_octets:
            raise bound_error("octets", self.most_octets)
        self.left_octets -= length
        if length > MESSAGE_MAX or wire_parse_reply(packet, length, &parsed, &question) < 0 or not parsed.flags & FLAG_QR:
            raise TransferError("dns: malformed message")
        if parsed.id != ident:
            raise TransferError("dns: id mismatch")
        if flags_rcode(parsed.flags):
            error = TransferError(f"dns: bad xfr rcode: {flags_rcode(parsed.flags)}")
            error.rcode = flags_rcode(parsed.flags)
            raise error
        if parsed.counts[0] and (parsed.qtype != self.qtype or (<const char *>question.lower)[:question.length] != self.zone.wire):
            raise TransferError("an answer to another question")
        self.messages += 1
        with nogil:
            status = take_message(self, builder, packet, length, &parsed)
        if status == RECORDS:
            raise bound_error("records", self.most_records)
        if status < 0:
            raise error_of(status)
        return self.done

    def finish(self):
        if self.stage != DONE:
            raise TransferError("the transfer is not complete")
        if self.hashing and self.declared_here and not same_content(&self.digest, &self.declared):
            raise TransferError("the records are not those that the zone's digest is of")
        version = self.change if self.differences else self.draft
        version.finish()
        return version

    @property
    def done(self):
        return self.stage == DONE or self.stage == CURRENT

    @property
    def current(self):
        return self.stage == CURRENT

    @property
    def checked(self):
        return bool(self.hashing and self.declared_here)

    @property
    def differences(self):
        return self.reached != self.serial
