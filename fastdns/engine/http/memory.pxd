"""Memory of HTTP connections: counted for each connection and its worker (connection_charge), and kept by size for the next request."""
from libc.stddef cimport size_t
from libc.stdint cimport uint32_t
from fastdns.engine.io.connection cimport TcpConnection

# Of a connection's worker. NULL: none is left, or the connection has ended.
cdef void *http_alloc(TcpConnection *connection, size_t size) noexcept nogil
cdef void *http_realloc(TcpConnection *connection, void *pointer, size_t size) noexcept nogil
# NULL is all right.
cdef void http_free(TcpConnection *connection, void *pointer) noexcept nogil
# Blocks that connections of a worker have. For tests.
cdef uint32_t http_blocks(uint32_t worker) noexcept nogil
