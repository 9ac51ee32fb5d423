"""What clients of a listening address get. The contract is in engine/service.pxd."""
from libc.stdint cimport uint32_t
from libc.stdlib cimport calloc, free
from fastdns.engine.http.http1 cimport http1_protocol
from fastdns.engine.http.session cimport http2_protocol
from fastdns.engine.io.connection cimport AddressCount, StreamProtocol, service_unref
from fastdns.engine.io.framing cimport dns_framing
from fastdns.system.atomic cimport atomic_add32
from fastdns.tls.context cimport context_hold
from fastdns.walk.query cimport TRANSPORT_GRPC, TRANSPORT_HTTPS, TRANSPORT_TLS, Transport

_TRANSPORTS = {"tls": TRANSPORT_TLS, "https": TRANSPORT_HTTPS, "grpc": TRANSPORT_GRPC}


cdef const StreamProtocol *protocol_of(int transport) noexcept:
    if transport == TRANSPORT_HTTPS:
        return &http1_protocol
    return &http2_protocol if transport == TRANSPORT_GRPC else &dns_framing


cdef class Service:
    """See engine/service.pyi."""

    def __cinit__(self, str transport, ServerContext context=None, uint32_t max_connections=0, uint32_t max_streams=0, uint32_t cells=0):
        cdef int number = _TRANSPORTS[transport]
        self.native = <StreamService *>calloc(1, sizeof(StreamService))
        if self.native == NULL:
            raise MemoryError
        self.native.references = 1
        self.native.address = <AddressCount *>calloc(1, sizeof(AddressCount))
        if self.native.address == NULL:
            raise MemoryError
        self.native.address.references = 1
        self.native.transport = <Transport>number
        self.native.protocol = protocol_of(number)
        self.native.http2 = &http2_protocol if number == TRANSPORT_HTTPS else NULL
        self.native.max_connections = max_connections
        self.native.max_streams = max_streams
        self.native.cells = cells
        self.context = context
        if context is not None:
            context_hold(context.native)
            self.native.context = context.native

    def __dealloc__(self):
        if self.native != NULL:
            service_unref(self.native)

    cdef void follow(self, Service former) noexcept:
        """Before a worker knows the service: nobody else holds its count."""
        if former is None or former is self:
            return
        free(self.native.address)
        atomic_add32(&former.native.address.references, 1)
        self.native.address = former.native.address
