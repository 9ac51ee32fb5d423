"""Queries of HTTP requests. The contract is in engine/http/carrier.pxd."""
from libc.stdint cimport uint8_t, uint32_t
from fastdns.engine.http.request cimport HttpConnection, HttpRequest, http_query_ended
from fastdns.engine.http.trace cimport trace_whole
from fastdns.engine.io.connection cimport TcpConnection, connection_answered, connection_finish, connection_query
from fastdns.proxy.tlvs cimport ProxyTlvs
from fastdns.walk.query cimport Carrier, Query
from fastdns.walk.trace cimport TraceContext
from fastdns._mux cimport query_accept, query_run, query_streamed
from fastdns._wire cimport Acceptance


cdef void http_query(HttpRequest *request, const uint8_t *message, uint32_t length) noexcept nogil:
    cdef HttpConnection *connection = request.connection
    cdef TcpConnection *base = &connection.base
    cdef Query *q
    q = connection_query(base)
    if q == NULL:
        if not base.broken:
            connection.service.fail(request)
        return
    request.under_way = 1
    if query_accept(q, message, length, base.transport, base.listener, base.generation, &CARRIER, request):
        base.outstanding += 1
        query_run(q)


cdef void reject_request(Query *q, Acceptance how, uint8_t rcode) noexcept nogil:
    cdef HttpRequest *request = <HttpRequest *>q.connection
    request.under_way = 0
    request.connection.service.reject(request, q)


cdef void end_unserved(Query *q) noexcept nogil:
    cdef HttpRequest *request = <HttpRequest *>q.connection
    request.under_way = 0
    connection_finish(&request.connection.base)
    request.connection.service.fail(request)


cdef inline void end_query(Query *q, bint replied) noexcept nogil:
    cdef HttpRequest *request = <HttpRequest *>q.connection
    cdef HttpConnection *connection = request.connection
    if http_query_ended(request):
        connection.service.reply(request, q, replied)
    connection_answered(&connection.base)


cdef void send_reply(Query *q) noexcept nogil:
    end_query(q, True)


cdef void no_reply(Query *q) noexcept nogil:
    end_query(q, False)


cdef void refuse_stream(Query *q) noexcept nogil:
    """Transfers are for TCP and TLS."""
    q.stream.close(q.stream)
    no_reply(q)
    query_streamed(q, 0)


cdef const TraceContext *trace_context(const Query *q) noexcept nogil:
    return trace_whole(&(<const HttpRequest *>q.connection).trace)


cdef const ProxyTlvs *client_tlvs(const Query *q) noexcept nogil:
    return (<const HttpRequest *>q.connection).connection.base.tlvs


cdef Carrier CARRIER
CARRIER.reject = reject_request
CARRIER.unserved = end_unserved
CARRIER.send = send_reply
CARRIER.dropped = no_reply
CARRIER.stream = refuse_stream
CARRIER.trace_context = trace_context
CARRIER.tlvs = client_tlvs
