"""The messages of a transfer. The contract is in _stream.pxd; RFC 5936 for the shape."""
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t
from libc.stdio cimport snprintf
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy
from fastdns.api.query cimport Query, Stream
from fastdns.api.names cimport NAME_MAX, wire_name_text
from fastdns.api.wire cimport CLASS_IN, EDNS_DO, FLAG_AA, FLAG_CD, FLAG_QR, FLAG_RD, HEADER_SIZE, TYPE_OPT, load32, store16, store32
from fastdns.api.log cimport LOG_DEBUG, LOG_INFO, LOG_LINE_MAX, LogLevel, log_put, log_wants_debug
from fastdns.api.network cimport Address
from fastdns.plugins.transfer._encoded cimport Encoded, EncodedMessage, encoded_unref
from fastdns.plugins.transfer._places cimport place_give, streams, transfers
from fastdns.plugins.transfer._source cimport RECORDS_OCTETS, SOA_OCTETS, TransferRecord, TransferSource

cdef extern from "<arpa/inet.h>" nogil:
    enum: AF_INET
    enum: AF_INET6
    const char *inet_ntop(int family, const void *octets, char *out, unsigned int size)

cdef enum:
    OPT_OCTETS = 11

cdef struct TransferStream:
    Stream base
    TransferSource *source      # NULL: `encoded`
    TransferRecord soa          # in soa_octets
    TransferRecord pending      # the one that was read after it, or any later one
    Encoded *encoded            # a reference; NULL: `source`
    const EncodedMessage *message   # of it: the next one
    uint8_t queued              # read and not yet written: 2 soa and pending, 1 pending
    uint8_t ended
    uint8_t edns                # the request had an OPT: every message has one
    uint16_t edns_size
    uint16_t edns_flags
    uint16_t id
    uint16_t flags
    uint32_t worker
    int place
    uint32_t records            # written
    uint32_t serial
    Address client
    uint16_t question_length    # octets, type and class included
    uint8_t question[NAME_MAX + 4]
    uint8_t soa_octets[SOA_OCTETS]


cdef TransferStream *begin(Query *q, const TransferRecord *soa, int place) noexcept nogil:
    """Without its records. NULL: no memory."""
    cdef TransferStream *self = <TransferStream *>malloc(sizeof(TransferStream))
    if self == NULL:
        return NULL
    self.base.close = stream_close
    self.base.state = self
    self.source = NULL
    self.encoded = NULL
    self.ended = 0
    self.edns = q.message.edns.present
    self.edns_size = q.message.edns.udp_size
    self.edns_flags = q.message.edns.flags & EDNS_DO
    self.id = q.message.id
    self.flags = FLAG_QR | FLAG_AA | (q.message.flags & (FLAG_RD | FLAG_CD))
    self.worker = q.worker.id
    self.records = 0
    self.serial = load32(soa.rdata + soa.rdlength - 20)
    self.client = q.client
    memcpy(self.question, q.first_name.wire, q.first_name.length)
    store16(self.question + q.first_name.length, q.message.qtype)
    store16(self.question + q.first_name.length + 2, q.message.qclass)
    self.question_length = q.first_name.length + 4
    self.place = place
    return self


cdef Stream *stream_make(Query *q, TransferSource *source, const TransferRecord *soa, const TransferRecord *second, int place) noexcept nogil:
    cdef TransferStream *self = begin(q, soa, place)
    if self == NULL:
        source.close(source)
        return NULL
    self.base.pull = pull_source
    self.source = source
    self.soa = soa[0]
    memcpy(self.soa_octets, soa.owner, soa.owner_length)
    memcpy(self.soa_octets + soa.owner_length, soa.rdata, soa.rdlength)
    self.soa.owner = self.soa_octets
    self.soa.rdata = self.soa_octets + soa.owner_length
    self.pending = second[0]
    self.queued = 2
    return &self.base


cdef Stream *stream_encoded(Query *q, Encoded *encoded, int place) noexcept nogil:
    cdef TransferStream *self = begin(q, &encoded.soa, place)
    if self == NULL:
        place_give(&streams, place)
        encoded_unref(encoded)
        return NULL
    self.base.pull = pull_encoded
    self.encoded = encoded
    self.message = encoded.first
    return &self.base


cdef int64_t pull_encoded(Stream *stream, uint8_t *out, uint32_t capacity) noexcept nogil:
    cdef TransferStream *self = <TransferStream *>stream.state
    cdef const EncodedMessage *message = self.message
    cdef uint32_t used = HEADER_SIZE + self.question_length
    if message == NULL:
        self.ended = 1
        return 0
    if used + message.length + OPT_OCTETS > capacity:
        return -1
    memcpy(out + used, message.octets, message.length)
    self.message = message.next
    self.records += message.records
    return finish_message(self, out, used + message.length, message.records)


