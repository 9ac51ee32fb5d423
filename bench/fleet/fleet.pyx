"""Simulated secondaries. The contract is in fleet.pyi."""
import errno
import os

from libc.errno cimport errno as last_error
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy, memset
from fastdns._wire cimport load16, load32, store16, store32
from fastdns.bench.fleet.answer cimport (APPLIED, CURRENT, GAP, MORE, OTHER_CONTENT, REFUSED, Answer, Outcome, answer_begin, answer_serial,
                                         answer_take)
from fastdns.bench.fleet.notified cimport Notified, notified_close, notified_open, notified_take
from fastdns.bench.generator.client cimport Client, Driver
from fastdns.bench.generator.connection cimport (BROKEN, CLOSED, OPEN, Connection, connection_advance, connection_close, connection_consume,
                                                 connection_flush, connection_open, connection_read, tls_close, tls_open)
from fastdns.bench.generator.flight cimport NO_SLOT, Counters
from fastdns.bench.generator.histogram cimport Histogram, Latencies, latencies_add, latencies_clear, latencies_record
from fastdns.plugins.transfer._digest cimport DIGEST_OCTETS, OPTION_ZONE_DIGEST
from fastdns.system.atomic cimport atomic_load32, atomic_store32
from fastdns.system.socket cimport (AF_INET, EPOLL_CLOEXEC, EPOLL_CTL_ADD, EPOLL_CTL_MOD, EPOLLIN, EPOLLOUT, POLLOUT, close, epoll_create1, epoll_ctl,
                                    epoll_event, epoll_wait, sockaddr_in, socket_clock)

cdef extern from * nogil:
    """
    #include <time.h>
    static inline int64_t fleet_cpu(void) {
        struct timespec t;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
    }
    """
    int64_t fleet_cpu() noexcept

cdef enum:
    EVENTS = 256
    OPENED = 64                     # connections begun in a round
    ROUND = 5000000                 # ns that a round sleeps at most
    SECOND = 1000000000
    PAUSE_MAX = 10                  # s before a connection is tried again
    PATIENCE = 30                   # s for an answer
    BASE = 0x7F010001               # 127.1.0.1
    CHANGED = 0xC6120000            # 198.18.0.0
    QUERY_MAX = 512
    WAITING = 1                     # Secondary.asking: until it asks again
    T_SOA = 6
    T_IXFR = 251
    T_AXFR = 252

cdef enum Counter:
    QUERIES
    DIFFERENCES
    WHOLE
    UNCHANGED
    SERIALS
    NOTIFIES
    OCTETS
    REFUSALS
    FAULTS
    GAPS
    CONTENTS
    BREAKS
    TIMEOUTS
    COUNTERS

NAMES = ("queries", "differences", "whole", "current", "serials", "notifies", "octets", "refused", "malformed", "gaps", "digests", "breaks", "timeouts")

cdef struct Secondary:
    Client client                   # first; stream: a Connection
    Answer answer
    Members *fleet
    uint16_t asking                 # a type, WAITING or 0
    uint16_t id
    uint8_t told                    # that there is something newer
    uint8_t watched                 # epoll's events
    uint8_t open                    # counted in `connected`
    uint8_t looks                   # asks for the SOA first: its connection is new
    int64_t asked                   # ns
    int64_t since                   # ns: when it had its first version
    int64_t again                   # ns: when it connects
    int64_t pause                   # ns
    uint64_t *seen                  # a bit for each change
    uint32_t *added                 # changes of the transfer under way
    uint32_t count, room

cdef struct Members:
    Driver driver
    Counters unused                 # of the connections' driver
    Secondary *all
    uint32_t count
    uint32_t holding, connected
    int epoll
    Notified notified
    bint takes_notify
    bint fresh                      # a connection for each question
    int64_t poll                    # ns; 0: none
    int64_t start
    uint64_t polled                 # questions that were due so far
    uint8_t zone[256]
    uint32_t zone_length
    int64_t *written                # by change: ns, or 0
    int32_t *replaced              # by change: the one before it in its place, or -1
    uint32_t changes
    uint64_t counters[COUNTERS]
    Latencies latency, filled
    uint64_t random
    int64_t longest                 # ns of a round
    int64_t cpu                     # ns of the thread, at the end of the last round


