"""Entries of a cache as octets for a file, and back.

Each entry has a head (Kept), the subnet of its key, and a DNS message without compression: the question of its key and its records. So _wire parses
what is read, as what comes from an upstream. Numbers of the head are in the machine's byte order.

A thread that is no worker reads the store (store_begin_reading), some buckets at a time. A worker puts what was read, some entries in each turn.
"""
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint32_t, uint64_t, int64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memset
from fastdns.api.metrics cimport metric_add
from fastdns.api.names cimport Name, ZoneList, Zones, zones_hold
from fastdns.api.reply cimport Record, Reply, reply_begin, reply_end, reply_parse
from fastdns.api.wire cimport FLAG_QR, FLAGS_RCODE, HEADER_SIZE, MESSAGE_MAX, Message, store16, store32, wire_parse_reply, wire_read_name
from fastdns.api.worker cimport Mail, Worker, mux_worker_count, mux_workers
from fastdns.plugins.cache._contents cimport Contents, SharedContents, contents_ask, contents_hold, contents_release
from fastdns.plugins.cache._store cimport (DENIAL, KEY_CD, KEY_DO, KEY_SUBNET, Asked, Entry, Key, Store, entry_left, entry_name, entry_records,
                                           entry_subnet, key_add_subnet, key_set, store_begin_reading, store_end_reading, store_find, store_load,
                                           store_put)
from fastdns.plugins.cache._subnet cimport SUBNET_MAX

cdef enum:
    PART = 262144               # octets of entries after which a part ends
    BUCKETS = 256               # looked at before what was unlinked meanwhile may be freed
    TURN = 256                  # entries that a worker puts in one turn, a few tenths of a millisecond

cdef packed struct Kept:        # the head of an entry
    int64_t age                 # ns
    uint32_t ttl                # seconds
    uint32_t length             # octets of the message
    uint8_t kind
    uint8_t bits                # of the key
    uint8_t answering
    uint8_t wildcard
    uint8_t shared
    uint8_t subnet_length


# ---- out of the store ----

cdef struct Output:
    uint8_t *octets
    uint64_t length
    uint64_t capacity
    bint failed                 # no memory

cdef uint8_t *output_take(Output *out, uint64_t length) noexcept nogil:
    """Room for so many octets more; NULL when there is no memory."""
    cdef uint8_t *larger
    cdef uint64_t capacity = out.capacity
    if out.length + length > capacity:
        capacity = max(2 * capacity, out.length + length)
        larger = <uint8_t *>realloc(out.octets, capacity)
        if larger == NULL:
            out.failed = True
            return NULL
        out.octets = larger
        out.capacity = capacity
    out.length += length
    return out.octets + out.length - length


cdef uint64_t message_size(Entry *entry) noexcept nogil:
    cdef uint64_t size = HEADER_SIZE + entry.name_length + 4
    cdef uint32_t i
    for i in range(entry.count):
        size += <uint64_t>entry_records(entry)[i].owner_length + 10 + entry_records(entry)[i].rdlength
    return size


cdef void write_message(Entry *entry, uint8_t *at) noexcept nogil:
    cdef const Record *record
    cdef uint32_t i
    memset(at, 0, HEADER_SIZE)
    store16(at + 2, FLAG_QR | entry.flags | entry.rcode)
    store16(at + 4, 1)
    for i in range(entry.count):
        at[7 + 2 * entry_records(entry)[i].section] += 1
        if at[7 + 2 * entry_records(entry)[i].section] == 0:
            at[6 + 2 * entry_records(entry)[i].section] += 1
    at += HEADER_SIZE
    memcpy(at, entry_name(entry), entry.name_length)
    at += entry.name_length
    store16(at, entry.qtype)
    store16(at + 2, entry.qclass)
    at += 4
    for i in range(entry.count):
        record = &entry_records(entry)[i]
        memcpy(at, record.owner, record.owner_length)
        at += record.owner_length
        store16(at, record.type)
        store16(at + 2, record.klass)
        store32(at + 4, record.ttl)
        store16(at + 8, record.rdlength)
        memcpy(at + 10, record.rdata, record.rdlength)
        at += 10 + record.rdlength


