"""One thread of load: when queries are due, who sends them, and what came of them second by second."""
import errno
import os

from libc.math cimport log
from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset
from fastdns.system.atomic cimport atomic_load32, atomic_store32
from fastdns.system.socket cimport POLLIN, pollfd, sockaddr_in6, socket_clock
from fastdns.bench.generator.client cimport BATCH, Client, Driver, client_settle
from fastdns.bench.generator.connection cimport tls_close, tls_open
from fastdns.bench.generator.datagram cimport DATAGRAM, datagrams_close, datagrams_open
from fastdns.bench.generator.doh cimport DOH
from fastdns.bench.generator.flight cimport (CHECK_ALL, CHECK_NONE, CHECK_SAMPLE, MALFORMED, NO_SLOT, RCODES, RIGHT, STATUSES, WRONG_ID, WRONG_KINDS,
                                             Slot, Counters, flight_close, flight_expire, flight_holds, flight_lose, flight_open, flight_take)
from fastdns.bench.generator.histogram cimport Histogram, latencies_add
from fastdns.bench.generator.http1 cimport HTTP1
from fastdns.bench.generator.outbox cimport OUTBOX, Outbox
from fastdns.bench.generator.queries cimport PackedQuery, QuerySet
from fastdns.bench.generator.stream cimport STREAM

cdef extern from * nogil:
    """
    #include <poll.h>
    #include <sys/prctl.h>
    #include <time.h>
    /* The kernel wakes sleepers up to 50 us late, to save power, unless told not to. */
    static inline void generator_wake_in_time(void) { prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL); }
    static inline int64_t generator_cpu(void) {
        struct timespec t;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
    }
    static inline int generator_poll(struct pollfd *fds, unsigned long n, int64_t ns) {
        struct timespec t = {ns / 1000000000, ns % 1000000000};
        return ppoll(fds, n, &t, NULL);
    }
    """
    void generator_wake_in_time() noexcept
    int64_t generator_cpu() noexcept
    int generator_poll(pollfd *fds, unsigned long n, int64_t ns) noexcept

cdef enum:
    TALLIES = 16                    # intervals that may wait to be read
    INTERVAL = 1000000000           # ns
    NAP = 10000000                  # ns: how soon a stop, a timeout or the end is seen
    SPIN = 3000                     # ns: shorter waits are not worth a sleep
    LARGEST = 4096                  # octets of a reply that are looked at, over UDP
    BUSY = 4                        # replies a client in one round from which nobody needs to be asked who has some

WRONG_NAMES = ("", "id", "question", "rcode", "answer", "malformed", "status")


