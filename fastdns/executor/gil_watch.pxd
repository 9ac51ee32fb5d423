"""Finds the Python plugin that holds the interpreter lock (GIL) in a call of C, so that no other Python plugin can answer.

A native thread looks ten times a second. While requests wait for Python plugins it has a Python thread take the GIL. If the GIL was not to be had for
500 ms, and one thread has had it at every look, the native thread logs that thread's plugin. The Python thread logs the end, and counts.

A mutex guards what the threads share. Nobody waits for it long: the native thread takes no GIL, and whoever has the GIL keeps the mutex for some instructions.
"""
from fastdns.executor.request cimport RequestQueue

# The calling thread, which has the GIL, serves the queue of a plugin until gil_watch_leave.
cdef int gil_watch_enter(object executor, str plugin, RequestQueue *queue) except -1
cdef void gil_watch_leave() noexcept
