"""The handler: queries and replies of clients as dnstap messages."""
from libc.stdint cimport uint8_t, uint32_t, int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from fastdns.api.query cimport CHILD_MUX, NEXT, TRANSPORT_NONE, Handler, NativeHandler, Query, Stream, Verdict, handler_init, query_is_udp, query_scratch
from fastdns.api.worker cimport Worker
from fastdns.api.network cimport Address
from fastdns.plugins.dnstap._sender cimport Sender, tap_clock, tap_put
from fastdns.plugins.dnstap._tap cimport TAP_CLIENT_QUERY, TAP_CLIENT_RESPONSE, Tap, Tapped, TapType

cdef struct Scratch:
    int64_t asked                       # the wall clock, ns; 0: the query did not come by
    uint8_t streamed                    # each of its messages is logged

cdef struct TappedStream:               # around a transfer
    Stream base
    Stream *inner
    Tap *tap
    Worker *worker
    Address client
    int64_t asked


cdef inline bint is_unseen(const Handler *self) noexcept nogil:
    """A copy of the chain that looks at one query for an operator (_explain): nobody's client asked it."""
    return self.done != tell_response


cdef inline void begin(Tapped *tapped, TapType type, const Query *q, int64_t asked) noexcept nogil:
    memset(tapped, 0, sizeof(Tapped))
    tapped.type = type
    tapped.udp = query_is_udp(q)
    tapped.query_address = &q.client
    tapped.query_time = asked
    tapped.q = <Query *>q


cdef Verdict tell_query(Handler *self, Query *q) noexcept nogil:
    cdef Tap *tap = <Tap *>self.state
    cdef Scratch *scratch = <Scratch *>query_scratch(self, q)
    cdef Tapped tapped
    if is_unseen(self):
        return NEXT
    scratch.asked = tap_clock()
    begin(&tapped, TAP_CLIENT_QUERY, q, scratch.asked)
    if tap.full:
        tapped.message = q.packet
        tapped.length = q.packet_length
    tap_put(tap, q.worker, &tapped)
    return NEXT


cdef void tell_response(Handler *self, Query *q) noexcept nogil:
    """A failure that nobody wrote is the server's own affair."""
    cdef Tap *tap = <Tap *>self.state
    cdef Scratch *scratch = <Scratch *>query_scratch(self, q)
    cdef Tapped tapped
    if not q.reply.written or not scratch.asked or scratch.streamed:
        return
    begin(&tapped, TAP_CLIENT_RESPONSE, q, scratch.asked)
    tapped.response_time = tap_clock()
    # What a handler above asked for itself is not made into a message.
    if tap.full and q.transport != TRANSPORT_NONE and (q.parent == NULL or q.child_kind == CHILD_MUX):
        tapped.reply_of = q
    tap_put(tap, q.worker, &tapped)


# ---- transfers ----

cdef int64_t stream_pull(Stream *stream, uint8_t *out, uint32_t capacity) noexcept nogil:
    cdef TappedStream *self = <TappedStream *>stream.state
    cdef Tapped tapped
    cdef int64_t length = self.inner.pull(self.inner, out, capacity)
    if length > 0:
        memset(&tapped, 0, sizeof(Tapped))
        tapped.type = TAP_CLIENT_RESPONSE
        tapped.query_address = &self.client
        tapped.query_time = self.asked
        tapped.response_time = tap_clock()
        if self.tap.full:
            tapped.message = out
            tapped.length = <uint32_t>length
        tap_put(self.tap, self.worker, &tapped)
    return length


cdef void stream_close(Stream *stream) noexcept nogil:
    cdef TappedStream *self = <TappedStream *>stream.state
    self.inner.close(self.inner)
    free(self)


cdef void tell_stream(Handler *self, Query *q) noexcept nogil:
    cdef Scratch *scratch = <Scratch *>query_scratch(self, q)
    cdef TappedStream *stream
    if not scratch.asked:
        return
    stream = <TappedStream *>malloc(sizeof(TappedStream))
    if stream == NULL:
        return                          # it is logged as one message without content
    scratch.streamed = 1
    stream.inner = q.stream
    stream.tap = <Tap *>self.state
    stream.worker = q.worker
    stream.client = q.client
    stream.asked = scratch.asked
    stream.base.pull = stream_pull
    stream.base.close = stream_close
    stream.base.state = stream
    q.stream = &stream.base


cdef class DnstapHandler(NativeHandler):
    cdef readonly Sender sender
    cdef public object connection

    def __cinit__(self, *args):
        handler_init(self)
        self.handler.query = tell_query
        self.handler.done = tell_response
        self.handler.stream = tell_stream
        self.handler.scratch_size = sizeof(Scratch)

    def __init__(self, Sender sender not None, connection):
        NativeHandler.__init__(self, "dnstap")
        self.sender = sender
        self.connection = connection
        self.handler.state = &sender.tap

    cpdef close(self):
        """No worker has messages for it any more."""
        self.connection.stop()
