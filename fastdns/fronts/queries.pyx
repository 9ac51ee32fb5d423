"""Queries of front ends in Python. The contract is in fronts/queries.pxd."""
import os

from libc.errno cimport errno
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t, int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, strchr
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.ref cimport Py_DECREF, Py_INCREF
from fastdns.system.atomic cimport atomic_exchange32, atomic_fence, atomic_load_pointer, atomic_store32, atomic_swap_pointer, atomic_take_pointer
from fastdns.walk.query cimport (AHEAD_QUERIES, LISTENERS_MAX, TRANSPORT_GRPC, TRANSPORT_HTTPS, TRANSPORT_HTTPS3, TRANSPORT_QUIC, TRANSPORT_TLS,
                                 Carrier, Worker, worker_flush)
from fastdns._mux cimport mux_worker_count, mux_workers, query_enter, query_release, query_run_all, query_streamed, query_take, query_write
from fastdns.system.socket cimport EFD_CLOEXEC, EFD_NONBLOCK, AF_INET, AF_INET6, eventfd, read, write
from fastdns.system.address cimport address_from_octets
from fastdns._wire cimport (ACCEPT, IGNORE, MESSAGE_MAX, RCODE_SERVFAIL, REJECT_QUESTION, Acceptance, Message, Name, load16, store16, wire_accept,
                            wire_reject)

from fastdns.telemetry.log import Log

cdef extern from "<arpa/inet.h>" nogil:
    int inet_pton(int family, const char *text, void *out)

cdef extern from "<net/if.h>" nogil:
    unsigned int if_nametoindex(const char *name)

cdef enum:
    OPTION_KEEPALIVE = 11

log = Log("server")

# For Python: what a front end's gate is made with.
TLS = <int>TRANSPORT_TLS
HTTPS = <int>TRANSPORT_HTTPS
HTTPS3 = <int>TRANSPORT_HTTPS3
QUIC = <int>TRANSPORT_QUIC
GRPC = <int>TRANSPORT_GRPC

cdef Front front
front.bell = -1

cdef Request *spare = NULL          # a stack through next; the loop's thread alone uses it
cdef uint32_t spare_count = 0
cdef uint32_t under_way = 0


class Rejected(Exception):
    """The message is none that the server answers (RFC 1035, RFC 8484 4.2.1, RFC 9250 4.3.3); see fronts/queries.pyi."""

    def __init__(self, reply):
        super().__init__("dns request rejected")
        self.reply = reply


# ---- on a worker ----

cdef void give_back(Request *request, Outcome outcome, Worker *worker) noexcept nogil:
    """The request is the loop's from here on."""
    request.outcome = <uint8_t>outcome
    while True:
        request.next = <Request *>atomic_load_pointer(<void **>&front.returned)
        if atomic_swap_pointer(<void **>&front.returned, request.next, request):
            break
    worker_flush(worker, &front.flushes[worker.id])


cdef void ring(Flush *flush, Worker *worker) noexcept nogil:
    cdef uint64_t one = 1
    if atomic_exchange32(&front.rung, 1) == 0:
        write(front.bell, &one, 8)


cdef uint8_t *reserve_reply(Request *request, uint32_t size) noexcept nogil:
    if size <= REPLY_SIZE:
        return request.reply_octets
    return <uint8_t *>malloc(size)


cdef void send_reply(Query *q) noexcept nogil:
    cdef Request *request = <Request *>q.connection
    request.reply = reserve_reply(request, q.reply.message_size)
    if request.reply == NULL:
        give_back(request, DROPPED_SILENTLY, q.worker)
        return
    request.reply_length = query_write(q, request.reply)
    give_back(request, REPLIED, q.worker)


cdef void no_reply(Query *q) noexcept nogil:
    give_back(<Request *>q.connection, DROPPED_SILENTLY, q.worker)


cdef void begin_transfer(Query *q) noexcept nogil:
    cdef Request *request = <Request *>q.connection
    request.query = q
    request.transferred = 0
    give_back(request, TRANSFER, q.worker)


