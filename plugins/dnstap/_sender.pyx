"""Rings of dnstap messages and the way out of them. The contract is in _tap.pxd and _sender.pxd.

protobuf and Frame Streams: https://dnstap.info, https://farsightsec.github.io/fstrm
"""
from libc.errno cimport EAGAIN, EINTR, EPIPE, ETIMEDOUT, errno
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t, int64_t, uintptr_t
from libc.string cimport memcpy, memset
from posix.time cimport CLOCK_REALTIME, clock_gettime, timespec
from posix.unistd cimport usleep

from fastdns.api.worker cimport WORKERS_MAX, Worker
from fastdns.api.reply cimport query_write
from fastdns.api.wire cimport load32, store32
from fastdns.api.metrics cimport METRIC_CONTROL, Metric, metric_add
from fastdns.api.metadata cimport Format, format_write
from fastdns.api.text cimport Text
from fastdns.api.memory cimport atomic_load64, atomic_peek8, atomic_poke8
from fastdns.api.network cimport MSG_DONTWAIT, MSG_NOSIGNAL, POLLIN, POLLOUT, Address, poll, pollfd, read, recv, send, socket_clock
from fastdns.api.rings cimport (Ring, ring_begin, ring_end, ring_take, rings_are_empty, rings_awake, rings_close, rings_may_sleep, rings_of, rings_open,
                                rings_put, rings_room, rings_stop)
from fastdns.plugins.dnstap._tap cimport (TAP_CLIENT_QUERY, TAP_CLIENT_RESPONSE, TAP_EXTRA_MAX, TAP_FORWARDER_QUERY, TAP_FORWARDER_RESPONSE, TAP_HEAD_MAX,
                                          TAP_OVERHANG, TAP_RING_LEAST, Tap, Tapped)

cdef enum:
    COMPANY = 5000                  # microseconds that the first message of a batch waits
    RUN = 262144                    # octets of one write, or of a batch for Python
    PATIENCE = 4000                 # milliseconds that a collector may take nothing
    FIELDS_MAX = 96                 # octets of a message's fields, the message itself left out

cdef enum:
    ENDED = 1
    TIMED_OUT = 2

TIME = TIMED_OUT
STOPPED = ENDED


cdef int64_t tap_clock() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_REALTIME, &now)
    return <int64_t>now.tv_sec * 1000000000 + now.tv_nsec


# ---- protobuf ----

cdef inline uint8_t *put_varint(uint8_t *at, uint64_t value) noexcept nogil:
    while value >= 0x80:
        at[0] = <uint8_t>(value | 0x80)
        at += 1
        value >>= 7
    at[0] = <uint8_t>value
    return at + 1


cdef inline uint8_t *put_long(uint8_t *at, uint32_t value) noexcept nogil:
    """A length in three octets, which is written before it is known."""
    at[0] = <uint8_t>(value | 0x80)
    at[1] = <uint8_t>(value >> 7 | 0x80)
    at[2] = <uint8_t>(value >> 14)
    return at + 3


cdef inline uint8_t *put_number(uint8_t *at, uint8_t tag, uint64_t value) noexcept nogil:
    at[0] = tag
    return put_varint(at + 1, value)


cdef inline uint8_t *put_address(uint8_t *at, uint8_t tag, const Address *address) noexcept nogil:
    cdef uint32_t n = 4 if address.family == 4 else 16
    at[0] = tag
    at[1] = <uint8_t>n
    memcpy(at + 2, address.octets, n)
    return at + 2 + n


