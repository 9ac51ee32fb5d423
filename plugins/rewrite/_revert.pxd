"""How the answer of a rewritten query is made of what its rules left behind."""
from fastdns.api.query cimport Handler, Query, Verdict
from fastdns.plugins.rewrite._work cimport Work

cdef Verdict revert_reply(Handler *self, Query *q, Work *work) noexcept nogil
cdef Verdict revert_resume(Handler *self, Query *q, Work *work) noexcept nogil
