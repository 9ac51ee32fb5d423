"""From what a plugin's `serve` returned to the request that goes back to the worker."""
from fastdns.walk.query cimport DROPPED, Verdict
from fastdns.executor.request cimport PluginQuery
from fastdns.executor.verdicts cimport Verdicts

# Puts what a plugin returned (query.Result) into the query's request, and into `verdicts` what is to be cached. Raises TypeError for what is no result,
# ValueError for a message that is none or too large.
cdef Verdict result_write(PluginQuery query, result, Verdicts verdicts, str plugin) except? DROPPED
# An error of a plugin: a line in its log, which is returned, and a count.
cdef object result_report(str plugin, str text)
