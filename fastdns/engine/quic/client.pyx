"""QUIC connections to servers. The contract is in engine/quic/client.pxd."""
import os

from libc.errno cimport EAGAIN, EINTR, EMSGSIZE, ENOBUFS, errno
from libc.stdint cimport UINT64_MAX, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset, strlen
from fastdns.engine.quic import is_available
from fastdns.engine.quic.quiche cimport ERROR_DONE, ERROR_STREAM_RESET, SHUTDOWN_READ, SHUTDOWN_WRITE, c_bool, quic_receive_info, quic_send_info, quiche
from fastdns.system.atomic cimport atomic_load_pointer, atomic_store_pointer
from fastdns.system.epoch cimport epoch_wait
from fastdns.system.random cimport random_next
from fastdns.system.socket cimport MSG_DONTWAIT, MSG_NOSIGNAL, getsockname, send

cdef enum:
    CONNECTION_WINDOW = 1048576         # octets of replies of all streams that may be under way to us
    STREAM_WINDOW = 98304               # of one stream: more than the longest message with its length
    REASON_MAX = 64                     # octets of the server's reason that are repeated
    ALERTS = 0x100                      # errors of TLS from here on (RFC 9001 4.8)
    ERRORS = 17

# RFC 9000 20.1
cdef const char *errors[ERRORS]
errors[:] = [b"NO_ERROR", b"INTERNAL_ERROR", b"CONNECTION_REFUSED", b"FLOW_CONTROL_ERROR", b"STREAM_LIMIT_ERROR", b"STREAM_STATE_ERROR",
             b"FINAL_SIZE_ERROR", b"FRAME_ENCODING_ERROR", b"TRANSPORT_PARAMETER_ERROR", b"CONNECTION_ID_LIMIT_ERROR", b"PROTOCOL_VIOLATION",
             b"INVALID_TOKEN", b"APPLICATION_ERROR", b"CRYPTO_BUFFER_EXCEEDED", b"KEY_UPDATE_ERROR", b"AEAD_LIMIT_REACHED", b"NO_VIABLE_PATH"]


# ---- what connections share ----

cdef class QuicContext(ClientContext):
    """See engine/quic/client.pyi."""

    def __cinit__(self, *args):
        self.quic = <QuicClient *>calloc(1, sizeof(QuicClient))
        if self.quic == NULL:
            raise MemoryError

    def __dealloc__(self):
        if self.quic.context != NULL:
            quiche.context_free(self.quic.context)
        if self.quic.config != NULL:
            quiche.config_free(self.quic.config)
        free(self.quic)

    def __init__(self, str certificate, str key, str authority, str protocol, double idle_timeout):
        if not is_available():
            raise ValueError("this build has no QUIC")
        self.quic.config = quiche.config_new(1)
        if self.quic.config == NULL:
            raise MemoryError
        quiche.config_set(self.quic.config, <uint64_t>(idle_timeout * 1000), 0, CONNECTION_WINDOW, STREAM_WINDOW, 0, QUIC_RECEIVE_SIZE, QUIC_SEND_SIZE)
        ClientContext.__init__(self, certificate, key, authority, (protocol,))

    def renew(self) -> None:
        cdef Context *former = self.quic.context
        cdef Context *made
        ClientContext.renew(self)       # says of files what it says for TLS
        made = quiche.client_context_new(os.fsencode(self.certificate), os.fsencode(self.key), os.fsencode(self.authority), self.alpn[0].encode())
        atomic_store_pointer(<void **>&self.quic.context, made)
        if former != NULL:
            with nogil:
                epoch_wait()            # workers may be connecting by the former one
            quiche.context_free(former)


# ---- begin and end ----

cdef int quic_connect(QuicClientConnection *c, QuicClient *client, int fd, const sockaddr *peer, uint32_t length, const char *server_name,
                      QuicTicket *ticket, Random *random) noexcept nogil:
    cdef uint32_t id[2]
    memset(c, 0, sizeof(QuicClientConnection))
    c.fd = fd
    c.local_length = sizeof(c.local)
    c.peer_length = length
    memcpy(&c.peer, peer, length)
    if getsockname(fd, <sockaddr *>&c.local, &c.local_length) < 0:
        return -1
    id[0] = random_next(random)
    id[1] = random_next(random)
    c.quic = quiche.connect(<uint8_t *>id, sizeof(id), <sockaddr *>&c.local, c.local_length, <sockaddr *>&c.peer, length, client.config,
                            <Context *>atomic_load_pointer(<void **>&client.context), server_name, ticket, &c.handshake)
    return -1 if c.quic == NULL else 0


cdef void quic_close(QuicClientConnection *c, uint64_t code, const char *reason) noexcept nogil:
    quiche.close(c.quic, True, code, <const uint8_t *>reason, strlen(reason))


cdef void quic_free(QuicClientConnection *c) noexcept nogil:
    if c.quic != NULL:
        quiche.free(c.quic)
        c.quic = NULL


cdef void quic_forget_ticket(QuicTicket *ticket) noexcept nogil:
    if ticket.session != NULL:
        quiche.ticket_forget(ticket)


# ---- packets ----