cdef void write_entry(Output *out, Entry *entry, int64_t now, int64_t stale) noexcept nogil:
    cdef uint64_t length = message_size(entry)
    cdef Kept kept
    cdef uint8_t *at
    if length > MESSAGE_MAX or entry.rcode > FLAGS_RCODE or entry_left(entry, now) <= -stale:
        return
    at = output_take(out, sizeof(Kept) + entry.subnet_length + length)
    if at == NULL:
        return
    kept.age = max(now - entry.stored, <int64_t>0)
    kept.ttl = entry.ttl
    kept.length = <uint32_t>length
    kept.kind = entry.kind
    kept.bits = entry.bits
    kept.answering = entry.answering
    kept.wildcard = entry.wildcard
    kept.shared = entry.shared
    kept.subnet_length = entry.subnet_length
    memcpy(at, &kept, sizeof(Kept))
    memcpy(at + sizeof(Kept), entry_subnet(entry), entry.subnet_length)
    write_message(entry, at + sizeof(Kept) + entry.subnet_length)


cdef class Entries:
    cdef SharedContents shared
    cdef int64_t now
    cdef int64_t stale
    cdef uint64_t at            # the bucket that is next

    def __init__(self, SharedContents shared not None, int64_t now, int64_t stale):
        self.shared = shared
        self.now = now
        self.stale = stale
        self.at = 0

    def __iter__(self):
        return self

    def __next__(self):
        cdef Output out
        cdef Store *store = &self.shared.contents.store
        memset(&out, 0, sizeof(Output))
        try:
            with nogil:
                while self.at <= store.buckets.mask and out.length < PART and not out.failed:
                    self.write_buckets(store, &out)
            if out.failed:
                raise MemoryError
            if out.length == 0:
                raise StopIteration
            return PyBytes_FromStringAndSize(<const char *>out.octets, <Py_ssize_t>out.length)
        finally:
            free(out.octets)

    cdef void write_buckets(self, Store *store, Output *out) noexcept nogil:
        cdef uint64_t end = min(self.at + BUCKETS, store.buckets.mask + 1)
        cdef Entry *entry
        cdef Entry *good
        store_begin_reading(store)
        while self.at < end:
            entry = store_load(&store.buckets.heads[self.at])
            while entry != NULL:
                good = store_load(&entry.good)
                if good != NULL:
                    write_entry(out, good, self.now, self.stale)    # it was there before the entry, and is put before it
                write_entry(out, entry, self.now, self.stale)
                entry = store_load(&entry.next)
            self.at += 1
        store_end_reading(store)


# ---- into the store ----

cdef struct Restoration:
    Mail mail                   # first
    Contents *contents          # held
    const uint8_t *at           # the entry that is next; of those behind this
    const uint8_t *end
    int64_t began               # ns, monotonic: when the ages were taken
    int64_t stale
    bint keep_good
    uint32_t cell               # metric
    # Behind it: the entries.

cdef inline const uint8_t *behind(const uint8_t *at, const uint8_t *end) noexcept nogil:
    """Where the next entry begins; NULL when this one is not whole."""
    cdef Kept kept
    if <uint64_t>(end - at) < sizeof(Kept):
        return NULL
    memcpy(&kept, at, sizeof(Kept))
    if kept.length > MESSAGE_MAX or <uint64_t>(end - at) - sizeof(Kept) < <uint64_t>kept.subnet_length + kept.length:
        return NULL
    return at + sizeof(Kept) + kept.subnet_length + kept.length


def count(const uint8_t[::1] data not None):
    cdef const uint8_t *at = &data[0] if data.shape[0] else NULL
    cdef const uint8_t *end = at + data.shape[0]
    cdef uint64_t found = 0
    with nogil:
        while at != NULL and at < end:
            at = behind(at, end)
            found += 1
    if at == NULL and data.shape[0]:
        raise ValueError("an entry is not whole")
    return found


cdef bint is_within(const uint8_t *at, const Zones *zones) noexcept nogil:
    """Whether the name of an entry, which is whole, is in one of the zones, or is none."""
    cdef uint32_t offset = HEADER_SIZE
    cdef Kept kept
    cdef Name name
    memcpy(&kept, at, sizeof(Kept))
    return wire_read_name(at + sizeof(Kept) + kept.subnet_length, kept.length, &offset, &name) < 0 or zones_hold(zones, &name)


