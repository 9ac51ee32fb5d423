"""From a plugin's result to the worker. The contract is in executor/conclusion.pxd."""
import os

from libc.stdint cimport uint8_t
from cpython.ref cimport Py_DECREF
from fastdns.system.atomic cimport atomic_exchange32
from fastdns.telemetry.metrics cimport Metric
from fastdns.walk.query cimport Worker
from fastdns._mux cimport mux_workers
from fastdns._wire cimport RCODE_SERVFAIL
from fastdns.executor.hooks cimport RequestHandler, on_request
from fastdns.executor.request cimport REQUEST_ABANDONED, REQUEST_POSTED, REQUEST_RESULT, request_free
from fastdns.executor.result cimport Outcome, outcome_apply, result_read, result_report
from fastdns.executor.query import PASS, Failure

cdef enum:
    FRAMES_MAX = 50                 # of a traceback in the log, the innermost
    TEXT_MAX = 1000                 # characters of an exception's text

cdef Metric PANICS = Metric("coredns_panics_total", "A metrics that counts the number of panics.", "counter")


cdef bint forked = False            # this process is a child that a plugin has forked, and no thread of it serves


def note_fork():
    global forked
    forked = True


os.register_at_fork(after_in_child=note_fork)


cdef void request_finish(Request *request, int verdict) noexcept:
    cdef Worker *worker = mux_workers[request.worker]
    request.kind = REQUEST_RESULT
    request.verdict = <uint8_t>verdict
    request.mail.run = on_request
    if atomic_exchange32(&request.state, REQUEST_POSTED) == REQUEST_ABANDONED:
        request_free(request)
    else:
        worker.ops.post(worker, &request.mail)


cdef void query_finish(PluginQuery query, Verdict verdict):
    cdef Request *request = query.request
    query.request = NULL
    if request.task != NULL:
        Py_DECREF(<object>request.task)
        request.task = NULL
    request_finish(request, verdict)


cdef int query_conclude(PluginQuery query, result) except -1:
    """Posts what a plugin returned. See query.Result."""
    cdef RequestHandler handler = query.handler
    if forked:
        os._exit(0)
    if query.request == NULL:
        return 0
    if query._below is not None:    # it did not await the answer from below, and the worker has the request until that is there
        query._result = (result,)
        return 0
    outcome = result if type(result) is Outcome else result_read(query, result, handler.name)
    if query.request == NULL:
        return 0
    if query._below is not None:    # what was read went below
        query._result = (outcome,)
        return 0
    query_finish(query, outcome_apply(query, <Outcome>outcome, handler.verdicts, handler.name))
    return 0


cdef str error_text(error):
    try:
        text = f"{type(error).__name__}: {error}"
    except BaseException:
        text = "an exception whose text raises"
    return text if len(text) <= TEXT_MAX else text[:TEXT_MAX - 1] + "…"


cdef int query_error(PluginQuery query, error) except -1:
    """An exception is SERVFAIL for its query, a line in the log and counts; with debug or stacktrace its traceback is logged too."""
    cdef RequestHandler handler = query.handler
    if forked:
        os._exit(error.code & 255 if type(error) is SystemExit and type(error.code) is int else 1)
    cancelled = type(error).__name__ == "CancelledError"      # asyncio is loaded for coroutines alone
    if cancelled and query.abandoned:
        query_conclude(query, PASS)
        return 0
    if not query.debug and not cancelled:       # CoreDNS counts what it recovers from: with debug nothing, and a cancelled context is no panic
        PANICS.add(())
    text = error_text(error)
    if not isinstance(error, Exception) and not cancelled:
        text = f"RuntimeError: {text}"
    log = result_report(handler.name, f"{text}{error_place(error)}")
    if query.debug or query.stacktrace:
        for line in error_lines(error):
            log.error(line)
    query_conclude(query, Failure(RCODE_SERVFAIL, f"plugin/{handler.name}: {text}"))
    return 0


cdef str error_place(error):
    """`` (FILE:LINE)`` of the innermost frame, or ""."""
    frame = BaseException.__traceback__.__get__(error)
    if frame is None:
        return ""
    while frame.tb_next is not None:
        frame = frame.tb_next
    return f" ({os.path.basename(frame.tb_frame.f_code.co_filename)}:{frame.tb_lineno})"


cdef list error_lines(error):
    """The traceback. Each line as one of ours: an exception's text may come from the network."""
    import traceback
    try:
        return [line for part in traceback.format_exception(error, limit=-FRAMES_MAX) for line in part.splitlines()]
    except BaseException:       # of the exception's own methods
        return ["(no traceback: the exception's text raises)"]
