"""The query and its handlers: hooks, verdicts, parking, children.

A plugin's handler is a subclass of `NativeHandler`. Its `__cinit__` calls `handler_init(self)` first, then sets the hooks of `self.handler`:

    cdef Verdict hello_query(Handler *self, Query *q) noexcept nogil:
        query_answer(q, RCODE_NOERROR, FLAG_AA)
        return ANSWERED

    cdef class Hello(NativeHandler):
        def __cinit__(self, *arguments):
            handler_init(self)
            self.handler.query = hello_query

Hooks run on a worker's thread without the GIL. They do not block, and allocate only from the query (api/reply.pxd). What a hook may read and set
is described in fastdns/walk/query.pxd, what it may call in fastdns/_mux.pxd.
"""

# The handler: its struct with the hooks, its Python object, and the check that plugin and server were built against the same headers.
from fastdns._mux cimport NativeHandler, handler_init
from fastdns.walk.query cimport (Explanation, Handler, filter_func, handler_abandon_func, handler_detach_func, handler_done_func,
                                 handler_explain_func, handler_query_func, handler_reply_func, handler_resume_func, handler_prefetch_func,
                                 handler_prefetch_next_func, handler_stream_func)

# Results of hooks.
from fastdns.walk.query cimport AGAIN, ANSWERED, DROPPED, FAILED, NEXT, PARKED, STREAM, UP, Verdict
from fastdns.walk.query cimport PREFETCH_END, PREFETCH_NEXT, PREFETCH_PASS, Prefetch

# Whether a reply is for its client alone.
from fastdns.walk.query cimport TAILORED_REPLY, TAILORED_WALK, QueryTailored
# The query, and the transport that it came by.
from fastdns.walk.query cimport (TRANSPORT_GRPC, TRANSPORT_HTTPS, TRANSPORT_HTTPS3, TRANSPORT_NONE, TRANSPORT_QUIC, TRANSPORT_TCP, TRANSPORT_TLS,
                                 TRANSPORT_UDP, Query, ServerTable, Stream, Transport, Zone)
from fastdns.walk.query cimport query_bufsize, query_do, query_is_udp, query_length, query_scratch, query_size
from fastdns.walk.query cimport transport_is_udp
# The client's trace: sets `handler.trace_context` who asks for it.
from fastdns.walk.query cimport query_trace_context
from fastdns.walk.trace cimport TRACE_NOT_SAMPLED, TRACE_SAMPLED, TRACE_UNDECIDED, TraceContext, TraceSampling
# The TLVs of the PROXY header that the client is of, if *proxyproto* keeps them.
from fastdns.walk.query cimport query_tlvs
from fastdns.proxy.tlvs cimport ProxyTlvs
# DNS cookies (RFC 7873): what *cookies* found and has the reply carry.
from fastdns.walk.query cimport COOKIE_IN_REPLY, COOKIE_OPTION, COOKIE_VALID
# Limits: handlers in a chain, octets of scratch in all, of an error's text, depth of children, milliseconds that a query may be parked.
from fastdns.walk.query cimport CHAIN_MAX, CHILD_DEPTH, ERROR_MAX, QUERY_DEADLINE, SCRATCH_MAX

# Answering and failing; EDNS options of answers.
from fastdns._mux cimport query_answer, query_fail
from fastdns.walk.finish cimport query_error, query_expire, query_option
# Whether the server will send nothing.
from fastdns.walk.placeholders cimport query_was_dropped
# Parking: the query waits and its worker goes on; `resume` is called after query_resume.
from fastdns._mux cimport query_park, query_resume
from fastdns.walk.waiting cimport query_await
# Children: questions of the handler's own, which the server or the handlers below answer.
from fastdns._mux cimport query_child, query_detached
from fastdns.walk.query cimport CHILD_CHAIN, CHILD_DETACHED, CHILD_MUX, ChildKind
