"""The executor of a Python plugin: a queue of requests, and the thread that calls the plugin for each.

Every plugin object has one, so that a plugin that sleeps or hangs holds up no other one. A plugin whose `serve` is a coroutine function runs on an event
loop of that thread. A call that takes longer than the plugin's deadline is a hang: its thread is left behind, and another one goes on with the queue.
After HANGS_MAX hangs within HANGS_TIME the executor refuses: workers answer SERVFAIL at once, until a reload makes another executor.
"""
from libc.stdint cimport uint32_t, int64_t
from fastdns.executor.request cimport PluginQuery, Request, RequestQueue

cdef enum:
    HANGS_MAX = 3
    STUCK_MAX = 3                   # threads of one executor that are left behind

cdef class Executor:
    cdef RequestQueue queue
    cdef readonly str name          # of the plugin
    cdef readonly object plugin
    cdef str file                   # of the plugin's `serve`, "" if unknown
    cdef readonly bint waits        # `serve` is a coroutine function
    cdef readonly int64_t deadline  # ns
    cdef object __weakref__
    # ---- under the GIL ----
    cdef uint32_t users             # handlers
    cdef Request *taken             # of the queue, oldest first
    cdef object thread              # that serves; another one than the running one: that is left behind
    cdef object loop                # of `thread`, where `waits`
    cdef dict tasks                 # asyncio task -> PluginQuery, of all loops
    cdef PluginQuery current        # that the plugin is called for, in `thread`
    cdef int64_t since              # ns, monotonic: the call began; 0: none is under way
    cdef int64_t probed             # ns, monotonic: the watchdog asked the loop for a sign of life; 0: it has given one
    cdef int64_t hangs[HANGS_MAX]   # ns, monotonic: times of the last hangs, the oldest first; 0: there was none
    cdef set left                   # threads left behind that have not come back
    cdef readonly str problem       # why the executor refuses, "" while it does not
    cdef uint32_t stuck_cell        # of metrics
    cdef uint32_t refusing_cell
    cdef bint resumes               # it refuses only until a stuck thread comes back
    cdef bint ended
    cdef int _start(self) except -1
    cdef int _finish(self) except -1
    cdef Request *_next(self) noexcept
    cdef int _refuse(self) except -1
    cdef int64_t _check(self, int64_t now) except? -2
    cdef int _hang(self, int64_t now) except -1
    cdef int _fail(self, int64_t now, str cause) except -1
    cdef int _end_thread(self, thread, str cause) except -1
    cdef int _come_back(self, thread) except -1
    cdef int _serve(self, Request *request) except -1
    cdef int _serve_taken(self, thread) except -1
    cdef void _begin(self, PluginQuery query, loop) noexcept
    cdef void _end(self, PluginQuery query) noexcept
