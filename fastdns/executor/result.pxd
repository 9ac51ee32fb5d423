"""What a plugin's `serve` returned, on its way to the worker."""
from fastdns.walk.query cimport DROPPED, Verdict
from fastdns.executor.request cimport PluginQuery
from fastdns.executor.verdicts cimport Verdicts

# Puts what a plugin returned into the query's ticket, as the worker needs it, and into `verdicts` what is to be remembered. Raises what is no verdict.
cdef Verdict outcome_write(PluginQuery query, outcome, Verdicts verdicts, str plugin) except? DROPPED
# A line in the plugin's log and a count; gives the log.
cdef object outcome_report(str plugin, str text)