cdef uint32_t write_record(TransferStream *self, const TransferRecord *record, uint8_t *out) noexcept nogil:
    cdef uint32_t used
    if record.owner_length + 4 == self.question_length and record.owner_length > 1 and (
            memcmp(record.owner, self.question, record.owner_length) == 0):
        store16(out, 0xC000 | HEADER_SIZE)      # the question's name
        used = 2
    else:
        memcpy(out, record.owner, record.owner_length)
        used = record.owner_length
    store16(out + used, record.type)
    store16(out + used + 2, CLASS_IN)
    store32(out + used + 4, record.ttl)
    store16(out + used + 8, record.rdlength)
    memcpy(out + used + 10, record.rdata, record.rdlength)
    return used + 10 + record.rdlength


cdef int64_t pull_source(Stream *stream, uint8_t *out, uint32_t capacity) noexcept nogil:
    cdef TransferStream *self = <TransferStream *>stream.state
    cdef uint32_t used = HEADER_SIZE + self.question_length, size, count = 0
    cdef uint32_t tail = OPT_OCTETS if self.edns else 0
    cdef uint32_t limit = used + RECORDS_OCTETS
    cdef const TransferRecord *record
    cdef int status
    if self.ended:
        return 0
    while True:
        if self.queued == 0:
            status = self.source.next(self.source, &self.pending)
            if status < 0:
                return -1
            if status == 0:
                self.ended = 1
                break
            self.queued = 1
        record = &self.soa if self.queued == 2 else &self.pending
        size = <uint32_t>record.owner_length + 10 + record.rdlength
        if count and used + size > limit:
            break
        if used + size + tail > capacity:
            return -1           # one record that no message holds
        used += write_record(self, record, out + used)
        self.queued -= 1
        self.records += 1
        count += 1
    if count == 0:
        return 0
    return finish_message(self, out, used, count)


cdef uint32_t finish_message(const TransferStream *self, uint8_t *out, uint32_t used, uint32_t count) noexcept nogil:
    """Header, question and OPT, around so many records. Its length."""
    memcpy(out + HEADER_SIZE, self.question, self.question_length)
    if self.edns:
        used += write_opt(self, out + used)
    store16(out, self.id)
    store16(out + 2, self.flags)
    store16(out + 4, 1)
    store16(out + 6, count)
    store16(out + 8, 0)
    store16(out + 10, self.edns)
    return used


cdef uint32_t write_opt(const TransferStream *self, uint8_t *out) noexcept nogil:
    out[0] = 0
    store16(out + 1, TYPE_OPT)
    store16(out + 3, self.edns_size)
    store32(out + 5, self.edns_flags)
    store16(out + 9, 0)
    return OPT_OCTETS


cdef void stream_close(Stream *stream) noexcept nogil:
    cdef TransferStream *self = <TransferStream *>stream.state
    if self.source != NULL:
        self.source.close(self.source)
    if self.ended:
        log_end(self)
    place_give(&transfers if self.encoded == NULL else &streams, self.place)
    if self.encoded != NULL:
        encoded_unref(self.encoded)
    free(self)


cdef void log_end(const TransferStream *self) noexcept nogil:
    """Differences that thousands of clients get several times a second are for those who look for them."""
    cdef char what[64]
    cdef bint minor = self.encoded != NULL and not self.encoded.whole
    if minor and not log_wants_debug():
        return
    snprintf(what, sizeof(what), b"transfer of %u records of", self.records)
    log_line(LOG_DEBUG if minor else LOG_INFO, self.worker, what, self.question, &self.client, self.serial)


cdef void stream_log_current(Query *q, uint32_t serial) noexcept nogil:
    log_line(LOG_INFO, q.worker.id, b"noop, incremental transfer for up to date", q.first_name.wire, &q.client, serial)


cdef void log_line(LogLevel level, uint32_t worker, const char *what, const uint8_t *name, const Address *client, uint32_t serial) noexcept nogil:
    cdef char line[LOG_LINE_MAX]
    cdef char zone[1100]
    cdef char address[64]
    cdef int length
    zone[wire_name_text(name, zone)] = 0
    if inet_ntop(AF_INET if client.family == 4 else AF_INET6, client.octets, address, sizeof(address)) == NULL:
        address[0] = 0
    length = snprintf(line, LOG_LINE_MAX, b'Outgoing %s zone "%s" to %s for %u SOA serial', what, zone, address, serial)
    log_put(worker, level, b"transfer", line, <uint32_t>length if length < LOG_LINE_MAX else LOG_LINE_MAX - 1)
