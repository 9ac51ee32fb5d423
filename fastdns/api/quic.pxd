"""QUIC of a plugin's own connections to servers, without the GIL. A worker has the descriptor in its epoll and feeds the datagrams that come."""
# What connections share: CAs, the client's certificate, the protocol. Made by Python (engine/quic/client.pyi).
from fastdns.engine.quic.client cimport QuicClient, QuicContext
# One connection: its packets, its state, and its end.
from fastdns.engine.quic.client cimport (QUIC_CLOSED, QUIC_HANDSHAKE, QUIC_OPEN, QUIC_RECEIVE_SIZE, QUIC_SEND_SIZE, QuicClientConnection, QuicState,
                                         quic_close, quic_connect, quic_deadline, quic_expire, quic_failure, quic_feed, quic_free, quic_state,
                                         quic_transmit)
# Its streams.
from fastdns.engine.quic.client cimport quic_cancel, quic_read, quic_readable, quic_streams_left, quic_write
# Sessions that are resumed.
from fastdns.engine.quic.client cimport quic_forget_ticket
from fastdns.engine.quic.quiche cimport QuicTicket
