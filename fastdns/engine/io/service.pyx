"""What clients of a listening address get. The contract is in engine/io/service.pxd."""
from fastdns.walk.query cimport TRANSPORT_TLS

_TRANSPORTS = {"tls": TRANSPORT_TLS}


cdef class Service:
    """See engine/io/service.pyi."""

    def __init__(self, str transport, ServerContext context=None):
        self.native.transport = <Transport><int>_TRANSPORTS[transport]
        self.context = context
        if context is not None:
            self.native.context = context.native