cdef void end_transfer(Request *request, Outcome outcome, Worker *worker) noexcept nogil:
    cdef Query *q = request.query
    request.query = NULL
    q.stream.close(q.stream)
    query_streamed(q, request.transferred)
    give_back(request, outcome, worker)


cdef void on_go_on(Mail *mail, Worker *worker) noexcept nogil:
    """The next part of a transfer, as many whole messages as it holds."""
    cdef Request *request = <Request *>mail
    cdef Query *q = request.query
    cdef uint32_t used = 0
    cdef int64_t size = 1
    if not request.broken and request.reply == NULL:
        request.reply = <uint8_t *>malloc(PART_SIZE)
    if request.broken or request.reply == NULL:
        end_transfer(request, BROKEN, worker)
        return
    while PART_SIZE - used >= 2 + MESSAGE_MAX:
        size = q.stream.pull(q.stream, request.reply + used + 2, MESSAGE_MAX)
        if size <= 0:
            break
        store16(request.reply + used, <uint16_t>size)
        used += 2 + <uint32_t>size
        request.transferred += <uint32_t>size
    request.reply_length = used
    if size > 0:
        give_back(request, PART, worker)
    else:
        end_transfer(request, LAST_PART if size == 0 else BROKEN, worker)

cdef Carrier FRONT
FRONT.send = send_reply
FRONT.dropped = no_reply
FRONT.stream = begin_transfer


cdef bint is_unfit_for_quic(const Query *q) noexcept nogil:
    """RFC 9250 4.2.1 and 5.5.2: an id other than 0 and the option edns-tcp-keepalive are errors of the protocol."""
    cdef const uint8_t *option = q.message.edns.options
    cdef uint32_t left = q.message.edns.options_length, size
    if q.message.id != 0:
        return True
    if not q.message.edns.present:
        return False
    while left >= 4:
        if load16(option) == OPTION_KEEPALIVE:
            return True
        size = 4 + <uint32_t>load16(option + 2)
        if size > left:
            break
        option += size
        left -= size
    return False


cdef Query *accept_request(Request *request, Worker *worker) noexcept nogil:
    """The query in a request, its chain found; NULL when it is none, or is answered already."""
    cdef uint8_t rcode
    cdef Acceptance how
    cdef Query *q = query_take(worker)
    if q == NULL:
        give_back(request, DROPPED_SILENTLY, worker)
        return NULL
    how = wire_accept(request.packet, request.packet_length, &q.message, &q.first_name, &rcode)
    if how == ACCEPT and request.transport == TRANSPORT_QUIC and is_unfit_for_quic(q):
        how = IGNORE
    if how != ACCEPT:
        request.reply = request.reply_octets
        if how != IGNORE:
            request.reply_length = wire_reject(request.packet, &q.message, how, rcode, request.reply)
        query_release(q)
        give_back(request, IGNORED if how == IGNORE else REJECTED, worker)
        return NULL
    q.set = worker.set
    if q.set.listeners[request.listener] != request.generation or q.set.servers[request.listener] == NULL:
        query_release(q)
        give_back(request, UNSERVED, worker)
        return NULL
    q.packet = request.packet
    q.packet_length = request.packet_length
    q.transport = request.transport
    q.carrier = &FRONT
    q.connection = request
    q.listener = request.listener
    q.received = worker.now
    q.client = request.client
    q.local = request.local
    q.server = q.set.servers[request.listener]
    return q if query_enter(q) else NULL


cdef void on_requests(Mail *mail, Worker *worker) noexcept nogil:
    """Requests that were posted together, as a batch of datagrams is taken up."""
    cdef Request *request = <Request *>mail
    cdef Request *following
    cdef Query *queries[AHEAD_QUERIES]
    cdef uint32_t count
    while request != NULL:
        count = 0
        while request != NULL and count < AHEAD_QUERIES:
            following = request.next
            queries[count] = accept_request(request, worker)
            if queries[count] != NULL:
                count += 1
            request = following
        if count:
            query_run_all(queries, count)


