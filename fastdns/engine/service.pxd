"""What clients of a listening address get once they are accepted; see engine/service.pyi. The struct that workers read is in io/connection.pxd."""
from fastdns.engine.io.connection cimport StreamService
from fastdns.tls.context cimport ServerContext

cdef class Service:
    cdef StreamService *native          # a reference
    cdef readonly ServerContext context
    # The service counts its connections with those of the former one of its address.
    cdef void follow(self, Service former) noexcept
