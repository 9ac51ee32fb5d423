"""Metadata for Python plugins: labels are computed by the query's worker, which the plugin's thread asks for them.

The functions that compute labels read the query and the scratch of its handlers, so they run on its worker alone. The plugin's thread posts a `LabelAsk`
there and waits without the GIL. The worker takes it between two batches, while the query is parked, writes the value into it, and wakes the thread.
"""
import os

from libc.errno cimport errno
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from cpython.ref cimport Py_INCREF
from fastdns._mux cimport mux_workers
from fastdns.executor.request cimport REQUEST_ABANDONED, PluginQuery
from fastdns.message.text cimport Text
from fastdns.system.atomic cimport atomic_load32
from fastdns.system.socket cimport EFD_CLOEXEC, POLLIN, close, eventfd, poll, pollfd, read, write
from fastdns.walk.metadata cimport LABEL_MAX, Label, LabelHandle, label_read
from fastdns.walk.query cimport Mail, Query, Worker

cdef enum:
    WORKER_TIME = 10000             # milliseconds after which the worker is taken to have ended

cdef enum Found:
    FOUND_UNSET
    FOUND_VALUE
    FOUND_GONE                      # the query is no longer there

cdef struct LabelAsk:
    Mail mail
    Query *query                    # the worker's
    uint32_t generation
    const Label *label
    int done                        # eventfd
    uint8_t found                   # Found
    uint32_t length
    char value[LABEL_MAX]


cdef void on_ask(Mail *mail, Worker *worker) noexcept nogil:
    cdef LabelAsk *ask = <LabelAsk *>mail
    cdef uint64_t one = 1
    cdef Text text
    if ask.query.generation != ask.generation:
        ask.found = FOUND_GONE
    else:
        text.out = ask.value
        text.used = 0
        text.capacity = LABEL_MAX
        text.full = 0
        if label_read(ask.label, ask.query, &text):
            ask.found = FOUND_VALUE
            ask.length = text.used
    write(ask.done, &one, 8)        # the last touch: the thread frees it


def read_label(PluginQuery query not None, str text not None):
    cdef LabelHandle handle
    cdef LabelAsk *ask
    cdef Worker *worker
    cdef pollfd watched
    cdef uint64_t count
    cdef int status
    query._check()
    handle = query.handler.metadata_label(text)
    if handle is None or handle.label.value == NULL:
        return None
    if atomic_load32(&query.request.state) == REQUEST_ABANDONED:
        raise RuntimeError("the query was given up: its deadline has passed")
    ask = <LabelAsk *>calloc(1, sizeof(LabelAsk))
    if ask == NULL:
        raise MemoryError
    watched.fd = ask.done = eventfd(0, EFD_CLOEXEC)
    watched.events = POLLIN
    if ask.done < 0:
        free(ask)
        raise OSError(errno, os.strerror(errno))
    ask.mail.run = on_ask
    ask.query = query.request.query
    ask.generation = query.request.generation
    ask.label = &handle.label
    worker = mux_workers[query.request.worker]
    with nogil:
        worker.ops.post(worker, &ask.mail)
        status = -1
        while status < 0:           # a signal
            status = poll(&watched, 1, WORKER_TIME)
        if status:
            read(ask.done, &count, 8)       # orders what the worker wrote before what is read here: poll alone promises nothing
    if status == 0:
        Py_INCREF(handle)           # kept for good, like the ask: a worker that still runs would use them
        raise TimeoutError("the query's worker does not run")
    try:
        if ask.found == FOUND_GONE:
            raise RuntimeError("the query was given up: its deadline has passed")
        return ask.value[:ask.length].decode("utf-8", "replace") if ask.found == FOUND_VALUE else None
    finally:
        close(ask.done)
        free(ask)


def client_address(PluginQuery query not None):
    query._check()
    return query.request.client.octets[:4 if query.request.client.family == 4 else 16]
