"""Two ends of a TLS connection, as tests see them."""
import socket

from libc.stdint cimport uint8_t, uint32_t
from fastdns.system.socket cimport MSG_DONTWAIT, recv
from fastdns.tls.context cimport ClientContext, ServerContext
from fastdns.tls.record cimport (TLS_DONE, TLS_WANTS_READ, TlsStatus, TlsStream, tls_accept, tls_connect, tls_end, tls_feed, tls_handshake,
                                 tls_protocol, tls_recv, tls_send)


cdef class Pair:
    """A client and a server over a pair of sockets."""
    cdef list sockets
    cdef TlsStream *ends[2]

    def __init__(self, ServerContext server, ClientContext client, str name):
        self.sockets = list(socket.socketpair())
        for sock in self.sockets:
            sock.setblocking(False)
        encoded = name.encode()
        self.ends[0] = tls_connect(client.native, self.sockets[0].fileno(), encoded)
        self.ends[1] = tls_accept(server.native, self.sockets[1].fileno())
        if self.ends[0] == NULL or self.ends[1] == NULL:
            raise MemoryError

    def close(self):
        for i in range(2):
            if self.ends[i] != NULL:
                tls_end(self.ends[i])
                self.ends[i] = NULL
            self.sockets[i].close()

    cdef bint feed(self, int i):
        """What the other side has sent."""
        cdef uint8_t octets[4096]
        cdef ssize_t n = recv(self.sockets[i].fileno(), octets, sizeof(octets), MSG_DONTWAIT)
        if n > 0:
            tls_feed(self.ends[i], octets, n)
        return n > 0

    def shake(self) -> tuple:
        """Whether client and server take the handshake as done."""
        cdef TlsStatus status[2]
        status[0] = status[1] = TLS_WANTS_READ
        for _ in range(20):
            for i in range(2):
                if status[i] == TLS_WANTS_READ:
                    self.feed(i)
                    status[i] = tls_handshake(self.ends[i])
        return status[0] == TLS_DONE, status[1] == TLS_DONE

    def protocol(self) -> str:
        cdef uint32_t length
        cdef const uint8_t *octets = tls_protocol(self.ends[0], &length)
        return octets[:length].decode() if length else ""

    def carry(self, bytes sent, int source) -> bytes:
        """Octets from one end (0: the client's) to the other."""
        cdef uint8_t octets[65536]
        cdef ssize_t n
        if tls_send(self.ends[source], sent, len(sent), False) != len(sent):
            raise OSError("not sent whole")
        found = b""
        while self.feed(1 - source):
            n = tls_recv(self.ends[1 - source], octets, sizeof(octets))
            while n > 0:
                found += octets[:n]
                n = tls_recv(self.ends[1 - source], octets, sizeof(octets))
        return found

    def stream(self, list messages) -> tuple:
        """Sends messages from the server as a connection does, each in records of its own, and reads where the socket is full: what came, and in how many
        receptions."""
        cdef uint8_t octets[65536]
        cdef bytearray found = bytearray()
        cdef bytes message
        cdef ssize_t n
        receptions = 0
        at, sent = 0, 0
        while at < len(messages):
            message = messages[at][sent:]
            n = tls_send(self.ends[1], message, len(message), at + 1 < len(messages))
            if n > 0:
                sent += n
            if sent == len(messages[at]):
                at, sent = at + 1, 0
            if n > 0 and at < len(messages):
                continue
            while self.feed(0):
                receptions += 1
                n = tls_recv(self.ends[0], octets, sizeof(octets))
                while n > 0:
                    found += octets[:n]
                    n = tls_recv(self.ends[0], octets, sizeof(octets))
        return bytes(found), receptions