cdef int64_t NEVER = 0x7FFFFFFFFFFFFFFF


cdef inline uint64_t draw(Members *fleet) noexcept nogil:
    """xorshift64* (Vigna 2016)"""
    fleet.random ^= fleet.random >> 12
    fleet.random ^= fleet.random << 25
    fleet.random ^= fleet.random >> 27
    return fleet.random * 0x2545F4914F6CDD1DULL


# ---- connections ----

cdef void give_up(Secondary *self, int64_t now) noexcept nogil:
    """The connection is made anew after a while, which is longer each time."""
    cdef Members *fleet = self.fleet
    fleet.connected -= self.open
    self.open = 0
    connection_close(&self.client)
    self.asking = 0
    self.watched = 0
    self.looks = 1
    self.again = now + <int64_t>(draw(fleet) % <uint64_t>self.pause)
    self.pause = min(2 * self.pause, <int64_t>PAUSE_MAX * SECOND)


cdef void hang_up(Secondary *self) noexcept nogil:
    """Until there is something to ask."""
    self.fleet.connected -= self.open
    self.open = 0
    connection_close(&self.client)
    self.watched = 0
    self.again = NEVER


cdef void watch(Secondary *self) noexcept nogil:
    cdef epoll_event event
    cdef uint8_t wanted = EPOLLIN | (EPOLLOUT if self.client.events & POLLOUT else 0)
    if wanted == self.watched:
        return
    event.events = wanted
    event.data.ptr = self
    epoll_ctl(self.fleet.epoll, EPOLL_CTL_MOD if self.watched else EPOLL_CTL_ADD, self.client.fd, &event)
    self.watched = wanted


cdef void open_connection(Secondary *self, int64_t now) noexcept nogil:
    self.asked = now
    if connection_open(&self.client):
        give_up(self, now)
    else:
        watch(self)


cdef void advance(Secondary *self, int64_t now) noexcept nogil:
    cdef Connection *connection = <Connection *>self.client.stream
    connection_advance(&self.client)
    if connection.state == CLOSED:
        self.fleet.counters[<int>BREAKS] += 1
        give_up(self, now)
        return
    watch(self)
    if connection.state == OPEN:
        self.fleet.connected += 1
        self.open = 1
        ask_next(self, now)


# ---- questions ----

cdef void ask(Secondary *self, uint16_t kind, int64_t now) noexcept nogil:
    cdef Members *fleet = self.fleet
    cdef Connection *connection = <Connection *>self.client.stream
    cdef uint8_t *out = connection.outgoing + connection.out_end + 2
    cdef uint32_t used = 12
    cdef bint digest = kind == T_IXFR and self.answer.version.digested
    self.id = <uint16_t>(draw(fleet) >> 48)
    memset(out, 0, QUERY_MAX)
    store16(out, self.id)
    store16(out + 4, 1)
    memcpy(out + used, fleet.zone, fleet.zone_length)
    used += fleet.zone_length
    store16(out + used, kind)
    store16(out + used + 2, 1)
    used += 4
    if kind == T_IXFR:
        store16(out + 8, 1)
        store16(out + used, 0xC00C)
        store16(out + used + 2, T_SOA)
        store16(out + used + 4, 1)
        store16(out + used + 10, 22)
        store32(out + used + 14, self.answer.version.serial)
        used += 34
    if digest:
        store16(out + 10, 1)
        store16(out + used + 1, 41)
        store16(out + used + 3, 1232)
        store16(out + used + 9, 4 + DIGEST_OCTETS)
        store16(out + used + 11, OPTION_ZONE_DIGEST)
        store16(out + used + 13, DIGEST_OCTETS)
        memcpy(out + used + 15, self.answer.version.digest, DIGEST_OCTETS)
        used += 15 + DIGEST_OCTETS
    store16(out - 2, used)
    connection.out_end += used + 2
    self.asking = kind
    self.asked = now
    fleet.counters[<int>QUERIES] += 1
    if kind != T_SOA:
        answer_begin(&self.answer)
        self.count = 0
    connection_flush(&self.client)
    if connection.state == CLOSED:
        fleet.counters[<int>BREAKS] += 1
        give_up(self, now)
    else:
        watch(self)


