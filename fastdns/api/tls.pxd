"""TLS of a plugin's own connections to servers, without the GIL. A worker has the descriptor in its epoll and feeds what it reads."""
# What connections share: CAs, the client's certificate, protocols. Made by Python (tls/context.pyi).
from fastdns.tls.context cimport ClientContext, TlsContext, context_hold, context_release
# One connection: the handshake, then octets.
from fastdns.tls.record cimport (TLS_DONE, TLS_FAILED, TLS_WANTS_READ, TLS_WANTS_WRITE, TlsStatus, TlsStream, tls_connect, tls_end, tls_feed,
                                 tls_handshake, tls_pending, tls_protocol, tls_recv, tls_send)
# Sessions that are resumed, and why a handshake failed.
from fastdns.tls.client cimport TlsSession, handshake_failure, session_forget, session_keep, session_offer, session_resumed
