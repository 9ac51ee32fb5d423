"""The native handler of ACME's DNS-01 challenges (RFC 8555 8.4): one look-up for each TXT question."""
from fastdns.api.query cimport ANSWERED, NEXT, Handler, NativeHandler, Query, Verdict, handler_init, query_answer
from fastdns.api.records cimport Index, IndexCore, IndexNode, RRset, index_exact, node_rrset, reply_add_rrset
from fastdns.api.reply cimport SECTION_ANSWER
from fastdns.api.wire cimport CLASS_IN, FLAG_AA, RCODE_NOERROR, TYPE_TXT


cdef Verdict challenge_query(Handler *self, Query *q) noexcept nogil:
    cdef const IndexNode *node
    cdef const RRset *rrset
    if q.qtype != TYPE_TXT or q.qclass != CLASS_IN:
        return NEXT
    node = index_exact(<const IndexCore *>self.state, q.name.lower, q.name.length, q.name.hash[0])
    rrset = node_rrset(node, TYPE_TXT) if node != NULL else NULL
    if rrset == NULL:
        return NEXT
    query_answer(q, RCODE_NOERROR, FLAG_AA)
    reply_add_rrset(&q.reply, SECTION_ANSWER, q.name.wire, q.name.length, node, rrset)
    return ANSWERED


cdef class ChallengeHandler(NativeHandler):
    cdef Index index                # keeps what `state` points to

    def __init__(self, str name, Index index not None):
        handler_init(self)
        NativeHandler.__init__(self, name)
        self.index = index
        self.handler.state = <void *>index.core
        self.handler.query = challenge_query
