"""The other server. The contract is in the .pxd."""
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t, int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset
from posix.unistd cimport usleep

from fastdns.api.comparison cimport Digest, digest_equal, digest_reply
from fastdns.api.memory cimport (ListNode, atomic_peek64, atomic_peek8, atomic_poke32, atomic_poke64, atomic_poke8, atomic_store32, list_append,
                                 list_first, list_init, list_is_empty, list_remove)
from fastdns.api.metrics cimport METRIC_CONTROL, Metric, metric_add
from fastdns.api.network cimport MSG_DONTWAIT, MSG_NOSIGNAL, MSG_TRUNC, POLLIN, poll, pollfd, read, recv, send, socket_clock
from fastdns.api.rings cimport rings_awake, rings_close, rings_may_sleep, rings_open, rings_stop
from fastdns.api.random cimport random_init, random_next
from fastdns.api.wire cimport FLAG_TC, load16, store16, wire_answers
from fastdns.api.worker cimport WORKERS_MAX
from fastdns.plugins.shadow._copies cimport (ALL, COPY_MAX, NONE, ONE, REPLY_MAX, RING_LEAST, SHARE_ALL, SKIPPED_LATE, SKIPPED_SILENT,
                                             Copy, copy_done, copy_first, copy_question, copy_reply)

cdef enum:
    COMPANY = 2000              # microseconds that the first copy of a batch waits
    BATCH = 256                 # datagrams that are read before questions leave
    SECOND = 1_000_000_000
    EXAMINE_BURST = 100         # suspects that Python may look at in one go

cdef enum Result:
    SAME_RESULT
    TRUNCATED_RESULT
    UNEXAMINED_RESULT
    RESULTS

cdef enum Status:               # what a turn of the thread ends with
    STATUS_TIME
    STATUS_STOPPED
    STATUS_SUSPECTS
    STATUS_SILENT
    STATUS_REFUSED
    STATUS_FLOODED

TIME, STOPPED, SUSPECTS, SILENT, REFUSED, FLOODED = STATUS_TIME, STATUS_STOPPED, STATUS_SUSPECTS, STATUS_SILENT, STATUS_REFUSED, STATUS_FLOODED
SKIPPED = ("rate", "buffer", "large", "late", "silent")
RESULT_NAMES = ("same", "truncated", "unexamined")

RESULTS_TOTAL = Metric("fastdns_shadow_results_total", "Answers of the server at `to` beside ours, by what the comparison gave.", "counter", ("to", "result"))
SKIPPED_TOTAL = Metric("fastdns_shadow_skipped_total", "Questions that the server at `to` was not asked, or whose answer was not compared, by why.", "counter",
                       ("to", "reason"))


# ---- answers ----

cdef inline void count(Exchange *self, Result result) noexcept nogil:
    metric_add(self.cells + result, METRIC_CONTROL, 1)


cdef inline void release(Exchange *self, Slot *slot) noexcept nogil:
    list_remove(&slot.node)
    list_append(&self.free, &slot.node)


cdef void suspect(Exchange *self, const Slot *slot, const uint8_t *reply, uint32_t length, int64_t now) noexcept nogil:
    """For Python, which has time for so many a second."""
    cdef Suspect *found
    if now < self.examine_turn - EXAMINE_BURST * self.examine_interval or self.suspect_count == SUSPECTS_MAX:
        atomic_poke64(&self.unexamined, self.unexamined + 1)
        count(self, UNEXAMINED_RESULT)
        return
    self.examine_turn = max(self.examine_turn, now) + self.examine_interval
    found = &self.suspects[self.suspect_count]
    self.suspect_count += 1
    memcpy(found.copy, slot.copy, (<const Copy *>slot.copy).size)
    memcpy(found.reply, reply, length)
    found.reply_length = length


cdef void conclude(Exchange *self, Slot *slot, const uint8_t *reply, uint32_t length, int64_t now) noexcept nogil:
    cdef const Copy *copy = <const Copy *>slot.copy
    cdef Digest ours, theirs
    cdef int readable = digest_reply(reply, length, &theirs)
    if readable == 0 and digest_reply(copy_reply(copy), copy.reply_length, &ours) == 0 and ours.rcode == theirs.rcode:
        if (ours.flags | theirs.flags) & FLAG_TC:
            atomic_poke64(&self.truncated, self.truncated + 1)
            count(self, TRUNCATED_RESULT)
            return
        if digest_equal(&ours, &theirs):
            atomic_poke64(&self.same, self.same + 1)
            count(self, SAME_RESULT)
            return
    suspect(self, slot, reply, length, now)


cdef int answered(Exchange *self, uint8_t *reply, uint32_t length, int64_t now) noexcept nogil:
    """0, or 1 for a datagram that answers nothing."""
    cdef uint32_t number = self.by_id[load16(reply)] if length >= 2 else 0
    cdef Slot *slot
    cdef ListNode *node
    if not number:
        return 1
    slot = &self.slots[number - 1]
    store16(slot.copy + sizeof(Copy), slot.id)
    if not wire_answers(reply, length, copy_question(<const Copy *>slot.copy), question_octets(<const Copy *>slot.copy)):
        return 1
    self.by_id[slot.id] = 0
    atomic_poke8(&self.is_up, 1)
    while not list_is_empty(&self.doubtful):
        node = list_first(&self.doubtful)
        suspect(self, <Slot *>node, reply, 0, now)
        release(self, <Slot *>node)
    self.doubtful_count = 0
    conclude(self, slot, reply, length, now)
    release(self, slot)
    return 0


