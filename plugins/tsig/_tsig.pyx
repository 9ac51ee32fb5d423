"""The native handler of tsig: one check of signed requests for every transport, and signatures for their replies (RFC 8945)."""
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy, memset
from libc.time cimport time
from fastdns.api.query cimport ANSWERED, NEXT, UP, Handler, NativeHandler, Query, Stream, Verdict, handler_init, query_answer, query_fail, query_scratch
from fastdns.api.reply cimport RECORD_OWNED, RECORD_SIGNER, SECTION_ADDITIONAL, Record, Signer, Tsig, reply_add, reply_alloc, tsig_read
from fastdns.api.names cimport NAME_MAX, ZoneList, Zones, wire_name_hash, zones_hold
from fastdns.api.wire cimport (CLASS_ANY, HEADER_SIZE, RCODE_FORMERR, RCODE_NOTAUTH, RCODE_REFUSED, RCODE_SERVFAIL, TYPE_TSIG, flags_opcode, load16,
                               store16, store32)
from fastdns.api.log cimport LOG_DEBUG, LOG_ERROR, LOG_LINE_MAX, log_put, log_wants_debug
from fastdns.api.text cimport Text, text_printable, text_string, text_type
from fastdns.api.digest cimport (DIGEST_MAX, HASH_SHA1, HASH_SHA224, HASH_SHA256, HASH_SHA384, HASH_SHA512, Hash, Hmac, hash_octets, hmac_add,
                                 hmac_begin, hmac_end, same_digest)

from fastdns._wire import name_wire

cdef enum:
    SERVERS_MAX = 64            # listening addresses of a block
    FUDGE = 300                 # seconds, of our signatures
    OTHER_SIZE = 6              # octets of our time, for who has another
    ERROR_BADSIG = 16
    ERROR_BADKEY = 17
    ERROR_BADTIME = 18

cdef struct Key:
    uint32_t hash               # of the name
    uint8_t usable              # its secret is base64
    uint8_t length
    uint8_t name[NAME_MAX]      # lower case, uncompressed
    uint32_t secret_length
    const uint8_t *secret       # in TsigHandler.kept

cdef struct Keys:               # of all blocks of a listening address
    uint32_t label              # the server's
    uint32_t count
    Key *keys

cdef struct TsigState:
    const Zones *zones
    uint32_t servers
    Keys server[SERVERS_MAX]
    uint8_t all_types
    uint8_t all_opcodes
    uint16_t opcodes            # bit by number
    uint8_t types[8192]         # bit by number

cdef struct Scratch:            # of a query that is signed well
    const Key *key
    uint16_t tsig               # where its record stands in the packet; 0: not signed
    uint8_t kind                # Hash

cdef struct Signature:          # what our TSIG records are made from
    const Key *key
    Hash kind
    uint16_t error
    uint16_t original_id
    uint64_t client_time        # of BADTIME
    uint16_t mac_length
    uint8_t mac[DIGEST_MAX]     # that comes before ours: the request's, or that of the message before
    uint8_t name_length
    uint8_t name[NAME_MAX]      # of the key, as received
    uint8_t algorithm_length
    uint8_t algorithm[NAME_MAX]

cdef struct MessageSigner:      # followed by space for the record's rdata
    Signature signature
    Signer base

cdef struct SignedStream:       # around another
    Stream base
    Stream *inner
    uint8_t later               # the first message is out: only the timers are signed from here on
    Signature signature


# ---- digests ----

cdef bint kind_of(const Tsig *tsig, Hash *kind) noexcept nogil:
    """The hash that the algorithm's name says; False for any other."""
    cdef uint8_t name[16]
    cdef uint32_t i, n = tsig.algorithm_length
    if n > 13 or n < 11:
        return False
    for i in range(n):
        name[i] = tsig.algorithm[i] | 0x20 if c'A' <= tsig.algorithm[i] <= c'Z' else tsig.algorithm[i]
    if n == 11 and memcmp(name, b"\x09hmac-sha1\0", 11) == 0:
        kind[0] = HASH_SHA1
    elif n == 13 and memcmp(name, b"\x0bhmac-sha224\0", 13) == 0:
        kind[0] = HASH_SHA224
    elif n == 13 and memcmp(name, b"\x0bhmac-sha256\0", 13) == 0:
        kind[0] = HASH_SHA256
    elif n == 13 and memcmp(name, b"\x0bhmac-sha384\0", 13) == 0:
        kind[0] = HASH_SHA384
    elif n == 13 and memcmp(name, b"\x0bhmac-sha512\0", 13) == 0:
        kind[0] = HASH_SHA512
    else:
        return False
    return True


