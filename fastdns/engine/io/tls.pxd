"""TLS on a worker's connections: records read and written without the GIL, by the very library that Python's `ssl` uses.

Python's handshake makes an SSL object; from then on it belongs to one connection of one worker. Its functions are looked up in the library
that the module `_ssl` is linked to, so there is no second OpenSSL in the process, and contexts are Python's.
"""
from libc.stdint cimport uint8_t

cdef extern from *:
    """
    typedef struct ssl_st SSL;
    """
    ctypedef struct SSL:            # OpenSSL's own
        pass

# Gives the object octets as they came from the network: 0, or -1 when memory is out.
cdef int tls_feed(SSL *ssl, const uint8_t *octets, size_t size) noexcept nogil
# Whether octets that were fed are not all read.
cdef bint tls_pending(SSL *ssl) noexcept nogil
# The number of octets, 0 at the end of what the client sends, or -1 with errno as of `recv` and `send`: EAGAIN, else the connection is of no use.
cdef ssize_t tls_recv(SSL *ssl, uint8_t *octets, size_t size) noexcept nogil
cdef ssize_t tls_send(SSL *ssl, const uint8_t *octets, size_t size) noexcept nogil
# Sends close_notify if the socket takes it at once, and frees the object; the descriptor stays.
cdef void tls_end(SSL *ssl) noexcept nogil
# ---- with the GIL ----
# Takes the object of a Python socket whose handshake is through, ready for the functions above. The socket can then only be detached and closed.
# Not for contexts with callbacks that outlive the handshake (a keylog). RuntimeError.
cdef SSL *tls_take(sock) except NULL
