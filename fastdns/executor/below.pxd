"""Answers of the handlers below a Python plugin: ``await next()`` of a coroutine. On the executor's thread."""
from fastdns.executor.request cimport PluginQuery

# The argument ``next`` of a plugin's coroutine for a query.
cdef object next_handlers(PluginQuery query)
# The request is back with the answer.
cdef int deliver_answer(PluginQuery query) except -1