# ---- on the loop's thread ----

cdef bint request_crowded() noexcept:
    return under_way >= REQUESTS_MAX


cdef void request_free(Request *request) noexcept:
    global spare, spare_count, under_way
    under_way -= 1
    if request.owner != NULL:
        Py_DECREF(<object>request.owner)
    if request.packet != request.packet_octets:
        free(request.packet)
    if request.reply != request.reply_octets:
        free(request.reply)
    if spare_count < REQUESTS_SPARE:
        request.next = spare
        spare = request
        spare_count += 1
    else:
        free(request)


cdef void request_go_on(Request *request) noexcept:
    cdef Worker *worker = request.query.worker
    request.mail.run = on_go_on
    worker.ops.post(worker, &request.mail)


cdef void request_break(Request *request) noexcept:
    request.broken = 1
    request_go_on(request)


cdef int address_from_pair(Address *address, tuple pair) except -1:
    cdef uint8_t octets[16]
    cdef bytes host = pair[0].encode()
    cdef const char *text = host
    cdef char *scope
    address.port = <uint16_t>pair[1]
    address.scope = 0
    if inet_pton(AF_INET, text, address.octets) == 1:
        address.family = 4
        return 0
    scope = strchr(text, b"%")
    if scope != NULL:
        address.scope = if_nametoindex(scope + 1)
        host = host[:scope - text]
        text = host
    if inet_pton(AF_INET6, text, octets) != 1:
        raise ValueError(f"no IP address: {pair[0]}")
    if len(pair) > 3 and pair[3]:
        address.scope = pair[3]
    address_from_octets(address, octets)
    return 0


cdef class Recipient:
    cdef int take(self, Request *request) except -1:
        request_free(request)
        return 0

    cdef int settle(self) except -1:
        return 0


cdef class Gate:
    """The way of one front end to the workers; see fronts/queries.pyi."""

    def __init__(self, loop, listener, uint32_t transport):
        if front.bell < 0:
            raise RuntimeError("no loop takes replies: see `answer`")
        self.loop = loop
        self.listener = listener.index
        self.generation = listener.generation
        self.transport = transport
        if self.listener >= LISTENERS_MAX:
            raise ValueError("no listener")

    def ask(self, bytes packet not None, tuple client not None, tuple local not None):
        cdef Address there
        cdef Address here
        cdef Request *request
        address_from_pair(&there, client)
        address_from_pair(&here, local)
        future = self.loop.create_future()
        if request_crowded():
            refuse(future, packet)
            return future
        request = self.make(packet, <uint32_t>len(packet), &there, &here, future, False)
        if not self.holding:
            self.post(request)
            return future
        if self.held == NULL:
            self.held = request
        else:
            self.newest.next = request
        self.newest = request
        self.held_count += 1
        if self.held_count == HELD_MAX:
            self.post_held()
        return future

    def hold(self):
        self.holding = True

    def release(self):
        self.holding = False
        self.post_held()

    cdef void post_held(self) noexcept:
        cdef Request *request = self.held
        self.held = NULL
        self.held_count = 0
        if request != NULL:
            self.post(request)

    cdef Request *make(self, const uint8_t *packet, uint32_t length, const Address *client, const Address *local, object owner, bint native) except NULL:
        global spare, spare_count, under_way
        cdef Request *request = spare
        if length > MESSAGE_MAX:
            raise ValueError("a message has at most 65,535 octets")
        if request != NULL:
            spare = request.next
            spare_count -= 1
        else:
            request = <Request *>malloc(sizeof(Request))
            if request == NULL:
                raise MemoryError
        request.packet = request.packet_octets
        if length > PACKET_SIZE:
            request.packet = <uint8_t *>malloc(length)
            if request.packet == NULL:
                free(request)
                raise MemoryError
        memcpy(request.packet, packet, length)
        request.packet_length = length
        request.reply = NULL
        request.reply_length = 0
        request.next = NULL
        request.listener = self.listener
        request.generation = self.generation
        request.transport = <uint8_t>self.transport
        request.native = native
        request.broken = 0
        request.query = NULL
        request.client = client[0]
        request.local = local[0]
        Py_INCREF(owner)
        request.owner = <PyObject *>owner
        under_way += 1
        return request

    cdef void post(self, Request *request) noexcept:
        """Workers in turn: a client with one connection may well ask more than one of them can answer."""
        global next_worker
        cdef Worker *worker
        next_worker += 1
        if next_worker >= mux_worker_count:
            next_worker = 0
        worker = mux_workers[next_worker]
        request.mail.run = on_requests
        worker.ops.post(worker, &request.mail)

