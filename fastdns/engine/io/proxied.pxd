"""The PROXY header of a TCP client. It comes before anything else, a TLS handshake included, so it is read between accept and what the address offers.

Headers are looked at in the socket (MSG_PEEK) and taken out of it when they are whole. What follows a header is left for whoever reads next.
"""
from fastdns.engine.io.connection cimport OpenFunc, StreamService, TcpWorker
from fastdns.engine.io.transport cimport ListenSocket
from fastdns.proxy.policy cimport ProxyPolicy
from fastdns.system.socket cimport sockaddr_in6

# A client that `sock` has accepted, with a place of the service (NULL: DNS over TCP). `opened` takes the descriptor over, at once or when the header is
# there; until then it waits as a connection that has not sent a query, for the read timeout at most. One with a malformed header, or a header that it
# must not send, is closed.
cdef void proxied_begin(TcpWorker *tcp, ListenSocket *sock, StreamService *service, const ProxyPolicy *policy, int fd, const sockaddr_in6 *peer,
                        OpenFunc opened) noexcept nogil