cdef void add_name(Hmac *hmac, const uint8_t *name, uint32_t length) noexcept nogil:
    """In lower case (RFC 8945 4.3.3)."""
    cdef uint8_t lower[NAME_MAX]
    cdef uint32_t i
    for i in range(length):
        lower[i] = name[i] | 0x20 if c'A' <= name[i] <= c'Z' else name[i]
    hmac_add(hmac, lower, length)


cdef inline void store48(uint8_t *out, uint64_t value) noexcept nogil:
    store16(out, <uint32_t>(value >> 32))
    store32(out + 2, <uint32_t>value)


cdef void add_variables(Hmac *hmac, const uint8_t *name, uint32_t name_length, uint32_t ttl, const uint8_t *algorithm, uint32_t algorithm_length,
                        uint64_t moment, uint16_t fudge, uint16_t error, const uint8_t *other, uint16_t other_length) noexcept nogil:
    """RFC 8945 4.3.3."""
    cdef uint8_t octets[12]
    add_name(hmac, name, name_length)
    store16(octets, CLASS_ANY)
    store32(octets + 2, ttl)
    hmac_add(hmac, octets, 6)
    add_name(hmac, algorithm, algorithm_length)
    store48(octets, moment)
    store16(octets + 6, fudge)
    store16(octets + 8, error)
    store16(octets + 10, other_length)
    hmac_add(hmac, octets, 12)
    if other_length:
        hmac_add(hmac, other, other_length)


# ---- requests ----

cdef const Key *find_key(const TsigState *state, uint32_t label, const Tsig *tsig) noexcept nogil:
    cdef uint8_t lower[NAME_MAX]
    cdef uint32_t i, hash
    cdef const Keys *keys = NULL
    for i in range(state.servers):
        if state.server[i].label == label:
            keys = &state.server[i]
    if keys == NULL:
        return NULL
    for i in range(tsig.key_length):
        lower[i] = tsig.key[i] | 0x20 if c'A' <= tsig.key[i] <= c'Z' else tsig.key[i]
    hash = wire_name_hash(lower)
    for i in range(keys.count):
        if keys.keys[i].hash == hash and keys.keys[i].length == tsig.key_length and memcmp(keys.keys[i].name, lower, tsig.key_length) == 0:
            return &keys.keys[i]
    return NULL


cdef uint16_t verify(const uint8_t *packet, uint32_t at, const Tsig *tsig, const Key *key, Hash *kind) noexcept nogil:
    """The TSIG error of a request whose TSIG record stands at `at`, 0 for none. Time counts only when the MAC is right (RFC 8945 5.2)."""
    cdef uint8_t header[HEADER_SIZE]
    cdef uint8_t mac[DIGEST_MAX]
    cdef uint64_t now
    cdef Hmac hmac
    if key == NULL:
        return ERROR_BADKEY
    if not key.usable or not kind_of(tsig, kind) or tsig.mac_length != hash_octets(kind[0]):
        return ERROR_BADSIG
    memcpy(header, packet, HEADER_SIZE)
    store16(header, tsig.original_id)
    store16(header + 10, load16(packet + 10) - 1)
    hmac_begin(&hmac, kind[0], key.secret, key.secret_length)
    hmac_add(&hmac, header, HEADER_SIZE)
    hmac_add(&hmac, packet + HEADER_SIZE, at - HEADER_SIZE)
    add_variables(&hmac, tsig.key, tsig.key_length, tsig.ttl, tsig.algorithm, tsig.algorithm_length, tsig.time, tsig.fudge, tsig.error,
                  tsig.other, tsig.other_length)
    if hmac_end(&hmac, mac) < 0 or not same_digest(mac, tsig.mac, tsig.mac_length):
        return ERROR_BADSIG
    now = <uint64_t>time(NULL)
    if (now - tsig.time if now > tsig.time else tsig.time - now) > tsig.fudge:
        return ERROR_BADTIME
    return 0


# ---- signatures ----

cdef void fill_signature(Signature *signature, const Query *q, const Tsig *tsig, const Key *key, Hash kind, uint16_t error) noexcept nogil:
    signature.key = key
    signature.kind = kind
    signature.error = error
    signature.original_id = q.message.id
    signature.client_time = tsig.time
    signature.mac_length = 0
    if error == 0 or error == ERROR_BADTIME:
        signature.mac_length = <uint16_t>hash_octets(kind)
        memcpy(signature.mac, tsig.mac, signature.mac_length)       # as long as that, or it would not be right
    signature.name_length = tsig.key_length
    memcpy(signature.name, tsig.key, tsig.key_length)
    signature.algorithm_length = tsig.algorithm_length
    memcpy(signature.algorithm, tsig.algorithm, tsig.algorithm_length)