cdef void ask_next(Secondary *self, int64_t now) noexcept nogil:
    """What is wanted, if no answer is awaited."""
    if self.again == NEVER and (self.looks or self.told):
        self.again = 0
        open_connection(self, now)
        return
    if self.asking or (<Connection *>self.client.stream).state != OPEN:
        return
    if not self.answer.version.held:
        self.looks = self.told = 0
        ask(self, T_AXFR, now)
    elif self.looks:
        self.looks = 0
        ask(self, T_SOA, now)
    elif self.told:
        self.told = 0
        ask(self, T_IXFR, now)


# ---- answers ----

cdef void receive(Secondary *self, int64_t now) noexcept nogil:
    cdef Members *fleet = self.fleet
    cdef Connection *connection = <Connection *>self.client.stream
    cdef uint32_t at, length
    cdef ssize_t n
    if self.client.events:
        connection_flush(&self.client)
    while connection.state == OPEN:
        n = connection_read(&self.client)
        if n == BROKEN:
            fleet.counters[<int>BREAKS] += 1
            give_up(self, now)
            return
        if n < 0:
            break
        fleet.counters[<int>OCTETS] += <uint64_t>n
        at = 0
        while connection.in_end - at >= 2:
            length = load16(connection.incoming + at)
            if connection.in_end - at - 2 < length:
                break
            take(self, connection.incoming + at + 2, length)
            at += length + 2
        connection_consume(connection, at)
        if connection.ssl == NULL:
            break
    if connection.state == CLOSED:
        fleet.counters[<int>BREAKS] += 1
        give_up(self, now)
        return
    watch(self)
    if self.fleet.fresh and self.asking == 0:
        hang_up(self)
    ask_next(self, now)


cdef void take(Secondary *self, const uint8_t *message, uint32_t length) noexcept nogil:
    """A message. What no question waits for is malformed."""
    cdef Members *fleet = self.fleet
    cdef Outcome outcome
    cdef uint32_t serial = 0
    if length < 12 or self.asking == 0 or load16(message) != self.id:
        fleet.counters[<int>FAULTS] += 1
        return
    if self.asking == T_SOA:
        self.asking = 0
        fleet.counters[<int>SERIALS] += 1
        if not answer_serial(message, length, &serial):
            fleet.counters[<int>REFUSALS] += 1
            self.looks = 1
        elif 0 < <uint32_t>(serial - self.answer.version.serial) < 0x80000000u:
            self.told = 1
        self.pause = SECOND
        return
    outcome = answer_take(&self.answer, message, length)
    if outcome == MORE:
        return
    if outcome == APPLIED:
        apply(self, socket_clock())
    elif outcome == CURRENT:
        fleet.counters[<int>UNCHANGED] += 1
    else:
        fleet.counters[<int>(REFUSALS if outcome == REFUSED else GAPS if outcome == GAP else CONTENTS if outcome == OTHER_CONTENT else FAULTS)] += 1
        if outcome != REFUSED:
            self.answer.version.held = 0
            fleet.holding -= self.since != 0
            self.since = 0
        self.again = socket_clock() + <int64_t>(draw(fleet) % <uint64_t>self.pause)      # on the same connection
        self.pause = min(2 * self.pause, <int64_t>PAUSE_MAX * SECOND)
        self.told = 1
        self.asking = WAITING
        return
    self.pause = SECOND
    self.asking = 0


cdef void apply(Secondary *self, int64_t now) noexcept nogil:
    """A new version: changes that it has, and those that they replaced, have arrived."""
    cdef Members *fleet = self.fleet
    cdef uint32_t i
    cdef int32_t number
    fleet.counters[<int>(WHOLE if self.answer.whole else DIFFERENCES)] += 1
    for i in range(self.count):
        number = <int32_t>self.added[i]
        while number >= 0 and not self.seen[number >> 6] >> (number & 63) & 1:
            self.seen[number >> 6] |= <uint64_t>1 << (number & 63)
            if self.since and fleet.written[number] > self.since:
                latencies_record(&fleet.latency, <uint64_t>(now - fleet.written[number]))
            number = fleet.replaced[number]
    if self.since == 0:
        self.since = now
        fleet.holding += 1
        latencies_record(&fleet.filled, <uint64_t>(now - fleet.start))