cdef inline uint8_t *put_time(uint8_t *at, uint8_t seconds, uint8_t nanoseconds, int64_t time) noexcept nogil:
    cdef uint32_t rest = <uint32_t>(time % 1000000000)
    at = put_number(at, seconds, <uint64_t>(time // 1000000000))
    at[0] = nanoseconds                 # fixed32, little-endian
    at[1] = <uint8_t>rest
    at[2] = <uint8_t>(rest >> 8)
    at[3] = <uint8_t>(rest >> 16)
    at[4] = <uint8_t>(rest >> 24)
    return at + 5


cdef uint8_t *put_fields(uint8_t *at, const Tapped *tapped) noexcept nogil:
    """`Message` but for the raw message; at most FIELDS_MAX octets."""
    cdef const Address *address = tapped.response_address if tapped.response_address != NULL else tapped.query_address
    at = put_number(at, 0x08, tapped.type)
    if address != NULL:
        at = put_number(at, 0x10, 1 if address.family == 4 else 2)
        at = put_number(at, 0x18, 1 if tapped.udp else 2)
    if tapped.query_address != NULL:
        at = put_address(at, 0x22, tapped.query_address)
    if tapped.response_address != NULL:
        at = put_address(at, 0x2a, tapped.response_address)
    if tapped.query_address != NULL:
        at = put_number(at, 0x30, tapped.query_address.port)
    if tapped.response_address != NULL:
        at = put_number(at, 0x38, tapped.response_address.port)
    if tapped.query_time:
        at = put_time(at, 0x40, 0x4d, tapped.query_time)
    if tapped.response_time:
        at = put_time(at, 0x60, 0x6d, tapped.response_time)
    return at


# ---- the workers' side ----

cdef void tap_put(Tap *tap, Worker *worker, const Tapped *tapped) noexcept nogil:
    cdef char extra[TAP_EXTRA_MAX]
    cdef Text text
    cdef uint8_t *frame
    cdef uint8_t *at
    cdef uint8_t *begin
    cdef uint32_t raw = 0
    cdef Ring *ring
    if not atomic_peek8(&tap.wanted):
        return
    text.out, text.used, text.capacity, text.full = extra, 0, TAP_EXTRA_MAX, 0
    if tapped.reply_of != NULL:
        raw = tapped.reply_of.reply.message_size
    elif tapped.message != NULL:
        raw = tapped.length
    if raw > 65535:
        raw = 0
    if tap.extra != NULL and tapped.q != NULL:
        format_write(tap.extra, tap.extra_count, &text, tapped.q, False)
    ring = rings_room(&tap.rings, worker.id, worker.workers, 4 + tap.head_length + 4 + text.used + 4 + FIELDS_MAX + 4 + raw)
    if ring == NULL:
        metric_add(tap.dropped_cell, worker.id, 1)
        return
    frame = ring_end(ring)
    at = frame + 4
    memcpy(at, tap.head, tap.head_length)
    at += tap.head_length
    if tap.extra != NULL and tapped.q != NULL:
        at = put_number(at, 0x1a, text.used)
        memcpy(at, extra, text.used)
        at += text.used
    at[0] = 0x72                        # Dnstap.message
    begin = at + 4
    at = put_fields(begin, tapped)
    if raw:
        at[0] = 0x72 if tapped.type == TAP_CLIENT_RESPONSE or tapped.type == TAP_FORWARDER_RESPONSE else 0x52
        if tapped.reply_of != NULL:
            raw = query_write(tapped.reply_of, at + 4)
        else:
            memcpy(at + 4, tapped.message, raw)
        at = put_long(at + 1, raw) + raw
    put_long(begin - 3, <uint32_t>(at - begin))
    store32(frame, <uint32_t>(at - frame - 4))
    rings_put(&tap.rings, ring, <uint64_t>(at - frame))


# ---- the sender's side ----

cdef uint64_t run_of(const Ring *ring, uint64_t most) noexcept nogil:
    """Octets from the tail on that lie in one piece, ending with a frame; the first frame may be longer than `most`."""
    cdef uint64_t head = atomic_load64(&ring.head), start = ring.tail % ring.size, position = ring.tail, frame
    while position != head and position % ring.size >= start:
        frame = 4 + <uint64_t>load32(ring.data + position % ring.size)
        if position != ring.tail and position + frame - ring.tail > most:
            break
        position += frame
    return position - ring.tail


cdef int send_ring(Tap *tap, Ring *ring, int fd) noexcept nogil:
    """0, or -errno: what was not sent as a whole frame is dropped, the rest stays."""
    cdef uint64_t length, sent
    cdef ssize_t n
    cdef int status = 0
    while True:
        length = run_of(ring, RUN)
        if length == 0:
            return 0
        sent = 0
        while sent < length:
            n = send(fd, ring_begin(ring) + sent, length - sent, MSG_DONTWAIT | MSG_NOSIGNAL)
            if n >= 0:
                sent += <uint64_t>n
            elif errno == EAGAIN:
                status = wait_writable(fd)
                if status < 0:
                    break
            elif errno != EINTR:
                status = -errno
                break
        if sent < length:
            skip_sent(tap, ring, sent)
            return status
        ring_take(ring, length)


cdef int wait_writable(int fd) noexcept nogil:
    cdef pollfd ready
    cdef int n
    ready.fd = fd
    ready.events = POLLOUT
    n = poll(&ready, 1, PATIENCE)
    if n == 0:
        return -ETIMEDOUT
    return -errno if n < 0 and errno != EINTR else 0


cdef void skip_sent(Tap *tap, Ring *ring, uint64_t sent) noexcept nogil:
    cdef uint64_t position = 0
    while position < sent:
        position += 4 + <uint64_t>load32(ring.data + (ring.tail + position) % ring.size)
    if position > sent:
        tap.torn += 1
    ring_take(ring, position)


cdef int doze(Tap *tap, int fd, int milliseconds) noexcept nogil:
    """Waits for a message; 0, or -errno where the collector has closed the connection. fd -1: there is none."""
    cdef pollfd ready[2]
    cdef uint64_t count
    cdef char octets[256]
    cdef ssize_t n
    if rings_may_sleep(&tap.rings):
        ready[0].fd = tap.rings.bell
        ready[0].events = POLLIN
        ready[1].fd = fd                # a negative one is passed over
        ready[1].events = POLLIN
        ready[1].revents = 0
        poll(ready, 2, milliseconds)
        if ready[1].revents:
            n = recv(fd, octets, sizeof(octets), MSG_DONTWAIT)
            if n == 0:
                return -EPIPE
            if n < 0 and errno != EAGAIN and errno != EINTR:
                return -errno
    rings_awake(&tap.rings)
    read(tap.rings.bell, &count, sizeof(count))
    return 0


cdef int pump(Tap *tap, int fd, int64_t end) noexcept nogil:
    cdef Ring *ring
    cdef uint32_t i
    cdef int status
    cdef int64_t left
    while True:
        if rings_are_empty(&tap.rings):
            if atomic_peek8(&tap.rings.stopping):
                return ENDED
            left = (end - socket_clock()) // 1000000
            if left <= 0:
                return TIMED_OUT
            status = doze(tap, fd, <int>left + 1)
            if status < 0:
                return status
            if not rings_are_empty(&tap.rings):
                usleep(COMPANY)
            continue
        for i in range(WORKERS_MAX):
            ring = rings_of(&tap.rings, i)
            if ring != NULL:
                status = send_ring(tap, ring, fd)
                if status < 0:
                    return status
        if socket_clock() > end:
            return TIMED_OUT


cdef class Sender:

    def __cinit__(self, str endpoint not None, bytes identity not None, bytes version not None, Format extra, bint full, uint64_t octets):
        memset(&self.tap, 0, sizeof(Tap))
        self.tap.put = tap_put
        self.tap.full = full
        self.tap.wanted = 1
        self.endpoint = endpoint
        self.extra = extra
        self._head = delimited(0x0a, identity) + delimited(0x12, version) + b"\x78\x01"
        if len(self._head) > TAP_HEAD_MAX:
            raise ValueError(f"identity and version are longer than {TAP_HEAD_MAX} octets")
        self.tap.head = self._head
        self.tap.head_length = <uint32_t>len(self._head)
        if extra is not None:
            self.tap.extra = extra.operations
            self.tap.extra_count = extra.count
        self._metric = Metric("fastdns_dnstap_dropped_messages_total", "Messages for a dnstap collector that took too few.", "counter", ("endpoint",))
        self.tap.dropped_cell = (<Metric>self._metric).cell((endpoint,), True)
        if rings_open(&self.tap.rings, octets, TAP_RING_LEAST, TAP_OVERHANG) < 0:
            raise OSError(errno, "no eventfd")

    def __dealloc__(self):
        rings_close(&self.tap.rings)

    @property
    def address(self):
        return <uintptr_t>&self.tap

    def want(self, bint wanted):
        atomic_poke8(&self.tap.wanted, wanted)

    def pump(self, int fd, double seconds):
        cdef int status
        cdef int64_t end = socket_clock() + <int64_t>(seconds * 1e9)
        with nogil:
            status = pump(&self.tap, fd, end)
        self.count_dropped(self.tap.torn)
        self.tap.torn = 0
        return status

    def take(self, double seconds):
        cdef int64_t end = socket_clock() + <int64_t>(seconds * 1e9)
        cdef int64_t left
        cdef Ring *ring
        cdef uint64_t length, capacity = RUN
        cdef uint32_t i
        cdef Tap *tap = &self.tap
        cdef list parts = []
        while rings_are_empty(&tap.rings):
            if atomic_peek8(&tap.rings.stopping):
                return None
            left = (end - socket_clock()) // 1000000
            if left <= 0:
                return b""
            with nogil:
                doze(tap, -1, <int>left + 1)
                if not rings_are_empty(&tap.rings):
                    usleep(COMPANY)
        for i in range(WORKERS_MAX):
            ring = rings_of(&tap.rings, i)
            length = run_of(ring, capacity) if ring != NULL and capacity else 0
            if length:
                parts.append((<const char *>ring_begin(ring))[:length])
                ring_take(ring, length)
                capacity -= min(capacity, length)
        return b"".join(parts)

    def stop(self):
        rings_stop(&self.tap.rings, True)

    def count_dropped(self, uint64_t frames):
        metric_add(self.tap.dropped_cell, METRIC_CONTROL, frames)

    @property
    def dropped(self):
        return next((value for labels, value in self._metric.collect() if labels == (self.endpoint,)), 0)


def message(bytes identity not None, bytes version not None, bytes extra not None, bint udp, bytes client not None, int client_port, bytes local not None,
            int local_port, int64_t asked, int64_t answered, bytes octets not None, bint forwarder=False):
    cdef Tapped tapped
    cdef Address addresses[2]
    cdef uint8_t fields[FIELDS_MAX]
    if len(client) not in (4, 16) and not (forwarder and not client) or len(local) not in (4, 16):
        raise ValueError("not an address")
    memset(&tapped, 0, sizeof(Tapped))
    memset(addresses, 0, sizeof(addresses))
    for i, (given, port) in enumerate(((client, client_port), (local, local_port))):
        addresses[<int>i].family = 4 if len(given) == 4 else 6
        addresses[<int>i].port = <uint16_t>port
        memcpy(addresses[<int>i].octets, <const uint8_t *><bytes>given, len(given))
    if forwarder:
        tapped.type = TAP_FORWARDER_RESPONSE if answered else TAP_FORWARDER_QUERY
    else:
        tapped.type = TAP_CLIENT_RESPONSE if answered else TAP_CLIENT_QUERY
    tapped.udp = udp
    if client:
        tapped.query_address = &addresses[0]
    if not client or len(client) == len(local):     # there is one family for both
        tapped.response_address = &addresses[1]
    tapped.query_time = asked
    tapped.response_time = answered
    inner = fields[:put_fields(fields, &tapped) - fields] + delimited(0x72 if answered else 0x52, octets)
    whole = delimited(0x0a, identity) + delimited(0x12, version) + (delimited(0x1a, extra) if extra else b"") + delimited(0x72, inner) + b"\x78\x01"
    return len(whole).to_bytes(4, "big") + whole


cdef bytes delimited(int tag, bytes octets):
    cdef uint8_t length[10]
    cdef uint8_t *end = put_varint(length, <uint64_t>len(octets))
    return bytes([tag]) + (<const char *>length)[:end - length] + octets


def count_frames(bytes octets not None):
    cdef uint64_t at = 0, size = <uint64_t>len(octets)
    cdef const uint8_t *data = octets
    frames = 0
    while at + 4 <= size:
        at += 4 + <uint64_t>load32(data + at)
        frames += 1
    return frames