cdef inline uint32_t rdata_size(const Signature *signature) noexcept nogil:
    return signature.algorithm_length + <uint32_t>16 + signature.mac_length + (OTHER_SIZE if signature.error == ERROR_BADTIME else 0)


cdef inline uint32_t record_size(const Signature *signature) noexcept nogil:
    return signature.name_length + <uint32_t>10 + rdata_size(signature)


cdef uint32_t append_signature(Signature *signature, bint timers, uint8_t *message, uint32_t length) noexcept nogil:
    """Signs the message and puts the record behind it; record_size octets are free there. The MAC is kept for the message that follows."""
    cdef Hmac hmac
    cdef uint8_t octets[10]
    cdef uint8_t other[OTHER_SIZE]
    cdef uint8_t *out = message + length
    cdef uint64_t now = <uint64_t>time(NULL)
    cdef uint64_t moment = now
    cdef uint16_t other_length = 0
    if signature.error == ERROR_BADTIME:        # the client's time, and ours in the other data (RFC 8945 5.2.3)
        moment = signature.client_time
        store48(other, now)
        other_length = OTHER_SIZE
    if signature.mac_length:
        hmac_begin(&hmac, signature.kind, signature.key.secret, signature.key.secret_length)
        store16(octets, signature.mac_length)
        hmac_add(&hmac, octets, 2)
        hmac_add(&hmac, signature.mac, signature.mac_length)
        hmac_add(&hmac, message, length)
        if timers:
            store48(octets, moment)
            store16(octets + 6, FUDGE)
            hmac_add(&hmac, octets, 8)
        else:
            add_variables(&hmac, signature.name, signature.name_length, 0, signature.algorithm, signature.algorithm_length, moment, FUDGE,
                          signature.error, other, other_length)
        if hmac_end(&hmac, signature.mac) < 0:
            memset(signature.mac, 0, signature.mac_length)      # no memory: the client refuses the message
    else:                                       # an unsigned error (RFC 8945 5.3.2)
        moment = 0
    memcpy(out, signature.name, signature.name_length)
    out += signature.name_length
    store16(out, TYPE_TSIG)
    store16(out + 2, CLASS_ANY)
    store32(out + 4, 0)
    store16(out + 8, rdata_size(signature))
    out += 10
    memcpy(out, signature.algorithm, signature.algorithm_length)
    out += signature.algorithm_length
    store48(out, moment)
    store16(out + 6, FUDGE)
    store16(out + 8, signature.mac_length)
    memcpy(out + 10, signature.mac, signature.mac_length)
    out += 10 + signature.mac_length
    store16(out, signature.original_id)
    store16(out + 2, signature.error)
    store16(out + 4, other_length)
    memcpy(out + 6, other, other_length)
    store16(message + 10, load16(message + 10) + 1)
    return length + record_size(signature)


cdef uint32_t sign_message(Signer *signer, uint8_t *message, uint32_t length) noexcept nogil:
    cdef MessageSigner *self = <MessageSigner *>(<uint8_t *>signer - (sizeof(MessageSigner) - sizeof(Signer)))
    return append_signature(&self.signature, False, message, length)


cdef int add_record(Query *q, const Tsig *tsig, const Key *key, Hash kind, uint16_t error) noexcept nogil:
    """Has the reply signed when it is a message; -1 when the record does not fit."""
    cdef Signature signature
    cdef MessageSigner *signer
    cdef Record *record
    cdef uint32_t size
    fill_signature(&signature, q, tsig, key, kind, error)
    size = rdata_size(&signature)
    signer = <MessageSigner *>reply_alloc(&q.reply, sizeof(MessageSigner) + size)
    record = reply_add(&q.reply, SECTION_ADDITIONAL)
    if signer == NULL or record == NULL:
        return -1
    signer.signature = signature
    signer.base.sign = sign_message
    memset(signer + 1, 0, size)
    record.owner = signer.signature.name
    record.owner_length = signature.name_length
    record.type = TYPE_TSIG
    record.klass = CLASS_ANY
    record.rdata = <const uint8_t *>(signer + 1)
    record.rdlength = <uint16_t>size
    record.flags = RECORD_OWNED | RECORD_SIGNER
    return 0


