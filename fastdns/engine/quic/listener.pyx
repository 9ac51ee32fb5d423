"""Listening addresses of DNS over QUIC and over HTTP/3. See engine/quic/listener.pyi."""
import hashlib
import time

from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from fastdns.engine.io.datagram cimport RECEIVE_SIZE
from fastdns.engine.call cimport WorkerCall
from fastdns.engine.listener cimport Listener
from fastdns.engine.loop cimport Workers, transport_count, transports
from fastdns.engine.quic.doh3 cimport SECTION_MAX, doh3_protocol
from fastdns.engine.quic.doq cimport doq_protocol
from fastdns.engine.quic.endpoint cimport endpoint_add, endpoint_connections, endpoint_finish, endpoint_remove, quic_transport
from fastdns.engine.quic.handover cimport handover_leave, handover_tag, handover_watch, handover_withdraw
from fastdns.engine.quic.output cimport PACKET_SIZE
from fastdns.engine.quic.quiche cimport quiche
from fastdns.engine.quic.state cimport CONNECTION_WINDOW, STREAM_WINDOW, Offer, QuicGroup, QuicSocket
from fastdns.system.atomic cimport atomic_store_pointer
from fastdns.system.epoch cimport epoch_wait
from fastdns.engine.io.tcp cimport CONNECTIONS_MAX
from fastdns.engine.quic import handover, library
from fastdns.telemetry.metrics import Metric

#: Seconds between two looks whether connections have ended.
OUTLAST_POLL = 0.05

#: Streams of a connection where the directive says 0, which is quic-go's default, and at most, whatever it says.
STREAMS_DEFAULT = 100
STREAMS_MAX = 65536
#: Unidirectional streams that a client may have open: those of HTTP/3, and some without use.
UNIDIRECTIONAL_MAX = 16

#: Connections of an address where the directive says 0, and at most: as many as TCP has (engine/io/tcp.pxd).
CONNECTIONS_MOST = CONNECTIONS_MAX

LIMITS = {
    "quic": ("quic", {"max_streams": 256, "max_connections": 200, "worker_pool_size": 1024}),
    "https3": ("https3", {"max_streams": 256, "max_connections": 200}),
}

DOQ_RESPONSES = Metric("coredns_dns_quic_responses_total", "Counter of DoQ responses per server and QUIC application code.", "counter", ("server", "status"))
DOH3_RESPONSES = Metric("coredns_dns_https3_responses_total", "Counter of DoH3 responses per server and http status code.", "counter", ("server", "status"))
#: By scheme: the metric, and what it counts in the order of doq.pxd and doh3.pxd.
RESPONSES = {"quic": (DOQ_RESPONSES, ("0x0", "0x2")), "https3": (DOH3_RESPONSES, ("200", "400", "404", "431", "500"))}


def connections_limit(int wanted) -> int:
    return min(wanted or CONNECTIONS_MOST, CONNECTIONS_MOST)


