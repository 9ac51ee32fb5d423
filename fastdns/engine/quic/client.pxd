"""QUIC connections to servers (RFC 9000): one over a connected UDP socket of the caller's, who has the descriptor in its worker's epoll and a timer.

The caller feeds the datagrams that come, has packets sent after that and after each write, and looks at the state. A connection is one worker's;
what connections share is read by all of them. Nothing is sent as early data (0-RTT).
"""
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from fastdns.engine.quic.quiche cimport Context, QuicTicket, quic_handshake, quiche_config, quiche_conn
from fastdns.system.random cimport Random
from fastdns.system.socket cimport sockaddr, sockaddr_in6, socklen_t
from fastdns.tls.context cimport ClientContext

cdef enum:
    QUIC_RECEIVE_SIZE = 4096            # octets of a datagram that the server may send at most
    QUIC_SEND_SIZE = 1232               # octets of a packet of ours, which every path takes

cdef enum QuicState:
    QUIC_HANDSHAKE
    QUIC_OPEN
    QUIC_CLOSED                         # by either side, or for lack of packets

cdef struct QuicClient:                 # what connections share
    Context *context                    # atomic: renewed files replace it
    quiche_config *config

cdef struct QuicClientConnection:
    quiche_conn *quic
    quic_handshake *handshake
    int fd
    sockaddr_in6 local
    sockaddr_in6 peer
    socklen_t local_length
    socklen_t peer_length

cdef class QuicContext(ClientContext):
    cdef QuicClient *quic               # lives as long as this; connections do not outlive it

# Begins a connection: its first packet waits for quic_transmit. server_name: quiche.pxd. The ticket outlives the connection. -1: out of memory.
cdef int quic_connect(QuicClientConnection *c, QuicClient *client, int fd, const sockaddr *peer, uint32_t length, const char *server_name,
                      QuicTicket *ticket, Random *random) noexcept nogil
# A datagram; its octets are decrypted in place.
cdef void quic_feed(QuicClientConnection *c, uint8_t *octets, uint32_t length) noexcept nogil
# Sends what there is, by a buffer of QUIC_SEND_SIZE octets. 0, or the socket's error; a packet that the socket has no room for is lost, and sent again later.
cdef int quic_transmit(QuicClientConnection *c, uint8_t *buffer) noexcept nogil
cdef QuicState quic_state(QuicClientConnection *c) noexcept nogil
# When quic_expire has to run, ns; 0: never.
cdef int64_t quic_deadline(QuicClientConnection *c, int64_t now) noexcept nogil
cdef void quic_expire(QuicClientConnection *c) noexcept nogil
# Closes it with a code of the application; quic_transmit tells the server.
cdef void quic_close(QuicClientConnection *c, uint64_t code, const char *reason) noexcept nogil
# Why it is closed.
cdef void quic_failure(QuicClientConnection *c, const char *server_name, char *out, size_t size) noexcept nogil
cdef void quic_free(QuicClientConnection *c) noexcept nogil
cdef void quic_forget_ticket(QuicTicket *ticket) noexcept nogil

# ---- streams, all bidirectional ones of ours: 0, 4, 8, … ----

# How many more the server allows to open.
cdef uint64_t quic_streams_left(QuicClientConnection *c) noexcept nogil
# Octets taken, fewer than there are while the server or the path allows no more; -1: the server wants none. end: nothing follows.
cdef ssize_t quic_write(QuicClientConnection *c, uint64_t stream, const uint8_t *octets, size_t size, bint end) noexcept nogil
# A stream that has something to read, each once after it came; -1: none.
cdef int64_t quic_readable(QuicClientConnection *c) noexcept nogil
# Octets read; -1: there are none now; -2: the server has reset the stream, with *code. *end: nothing follows.
cdef ssize_t quic_read(QuicClientConnection *c, uint64_t stream, uint8_t *out, size_t size, bint *end, uint64_t *code) noexcept nogil
# Nothing more is read of a stream (STOP_SENDING), and with `unsent` nothing more is written (RESET_STREAM).
cdef void quic_cancel(QuicClientConnection *c, uint64_t stream, bint unsent, uint64_t code) noexcept nogil
