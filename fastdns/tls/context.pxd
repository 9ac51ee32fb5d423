"""What many TLS connections share: certificate, key, whom to trust, protocols, keylog.

A context's files are read when it is made and when it is renewed; then the library's own context is replaced whole, so certificate and key change at
one moment, and connections that stand keep the one they have.
"""
from libc.stdint cimport uint8_t, uint32_t
from fastdns.tls.openssl cimport SSL, SSL_CTX

cdef struct TlsContext:             # freed with its last holder: the Context, and each service of a listening address
    uint32_t references             # atomic
    uint32_t lock                   # of `current`, held for a few instructions
    SSL_CTX *current

cdef class Context:
    cdef TlsContext *native
    cdef readonly str certificate
    cdef readonly str key
    cdef readonly str authority
    cdef readonly tuple alpn
    cdef bytes _protocols           # as TLS has them, each with its length in front
    cdef readonly list states       # of the files, from before they were first read
    cdef object __weakref__
    cdef int _begin(self, str certificate, str key, str authority, alpn) except -1
    cdef SSL_CTX *_build(self) except NULL
    cdef int _replace(self, SSL_CTX *made) except -1

cdef class ServerContext(Context):
    cdef readonly str client_auth
    cdef readonly str keylog
    cdef readonly bint strict

cdef class ClientContext(Context):
    cdef readonly bint verify
    cdef readonly bint only13

# One more holder, from any thread that knows of one that stays.
cdef void context_hold(TlsContext *context) noexcept nogil
cdef void context_release(TlsContext *context) noexcept nogil
# A connection's object, of what is current. NULL: out of memory.
cdef SSL *context_ssl(TlsContext *context) noexcept nogil