cdef uint32_t next_worker = 0


cdef uint32_t request_refuse(const uint8_t *packet, uint32_t length, uint8_t *out) noexcept:
    cdef Message message
    cdef Name name
    cdef uint8_t rcode
    cdef Acceptance how = wire_accept(packet, length, &message, &name, &rcode)
    if how == IGNORE:
        return 0
    if how == ACCEPT:
        return wire_reject(packet, &message, REJECT_QUESTION, RCODE_SERVFAIL, out)
    return wire_reject(packet, &message, how, rcode, out)


cdef refuse(future, bytes packet):
    """Too many are under way."""
    cdef uint8_t out[REFUSAL_SIZE]
    cdef uint32_t length = request_refuse(packet, <uint32_t>len(packet), out)
    if length and out[3] & 0xF == RCODE_SERVFAIL:
        future.set_result(PyBytes_FromStringAndSize(<char *>out, length))
    else:
        future.set_exception(Rejected(PyBytes_FromStringAndSize(<char *>out, length) if length else None))


cdef int resolve(Request *request) except -1:
    """A future hears what came of its request."""
    future = <object>request.owner
    if future.done():               # the client has gone
        pass
    elif request.outcome == REPLIED:
        future.set_result(PyBytes_FromStringAndSize(<char *>request.reply, request.reply_length))
    elif request.outcome == IGNORED:
        future.set_exception(Rejected(None))
    elif request.outcome == REJECTED:
        future.set_exception(Rejected(PyBytes_FromStringAndSize(<char *>request.reply, request.reply_length)))
    else:
        future.set_result(None)
    return 0


def answer() -> None:
    """Resolves what workers have returned; the loop calls it when `bell` is readable."""
    cdef uint64_t count
    cdef Request *request
    cdef Request *rest
    cdef Request *oldest = NULL
    cdef Recipient recipient
    cdef list recipients = None
    read(front.bell, &count, 8)
    atomic_store32(&front.rung, 0)
    atomic_fence()                  # whoever rings from here on finds the bell at rest
    rest = <Request *>atomic_take_pointer(<void **>&front.returned)
    while rest != NULL:
        request = rest
        rest = request.next
        request.next = oldest
        oldest = request
    while oldest != NULL:
        request = oldest
        oldest = request.next
        try:
            if request.native:
                recipient = <Recipient>request.owner
                if not recipient.taking:
                    recipient.taking = True
                    if recipients is None:
                        recipients = []
                    recipients.append(recipient)
                recipient.take(request)
            elif request.outcome == TRANSFER:
                resolve(request)
                request_break(request)
            else:
                try:
                    resolve(request)
                finally:
                    request_free(request)
        except Exception as error:
            log.error(f"a reply was lost: {error!r}")
    if recipients is not None:
        for recipient in recipients:
            recipient.taking = False
            try:
                recipient.settle()
            except Exception as error:
                log.error(f"replies were lost: {error!r}")


def bell() -> int:
    """The descriptor that is readable when `answer` has something to do; opened with the first call."""
    cdef uint32_t i
    cdef int fd
    if front.bell < 0:
        fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)
        if fd < 0:
            raise OSError(errno, os.strerror(errno))
        for i in range(WORKERS_MAX):
            front.flushes[i].run = ring
        front.bell = fd
    return front.bell


def requests() -> int:
    """How many are under way in the process."""
    return under_way
