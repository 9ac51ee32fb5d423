"""Encoded transfers. The contract is in _encoded.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy
from fastdns.api.memory cimport atomic_add32
from fastdns.api.names cimport NAME_MAX
from fastdns.api.wire cimport CLASS_IN, HEADER_SIZE, MESSAGE_MAX, TYPE_SOA, store16, store32
from fastdns.plugins.transfer._places cimport encodings, place_give
from fastdns.plugins.transfer._source cimport RECORDS_OCTETS, SOA_OCTETS, TransferRecord, TransferSource

cdef enum:
    LABELS_MAX = 128
    POINTER_MAX = 0x4000            # offsets that a pointer can name

cdef struct LastName:               # the owner written last, at which the next one may point
    uint8_t name[NAME_MAX]
    uint8_t labels                  # without the root
    uint8_t starts[LABELS_MAX]      # of the labels in name
    uint16_t offsets[LABELS_MAX]    # in the message, where the name from this label on stands; 0: not where a pointer reaches

cdef struct Encoder:
    Encoded *encoded
    uint32_t begin                  # of the answer section in a message
    uint32_t used                   # octets of it
    uint32_t records
    LastName last
    uint8_t octets[MESSAGE_MAX]


cdef Encoded *encoded_ref(Encoded *encoded) noexcept nogil:
    atomic_add32(&encoded.references, 1)
    return encoded


cdef void encoded_unref(Encoded *encoded) noexcept nogil:
    if atomic_add32(&encoded.references, <uint32_t>-1) == 0:
        place_give(&encodings, encoded.place)
        free_encoded(encoded)


cdef void free_encoded(Encoded *encoded) noexcept nogil:
    cdef EncodedMessage *message
    while encoded.first != NULL:
        message = encoded.first
        encoded.first = message.next
        free(message)
    free(encoded)


cdef Encoded *encoded_make(TransferSource *source, int place) noexcept nogil:
    cdef Encoded *encoded = <Encoded *>calloc(1, sizeof(Encoded))
    cdef Encoder *encoder = <Encoder *>malloc(sizeof(Encoder))
    cdef bint made = encoded != NULL and encoder != NULL
    if made:
        encoder.encoded = encoded
        made = encode(encoder, source)
    source.close(source)
    free(encoder)
    if made:
        encoded.references = 1
        encoded.place = place
        return encoded
    if encoded != NULL:
        free_encoded(encoded)
    return NULL


cdef bint encode(Encoder *encoder, TransferSource *source) noexcept nogil:
    """Of a source whose first record is the SOA, as `read_beginning` of _handler has looked. A single one: the client is up to date."""
    cdef Encoded *encoded = encoder.encoded
    cdef TransferRecord record
    cdef int status = source.next(source, &record)
    if status != 1 or record.type != TYPE_SOA or not 22 <= record.rdlength <= SOA_OCTETS - record.owner_length:
        return False
    memcpy(encoded.soa_octets, record.owner, record.owner_length)
    memcpy(encoded.soa_octets + record.owner_length, record.rdata, record.rdlength)
    encoded.soa = record
    encoded.soa.owner = encoded.soa_octets
    encoded.soa.rdata = encoded.soa_octets + record.owner_length
    encoder.begin = HEADER_SIZE + record.owner_length + 4u
    begin_message(encoder)
    put_record(encoder, &encoded.soa)
    status = source.next(source, &record)
    if status == 0:
        return True
    encoded.whole = record.type != TYPE_SOA
    while status == 1:
        if not put_record(encoder, &record):
            return False
        status = source.next(source, &record)
    return status == 0 and end_message(encoder)


cdef void begin_message(Encoder *encoder) noexcept nogil:
    """The question's name is the zone's."""
    encoder.used = encoder.records = 0
    remember(&encoder.last, encoder.encoded.soa.owner, encoder.encoded.soa.owner_length, HEADER_SIZE, 0)


cdef bint end_message(Encoder *encoder) noexcept nogil:
    cdef EncodedMessage *message = <EncodedMessage *>malloc(sizeof(EncodedMessage) + encoder.used)
    cdef Encoded *encoded = encoder.encoded
    if message == NULL:
        return False
    message.next = NULL
    message.length = encoder.used
    message.records = <uint16_t>encoder.records
    memcpy(message.octets, encoder.octets, encoder.used)
    if encoded.last != NULL:
        encoded.last.next = message
    else:
        encoded.first = message
    encoded.last = message
    encoded.messages += 1
    encoded.records += encoder.records
    return True


cdef bint put_record(Encoder *encoder, const TransferRecord *record) noexcept nogil:
    cdef uint8_t *out
    if record.rdlength > RECORDS_OCTETS:    # no message holds it
        return False
    if encoder.records and encoder.used + record.owner_length + 10u + record.rdlength > RECORDS_OCTETS:
        if not end_message(encoder):
            return False
        begin_message(encoder)
    encoder.used += put_owner(encoder, record.owner, record.owner_length)
    out = encoder.octets + encoder.used
    store16(out, record.type)
    store16(out + 2, CLASS_IN)
    store32(out + 4, record.ttl)
    store16(out + 8, record.rdlength)
    memcpy(out + 10, record.rdata, record.rdlength)
    encoder.used += 10u + record.rdlength
    encoder.records += 1
    return True


# ---- names: each points at what it has in common with the one before ----

cdef uint32_t put_owner(Encoder *encoder, const uint8_t *name, uint32_t length) noexcept nogil:
    cdef LastName *last = &encoder.last
    cdef uint8_t *out = encoder.octets + encoder.used
    cdef uint8_t starts[LABELS_MAX]
    cdef uint32_t labels = 0, at = 0, same = 0, written, size
    cdef uint16_t offset = 0
    while name[at]:
        starts[labels] = <uint8_t>at
        labels += 1
        at += 1u + name[at]
    while same < labels and same < last.labels:
        size = 1u + name[starts[labels - 1 - same]]
        if memcmp(name + starts[labels - 1 - same], last.name + last.starts[last.labels - 1 - same], size) != 0 or (
                last.offsets[last.labels - 1 - same] == 0):
            break
        same += 1
    if same:
        offset = last.offsets[last.labels - same]
    written = starts[labels - same] if same else length
    memcpy(out, name, written)
    if same:
        store16(out + written, 0xC000 | offset)
    remember(last, name, length, encoder.begin + encoder.used, same)
    return written + 2 if same else written


cdef void remember(LastName *last, const uint8_t *name, uint32_t length, uint32_t offset, uint32_t same) noexcept nogil:
    """A name that stands at an offset but for its last labels, which are those of the last one and stand where they stood."""
    cdef uint16_t kept[LABELS_MAX]
    cdef uint32_t i, at = 0
    for i in range(same):
        kept[i] = last.offsets[last.labels - same + i]
    memcpy(last.name, name, length)
    last.labels = 0
    while name[at]:
        last.starts[last.labels] = <uint8_t>at
        last.offsets[last.labels] = <uint16_t>(offset + at) if offset + at < POINTER_MAX else 0
        last.labels += 1
        at += 1u + name[at]
    for i in range(same):
        last.offsets[last.labels - same + i] = kept[i]
