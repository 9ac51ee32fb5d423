"""Keys of session tickets (RFC 5077, RFC 8446 4.6.1): one set for all contexts of the process, and for the process that takes over from it.

A context refuses tickets of another kind of context by its session id context, not by the key.
"""
from fastdns.tls.openssl cimport EVP_CIPHER_CTX, EVP_MAC_CTX, SSL, SSL_CTX

cdef enum:
    TICKET_SECONDS = 86400          # that a ticket is good for

# Has a server's context make and take tickets. Its callbacks run on any thread. 0, or -1 when memory is out.
cdef int tickets_use(SSL_CTX *context) noexcept nogil