cdef Offer *offer_new(str scheme, settings, uint32_t workers, uint32_t sockets) except NULL:
    """What a configuration offers. ValueError, OSError."""
    cdef Offer *offer
    cdef uint32_t i
    limits = settings.limits
    if settings.tls is None:
        raise ValueError("QUIC needs a certificate")
    offer = <Offer *>calloc(1, sizeof(Offer))
    if offer == NULL:
        raise MemoryError
    try:
        offer.context = quiche.context_new(settings.tls, b"doq" if scheme == "quic" else b"h3")
        offer.connections_max = connections_limit(limits["max_connections"])
        offer.refusal = scheme != "quic"
        if scheme == "quic":
            offer.working_max = max(1, limits["worker_pool_size"] // sockets)
        else:
            offer.http = quiche.h3_config_new(SECTION_MAX)
            if offer.http == NULL:
                raise MemoryError
        offer.streams_max = min(limits["max_streams"] or STREAMS_DEFAULT, STREAMS_MAX)
        for i in range(workers):
            offer.configs[i] = quiche.config_new(1)
            if offer.configs[i] == NULL:
                raise MemoryError
            quiche.config_set(offer.configs[i], <uint64_t>(settings.idle_timeout * 1000), offer.streams_max, CONNECTION_WINDOW, STREAM_WINDOW,
                              UNIDIRECTIONAL_MAX, RECEIVE_SIZE, PACKET_SIZE)
    except BaseException:
        offer_free(offer, workers)
        raise
    return offer


cdef void offer_free(Offer *offer, uint32_t workers) noexcept:
    cdef uint32_t i
    if offer == NULL:
        return
    if offer.http != NULL:
        quiche.h3_config_free(offer.http)
    if offer.context != NULL:
        quiche.context_free(offer.context)
    for i in range(workers):
        if offer.configs[i] != NULL:
            quiche.config_free(offer.configs[i])
    free(offer)


def check(str scheme, settings) -> None:
    offer_free(offer_new(scheme, settings, 1, 1), 1)


cdef class QuicListener(Listener):
    """See engine/quic/listener.pyi."""
    cdef QuicGroup group
    cdef str scheme

    def __init__(self, Workers workers not None, forget, uint32_t index, uint32_t generation, str scheme, str host, int port, list reuse, uint32_t count,
                 settings):
        cdef uint32_t i, which = quic_index()
        self.scheme = scheme
        Listener.__init__(self, workers, forget, index, generation, host, port, reuse, count)
        try:
            self.group.protocol = &doq_protocol if scheme == "quic" else &doh3_protocol
            self.group.listener = index
            self.group.generation = generation
            self.group.tag = handover_tag()
            self.group.name = int.from_bytes(hashlib.sha256(settings.address.encode()).digest()[:8], "little")
            self.group.count = self.count
            self.group.sockets = <QuicSocket **>self.rows[which]
            self._adopt_cells(settings.address)
            for i in range(self.count):
                self.group.sockets[i].group = &self.group
                self.group.sockets[i].index = i
            self.offer(settings)
            endpoint_add(&self.group)
            handover_watch(&workers.loops[0].base)
        except BaseException:
            self._close_sockets()
            raise

    def __dealloc__(self):
        offer_free(self.group.offer, self.workers.count if self.workers is not None else 0)

    cdef bint has(self, uint32_t which) noexcept:
        return transports[which] == &quic_transport

    def _adopt_cells(self, str address):
        cdef uint32_t i
        metric, statuses = RESPONSES[self.scheme]
        for i, status in enumerate(statuses):
            self.group.cells[i] = metric.cell((address, status))

    def offer(self, settings) -> None:
        cdef Offer *former = self.group.offer
        cdef Offer *offer = offer_new(self.scheme, settings, self.workers.count, self.count)
        atomic_store_pointer(<void **>&self.group.offer, offer)
        with nogil:
            epoch_wait()                # workers may be accepting by the former one
        offer_free(former, self.workers.count)

    def close(self) -> None:
        endpoint_remove(&self.group)
        Listener.close(self)


cdef uint32_t quic_index() noexcept:
    cdef uint32_t i
    for i in range(transport_count):
        if transports[i] == &quic_transport:
            return i
    return 0


# ---- the process that takes over ----

def offered(Workers workers not None) -> dict:
    letter = handover.offered()
    handover_watch(&workers.loops[0].base)
    return {**letter, "secrets": library.handed().hex()}


def adopt(dict letter not None) -> None:
    library.adopt(bytes.fromhex(letter["secrets"]))
    handover.adopt(letter)


def withdraw(Workers workers not None) -> None:
    handover_withdraw(&workers.loops[0].base)


def leave(listeners) -> None:
    handover_leave()
    for listener in listeners:
        if isinstance(listener, QuicListener):
            listener.pause()


def outlast(Workers workers not None, double seconds, hurried) -> None:
    cdef uint32_t i
    cdef WorkerCall *call
    deadline = time.monotonic() + seconds
    while endpoint_connections() and time.monotonic() < deadline and not hurried.wait(OUTLAST_POLL):
        pass
    call = <WorkerCall *>calloc(1, sizeof(WorkerCall))
    if call == NULL:
        raise MemoryError
    endpoint_finish(call)
    for i in range(workers.count):
        workers.call(i, call)
    free(call)
