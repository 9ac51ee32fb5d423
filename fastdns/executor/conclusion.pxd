"""From a plugin's result to the worker: what a call returned or raised ends its request. With the GIL, on the executor's thread."""
from fastdns.executor.request cimport PluginQuery, Request
from fastdns.walk.query cimport Verdict

# Has the worker go on with a query: the plugin is through with it. Frees an abandoned request instead.
cdef void request_finish(Request *request, int verdict) noexcept
cdef void query_finish(PluginQuery query, Verdict verdict)
# Posts what a plugin returned. See query.Result.
cdef int query_conclude(PluginQuery query, result) except -1
# An exception is SERVFAIL for its query, a line in the log and counts; with debug or stacktrace its traceback is logged too.
cdef int query_error(PluginQuery query, error) except -1
# Type and text of an exception in one line of at most TEXT_MAX characters, whatever its own methods do.
cdef str error_text(error)
