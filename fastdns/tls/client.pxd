"""What a client keeps of a server between connections (RFC 8446 2.2, RFC 5077), and why a handshake failed."""
from libc.stddef cimport size_t
from fastdns.tls.openssl cimport SSL_CTX, SSL_SESSION
from fastdns.tls.record cimport TlsStream

cdef struct TlsSession:             # of one server, one thread's; zeroed: none
    SSL_SESSION *session            # owned
    SSL_CTX *context                # that it is of, owned: with other CAs it is of no use

# Before the handshake: resume it. With TLS 1.3 a ticket is used once (RFC 8446 C.4).
cdef void session_offer(TlsSession *kept, TlsStream *tls) noexcept nogil
# After octets of the server have come: keep the stream's, if it can be resumed. False: not yet, or never.
cdef bint session_keep(TlsSession *kept, TlsStream *tls) noexcept nogil
cdef void session_forget(TlsSession *kept) noexcept nogil
# Whether the handshake has resumed a session.
cdef bint session_resumed(const TlsStream *tls) noexcept nogil
# Why it failed, as Go words it: "tls: failed to verify certificate: ...". server_name as in tls_connect.
cdef void handshake_failure(const TlsStream *tls, const char *server_name, char *out, size_t size) noexcept nogil