cdef class Generator:
    cdef QuerySet queries
    cdef const uint32_t *order      # borrowed from the set
    cdef const uint32_t *bursts
    cdef uint32_t length            # of order
    cdef Driver driver
    cdef Counters *intervals             # a ring, owned
    cdef uint32_t written           # intervals finished, by the thread
    cdef uint32_t taken             # and read, by Python
    cdef uint32_t stopping
    cdef uint32_t window            # queries under way a client; 0: open loop
    cdef bint random                # arrivals
    cdef uint64_t state             # of the random numbers
    cdef uint32_t at                # next in the set's order
    cdef uint32_t burst             # next in its bursts
    cdef uint32_t turn              # client that sends next, in an open loop
    cdef int64_t start              # ns, monotonic: of the warm-up
    cdef int64_t begin, end         # what is due between counts
    cdef double due                 # ns since begin: of the next burst, in an open loop
    cdef double *rates              # queries per second of the pieces, owned
    cdef double *ends               # ns since begin, owned
    cdef uint32_t pieces
    cdef uint32_t piece             # that queries are due in
    cdef int64_t mark               # ns since begin: end of this interval, by the clock on the wall
    cdef int64_t boundary           # ns, monotonic: when the next one begins
    cdef int64_t look               # ns, monotonic: when what has expired is looked for
    cdef bint sending
    cdef int64_t cpu

    def __cinit__(self, QuerySet queries not None, *, str transport, int family, bytes address, pieces, uint32_t clients, uint32_t window, double timeout,
                  str check, bint random, uint64_t seed, uint32_t thread, uint32_t threads, bytes server_name=b"", bytes head=b""):
        cdef uint32_t i, capacity
        cdef double end = 0, most = 0
        self.queries = queries
        self.order = queries.order
        self.bursts = queries.bursts
        self.length = queries.length
        self.driver.queries = queries.queries
        self.driver.edns = queries.edns
        self.driver.check = {"none": CHECK_NONE, "sample": CHECK_SAMPLE, "all": CHECK_ALL}[check]
        self.driver.timeout = <int64_t>(timeout * 1e9)
        self.driver.family = family
        if len(address) > sizeof(sockaddr_in6):
            raise ValueError("not a socket address")
        memcpy(&self.driver.peer, <const uint8_t *>address, len(address))
        self.driver.peer_length = <uint32_t>len(address)
        self.driver.count = clients
        self.window = window
        self.random = random
        self.state = seed * 0x9E3779B97F4A7C15ULL + thread + 1
        self.pieces = <uint32_t>len(pieces)
        self.rates = <double *>calloc(self.pieces, sizeof(double))
        self.ends = <double *>calloc(self.pieces, sizeof(double))
        self.intervals = <Counters *>calloc(TALLIES, sizeof(Counters))
        self.driver.clients = <Client *>calloc(clients, sizeof(Client))
        self.driver.polled = <pollfd *>calloc(clients, sizeof(pollfd))
        if (self.rates == NULL or self.ends == NULL or self.intervals == NULL or self.driver.clients == NULL or self.driver.polled == NULL
                or datagrams_open(&self.driver, LARGEST) < 0):
            raise MemoryError
        for i, (rate, seconds) in enumerate(pieces):
            end += seconds * 1e9
            self.rates[i] = rate / threads
            self.ends[i] = end
            most = max(most, self.rates[i])
        capacity = max(64, window * 4) if window else <uint32_t>min(1 << 20, most * timeout * 1.25 / clients + 256)
        if transport == "udp":
            self.driver.carriage = &DATAGRAM
        elif transport == "doh":
            self.driver.carriage = &DOH
        elif transport == "doh+http":
            self.driver.carriage = &HTTP1
        elif transport == "doq":
            self.driver.carriage = &OUTBOX
        else:
            self.driver.carriage = &STREAM
        self.driver.counters = self.intervals
        if len(server_name) >= sizeof(self.driver.server_name):
            raise ValueError(f"a server name of {len(server_name)} octets")
        memcpy(self.driver.server_name, <const char *>server_name, len(server_name))
        if len(head) > sizeof(self.driver.head):
            raise ValueError(f"a path of so many octets that a request's head has {len(head)}")
        memcpy(self.driver.head, <const char *>head, len(head))
        self.driver.head_length = <uint32_t>len(head)
        if transport == "doh":
            memcpy(self.driver.protocols, b"\x02h2", 3)
        if transport in ("dot", "doh"):
            if tls_open(&self.driver) < 0:
                raise OSError(errno.ENOSYS, f"no libssl.so.3 to be found, which {transport} needs")
        for i in range(clients):
            self.driver.clients[i].fd = -1
            self.driver.clients[i].driver = &self.driver
            if flight_open(&self.driver.clients[i].flight, capacity) < 0:
                raise MemoryError
        # Threads share the order out, so that together they ask it from several places at once.
        self.skip(<uint32_t>(<uint64_t>queries.length * thread // threads))
        self.due = 0 if window else 1e9 * thread / (self.rates[0] * threads)

    def __dealloc__(self):
        cdef uint32_t i
        if self.driver.clients != NULL:
            for i in range(self.driver.count):
                if self.driver.clients[i].driver != NULL:
                    self.driver.carriage.close(&self.driver.clients[i])
                    flight_close(&self.driver.clients[i].flight)
        datagrams_close(&self.driver)
        tls_close(&self.driver)
        free(self.driver.clients)
        free(self.driver.polled)
        free(self.intervals)
        free(self.rates)
        free(self.ends)

    cdef void skip(self, uint32_t entries) noexcept:
        """Moves on to the first burst at or behind an entry of the order."""
        if self.queries.bursts == NULL:
            self.at = entries
            return
        while self.at < entries and self.burst < self.queries.burst_count:
            self.at += self.queries.bursts[self.burst]
            self.burst += 1

    # ---- Python's side ----

    def open(self, double timeout):
        cdef uint32_t i
        cdef int error
        cdef int64_t limit = socket_clock() + <int64_t>(timeout * 1e9)
        for i in range(self.driver.count):
            error = self.driver.carriage.open(&self.driver.clients[i])
            if error:
                raise OSError(error, os.strerror(error))
        for i in range(self.driver.count):
            while not self.driver.carriage.is_open(&self.driver.clients[i]):
                if self.driver.foreign:
                    raise OSError(errno.EPROTO, "no HTTP/2 there: the server does not agree to h2 in its TLS handshake (ALPN)")
                if self.driver.counters.refused:
                    raise ConnectionRefusedError(errno.ECONNREFUSED, "the connection was refused or broken off")
                if socket_clock() > limit:
                    raise TimeoutError(errno.ETIMEDOUT, f"not connected after {timeout:g} s")
                with nogil:
                    self.wait_for_replies(NAP)

    def run(self, int64_t start, double warm):
        """Sends and counts until everything is answered or given up."""
        self.prepare(start, warm)
        with nogil:
            generator_wake_in_time()
            self.work()
        self.finish()

    def prepare(self, int64_t start, double warm):
        self.start = start
        self.begin = start + <int64_t>(warm * 1e9)
        self.end = self.begin + <int64_t>self.ends[self.pieces - 1]
        self.due -= warm * 1e9
        self.driver.counters.began = 0
        self.look = 0
        self.sending = True
        self.set_boundary(self.begin)

    def finish(self):
        self.driver.counters.ended = self.mark
        atomic_store32(&self.written, self.written + 1)

    def stop(self):
        atomic_store32(&self.stopping, 1)

    @property
    def cpu_seconds(self):
        return self.cpu / 1e9

    @property
    def warmed(self):
        return self.driver.warmed

    @property
    def dropped(self):
        return self.driver.dropped

    def close(self):
        cdef uint32_t i
        for i in range(self.driver.count):
            self.driver.carriage.close(&self.driver.clients[i])

    def take(self):
        """The oldest interval that is over and was not taken yet, or None."""
        cdef Counters *counters
        cdef Histogram latency
        cdef int i
        if self.taken == atomic_load32(&self.written):
            return None
        counters = &self.intervals[self.taken % TALLIES]
        latency = Histogram()
        latencies_add(&latency.latencies, &counters.latencies)
        found = {
            "began": counters.began / 1e9,
            "ended": counters.ended / 1e9,
            "rate": counters.rate,
            "sent": counters.sent,
            "answered": counters.answered,
            "lost": counters.lost,
            "unsent": counters.unsent,
            "late": counters.late,
            "refused": counters.refused,
            "resets": counters.resets,
            "truncated": counters.truncated,
            "octets": counters.octets,
            "wrong": {WRONG_NAMES[i]: counters.wrong[i] for i in range(1, WRONG_KINDS) if counters.wrong[i]},
            "rcodes": {i: counters.rcodes[i] for i in range(RCODES) if counters.rcodes[i]},
            "statuses": {i: counters.statuses[i] for i in range(STATUSES) if counters.statuses[i]},
            "latency": latency,
        }
        atomic_store32(&self.taken, self.taken + 1)
        return found

    # ---- queries that Python carries ----

    cdef Client *client(self, uint32_t number) except NULL:
        if self.driver.carriage != &OUTBOX or number >= self.driver.count or self.driver.clients[number].stream == NULL:
            raise IndexError(number)
        return &self.driver.clients[number]

    def go_on(self):
        cdef int64_t now = socket_clock()
        if atomic_load32(&self.stopping):
            return None
        if now < self.start:
            return (self.start - now) / 1e9
        if not self.step(now):
            return None
        return max(0, self.due_in(now)) / 1e9

    def taken_from(self, uint32_t number):
        cdef Client *client = self.client(number)
        cdef Outbox *outbox = <Outbox *>client.stream
        cdef const PackedQuery *query
        cdef Slot *slot
        cdef uint32_t i
        found = []
        for i in range(outbox.count):
            slot = &client.flight.slots[outbox.slots[i]]
            query = &self.driver.queries[slot.query]
            found.append((outbox.slots[i], slot.due, query.message[:query.length]))
        outbox.count = 0
        return found

    def allow(self, uint32_t number, uint32_t capacity):
        cdef Outbox *outbox = <Outbox *>self.client(number).stream
        outbox.open = True
        outbox.capacity = capacity

    def complete(self, uint32_t number, uint32_t slot, int64_t due, bytes message):
        cdef Client *client = self.client(number)
        cdef int verdict = RIGHT
        if slot > client.flight.mask:
            raise IndexError(slot)
        if not flight_holds(&client.flight, slot, due):
            self.driver.counters.late += message is not None
        elif message is None:
            self.driver.counters.resets += 1
            flight_lose(&client.flight, slot, self.driver.counters)
        else:
            if len(message) < 2:
                verdict = MALFORMED
            elif message[0] or message[1]:
                verdict = WRONG_ID
            client_settle(client, slot, verdict, <const uint8_t *>message, <uint32_t>len(message), socket_clock())
        client.opened = min(self.window, client.opened + 1)

    def give_up(self, uint32_t number):
        cdef Client *client = self.client(number)
        self.driver.counters.refused += 1
        flight_expire(&client.flight, INT64_MAX, self.driver.counters)
        (<Outbox *>client.stream).open = False
        (<Outbox *>client.stream).count = 0

    # ---- the thread ----

    cdef bint step(self, int64_t now) noexcept nogil:
        """Ends intervals, gives up what has expired, sends what is due. False when all is over."""
        cdef Driver *driver = &self.driver
        cdef uint32_t i, under_way = 0
        if now >= self.boundary:
            self.roll(now)
        if now >= self.look:
            self.look = now + NAP
            for i in range(driver.count):
                if flight_expire(&driver.clients[i].flight, now - driver.timeout, driver.counters):
                    driver.clients[i].opened = driver.clients[i].flight.under_way
                driver.clients[i].opened = min(self.window, 2 * driver.clients[i].opened + 1)
                under_way += driver.clients[i].flight.under_way
            if not self.sending and under_way == 0:
                return False
        if self.sending:
            self.sending = self.send_steady(now) if self.window else self.send_due(now)
        return True

    cdef inline int64_t due_in(self, int64_t now) noexcept nogil:
        """Nanoseconds until there is something to do besides replies."""
        cdef int64_t wait = self.look - now
        if self.sending and self.window == 0:
            wait = min(wait, self.begin + <int64_t>self.due - now)
        return wait

    cdef void work(self) noexcept nogil:
        cdef Driver *driver = &self.driver
        cdef int64_t now, wait
        cdef uint32_t i, received = 0
        for i in range(driver.count):
            driver.polled[i].fd = driver.clients[i].fd
        now = socket_clock()
        while now < self.start and not atomic_load32(&self.stopping):
            generator_poll(NULL, 0, min(self.start - now, NAP))
            now = socket_clock()
        while not atomic_load32(&self.stopping):
            now = socket_clock()
            if not self.step(now):
                break
            if received < driver.count * BUSY:
                wait = self.due_in(now)
                self.wait_for_replies(wait if wait > SPIN else 0)
                received = 0
                for i in range(driver.count):
                    if driver.polled[i].revents:
                        received += self.receive(&driver.clients[i])
            else:
                received = 0
                for i in range(driver.count):
                    received += self.receive(&driver.clients[i])
        self.cpu = generator_cpu()

    cdef inline uint32_t receive(self, Client *client) noexcept nogil:
        """Takes replies up. Each opens the window a little, as does time: all of it at once flows over the queue of a server that is being woken."""
        cdef uint32_t n = self.driver.carriage.receive(client)
        client.opened = min(self.window, client.opened + n)
        return n

    cdef bint send_steady(self, int64_t now) noexcept nogil:
        """Closed loop: as many as have come back. False at the end."""
        cdef Driver *driver = &self.driver
        cdef Client *client
        cdef uint32_t i, capacity
        if now >= self.end:
            return False
        for i in range(driver.count):
            client = &driver.clients[i]
            if not driver.carriage.is_open(client):
                continue
            while client.flight.under_way < client.opened:
                capacity = driver.carriage.capacity(client)
                if self.fill(client, min(client.opened - client.flight.under_way, capacity), capacity, now) == 0:
                    break
                driver.carriage.flush(client)
        return True

    cdef bint send_due(self, int64_t now) noexcept nogil:
        """Open loop: what is due by now, from one client after the other. False at the end."""
        cdef Driver *driver = &self.driver
        cdef Client *client
        cdef uint32_t tried = 0, capacity
        # Even when it is late, replies must be taken up between, or the kernel drops them.
        while tried < driver.count and self.begin + <int64_t>self.due <= now and self.due < self.ends[self.pieces - 1]:
            client = &driver.clients[self.turn]
            self.turn = self.turn + 1 if self.turn + 1 < driver.count else 0
            tried += 1
            if not driver.carriage.is_open(client):
                continue
            capacity = driver.carriage.capacity(client)
            if self.fill(client, capacity, capacity, now):
                driver.carriage.flush(client)
        return self.due < self.ends[self.pieces - 1]

    cdef inline uint32_t fill(self, Client *client, uint32_t limit, uint32_t capacity, int64_t now) noexcept nogil:
        """Puts whole bursts, up to `limit` queries, or one to a client that has nothing under way if there is room. How many queries."""
        cdef Driver *driver = &self.driver
        cdef uint32_t n = 0, size, number, slot
        cdef int64_t due = now
        cdef bint counted
        limit = min(limit, BATCH)
        capacity = min(capacity, BATCH)
        while True:
            size = self.bursts[self.burst] if self.bursts != NULL else 1
            if n + size > limit and (n or client.flight.under_way or size > capacity):
                return n
            if self.window == 0:
                due = self.begin + <int64_t>self.due
                if due > now or self.due >= self.ends[self.pieces - 1]:
                    return n
                self.advance(size)
            counted = due >= self.begin
            n += size
            while size:
                size -= 1
                number = self.order[self.at]
                self.at += 1
                slot = flight_take(&client.flight, number, due, counted)
                if slot == NO_SLOT:
                    driver.counters.unsent += counted
                else:
                    driver.carriage.put(client, slot, &driver.queries[number])
            self.burst += 1
            if self.at == self.length:
                self.at = 0
                self.burst = 0

    cdef inline void advance(self, uint32_t queries) noexcept nogil:
        """When the next burst is due, after one of so many queries."""
        cdef double gap = queries * 1e9 / self.rates[self.piece]
        if self.random:
            # xorshift64* (Vigna 2016): 53 bits above 0 make an exponential gap, so that arrivals are a Poisson process.
            self.state ^= self.state >> 12
            self.state ^= self.state << 25
            self.state ^= self.state >> 27
            gap *= -log(<double>((self.state * 0x2545F4914F6CDD1DULL >> 11) + 1) / 9007199254740993.0)
        self.due += gap
        while self.piece + 1 < self.pieces and self.due >= self.ends[self.piece]:
            self.piece += 1

    cdef void wait_for_replies(self, int64_t ns) noexcept nogil:
        cdef Driver *driver = &self.driver
        cdef uint32_t i
        for i in range(driver.count):
            driver.polled[i].fd = driver.clients[i].fd
            driver.polled[i].events = <short>(POLLIN | driver.clients[i].events)
            driver.polled[i].revents = 0
        generator_poll(driver.polled, driver.count, ns)

    cdef void roll(self, int64_t now) noexcept nogil:
        """Ends the interval, if its successor has room; else it just goes on."""
        cdef Counters *counters = self.driver.counters
        if self.written + 1 - atomic_load32(&self.taken) < TALLIES:
            counters.ended = self.mark
            counters = &self.intervals[(self.written + 1) % TALLIES]
            memset(counters, 0, sizeof(Counters))
            counters.began = self.mark
            self.driver.counters = counters
            atomic_store32(&self.written, self.written + 1)
        self.set_boundary(now)

    cdef void set_boundary(self, int64_t now) noexcept nogil:
        """The next full second or the end of a piece. The last interval goes on until everything is answered."""
        cdef int64_t elapsed = now - self.begin
        cdef uint32_t i
        self.mark = (elapsed // INTERVAL + 1) * INTERVAL
        for i in range(self.pieces):
            if self.ends[i] > elapsed:
                self.mark = min(self.mark, <int64_t>self.ends[i])
                self.driver.counters.rate = self.rates[i]
                break
        self.boundary = self.begin + self.mark
        if self.boundary >= self.end:
            self.mark = self.end - self.begin
            self.boundary = INT64_MAX