cdef void quic_feed(QuicClientConnection *c, uint8_t *octets, uint32_t length) noexcept nogil:
    """What is no packet of the connection is passed over; an error closes it."""
    cdef quic_receive_info info
    info.from_ = <sockaddr *>&c.peer
    info.from_length = c.peer_length
    info.to = <sockaddr *>&c.local
    info.to_length = c.local_length
    quiche.receive(c.quic, octets, length, &info)


cdef int quic_transmit(QuicClientConnection *c, uint8_t *buffer) noexcept nogil:
    cdef quic_send_info info
    cdef ssize_t n
    while True:
        n = quiche.send(c.quic, buffer, QUIC_SEND_SIZE, &info)
        if n <= 0:
            return 0
        if send(c.fd, buffer, <size_t>n, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 and errno != EINTR:
            return 0 if errno == EAGAIN or errno == ENOBUFS or errno == EMSGSIZE else errno


cdef QuicState quic_state(QuicClientConnection *c) noexcept nogil:
    cdef c_bool application
    cdef uint64_t code
    cdef const uint8_t *reason
    cdef size_t length
    if quiche.is_closed(c.quic) or quiche.is_draining(c.quic) or quiche.local_error(c.quic, &application, &code, &reason, &length):
        return QUIC_CLOSED
    return QUIC_OPEN if quiche.is_established(c.quic) else QUIC_HANDSHAKE


cdef int64_t quic_deadline(QuicClientConnection *c, int64_t now) noexcept nogil:
    cdef uint64_t wait = quiche.timeout(c.quic)
    return 0 if wait == UINT64_MAX else now + <int64_t>wait


cdef void quic_expire(QuicClientConnection *c) noexcept nogil:
    quiche.on_timeout(c.quic)


# ---- why it is closed ----

cdef void quic_failure(QuicClientConnection *c, const char *server_name, char *out, size_t size) noexcept nogil:
    """As quic-go words it."""
    cdef c_bool application = False
    cdef uint64_t code = 0
    cdef const uint8_t *reason = NULL
    cdef size_t length = 0
    if quiche.verify_failure(c.handshake, server_name, out, size) and quic_state(c) == QUIC_CLOSED and not quiche.is_established(c.quic):
        return
    if quiche.peer_error(c.quic, &application, &code, &reason, &length):
        describe(application, code, b"remote", reason, length, out, size)
    elif quiche.local_error(c.quic, &application, &code, &reason, &length):
        describe(application, code, b"local", reason, length, out, size)
    elif quiche.is_timed_out(c.quic):
        snprintf(out, size, b"timeout: no recent network activity")
    else:
        snprintf(out, size, b"received a stateless reset")


cdef void describe(bint application, uint64_t code, const char *side, const uint8_t *reason, size_t length, char *out, size_t size) noexcept nogil:
    cdef char text[REASON_MAX + 1]
    cdef char name[40]
    cdef uint32_t used = 0
    cdef size_t i
    for i in range(min(length, <size_t>REASON_MAX)):
        if 32 <= reason[i] < 127:
            text[used] = <char>reason[i]
            used += 1
    text[used] = 0
    if application:
        snprintf(name, sizeof(name), b"Application error 0x%llx", <unsigned long long>code)
    elif ALERTS <= code < ALERTS + 256:
        snprintf(name, sizeof(name), b"CRYPTO_ERROR 0x%x", <uint32_t>code)
        if used == 0:
            snprintf(out, size, b"%s (%s): tls: %s", name, side, quiche.alert_text(<int>(code - ALERTS)))
            return
    elif code < ERRORS:
        snprintf(name, sizeof(name), b"%s", errors[code])
    else:
        snprintf(name, sizeof(name), b"error 0x%llx", <unsigned long long>code)
    snprintf(out, size, b"%s (%s)%s%s", name, side, <const char *>(b": " if used else b""), text)


# ---- streams ----

cdef uint64_t quic_streams_left(QuicClientConnection *c) noexcept nogil:
    return quiche.streams_left(c.quic)


cdef ssize_t quic_write(QuicClientConnection *c, uint64_t stream, const uint8_t *octets, size_t size, bint end) noexcept nogil:
    cdef uint64_t code = 0
    cdef ssize_t n = quiche.stream_send(c.quic, stream, octets, size, end, &code)
    if n == ERROR_DONE:
        return 0
    return n if n >= 0 else -1


cdef int64_t quic_readable(QuicClientConnection *c) noexcept nogil:
    return quiche.readable_next(c.quic)


cdef ssize_t quic_read(QuicClientConnection *c, uint64_t stream, uint8_t *out, size_t size, bint *end, uint64_t *code) noexcept nogil:
    cdef c_bool last = False
    cdef ssize_t n = quiche.stream_receive(c.quic, stream, out, size, &last, code)
    end[0] = last
    if n == ERROR_STREAM_RESET:
        return -2
    return n if n >= 0 else -1


cdef void quic_cancel(QuicClientConnection *c, uint64_t stream, bint unsent, uint64_t code) noexcept nogil:
    quiche.stream_shutdown(c.quic, stream, SHUTDOWN_READ, code)
    if unsent:
        quiche.stream_shutdown(c.quic, stream, SHUTDOWN_WRITE, code)
