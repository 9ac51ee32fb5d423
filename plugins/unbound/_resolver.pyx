"""Contexts of libunbound. The contract is in _resolver.pxd."""
import os
import threading

from libc.errno cimport errno
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, strncpy
from fastdns.api.memory cimport (atomic_add32, atomic_peek32, atomic_peek8, atomic_poke8, list_append, list_container, list_first, list_init,
                                 list_remove)
from fastdns.api.names cimport Name, wire_name_text
from fastdns.api.network cimport address_network, close
from fastdns.api.random cimport hash_octets, hash_seed
from fastdns.api.query cimport query_resume
from fastdns.api.wire cimport CLASS_IN, HEADER_SIZE, RCODE_SERVFAIL, TYPE_TXT
from fastdns.api.worker cimport WORKERS_MAX, mailbox_begin_sleep, mailbox_end_sleep, mailbox_open, mailbox_post, mailbox_take, thread_name
from fastdns.plugins.unbound._events cimport loop_close, loop_open, loop_turn
from fastdns.plugins.unbound._library cimport (ub_ctx_config, ub_ctx_create_ub_event, ub_ctx_delete, ub_ctx_set_option, ub_ctx_zone_add,
                                               ub_ctx_zone_remove, ub_resolve_event, ub_strerror)
from fastdns.plugins.unbound._reason cimport reason_code
from fastdns.system.thread import lower_priority

cdef enum:
    SPARE_MAX = 64              # requests that a worker keeps for later use

cdef struct Pool:               # of a worker
    Request *first              # through Request.next
    uint32_t count

cdef Pool pools[WORKERS_MAX]


# ---- on a worker ----

cdef Request *take_request(Worker *worker) noexcept nogil:
    cdef Pool *pool = &pools[worker.id]
    cdef Request *request = pool.first
    if request == NULL:
        return <Request *>malloc(sizeof(Request))
    pool.first = request.next
    pool.count -= 1
    return request


cdef void request_give(Request *request) noexcept nogil:
    cdef Pool *pool = &pools[request.worker.id]
    if request.packet != request.octets:
        free(request.packet)
    if pool.count >= SPARE_MAX:
        free(request)
        return
    request.next = pool.first
    pool.first = request
    pool.count += 1


cdef Request *resolver_ask(Resolver *resolver, Query *q, bint *refused) noexcept nogil:
    cdef Name *name = q.name
    cdef uint64_t network = address_network(&q.client)
    cdef uint16_t client = <uint16_t>(hash_octets(<const uint8_t *>&network, sizeof(network), hash_seed) % BUCKETS)
    cdef uint16_t domain = <uint16_t>(name.hash[name.labels - 2 if name.labels > 2 else 0] % BUCKETS)
    cdef Request *request
    refused[0] = not may_enter(resolver, client, domain)
    if refused[0]:
        return NULL
    request = take_request(q.worker)
    if request == NULL:
        return NULL
    request.mail.run = on_return
    request.worker = q.worker
    request.query = q
    request.resolver = resolver
    request.abandoned = 0
    request.packet = request.octets
    request.length = 0
    request.qtype = q.qtype
    request.qclass = q.qclass
    request.security = SECURITY_NONE
    request.why[0] = 0
    request.client = client
    request.domain = domain
    memcpy(request.name, name.wire, name.length)
    atomic_add32(&resolver.count, 1)
    atomic_add32(&resolver.by_client[client], 1)
    atomic_add32(&resolver.by_domain[domain], 1)
    mailbox_post(&resolver.mailbox, &request.mail.item)
    return request


cdef inline bint may_enter(Resolver *resolver, uint16_t client, uint16_t domain) noexcept nogil:
    """False: the client, or the domain, has as many as are still free for others."""
    cdef uint32_t count = atomic_peek32(&resolver.count)
    cdef uint32_t left = PENDING_MAX - count if count < PENDING_MAX else 0
    return atomic_peek32(&resolver.by_client[client]) < left and atomic_peek32(&resolver.by_domain[domain]) < left


cdef void request_abandon(Request *request) noexcept nogil:
    request.query = NULL
    atomic_poke8(&request.abandoned, 1)


cdef void on_return(Mail *mail, Worker *worker) noexcept nogil:
    """The request is the worker's again."""
    cdef Request *request = <Request *>mail
    if request.query == NULL:
        request_give(request)
    else:
        query_resume(request.query)     # the handler takes it


# ---- on the thread ----

cdef void serve(Resolver *resolver) noexcept nogil:
    """Until `end` comes."""
    cdef MailboxItem *item
    cdef MailboxItem *following
    cdef bint ended = False
    while not ended:
        loop_turn(&resolver.loop, &resolver.mailbox, -1 if mailbox_begin_sleep(&resolver.mailbox) else 0)
        mailbox_end_sleep(&resolver.mailbox)
        item = mailbox_take(&resolver.mailbox)
        while item != NULL:
            following = item.next
            if item == &resolver.end:
                ended = True
            else:
                ask(resolver, <Request *>item)
            item = following
    end(resolver)


cdef void end(Resolver *resolver) noexcept nogil:
    """What libunbound still has goes back without an answer: nobody waits for it."""
    ub_ctx_delete(resolver.context)
    resolver.context = NULL
    while list_first(&resolver.pending) != NULL:
        fail(request_of(list_first(&resolver.pending)), REQUEST_FAILED, NULL)


cdef inline Request *request_of(ListNode *node) noexcept nogil:
    return <Request *>list_container(node, <size_t>&(<Request *>NULL).node)