cdef void on_added(void *data, const uint8_t *address) noexcept nogil:
    cdef Secondary *self = <Secondary *>data
    cdef uint32_t number = load32(address) - CHANGED
    cdef uint32_t *more
    if number >= self.fleet.changes or self.fleet.written[number] == 0:
        return
    if self.count == self.room:
        more = <uint32_t *>realloc(self.added, 2 * max(32u, self.room) * sizeof(uint32_t))
        if more == NULL:
            return
        self.added = more
        self.room = 2 * max(32u, self.room)
    self.added[self.count] = number
    self.count += 1


cdef void on_notify(void *data, uint32_t address) noexcept nogil:
    cdef Members *fleet = <Members *>data
    cdef uint32_t number = address - BASE
    if number < fleet.count:
        fleet.counters[<int>NOTIFIES] += 1
        fleet.all[number].told = 1
        ask_next(&fleet.all[number], socket_clock())


# ---- time ----

cdef void do_due(Members *fleet, int64_t now) noexcept nogil:
    """Connections that are to be made, questions that are due or have waited for too long."""
    cdef uint32_t i, opened = 0
    cdef Secondary *one
    for i in range(fleet.count):
        one = &fleet.all[i]
        if (<Connection *>one.client.stream).state == CLOSED:
            if opened < OPENED and now >= one.again:
                opened += 1
                open_connection(one, now)
        elif one.asking == WAITING and now >= one.again:
            one.asking = 0
            ask_next(one, now)
        elif one.asking > WAITING and now - one.asked > <int64_t>PATIENCE * SECOND:
            fleet.counters[<int>TIMEOUTS] += 1
            give_up(one, now)


cdef void do_poll(Members *fleet, int64_t now) noexcept nogil:
    """Each asks once in `poll`, one after the other."""
    cdef uint64_t due = <uint64_t>((now - fleet.start) * <double>fleet.count / fleet.poll)
    cdef Secondary *one
    if due > fleet.polled + fleet.count:
        fleet.polled = due - fleet.count
    while fleet.polled < due:
        one = &fleet.all[fleet.polled % fleet.count]
        fleet.polled += 1
        one.looks = 1
        ask_next(one, now)