cdef inline uint32_t question_octets(const Copy *copy) noexcept nogil:
    """Of name, type and class; what follows in the copy is OPT."""
    cdef const uint8_t *question = copy_question(copy)
    cdef uint32_t at = 12
    while question[at]:
        at += 1 + question[at]
    return at + 5 - 12


cdef Status receive(Exchange *self, int64_t now) noexcept nogil:
    """STATUS_TIME: there is nothing more to read; STATUS_SUSPECTS: there may be."""
    cdef uint8_t octets[REPLY_MAX]
    cdef ssize_t n
    cdef int i
    for i in range(BATCH):
        n = recv(self.fd, octets, sizeof(octets), MSG_DONTWAIT | MSG_TRUNC)
        if n < 0:
            if errno == EINTR:
                continue
            return STATUS_TIME if errno == EAGAIN else STATUS_REFUSED
        if n <= REPLY_MAX and not answered(self, octets, <uint32_t>n, now):
            if self.suspect_count >= SUSPECTS_MAX - SILENT_AFTER:
                return STATUS_SUSPECTS
            continue
        if now - self.stray_since > SECOND:
            self.stray_since = now
            self.strays = 0
        self.strays += 1
        if self.strays > STRAYS_MAX:
            return STATUS_FLOODED
    return STATUS_SUSPECTS


# ---- questions ----

cdef void expire(Exchange *self, int64_t now) noexcept nogil:
    cdef Slot *slot
    while not list_is_empty(&self.waiting):
        slot = <Slot *>list_first(&self.waiting)
        if slot.deadline > now:
            return
        self.by_id[slot.id] = 0
        list_remove(&slot.node)
        list_append(&self.doubtful, &slot.node)
        self.doubtful_count += 1


cdef void ask(Exchange *self, const Copy *copy, int64_t now) noexcept nogil:
    cdef Slot *slot = <Slot *>list_first(&self.free)
    cdef uint16_t number = <uint16_t>random_next(&self.random)
    cdef uint8_t *question
    while self.by_id[number]:
        number += 1
    memcpy(slot.copy, copy, copy.size)
    question = slot.copy + sizeof(Copy)
    slot.id = number
    store16(question, number)
    slot.deadline = now + self.timeout
    self.by_id[number] = <uint16_t>(slot - self.slots + 1)
    list_remove(&slot.node)
    list_append(&self.waiting, &slot.node)
    # One that the kernel does not take is one that is not answered.
    send(self.fd, question, copy.question_length, MSG_DONTWAIT | MSG_NOSIGNAL)


cdef void ask_copies(Exchange *self, int64_t now) noexcept nogil:
    cdef uint32_t i
    cdef const Copy *copy
    for i in range(WORKERS_MAX):
        while not list_is_empty(&self.free):
            copy = copy_first(&self.core, i)
            if copy == NULL:
                break
            if now - copy.at > self.timeout:
                metric_add(self.core.skipped + SKIPPED_LATE, METRIC_CONTROL, 1)
                if not self.is_up:
                    atomic_store32(&self.core.wanted, ONE)  # it was the one that tries the server out
            else:
                ask(self, copy, now)
            copy_done(&self.core, i, copy)


