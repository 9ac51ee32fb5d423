"""Queries of front ends in Python. The contract is in fronts/queries.pxd."""
import os

from libc.errno cimport errno
from libc.stdint cimport uint8_t, uint16_t, uint32_t, int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, strchr
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.ref cimport Py_DECREF, Py_INCREF
from fastdns.system.mailbox cimport MailboxItem, mailbox_collect, mailbox_open, mailbox_push, mailbox_wake
from fastdns.walk.query cimport (PREFETCH_QUERIES, LISTENERS_MAX, TRANSPORT_GRPC, TRANSPORT_HTTPS, TRANSPORT_HTTPS3, TRANSPORT_QUIC, TRANSPORT_TLS,
                                 Carrier, Transport, Worker, worker_flush)
from fastdns._mux cimport mux_worker_count, mux_workers, query_accept, query_enter, query_run_all, query_streamed, query_take, query_write
from fastdns.system.socket cimport AF_INET, AF_INET6
from fastdns.system.address cimport address_from_octets
from fastdns._wire cimport ACCEPT, IGNORE, MESSAGE_MAX, RCODE_SERVFAIL, REJECT_QUESTION, Acceptance, Message, Name, store16, wire_accept, wire_reject

from fastdns.telemetry.log import Log

cdef extern from "<arpa/inet.h>" nogil:
    int inet_pton(int family, const char *text, void *out)

cdef extern from "<net/if.h>" nogil:
    unsigned int if_nametoindex(const char *name)

log = Log("server")

# For Python: what a front end's gate is made with.
TLS = <int>TRANSPORT_TLS
HTTPS = <int>TRANSPORT_HTTPS
HTTPS3 = <int>TRANSPORT_HTTPS3
QUIC = <int>TRANSPORT_QUIC
GRPC = <int>TRANSPORT_GRPC

cdef Front front
front.mailbox.wake = -1

cdef Request *spare = NULL          # a stack through next; the loop's thread alone uses it
cdef uint32_t spare_count = 0
cdef uint32_t under_way = 0


class Rejected(Exception):
    """The message is none that the server answers (RFC 1035, RFC 8484 4.2.1, RFC 9250 4.3.3); see fronts/queries.pyi."""

    def __init__(self, reply):
        super().__init__("dns request rejected")
        self.reply = reply


# ---- on a worker ----

cdef void give_back(Request *request, RequestResult result, Worker *worker) noexcept nogil:
    """The request is the loop's from here on."""
    request.result = <uint8_t>result
    mailbox_push(&front.mailbox, &request.mail.item)
    worker_flush(worker, &front.flushes[worker.id])


cdef void wake_loop(Flush *flush, Worker *worker) noexcept nogil:
    mailbox_wake(&front.mailbox)


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


cdef void end_transfer(Request *request, RequestResult result, Worker *worker) noexcept nogil:
    cdef Query *q = request.query
    request.query = NULL
    q.stream.close(q.stream)
    query_streamed(q, request.transferred)
    give_back(request, result, worker)


cdef void on_continue(Mail *mail, Worker *worker) noexcept nogil:
    """The next part of a transfer, as many whole messages as it holds."""
    cdef Request *request = <Request *>mail
    cdef Query *q = request.query
    cdef uint32_t used = 0
    cdef int64_t size = 1
    if not request.cancelled and request.reply == NULL:
        request.reply = <uint8_t *>malloc(PART_SIZE)
    if request.cancelled or request.reply == NULL:
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


cdef void reject_request(Query *q, Acceptance how, uint8_t rcode) noexcept nogil:
    cdef Request *request = <Request *>q.connection
    request.reply = request.reply_octets
    if how != IGNORE:
        request.reply_length = wire_reject(request.packet, &q.message, how, rcode, request.reply)
    give_back(request, IGNORED if how == IGNORE else REJECTED, q.worker)


cdef void end_unserved(Query *q) noexcept nogil:
    give_back(<Request *>q.connection, UNSERVED, q.worker)

cdef Carrier FRONT
FRONT.reject = reject_request
FRONT.unserved = end_unserved
FRONT.send = send_reply
FRONT.dropped = no_reply
FRONT.stream = begin_transfer


cdef Query *accept_request(Request *request, Worker *worker) noexcept nogil:
    """The query in a request, its chain found; NULL when it is none, or is answered already."""
    cdef Query *q = query_take(worker)
    if q == NULL:
        give_back(request, DROPPED_SILENTLY, worker)
        return NULL
    q.client = request.client
    q.local = request.local
    if query_accept(q, request.packet, request.packet_length, request.transport, request.listener, request.generation, &FRONT, request) and query_enter(q):
        return q
    return NULL


cdef void on_requests(Mail *mail, Worker *worker) noexcept nogil:
    """Requests that were posted together run as a batch, like datagrams."""
    cdef Request *request = <Request *>mail
    cdef Request *following
    cdef Query *queries[PREFETCH_QUERIES]
    cdef uint32_t count
    while request != NULL:
        count = 0
        while request != NULL and count < PREFETCH_QUERIES:
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


cdef void request_continue(Request *request) noexcept:
    cdef Worker *worker = request.query.worker
    request.mail.run = on_continue
    worker.ops.post(worker, &request.mail)


cdef void request_cancel(Request *request) noexcept:
    request.cancelled = 1
    request_continue(request)


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

    cdef int end_round(self) except -1:
        return 0


cdef class Gate:
    """The way of one front end to the workers; see fronts/queries.pyi."""

    def __init__(self, loop, listener, uint32_t transport):
        if front.mailbox.wake < 0:
            raise RuntimeError("no loop takes replies: see `deliver`")
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
        request.transport = <Transport>self.transport
        request.native = native
        request.cancelled = 0
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
    """The result of a request becomes its future's."""
    future = <object>request.owner
    if future.done():               # the client has gone
        pass
    elif request.result == REPLIED:
        future.set_result(PyBytes_FromStringAndSize(<char *>request.reply, request.reply_length))
    elif request.result == IGNORED:
        future.set_exception(Rejected(None))
    elif request.result == REJECTED:
        future.set_exception(Rejected(PyBytes_FromStringAndSize(<char *>request.reply, request.reply_length)))
    else:
        future.set_result(None)
    return 0


def deliver() -> None:
    """Delivers what workers have returned; the loop calls it when `descriptor` is readable."""
    cdef MailboxItem *item = mailbox_collect(&front.mailbox)
    cdef Request *request
    cdef Recipient recipient
    cdef list recipients = None
    while item != NULL:
        request = <Request *>item
        item = item.next
        try:
            if request.native:
                recipient = <Recipient>request.owner
                if not recipient.taking:
                    recipient.taking = True
                    if recipients is None:
                        recipients = []
                    recipients.append(recipient)
                recipient.take(request)
            elif request.result == TRANSFER:
                resolve(request)
                request_cancel(request)
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
                recipient.end_round()
            except Exception as error:
                log.error(f"replies were lost: {error!r}")


def descriptor() -> int:
    """Readable when `deliver` has something to do; opened with the first call."""
    cdef uint32_t i
    if front.mailbox.wake < 0:
        if mailbox_open(&front.mailbox) < 0:
            raise OSError(errno, os.strerror(errno))
        for i in range(WORKERS_MAX):
            front.flushes[i].run = wake_loop
    return front.mailbox.wake


def requests() -> int:
    """How many are under way in the process."""
    return under_way