cdef void work(Members *fleet, const uint32_t *stopping) noexcept nogil:
    cdef epoll_event events[EVENTS]
    cdef Secondary *one
    cdef int64_t now, before, look = 0
    cdef int n, i
    fleet.start = socket_clock()
    while not atomic_load32(stopping):
        n = epoll_wait(fleet.epoll, events, EVENTS, ROUND // 1000000)
        now = before = socket_clock()
        for i in range(n):
            one = <Secondary *>events[i].data.ptr
            if one == NULL:
                notified_take(&fleet.notified, on_notify, fleet)
            elif (<Connection *>one.client.stream).state == OPEN:
                receive(one, now)
            elif (<Connection *>one.client.stream).state != CLOSED:
                advance(one, now)
        if now >= look:
            do_due(fleet, now)
            look = now + ROUND
        if fleet.poll:
            do_poll(fleet, now)
        now = socket_clock()
        fleet.longest = max(fleet.longest, now - before)
        fleet.cpu = fleet_cpu()


# ---- Python ----

cdef class Fleet:
    cdef Members fleet
    cdef uint32_t stopping
    cdef int64_t cpu_before

    def __cinit__(self, *, uint32_t count, bytes address, bytes zone, uint16_t port, bint notified, double poll, bint tls, uint32_t changes,
                  uint32_t checked, int receive_buffer, bint fresh=False):
        cdef Members *fleet = &self.fleet
        cdef epoll_event event
        cdef Secondary *one
        cdef uint32_t i
        fleet.epoll = fleet.notified.fd = -1
        if not 0 < count < 65000 or len(zone) > sizeof(fleet.zone) or len(address) != sizeof(sockaddr_in):
            raise ValueError
        memcpy(fleet.zone, <const char *>zone, len(zone))
        fleet.zone_length = <uint32_t>len(zone)
        memcpy(&fleet.driver.peer, <const char *>address, len(address))
        fleet.driver.peer_length = sizeof(sockaddr_in)
        fleet.driver.family = AF_INET
        fleet.driver.counters = &fleet.unused
        fleet.changes = changes
        fleet.fresh = fresh
        fleet.poll = <int64_t>(poll * 1e9)
        fleet.random = 0x9E3779B97F4A7C15ULL
        fleet.all = <Secondary *>calloc(count, sizeof(Secondary))
        fleet.written = <int64_t *>calloc(changes + 1, sizeof(int64_t))
        fleet.replaced = <int32_t *>calloc(changes + 1, sizeof(int32_t))
        if fleet.all == NULL or fleet.written == NULL or fleet.replaced == NULL:
            raise MemoryError
        fleet.count = count
        if tls and tls_open(&fleet.driver) < 0:
            raise OSError(errno.ENOSYS, "no libssl.so.3 to be found")
        fleet.epoll = epoll_create1(EPOLL_CLOEXEC)
        if fleet.epoll < 0 or notified and notified_open(&fleet.notified, port, receive_buffer) < 0:
            raise OSError(last_error, os.strerror(last_error))
        if notified:
            event.events = EPOLLIN
            event.data.ptr = NULL
            epoll_ctl(fleet.epoll, EPOLL_CTL_ADD, fleet.notified.fd, &event)
        for i in range(count):
            one = &fleet.all[i]
            one.fleet = fleet
            one.client.fd = -1
            one.client.driver = &fleet.driver
            one.client.flight.oldest = NO_SLOT
            one.client.local.sin_family = AF_INET
            store32(<uint8_t *>&one.client.local.sin_addr.s_addr, BASE + i)
            one.client.stream = calloc(1, sizeof(Connection))
            one.seen = <uint64_t *>calloc(changes // 64 + 1, sizeof(uint64_t))
            if one.client.stream == NULL or one.seen == NULL:
                raise MemoryError
            one.answer.added = on_added
            one.answer.data = one
            one.answer.checked = checked and i % checked == 0
            one.pause = SECOND

    def __dealloc__(self):
        cdef Members *fleet = &self.fleet
        cdef uint32_t i
        for i in range(fleet.count):
            if fleet.all[i].client.stream != NULL:
                connection_close(&fleet.all[i].client)
            free(fleet.all[i].client.stream)
            free(fleet.all[i].seen)
            free(fleet.all[i].added)
        free(fleet.all)
        free(fleet.written)
        free(fleet.replaced)
        notified_close(&fleet.notified)
        tls_close(&fleet.driver)
        if fleet.epoll >= 0:
            close(fleet.epoll)

    def run(self):
        with nogil:
            work(&self.fleet, &self.stopping)

    def stop(self):
        atomic_store32(&self.stopping, 1)

    def change(self, uint32_t number, int32_t replaced):
        if number >= self.fleet.changes:
            raise IndexError(number)
        self.fleet.replaced[number] = replaced
        self.fleet.written[number] = socket_clock()

    def begin(self):
        memset(self.fleet.counters, 0, sizeof(self.fleet.counters))
        latencies_clear(&self.fleet.latency)
        self.fleet.longest = 0
        self.cpu_before = self.fleet.cpu

    def missing(self, uint32_t last):
        cdef uint32_t i, k
        cdef uint64_t found = 0
        for i in range(self.fleet.count):
            for k in range(min(last + 1, self.fleet.changes)):
                if self.fleet.all[i].since and self.fleet.written[k] and not self.fleet.all[i].seen[k >> 6] >> (k & 63) & 1:
                    found += 1
        return found

    @property
    def latency(self):
        cdef Histogram found = Histogram()
        latencies_add(&found.latencies, &self.fleet.latency)
        return found

    @property
    def filled(self):
        cdef Histogram found = Histogram()
        latencies_add(&found.latencies, &self.fleet.filled)
        return found

    @property
    def counters(self):
        found = {name: self.fleet.counters[i] for i, name in enumerate(NAMES)}
        return found | {"longest": self.fleet.longest, "cpu": self.fleet.cpu - self.cpu_before}

    @property
    def holding(self):
        return self.fleet.holding

    @property
    def connected(self):
        return self.fleet.connected