cdef void doze(Exchange *self, int64_t until, int64_t now) noexcept nogil:
    cdef pollfd ready[2]
    cdef uint64_t rung
    cdef bint sleeps
    if not list_is_empty(&self.waiting):
        until = min(until, (<Slot *>list_first(&self.waiting)).deadline)
    if until <= now:
        return
    ready[0].fd = self.fd
    ready[0].events = POLLIN
    ready[1].fd = self.core.rings.bell
    ready[1].events = POLLIN
    ready[1].revents = 0
    if list_is_empty(&self.free):       # nobody needs to ring
        sleeps = not atomic_peek8(&self.core.rings.stopping)
    else:
        sleeps = rings_may_sleep(&self.core.rings)
    if sleeps:
        poll(ready, 2, <int>((until - now) // 1000000) + 1)
    rings_awake(&self.core.rings)
    if ready[1].revents:
        read(self.core.rings.bell, &rung, sizeof(rung))
        usleep(COMPANY)


cdef Status pump(Exchange *self, int64_t end) noexcept nogil:
    cdef int64_t now
    cdef Status status
    while True:
        now = socket_clock()
        status = receive(self, now)
        if status == STATUS_REFUSED or status == STATUS_FLOODED:
            return status
        if self.is_up:
            atomic_store32(&self.core.wanted, ALL)  # a worker that tried the server out may have stored NONE since
        if status == STATUS_TIME:   # else an answer that is there may not have been read
            expire(self, now)
        if self.doubtful_count >= min(<uint32_t>SILENT_AFTER, self.count) or (self.doubtful_count and not self.is_up):
            return STATUS_SILENT
        ask_copies(self, now)
        if self.suspect_count:
            return STATUS_SUSPECTS
        if atomic_peek8(&self.core.rings.stopping):
            return STATUS_STOPPED
        if now >= end:
            return STATUS_TIME
        doze(self, end, now)


cdef void begin(Exchange *self, int fd) noexcept nogil:
    """Nothing waits any more; one question tries the server out."""
    cdef uint32_t i
    memset(self.by_id, 0, sizeof(self.by_id))
    list_init(&self.free)
    list_init(&self.waiting)
    list_init(&self.doubtful)
    for i in range(self.count):
        list_append(&self.free, &self.slots[i].node)
    self.doubtful_count = 0
    self.strays = 0
    atomic_poke8(&self.is_up, 0)
    self.fd = fd
    skip_copies(self)
    atomic_store32(&self.core.wanted, ONE)


cdef void end(Exchange *self) noexcept nogil:
    cdef ListNode *node
    atomic_store32(&self.core.wanted, NONE)
    for i in range(2):
        while True:
            node = list_first(&self.waiting if i else &self.doubtful)
            if node == NULL:
                break
            metric_add(self.core.skipped + SKIPPED_SILENT, METRIC_CONTROL, 1)
            release(self, <Slot *>node)
    self.doubtful_count = 0
    atomic_poke8(&self.is_up, 0)
    skip_copies(self)


cdef void skip_copies(Exchange *self) noexcept nogil:
    cdef uint32_t i
    cdef const Copy *copy
    for i in range(WORKERS_MAX):
        copy = copy_first(&self.core, i)
        while copy != NULL:
            metric_add(self.core.skipped + SKIPPED_SILENT, METRIC_CONTROL, 1)
            copy_done(&self.core, i, copy)
            copy = copy_first(&self.core, i)


# ---- Python ----

cdef class Target:

    def __cinit__(self, str name not None, bytes address not None, bint is_local, double share, double rate, uint32_t outstanding, double timeout,
                  uint64_t octets, double examined):
        cdef Exchange *exchange = <Exchange *>calloc(1, sizeof(Exchange))
        if exchange == NULL:
            raise MemoryError
        self.exchange = exchange
        exchange.fd = -1
        exchange.slots = <Slot *>calloc(outstanding, sizeof(Slot))
        exchange.suspects = <Suspect *>calloc(SUSPECTS_MAX, sizeof(Suspect))
        if exchange.slots == NULL or exchange.suspects == NULL:
            raise MemoryError
        if rings_open(&exchange.core.rings, octets, RING_LEAST, COPY_MAX) < 0:
            raise OSError(errno, "no eventfd")
        self.name = name
        exchange.count = outstanding
        exchange.timeout = <int64_t>(timeout * SECOND)
        exchange.examine_interval = <int64_t>(SECOND / examined)
        exchange.core.share = <uint32_t>min(<double>SHARE_ALL, share * 4294967296.0)
        exchange.core.interval = <int64_t>(SECOND / rate)
        exchange.core.is_local = is_local
        exchange.core.target.family = 4 if len(address) == 4 else 6
        memcpy(exchange.core.target.octets, <const uint8_t *>address, len(address))
        random_init(&exchange.random)
        exchange.cells = RESULTS_TOTAL.table((name, RESULT_NAMES))
        exchange.core.skipped = SKIPPED_TOTAL.table((name, SKIPPED))

    def __dealloc__(self):
        if self.exchange == NULL:
            return
        rings_close(&self.exchange.core.rings)
        free(self.exchange.slots)
        free(self.exchange.suspects)
        free(self.exchange)

    def begin(self, int fd, int own_port):
        atomic_poke32(&self.exchange.core.own_port, <uint32_t>own_port)
        begin(self.exchange, fd)

    def end(self):
        end(self.exchange)
        self.exchange.fd = -1

    def pump(self, double seconds):
        cdef int64_t end = socket_clock() + <int64_t>(seconds * SECOND)
        cdef Status status
        with nogil:
            status = pump(self.exchange, end)
        return <int>status

    def suspects(self):
        cdef uint32_t i
        cdef Suspect *found
        cdef const Copy *copy
        pairs = []
        for i in range(self.exchange.suspect_count):
            found = &self.exchange.suspects[i]
            copy = <const Copy *>found.copy
            pairs.append((<bytes>copy_question(copy)[:copy.question_length], <bytes>copy.client.octets[:4 if copy.client.family == 4 else 16],
                          <bytes>copy_reply(copy)[:copy.reply_length], <bytes>found.reply[:found.reply_length]))
        self.exchange.suspect_count = 0
        return pairs

    def stop(self, bint stopping=True):
        rings_stop(&self.exchange.core.rings, stopping)

    @property
    def is_up(self):
        return bool(atomic_peek8(&self.exchange.is_up))

    @property
    def counts(self):
        return {"same": atomic_peek64(&self.exchange.same), "truncated": atomic_peek64(&self.exchange.truncated),
                "unexamined": atomic_peek64(&self.exchange.unexamined)}
