"""A client's TLS over a socket. The contract is in tls/blocking.pyi."""
import os

from libc.errno cimport EAGAIN, errno
from libc.stdint cimport uint8_t, uint32_t
from libc.stdlib cimport free, malloc
from libc.string cimport strlen
from fastdns.tls.client cimport handshake_failure
from fastdns.tls.context cimport ClientContext
from fastdns.tls.record cimport (TLS_DONE, TLS_WANTS_READ, TLS_WANTS_WRITE, TlsStatus, TlsStream, tls_connect, tls_end, tls_feed, tls_handshake,
                                 tls_protocol, tls_recv, tls_send)

from fastdns.tls.context import TlsError

cdef enum:
    READ_SIZE = 65536           # octets of the network that one call takes
    FAILURE_SIZE = 512


class WantsRead(BlockingIOError):
    """See tls/blocking.pyi."""


class WantsWrite(BlockingIOError):
    """See tls/blocking.pyi."""


class HandshakeError(TlsError):
    """See tls/blocking.pyi."""


cdef class ClientStream:
    """See tls/blocking.pyi."""
    cdef TlsStream *tls
    cdef object plain
    cdef bytes name

    def __init__(self, ClientContext context not None, plain, str name not None):
        self.plain = plain
        self.name = name.encode()
        self.tls = tls_connect(context.native, plain.fileno(), self.name)
        if self.tls == NULL:
            raise MemoryError

    def __dealloc__(self):
        if self.tls != NULL:
            self.tls.failed = 1         # the descriptor may be another's by now
            tls_end(self.tls)

    cdef bint feed(self) except -1:
        """Octets of the network; False at their end."""
        cdef bytes octets = self.plain.recv(READ_SIZE)
        if octets and tls_feed(self.tls, <const uint8_t *>octets, <size_t>len(octets)) < 0:
            raise MemoryError
        return len(octets) > 0

    def handshake(self):
        cdef TlsStatus status
        cdef char text[FAILURE_SIZE]
        while True:
            with nogil:
                status = tls_handshake(self.tls)
            if status == TLS_DONE:
                return
            if status == TLS_WANTS_WRITE:
                raise WantsWrite
            if status != TLS_WANTS_READ:
                handshake_failure(self.tls, self.name, text, FAILURE_SIZE)
                raise HandshakeError(text[:strlen(text)].decode("utf-8", "replace"))
            try:
                if not self.feed():
                    raise HandshakeError("EOF")
            except BlockingIOError:
                raise WantsRead from None

    @property
    def protocol(self):
        cdef uint32_t length
        cdef const uint8_t *octets = tls_protocol(self.tls, &length)
        return octets[:length].decode("ascii", "replace") if length else ""

    def receive(self):
        cdef uint8_t *out = <uint8_t *>malloc(READ_SIZE)
        cdef size_t used = 0
        cdef ssize_t n
        cdef bint ended = False
        if out == NULL:
            raise MemoryError
        try:
            while True:
                with nogil:
                    n = tls_recv(self.tls, out + used, READ_SIZE - used)
                if n > 0:
                    used += <size_t>n
                    if used == READ_SIZE:
                        break
                    continue
                if n < 0 and errno != EAGAIN:
                    raise OSError(errno, os.strerror(errno))
                if used or n == 0 or ended:
                    break
                try:
                    ended = not self.feed()
                except BlockingIOError:
                    raise WantsRead from None
            return (<const char *>out)[:used]
        finally:
            free(out)

    def send(self, const uint8_t[::1] octets not None):
        cdef ssize_t n
        with nogil:
            n = tls_send(self.tls, &octets[0], <size_t>octets.shape[0], False)
        if n > 0:
            return n
        if n < 0 and errno == EAGAIN:
            raise WantsWrite
        raise OSError(errno if n < 0 else 32, os.strerror(errno if n < 0 else 32))

    def close(self):
        if self.tls != NULL:
            tls_end(self.tls)
            self.tls = NULL