cdef void leave(Request *request) noexcept nogil:
    cdef Resolver *resolver = request.resolver
    atomic_add32(&resolver.count, <uint32_t>-1)
    atomic_add32(&resolver.by_client[request.client], <uint32_t>-1)
    atomic_add32(&resolver.by_domain[request.domain], <uint32_t>-1)


cdef inline void give_back(Request *request) noexcept nogil:
    request.worker.ops.post(request.worker, &request.mail)


cdef void fail(Request *request, RequestStatus status, const char *error) noexcept nogil:
    """Of one that libunbound has, or had."""
    list_remove(&request.node)
    leave(request)
    request.status = <uint8_t>status
    request.rcode = RCODE_SERVFAIL
    request.error = error
    give_back(request)


cdef void ask(Resolver *resolver, Request *request) noexcept nogil:
    cdef char text[1024]
    cdef int error
    if atomic_peek8(&request.abandoned):
        leave(request)
        give_back(request)
        return
    list_append(&resolver.pending, &request.node)
    text[wire_name_text(request.name, text)] = 0
    # An answer that needs no server comes before this returns: the request is the worker's then.
    error = ub_resolve_event(resolver.context, text, request.qtype, request.qclass, request, on_result, NULL)
    if error:
        fail(request, REQUEST_ERROR, ub_strerror(error))


cdef void on_result(void *data, int rcode, void *packet, int length, int security, char *why_bogus, int was_ratelimited) noexcept nogil:
    """The packet is libunbound's, and is there as long as this runs. Without a message there is an rcode."""
    cdef Request *request = <Request *>data
    request.security = <uint8_t>security
    if why_bogus != NULL:
        strncpy(request.why, why_bogus, WHY_MAX - 1)
        request.why[WHY_MAX - 1] = 0
        request.reason = reason_code(why_bogus)
        request.security = SECURITY_BOGUS       # the sentinel of RFC 8509 too, which is no error of a signature
    if rcode or packet == NULL or length < HEADER_SIZE:
        request.rcode = <uint16_t>(rcode if rcode else RCODE_SERVFAIL)
        request.status = REQUEST_FAILED
    else:
        if length > PACKET_INLINE:
            request.packet = <uint8_t *>malloc(length)
            if request.packet == NULL:
                request.packet = request.octets
                fail(request, REQUEST_ERROR, b"out of memory")
                return
        memcpy(request.packet, packet, length)
        request.length = <uint32_t>length
        request.status = REQUEST_ANSWERED
    list_remove(&request.node)
    leave(request)
    give_back(request)


# ---- the control side ----

cdef void on_probe(void *data, int rcode, void *packet, int length, int security, char *why_bogus, int was_ratelimited) noexcept nogil:
    """Whatever the answer is: it has been there."""


cdef class Context:

    def __cinit__(self):
        self.resolver = <Resolver *>calloc(1, sizeof(Resolver))
        if self.resolver == NULL:
            raise MemoryError
        self.resolver.loop.epoll = self.resolver.mailbox.wake = -1
        list_init(&self.resolver.pending)
        if mailbox_open(&self.resolver.mailbox) < 0 or loop_open(&self.resolver.loop, &self.resolver.mailbox) < 0:
            raise OSError(errno, os.strerror(errno))
        self.resolver.context = ub_ctx_create_ub_event(&self.resolver.loop.base)
        if self.resolver.context == NULL:
            raise MemoryError

    def __dealloc__(self):
        """The thread does not run: it refers to the object."""
        if self.resolver == NULL:
            return
        ub_ctx_delete(self.resolver.context)
        loop_close(&self.resolver.loop)
        if self.resolver.mailbox.wake >= 0:
            close(self.resolver.mailbox.wake)
        free(self.resolver)

    cdef int _check(self, int status, str text) except -1:
        if status:
            raise ValueError(f"{text}: {ub_strerror(status).decode()}")
        return 0

    def set_option(self, str name, str value):
        self._check(ub_ctx_set_option(self.resolver.context, f"{name}:".encode(), value.encode()),
                    f'failed to set option "{name}:" with value "{value}"')

    def read_config(self, str path):
        self._check(ub_ctx_config(self.resolver.context, os.fsencode(path)), f"failed to read config file ({path})")

    def complete(self):
        # A local zone answers it, which is there for as long as it is asked: so libunbound opens all that it needs.
        cdef const char *probe = b"fastdns-opens-the-context.invalid."
        cdef int status = ub_ctx_zone_add(self.resolver.context, probe, b"static")
        said = "failed to initialise libunbound"
        if status:
            self.resolver.context = NULL    # ub_ctx_delete would call modules that are not there: its few octets stay
        self._check(status, said)
        self._check(ub_resolve_event(self.resolver.context, probe, TYPE_TXT, CLASS_IN, NULL, on_probe, NULL), said)
        self._check(ub_ctx_zone_remove(self.resolver.context, probe), said)

    def start(self):
        if self.thread is None:
            thread = threading.Thread(target=self._run, name="unbound", daemon=True)
            thread.start()
            self.thread = thread

    def _run(self):
        lower_priority(NICENESS)
        with nogil:
            thread_name(b"unbound")
            serve(self.resolver)

    def stop(self):
        if self.thread is not None:
            mailbox_post(&self.resolver.mailbox, &self.resolver.end)
            self.thread.join()
            self.thread = None

    def pending(self) -> int:
        return atomic_peek32(&self.resolver.count)