# ---- log lines ----

cdef void tell(const Query *q, const char *before, const char *after) noexcept nogil:
    """A DEBUG line with the query's type between the texts."""
    cdef char line[LOG_LINE_MAX]
    cdef Text text
    if not log_wants_debug():
        return
    text.out, text.used, text.capacity, text.full = line, 0, LOG_LINE_MAX, 0
    text_string(&text, before)
    text_type(&text, q.qtype)
    text_string(&text, after)
    log_put(q.worker.id, LOG_DEBUG, b"tsig", line, text.used)


cdef void tell_error(const Query *q) noexcept nogil:
    cdef char line[LOG_LINE_MAX]
    cdef Text text
    text.out, text.used, text.capacity, text.full = line, 0, LOG_LINE_MAX, 0
    text_string(&text, b"request handler returned an error: ")
    text_printable(&text, q.error)
    log_put(q.worker.id, LOG_ERROR, b"tsig", line, text.used)


# ---- hooks ----

cdef inline bint is_required(const TsigState *state, const Query *q) noexcept nogil:
    return (state.all_types or state.types[q.qtype >> 3] >> (q.qtype & 7) & 1
            or state.all_opcodes or state.opcodes >> flags_opcode(q.message.flags) & 1)


cdef Verdict tsig_query(Handler *self, Query *q) noexcept nogil:
    cdef const TsigState *state = <const TsigState *>self.state
    if not q.message.tsig and not is_required(state, q) or not zones_hold(state.zones, q.name):
        return NEXT
    return check(self, q)


cdef Verdict check(Handler *self, Query *q) noexcept nogil:
    """A query that is signed, or has to be."""
    cdef const TsigState *state = <const TsigState *>self.state
    cdef Scratch *scratch = <Scratch *>query_scratch(self, q)
    cdef Tsig tsig
    cdef Hash kind = HASH_SHA1
    cdef const Key *key
    cdef uint16_t error, at = q.message.tsig
    if at and tsig_read(q.packet, q.packet_length, &q.message, at, &tsig) < 0:
        return query_fail(q, RCODE_FORMERR, NULL)       # not the last record (RFC 8945 5.1)
    if not at:
        tell(q, b"rejecting '", b"' request without TSIG")
        query_answer(q, RCODE_REFUSED, 0)
        return ANSWERED
    key = find_key(state, q.server.label, &tsig)
    error = verify(q.packet, at, &tsig, key, &kind)
    q.message.tsig = 0                                  # none for the handlers below
    if error == 0:
        scratch.key = key
        scratch.tsig = at
        scratch.kind = <uint8_t>kind
        return NEXT
    if error == ERROR_BADKEY:
        tell(q, b"TSIG validation failed: ", b" dns: no secrets defined")
    else:
        tell(q, b"TSIG validation failed: ", b" dns: bad time" if error == ERROR_BADTIME else b" dns: bad signature")
    query_answer(q, RCODE_NOTAUTH, 0)
    if add_record(q, &tsig, key, kind, error) < 0:
        return query_fail(q, RCODE_SERVFAIL, b"plugin/tsig: no memory")
    return ANSWERED


cdef bint is_signed(const Query *q) noexcept nogil:
    """Does the reply have a TSIG of somebody below?"""
    cdef uint32_t i
    for i in range(q.reply.count):
        if q.reply.records[i].type == TYPE_TSIG:
            return True
    return False


cdef Verdict tsig_reply(Handler *self, Query *q) noexcept nogil:
    cdef Scratch *scratch = <Scratch *>query_scratch(self, q)
    cdef Tsig tsig
    if not scratch.tsig:
        return UP
    if not q.reply.written:             # what the server writes for it would go unsigned
        if q.error[0]:
            tell_error(q)
            q.error[0] = 0
        query_answer(q, q.reply.rcode, 0)
    if not is_signed(q) and (tsig_read(q.packet, q.packet_length, &q.message, scratch.tsig, &tsig) < 0
                             or add_record(q, &tsig, scratch.key, <Hash>scratch.kind, 0) < 0):
        query_fail(q, RCODE_SERVFAIL, b"plugin/tsig: no memory")
    return UP


cdef const uint8_t *tsig_signer(Query *q, uint8_t *length) noexcept nogil:
    cdef uint32_t i
    cdef const Scratch *scratch
    for i in range(q.position):
        if q.chain.handlers[i].query == tsig_query:
            scratch = <const Scratch *>query_scratch(q.chain.handlers[i], q)
            if scratch.tsig:
                length[0] = scratch.key.length
                return scratch.key.name
    return NULL


