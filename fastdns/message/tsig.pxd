"""The TSIG record of a received message (RFC 8945 4.2). fastdns/_wire has checked the layout of its rdata."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from fastdns._wire cimport Message

cdef struct Tsig:               # a message's transaction signature (RFC 8945 4.2); spans borrowed from the packet
    uint8_t key[255]            # name of the key as received, uncompressed
    uint8_t algorithm[255]      # name of the algorithm, uncompressed
    uint8_t key_length
    uint8_t algorithm_length
    uint32_t ttl
    uint64_t time               # Unix seconds, 48 bits
    uint16_t fudge
    uint16_t original_id
    uint16_t error
    uint16_t mac_length
    const uint8_t *mac
    uint16_t other_length
    const uint8_t *other

# Reads the record at offset `at` (Message.tsig) of a message that wire_accept or wire_parse_reply has parsed. 0, or -1 unless the record is
# a TSIG of class ANY and the last one of the message.
cdef int tsig_read(const uint8_t *packet, uint32_t length, const Message *message, uint32_t at, Tsig *tsig) noexcept nogil