cdef uint64_t copy_entries(uint8_t *out, const uint8_t *at, const uint8_t *end, const Zones *omitted) noexcept nogil:
    """Copies those of no omitted zone. Returns the number of octets."""
    cdef const uint8_t *following
    cdef uint64_t length = 0
    while at != end:
        following = behind(at, end)
        if not is_within(at, omitted):
            memcpy(out + length, at, following - at)
            length += following - at
        at = following
    return length


def restore(SharedContents shared not None, const uint8_t[::1] data not None, ZoneList omitted not None, int64_t began, int64_t stale, bint keep_good,
            uint32_t cell):
    cdef uint64_t length = <uint64_t>data.shape[0]
    cdef Restoration *restoration
    cdef Worker *worker
    if length == 0 or mux_worker_count == 0:
        return
    restoration = <Restoration *>malloc(sizeof(Restoration) + length)
    if restoration == NULL:
        raise MemoryError
    memset(restoration, 0, sizeof(Restoration))
    restoration.mail.run = run
    restoration.contents = shared.contents
    restoration.at = <const uint8_t *>(restoration + 1)
    with nogil:
        restoration.end = restoration.at + copy_entries(<uint8_t *>(restoration + 1), &data[0], &data[0] + length, &omitted.zones)
    restoration.began = began
    restoration.stale = stale
    restoration.keep_good = keep_good
    restoration.cell = cell
    contents_hold(shared.contents)
    worker = mux_workers[shared.contents.number % mux_worker_count]
    worker.ops.post(worker, &restoration.mail)


cdef void run(Mail *mail, Worker *worker) noexcept nogil:
    """A turn of the worker."""
    cdef Restoration *restoration = <Restoration *>mail
    cdef uint32_t done = 0, _
    for _ in range(TURN):
        if restoration.at == restoration.end:
            break
        done += put(restoration, worker)
        restoration.at = behind(restoration.at, restoration.end)
    if done:
        metric_add(restoration.cell, worker.id, done)
    if restoration.at != restoration.end:
        worker.ops.post(worker, mail)
        return
    contents_release(restoration.contents)
    free(restoration)


cdef bint put(Restoration *restoration, Worker *worker) noexcept nogil:
    """Puts the entry that is next, unless there is a reason against it."""
    cdef Kept kept
    cdef const uint8_t *message
    cdef Message parsed
    cdef Name name
    cdef Reply reply
    cdef bint stored = False
    memcpy(&kept, restoration.at, sizeof(Kept))
    message = restoration.at + sizeof(Kept) + kept.subnet_length
    if (kept.kind > DENIAL or kept.bits & ~(KEY_DO | KEY_CD | KEY_SUBNET) or (kept.bits & KEY_SUBNET != 0) != (kept.subnet_length != 0)
            or kept.subnet_length > SUBNET_MAX or kept.age < 0 or wire_parse_reply(message, kept.length, &parsed, &name) < 0
            or kept.wildcard > name.labels + 1):
        return False
    reply_begin(&reply, &worker.large)
    if reply_parse(&reply, message, kept.length) == 0:
        stored = put_reply(restoration, &kept, &parsed, &name, &reply, worker.now)
    reply_end(&reply)
    return stored


cdef bint put_reply(Restoration *restoration, const Kept *kept, const Message *parsed, const Name *name, const Reply *reply, int64_t now) noexcept nogil:
    cdef Store *store = &restoration.contents.store
    cdef int64_t stored = restoration.began - kept.age
    cdef Entry *found[2]
    cdef Asked asked
    cdef Key key
    if <int64_t>kept.ttl - (now - stored) // 1000000000 <= -restoration.stale:
        return False
    key_set(&key, name, parsed.qtype, parsed.qclass, kept.bits & ~KEY_SUBNET)
    if kept.bits & KEY_SUBNET:
        key_add_subnet(&key, restoration.at + sizeof(Kept), kept.subnet_length)
    store_find(&store.buckets, &key, found)
    if found[kept.kind] != NULL and found[kept.kind].stored >= stored or found[1 - kept.kind] != NULL and found[1 - kept.kind].stored >= restoration.began:
        return False
    contents_ask(restoration.contents, name, &asked)
    return store_put(store, &key, kept.kind, reply, kept.ttl, kept.answering != 0, kept.wildcard, stored, restoration.stale, restoration.keep_good,
                     kept.shared != 0, &asked).stored
