"""Native loops for the micro-benchmarks; see _loops.pyi."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t, int64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy
from fastdns.system.atomic cimport atomic_bump64, atomic_load32, atomic_peek64, atomic_store32
from fastdns.system.epoch cimport EPOCH_WORKERS, epoch_offline, epoch_online, epoch_quiescent
from fastdns.system.mailbox cimport Mailbox, MailboxItem, mailbox_collect, mailbox_end_sleep, mailbox_open, mailbox_post, mailbox_wait
from fastdns.system.socket cimport close
from fastdns.walk.finish cimport finish_fit, finish_write
from fastdns.index.index cimport FOUND_HIT, Index, IndexResult, index_current, table_find
from fastdns.engine.engine cimport Engine
from fastdns.engine.listener cimport Listener
from fastdns.walk.query cimport ANSWERED, NEXT, TRANSPORT_UDP, UP, Handler, Query, Verdict, Worker, query_note_client
from fastdns._mux cimport NativeHandler, handler_init, mux_match, query_answer, query_release, query_run, query_take
from fastdns.index.nodes cimport IndexRecord, IndexTable, rrset_record
from fastdns.message.reply cimport Reply, reply_begin, reply_end, reply_parse
from fastdns._wire cimport ACCEPT, CLASS_IN, FLAG_AA, MESSAGE_MAX, TYPE_A, Message, Name, wire_accept, wire_name_copy, wire_read_name
from fastdns.plugins.cache._store cimport SUCCESS, Entry, Key, CacheStoreResult, Store, key_set, store_close, store_find, store_open, store_put

cdef enum:
    MESSAGE_SIZE = 512              # octets of a message in Packets
    BATCH = 32                      # look-ups of a Reader between two announcements of quiescence


def yardstick(uint32_t times) -> int:
    cdef uint64_t value = times | 1
    cdef uint32_t _turn
    with nogil:
        for _turn in range(times):
            value = (value ^ value >> 29) * 0x9E3779B97F4A7C15ULL
    return value & 1


cdef class Walk:
    cdef uint32_t *following        # owned: one cycle through all
    cdef uint32_t count

    def __cinit__(self, uint32_t count):
        cdef uint32_t i, other, state = 1
        if count < 2:
            raise ValueError("a walk has two places or more")
        self.count = count
        self.following = <uint32_t *>malloc(count * sizeof(uint32_t))
        if self.following == NULL:
            raise MemoryError
        for i in range(count):
            self.following[i] = i
        for i in range(count - 1, 0, -1):       # Sattolo's shuffle: always a single cycle
            state = state * 1664525 + 1013904223
            other = <uint32_t>((<uint64_t>state * i) >> 32)
            self.following[i], self.following[other] = self.following[other], self.following[i]

    def __dealloc__(self):
        free(self.following)

    def steps(self, uint32_t times) -> int:
        cdef uint32_t _turn, at = 0
        with nogil:
            for _turn in range(times):
                at = self.following[at]
        return at


# ---- handlers ----

cdef Verdict pass_on(Handler *self, Query *q) noexcept nogil:
    return NEXT


cdef Verdict go_up(Handler *self, Query *q) noexcept nogil:
    return UP


cdef Verdict answer(Handler *self, Query *q) noexcept nogil:
    query_answer(q, 0, FLAG_AA)
    return ANSWERED


cdef class Passing(NativeHandler):
    def __cinit__(self, *args):
        handler_init(self)
        self.handler.query = pass_on
        self.handler.reply = go_up


cdef class Answering(NativeHandler):
    def __cinit__(self, *args):
        handler_init(self)
        self.handler.query = answer


# ---- messages and names ----

cdef class Packets:
    cdef uint8_t *octets            # MESSAGE_SIZE for each, owned
    cdef uint32_t *lengths          # owned
    cdef uint32_t count

    def __cinit__(self, messages):
        cdef bytes message
        cdef uint32_t i = 0
        if not messages or max(map(len, messages)) > MESSAGE_SIZE:
            raise ValueError(f"messages of up to {MESSAGE_SIZE} octets are wanted")
        self.count = <uint32_t>len(messages)
        self.octets = <uint8_t *>calloc(self.count, MESSAGE_SIZE)
        self.lengths = <uint32_t *>calloc(self.count, sizeof(uint32_t))
        if self.octets == NULL or self.lengths == NULL:
            raise MemoryError
        for message in messages:
            memcpy(self.octets + MESSAGE_SIZE * <size_t>i, <const uint8_t *>message, len(message))
            self.lengths[i] = <uint32_t>len(message)
            i += 1

    def __dealloc__(self):
        free(self.octets)
        free(self.lengths)

    def accept(self, uint32_t times) -> int:
        cdef Message message
        cdef Name name
        cdef uint8_t rcode
        cdef uint32_t i, _turn, accepted = 0
        with nogil:
            for _turn in range(times):
                for i in range(self.count):
                    accepted += wire_accept(self.octets + MESSAGE_SIZE * <size_t>i, self.lengths[i], &message, &name, &rcode) == ACCEPT
        return accepted


cdef class Names:
    cdef Name *names                # owned
    cdef uint32_t count

    def __cinit__(self, wires):
        cdef bytes wire
        cdef uint32_t at, i = 0
        if not wires:
            raise ValueError("no names")
        self.count = <uint32_t>len(wires)
        self.names = <Name *>calloc(self.count, sizeof(Name))
        if self.names == NULL:
            raise MemoryError
        for wire in wires:
            at = 0
            if wire_read_name(wire, <uint32_t>len(wire), &at, &self.names[i]) < 0:
                raise ValueError(f"not a name in wire form: {wire!r}")
            i += 1

    def __dealloc__(self):
        free(self.names)

    def index(self, uint32_t times) -> int:
        cdef Name name
        cdef uint32_t i, _turn, labels = 0
        with nogil:
            for _turn in range(times):
                for i in range(self.count):
                    wire_name_copy(&name, self.names[i].wire, self.names[i].length)
                    labels += name.labels
        return labels


# ---- mux and chain ----

cdef class Question:
    cdef Engine engine
    cdef Listener listener
    cdef Worker *worker             # the engine's
    cdef bytes packet
    cdef Message message
    cdef Name name

    def __init__(self, Engine engine not None, Listener listener not None, bytes packet not None):
        cdef uint8_t rcode
        self.engine = engine
        self.listener = listener
        self.worker = &engine.threads.loops[0].base
        self.packet = packet
        if engine.published.servers[listener.index] == NULL:
            raise ValueError("nothing is served there")
        if wire_accept(packet, <uint32_t>len(packet), &self.message, &self.name, &rcode) != ACCEPT:
            raise ValueError("not a query that the server accepts")

    cdef Query *take(self) noexcept nogil:
        """The slot that was given back last: name and message stand in it, once they were put there."""
        cdef Query *q = query_take(self.worker)
        q.packet_length = self.name.length
        q.transport = TRANSPORT_UDP
        q.listener = self.listener.index
        q.received = self.worker.now
        q.client.family = 4
        q.set = self.worker.set
        q.server = q.set.servers[self.listener.index]
        return q

    def match(self, Names names not None, uint32_t times) -> int:
        cdef Query *q
        cdef uint32_t i, _turn, found = 0
        self.worker.set = self.engine.published
        q = self.take()
        q.qtype = TYPE_A
        with nogil:
            for _turn in range(times):
                for i in range(names.count):
                    q.name = &names.names[i]
                    found += mux_match(q) != NULL
        query_release(q)
        return found

    def walk(self, uint32_t times) -> int:
        cdef uint64_t refused = self.worker.dropped
        cdef const uint8_t *octets = self.packet
        cdef uint32_t _turn
        cdef Query *q
        self.worker.set = self.engine.published
        q = self.take()
        q.message = self.message
        q.first_name = self.name
        query_release(q)
        with nogil:
            for _turn in range(times):
                q = self.take()
                q.packet = octets
                q.name = &q.first_name
                q.qtype = q.message.qtype
                q.qclass = q.message.qclass
                q.flags = q.message.flags
                q.edns = q.message.edns
                query_note_client(q)
                query_run(q)        # no carrier: nothing is sent, and the slot is free again
        return times - <uint32_t>(self.worker.dropped - refused)


# ---- replies ----

cdef class Finisher:
    cdef Worker *worker             # owned; all that finishing needs of one
    cdef Query *q                   # owned
    cdef uint8_t *out               # owned
    cdef bytes query

    def __cinit__(self, bytes query not None, bytes message not None):
        cdef uint8_t rcode
        self.query = query
        self.worker = <Worker *>calloc(1, sizeof(Worker))
        self.q = <Query *>calloc(1, sizeof(Query))
        self.out = <uint8_t *>malloc(MESSAGE_MAX + 1)
        if self.worker == NULL or self.q == NULL or self.out == NULL:
            raise MemoryError
        self.worker.large.limit = 1
        self.q.worker = self.worker
        reply_begin(&self.q.reply, &self.worker.large)
        self.worker.message = <uint8_t *>malloc(MESSAGE_MAX + 1024)
        if self.worker.message == NULL:
            raise MemoryError
        self.q.transport = TRANSPORT_UDP
        self.q.client.family = 4
        if wire_accept(self.query, <uint32_t>len(self.query), &self.q.message, &self.q.first_name, &rcode) != ACCEPT:
            raise ValueError("not a query that the server accepts")
        self.q.edns = self.q.message.edns
        query_note_client(self.q)
        self.q.name = &self.q.first_name
        if reply_parse(&self.q.reply, message, <uint32_t>len(message)) < 0:
            raise ValueError("the reply is malformed or too big")
        self.q.reply.written = 1

    def __dealloc__(self):
        if self.worker != NULL and self.q != NULL:
            reply_end(&self.q.reply)
            free(self.worker.large.free)
        if self.worker != NULL:
            free(self.worker.message)
        free(self.worker)
        free(self.q)
        free(self.out)

    def finish(self, uint32_t times) -> bytes:
        cdef uint32_t _turn, length = 0
        with nogil:
            for _turn in range(times):
                finish_fit(self.q)
                length = finish_write(self.q, self.out)
        return self.out[:length]


# ---- the cache's store ----

cdef class CacheStore:
    cdef Store store
    cdef Reply reply

    def __cinit__(self, int64_t capacity, bytes message not None):
        reply_begin(&self.reply, NULL)
        if store_open(&self.store, capacity, capacity) < 0:
            raise MemoryError
        if reply_parse(&self.reply, message, <uint32_t>len(message)) < 0:
            raise ValueError("the reply is malformed or too big")

    def __dealloc__(self):
        store_close(&self.store)
        reply_end(&self.reply)

    def put(self, Names names not None, uint32_t times) -> int:
        cdef Key key
        cdef CacheStoreResult outcome
        cdef uint32_t i, _turn, stored = 0
        with nogil:
            for _turn in range(times):
                for i in range(names.count):
                    key_set(&key, &names.names[i], TYPE_A, CLASS_IN, 0)
                    outcome = store_put(&self.store, &key, SUCCESS, &self.reply, 300, True, 0, 1, 0, False, False, NULL)
                    stored += outcome.stored
        return stored

    def find(self, Names names not None, uint32_t times) -> int:
        cdef Key key
        cdef Entry *found[2]
        cdef uint32_t i, _turn, hits = 0
        with nogil:
            for _turn in range(times):
                for i in range(names.count):
                    key_set(&key, &names.names[i], TYPE_A, CLASS_IN, 0)
                    store_find(&self.store.buckets, &key, found)
                    hits += found[SUCCESS] != NULL
        return hits


# ---- the record index ----

cdef class Reader:
    cdef Index index
    cdef Names names
    cdef uint32_t worker
    cdef bint checked
    cdef uint32_t stopping
    cdef readonly uint64_t lookups
    cdef uint64_t found
    cdef readonly uint64_t torn
    cdef readonly uint64_t mixed
    cdef uint32_t number
    cdef bint numbered

    def __cinit__(self, Index index not None, names, uint32_t worker=0, bint checked=False):
        if worker >= EPOCH_WORKERS:
            raise ValueError(f"worker {worker} is not below {EPOCH_WORKERS}")
        self.index = index
        self.names = Names(names)
        self.worker = worker
        self.checked = checked

    @property
    def hits(self):
        return atomic_peek64(&self.found)

    def stop(self):
        atomic_store32(&self.stopping, 1)

    def run(self, uint64_t most=0, uint16_t qtype=1):
        """Looks all names up in turn until `most` look-ups are done or stop() is called."""
        cdef IndexResult result
        cdef const Name *names = self.names.names
        cdef const IndexTable *table
        cdef uint32_t count = self.names.count
        cdef uint32_t at = 0, _i
        with nogil:
            epoch_online(self.worker)
            while not atomic_load32(&self.stopping) and (most == 0 or self.lookups < most):
                table = index_current(self.index.core)
                self.numbered = False
                for _i in range(BATCH):
                    if table_find(table, self.index.core, &names[at], qtype, &result) == FOUND_HIT:
                        atomic_bump64(&self.found, 1)
                        if self.checked:
                            self.check(&result)
                    at += 1
                    if at == count:
                        at = 0
                self.lookups += BATCH
                epoch_quiescent(self.worker)
            epoch_offline(self.worker)

    cdef void check(self, const IndexResult *result) noexcept nogil:
        """Records of a checked reader hold a number and its complement: whatever was freed or half written under the reader shows."""
        cdef IndexRecord record
        cdef const uint8_t *entry = NULL
        cdef uint32_t _i
        cdef uint32_t word[2]
        for _i in range(result.rrset.count):
            entry = rrset_record(result.node, result.rrset, entry, &record)
            if record.rdlength != 8:
                self.torn += 1
                return
            memcpy(word, record.rdata, 8)
            if word[0] != ~word[1]:
                self.torn += 1
            if self.numbered and word[0] != self.number:
                self.mixed += 1
            self.number = word[0]
            self.numbered = True


# ---- a mailbox ----

cdef struct Numbered:
    MailboxItem item                # first
    uint32_t producer
    uint32_t number


cdef class NumberBox:
    cdef Mailbox box

    def __cinit__(self):
        if mailbox_open(&self.box) < 0:
            raise OSError("no eventfd")

    def __dealloc__(self):
        unpack(mailbox_collect(&self.box))
        close(self.box.wake)

    @property
    def wake(self):
        return self.box.wake

    def post(self, uint32_t producer, uint32_t count):
        cdef Numbered *posted
        cdef uint32_t i
        with nogil:
            for i in range(count):
                posted = <Numbered *>malloc(sizeof(Numbered))
                if posted != NULL:
                    posted.producer = producer
                    posted.number = i
                    mailbox_post(&self.box, &posted.item)

    def wait(self):
        cdef MailboxItem *taken
        with nogil:
            taken = mailbox_wait(&self.box)
        return unpack(taken)

    def collect(self):
        return unpack(mailbox_collect(&self.box))

    def end_sleep(self):
        mailbox_end_sleep(&self.box)


cdef list unpack(MailboxItem *item):
    cdef MailboxItem *following
    cdef list found = []
    while item != NULL:
        following = item.next
        found.append(((<Numbered *>item).producer, (<Numbered *>item).number))
        free(item)
        item = following
    return found
