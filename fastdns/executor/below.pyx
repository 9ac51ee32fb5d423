"""Answers of the handlers below a Python plugin. The contract is in executor/below.pxd."""
from libc.stdint cimport uint16_t
from cpython.ref cimport Py_INCREF
from fastdns.system.atomic cimport atomic_exchange32, atomic_store32
from fastdns.walk.query cimport Worker
from fastdns._mux cimport mux_workers
from fastdns._wire cimport wire_name_copy
from fastdns._wire import name_wire
from fastdns.executor.conclusion cimport query_conclude, query_error
from fastdns.executor.hooks cimport on_request
from fastdns.executor.request cimport REQUEST_ABANDONED, REQUEST_NEXT, REQUEST_POSTED, Request
from fastdns.executor.query import Answer


class NextHandlers:
    """The argument ``next`` of ``async def serve(self, query, next)``: see plugin.Next."""

    __slots__ = ("_query",)

    def __init__(self, query):
        self._query = query

    async def __call__(self, query=None, *, name=None, qtype=None):
        return await ask_below(self._query, name, qtype)


cdef object next_handlers(PluginQuery query):
    return NextHandlers(query)


def ask_below(PluginQuery query, name, qtype):
    """A future for what the handlers below answer. Raises RuntimeError for a query that is answered, or below already; ValueError for no name."""
    cdef Request *request
    cdef Worker *worker
    cdef uint16_t type = 0
    cdef bytes wire
    import asyncio
    future = asyncio.get_running_loop().create_future()
    wire = name_wire(name) if name is not None else query.name_wire
    type = query.qtype if qtype is None else qtype
    asked = (query.name_wire, query.qtype)
    # From here on no other code runs, of which some may answer the query or send it below: another thread of the plugin, or a destructor.
    query._check()
    if query._below is not None:
        raise RuntimeError("the query is below already: await one next() after the other")
    request = query.request
    query._asked = asked
    wire_name_copy(&request.name, wire, <int>len(wire))
    request.qtype = type
    request.kind = REQUEST_NEXT
    request.mail.run = on_request
    if request.task == NULL:
        Py_INCREF(query)
        request.task = <void *>query
    query._below = future
    if atomic_exchange32(&request.state, REQUEST_POSTED) == REQUEST_ABANDONED:
        atomic_store32(&request.state, REQUEST_ABANDONED)
        query._below = None
        restore_question(query)
        future.cancel()
        return future
    worker = mux_workers[request.worker]
    worker.ops.post(worker, &request.mail)
    return future


cdef int restore_question(PluginQuery query) except -1:
    """The query is its own again, whatever the handlers below were asked."""
    cdef bytes asked
    asked, query.request.qtype = query._asked
    wire_name_copy(&query.request.name, asked, <int>len(asked))
    return 0


cdef int deliver_answer(PluginQuery query) except -1:
    cdef Request *request = query.request
    future, query._below = query._below, None
    restore_question(query)
    if query._result is not None:
        result, query._result = query._result[0], None
        if not future.done():
            future.cancel()
        try:
            query_conclude(query, result)
        except BaseException as error:
            query_error(query, error)
        return 0
    if query.abandoned:
        if not future.done() and not future.get_loop().is_closed():
            future.get_loop().call_soon_threadsafe(future.cancel)
        return 0
    message = request.message[:request.message_length] if request.answered else None
    if future.get_loop().is_closed():                                       # of a thread that was left behind and has come back
        query_error(query, RuntimeError("the event loop of the query has ended"))
        return 0
    answer = Answer(message, request.rcode, (<bytes>request.error).decode("utf-8", "replace"))
    future.get_loop().call_soon_threadsafe(set_answer, future, answer)      # that of a thread that was left behind, perhaps
    return 0


def set_answer(future, answer):
    if not future.done():
        future.set_result(answer)
