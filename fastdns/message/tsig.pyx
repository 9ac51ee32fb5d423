"""Reads TSIG records. The contract is in message/tsig.pxd."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from fastdns._wire cimport CLASS_ANY, TYPE_TSIG, Message, Section, WireRecord, load16, load32, wire_begin_records, wire_expand_name, wire_next_record


cdef int tsig_read(const uint8_t *packet, uint32_t length, const Message *message, uint32_t at, Tsig *tsig) noexcept nogil:
    cdef Section section
    cdef WireRecord record
    cdef int status, n
    record.owner = record.rdata = 0
    record.type = record.klass = record.rdlength = 0
    wire_begin_records(packet, length, message, &section)
    while True:
        status = wire_next_record(&section, &record)
        if status < 0:
            return -1
        if status == 0:
            break
    # The record that was read last; its rdata has the shape of a TSIG's.
    if record.owner != at or record.type != TYPE_TSIG or record.klass != CLASS_ANY or record.rdlength == 0:
        return -1
    n = wire_expand_name(packet, length, &at, tsig.key)
    if n < 0:
        return -1
    tsig.key_length = <uint8_t>n
    at = record.rdata
    n = wire_expand_name(packet, record.rdata + record.rdlength, &at, tsig.algorithm)
    if n < 0:
        return -1
    tsig.algorithm_length = <uint8_t>n
    tsig.ttl = record.ttl
    tsig.time = (<uint64_t>load16(packet + at) << 32) | load32(packet + at + 2)
    tsig.fudge = load16(packet + at + 6)
    tsig.mac_length = load16(packet + at + 8)
    tsig.mac = packet + at + 10
    at += 10 + tsig.mac_length
    tsig.original_id = load16(packet + at)
    tsig.error = load16(packet + at + 2)
    tsig.other_length = load16(packet + at + 4)
    tsig.other = packet + at + 6
    return 0