# ---- transfers ----

cdef int64_t broken_pull(Stream *stream, uint8_t *out, uint32_t capacity) noexcept nogil:
    return -1


cdef void broken_close(Stream *stream) noexcept nogil:
    pass


cdef Stream broken                      # in place of one that cannot be signed
broken.pull = broken_pull
broken.close = broken_close
broken.state = NULL


cdef int64_t signed_pull(Stream *stream, uint8_t *out, uint32_t capacity) noexcept nogil:
    cdef SignedStream *self = <SignedStream *>stream.state
    cdef uint32_t size = record_size(&self.signature)
    cdef int64_t length = self.inner.pull(self.inner, out, capacity - size)
    if length <= 0:
        return length
    length = append_signature(&self.signature, self.later, out, <uint32_t>length)
    self.later = 1
    return length


cdef void signed_close(Stream *stream) noexcept nogil:
    cdef SignedStream *self = <SignedStream *>stream.state
    self.inner.close(self.inner)
    free(self)


cdef void tsig_stream(Handler *self, Query *q) noexcept nogil:
    cdef Scratch *scratch = <Scratch *>query_scratch(self, q)
    cdef SignedStream *signed
    cdef Tsig tsig
    if not scratch.tsig:
        return
    signed = <SignedStream *>malloc(sizeof(SignedStream))
    if signed == NULL or tsig_read(q.packet, q.packet_length, &q.message, scratch.tsig, &tsig) < 0:
        free(signed)
        q.stream.close(q.stream)
        q.stream = &broken
        return
    fill_signature(&signed.signature, q, &tsig, scratch.key, <Hash>scratch.kind, 0)
    signed.inner = q.stream
    signed.later = 0
    signed.base.pull = signed_pull
    signed.base.close = signed_close
    signed.base.state = signed
    q.stream = &signed.base


# ---- set-up ----

cdef class TsigHandler(NativeHandler):
    cdef TsigState state
    cdef ZoneList zones
    cdef dict secrets
    cdef list blocks
    cdef list kept              # secrets, to which Key.secret points

    def __init__(self, str name, ZoneList zones not None, dict secrets not None, list blocks not None, types=(), opcodes=(), bint all_types=False,
                 bint all_opcodes=False):
        handler_init(self)
        NativeHandler.__init__(self, name)
        self.zones = zones
        self.secrets = secrets
        self.blocks = blocks
        self.state.zones = &zones.zones
        self.state.all_types = all_types
        self.state.all_opcodes = all_opcodes
        for number in types:
            self.state.types[<uint16_t>number >> 3] |= <uint8_t>(1 << (<uint16_t>number & 7))
        for number in opcodes:
            self.state.opcodes |= <uint16_t>(1 << <int>number)
        self.handler.state = &self.state
        self.handler.scratch_size = sizeof(Scratch)
        self.handler.query = tsig_query
        self.handler.reply = tsig_reply
        self.handler.stream = tsig_stream

    cpdef attach(self, list servers, str view):
        """The keys of a listening address are those of all its blocks."""
        self._forget()
        self.kept = []
        if len(servers) > SERVERS_MAX:
            raise ValueError(f"plugin/tsig: a server block has more than {SERVERS_MAX} addresses")
        for label, address in servers:
            merged = {}
            for config, secrets in self.blocks:
                if address in config.servers:
                    merged.update(secrets)
            self._add_server(label, merged)

    cdef int _add_server(self, uint32_t label, dict secrets) except -1:
        cdef Keys *keys = &self.state.server[self.state.servers]
        cdef Key *key
        cdef bytes wire, secret
        keys.label = label
        keys.count = 0
        keys.keys = <Key *>calloc(len(secrets) + 1, sizeof(Key))
        if keys.keys == NULL:
            raise MemoryError
        self.state.servers += 1
        for name, octets in secrets.items():
            key = &keys.keys[keys.count]
            wire = name_wire(name.lower())
            key.hash = wire_name_hash(wire)
            key.length = <uint8_t>len(wire)
            memcpy(key.name, <const uint8_t *>wire, len(wire))
            secret = octets or b""
            key.usable = octets is not None
            self.kept.append(secret)
            key.secret = secret
            key.secret_length = <uint32_t>len(secret)
            keys.count += 1
        return 0

    cdef void _forget(self):
        cdef uint32_t i
        for i in range(self.state.servers):
            free(self.state.server[i].keys)
        self.state.servers = 0

    def __dealloc__(self):
        self._forget()
