"""The executors of Python plugins. The contract is in executor/executor.pxd; plugin authors use plugin.py and query.py."""
import contextlib
import os
import sys
import threading

from libc.errno cimport errno
from libc.stdint cimport uint64_t, int64_t
from fastdns.system.atomic cimport atomic_exchange32, atomic_load32, atomic_peek8, atomic_peek32, atomic_peek64, atomic_poke8
from fastdns.system.mailbox cimport mailbox_begin_sleep, mailbox_clear, mailbox_end_sleep, mailbox_interrupt, mailbox_open, mailbox_take
from fastdns.system.socket cimport POLLIN, close, poll, pollfd, socket_clock, write
from fastdns.system.thread cimport thread_name
from fastdns.telemetry.metrics cimport METRIC_CONTROL, Metric, metric_add
from fastdns.telemetry import events
from fastdns.telemetry.log import Log
from fastdns.walk.query cimport AGAIN, ERROR_MAX, FAILED
from fastdns._wire cimport RCODE_SERVFAIL
from fastdns.executor.below cimport deliver_answer, next_handlers
from fastdns.executor.conclusion cimport error_text, query_conclude, query_error, query_finish, request_finish
from fastdns.executor.gil_watch cimport gil_watch_enter, gil_watch_leave
from fastdns.executor.hooks cimport RequestHandler
from fastdns.executor.request cimport REQUEST_ABANDONED, REQUEST_ANSWER, REQUESTS_MAX, PluginQuery, Request, request_free
from fastdns.executor.verdicts cimport flags_remember
from fastdns.executor.query import Query

cdef extern from "<string.h>" nogil:
    char *strncpy(char *out, const char *text, size_t size)

cdef int64_t HANGS_TIME = 60 * 1000000000   # ns

cdef Metric HANGS = Metric("fastdns_plugin_hangs_total", "Counter of calls of a Python plugin that took longer than its deadline.", "counter", ("plugin",))
cdef Metric REFUSING = Metric("fastdns_plugin_refusing", "Instances of a Python plugin that hang, and whose queries are answered SERVFAIL at once.", "gauge",
                              ("plugin",))
cdef Metric STUCK = Metric("fastdns_plugin_stuck_threads", "Threads of a Python plugin that hang.", "gauge", ("plugin",))
#: The name of HANGS until 0.1, without its label.
cdef Metric REPLACED = Metric("fastdns_lane_replaced_total", "Deprecated: use fastdns_plugin_hangs_total.", "counter", ())


cdef class Executor:
    """See executor/executor.pxd."""

    def __cinit__(self):
        self.queue.mailbox.wake = -1

    def __init__(self, plugin, str name, bint waits, int64_t deadline, int alarm):
        self.plugin = plugin
        self.name = name
        self.waits = waits
        self.deadline = deadline
        self.tasks = {}
        self.left = set()
        self.file = file_of(plugin.serve)
        self.problem = ""
        HANGS.cell((name,), True)
        self.stuck_cell = STUCK.cell((name,))
        self.refusing_cell = REFUSING.cell((name,))
        self.queue.alarm = alarm
        self.queue.limit.most = REQUESTS_MAX
        if mailbox_open(&self.queue.mailbox) < 0:
            raise OSError(errno, os.strerror(errno))

    def __dealloc__(self):
        if self.queue.mailbox.wake >= 0:
            close(self.queue.mailbox.wake)

    @property
    def stuck(self):
        """The number of threads left behind that have not come back."""
        return len(self.left)

    cdef int _start(self) except -1:
        """Starts a thread that serves from now on. The watchdog alone calls it, or nobody knows of the executor yet. Raises RuntimeError without threads."""
        thread = threading.Thread(target=self.run, name=f"plugin/{self.name}", daemon=True)
        self.thread = thread
        try:
            thread.start()
        except BaseException:
            self.thread = None
            raise
        return 0

    cdef int _finish(self) except -1:
        """It has no users any more: its thread ends."""
        if self.problem:
            metric_add(self.refusing_cell, METRIC_CONTROL, <uint64_t>-1)
        if self.thread is None:
            self._refuse()              # abandoned requests
        mailbox_interrupt(&self.queue.mailbox)
        return 0

    # ---- the thread ----

    def run(self):
        """Serves until the executor ends or this thread is left behind."""
        thread_name(self.name.encode("utf-8", "replace"))
        me = threading.current_thread()
        cause = "its event loop was stopped"
        try:
            gil_watch_enter(self, self.name, &self.queue)
            if self.waits:
                self._run_loop(me)
            else:
                self._run_calls(me)
        except BaseException as error:          # raised by a task of the plugin: SystemExit ends an event loop
            cause = error_text(error)
        gil_watch_leave()
        self._end_thread(me, cause)

    def _run_calls(self, me):
        cdef pollfd watched
        watched.fd = self.queue.mailbox.wake
        watched.events = POLLIN
        while self.thread is me and not self.ended:
            self._serve_taken(me)
            if self.thread is not me:
                return
            with nogil:
                if mailbox_begin_sleep(&self.queue.mailbox):
                    poll(&watched, 1, -1)
                mailbox_end_sleep(&self.queue.mailbox)
                mailbox_clear(&self.queue.mailbox)

    cdef int _end_thread(self, thread, str cause) except -1:
        """A thread ends: the executor has ended, the thread was left behind and has come back, or the plugin has ended it."""
        if thread in self.left:
            self._come_back(thread)
        elif self.ended:
            self._refuse()              # abandoned requests that nobody took
        elif self.thread is thread:
            self.thread = self.loop = self.current = None
            self.since = self.probed = 0
            self._fail(socket_clock(), f"its thread has ended: {cause}")
        # The thread may have taken a wake-up that was meant for the next one, and withdrawn its announcement that it sleeps.
        mailbox_interrupt(&self.queue.mailbox)
        return 0

    cdef Request *_next(self) noexcept:
        """The oldest request, or NULL. What was taken from the queue at once is kept here, for the next thread if this one hangs."""
        cdef Request *request
        if self.taken == NULL:
            self.taken = <Request *>mailbox_take(&self.queue.mailbox)
        request = self.taken
        if request != NULL:
            self.taken = <Request *>request.mail.item.next
        return request

    cdef int _serve_taken(self, thread) except -1:
        """Serves what waits, until nothing does or the thread is left behind."""
        cdef Request *request
        while self.thread is thread:
            request = self._next()
            if request == NULL:
                break
            try:
                self._serve(request)
            except BaseException as error:      # without memory: the query has its deadline
                Log(f"plugin/{self.name}").error(error_text(error))
        return 0

    cdef int _serve(self, Request *request) except -1:
        cdef RequestHandler handler
        cdef PluginQuery query
        if request.kind == REQUEST_ANSWER:
            deliver_answer(<PluginQuery>request.task)
            return 0
        if atomic_load32(&request.state) == REQUEST_ABANDONED:
            request_free(request)
            return 0
        # A handler is freed with the GIL held, and not while it counts a request that is not abandoned.
        handler = <RequestHandler>request.owner
        if atomic_peek32(&handler.verdicts.table.count) and not request.call and flags_remember(request.flags) and (
                handler.verdicts.holds(&request.name, request.qtype, request.qclass, &request.client)):
            request_finish(request, AGAIN)
            return 0
        query = Query.__new__(Query)
        query.request = request
        query.debug = request.debug
        query.stacktrace = request.stacktrace
        query.handler = handler
        query.forgets = atomic_peek64(&handler.verdicts.table.forgets)
        if self.waits:
            loop = self.loop
            task = loop.create_task(serve_coroutine(self, handler, query, loop))
            self.tasks[task] = query
            task.add_done_callback(self._forget)
            return 0
        self._begin(query, None)
        try:
            query_conclude(query, handler.serve(query))
        except BaseException as error:
            query_error(query, error)
        finally:
            self._end(query)
        return 0

    cdef void _begin(self, PluginQuery query, loop) noexcept:
        """The plugin's code runs from now on, on the thread that serves or on the loop of a thread that was left behind: the next hang is not that one's."""
        if self.loop is loop:
            self.current = query
            self.since = socket_clock()

    cdef void _end(self, PluginQuery query) noexcept:
        if self.current is query:       # else the thread was left behind, and both are those of the next one
            self.current = None
            self.since = 0

    # ---- coroutines ----

    def _run_loop(self, me):
        loop = new_loop()
        self.loop = loop
        loop.add_reader(self.queue.mailbox.wake, self._on_wake, me, loop)
        loop.call_soon(self._on_wake, me, loop)
        try:
            loop.run_forever()
        finally:
            loop.remove_reader(self.queue.mailbox.wake)
            import asyncio
            left = asyncio.all_tasks(loop)
            for task in left:
                task.cancel()
            if left:
                loop.run_until_complete(asyncio.wait(left, timeout=1.0))
            loop.close()

    def _on_wake(self, me, loop):
        """Serves what waits; the loop of a thread that was left behind ends."""
        self.probed = 0 if self.thread is me else self.probed
        if self.thread is not me or self.ended:
            loop.stop()
            return
        mailbox_clear(&self.queue.mailbox)
        for task, query in list(self.tasks.items()):
            if task.get_loop() is loop and (<PluginQuery>query).abandoned:
                task.cancel()
        while True:
            mailbox_end_sleep(&self.queue.mailbox)
            self._serve_taken(me)
            if self.thread is not me:
                mailbox_interrupt(&self.queue.mailbox)      # for the thread that serves now: see _end_thread
                loop.stop()
                return
            if mailbox_begin_sleep(&self.queue.mailbox):
                return

    def _forget(self, task):
        cdef PluginQuery query = self.tasks.pop(task, None)
        if query is not None and query.request != NULL and query._result is None and task.cancelled():      # before its first step
            import asyncio
            query_error(query, asyncio.CancelledError())

    # ---- hangs ----

    def under_way(self):
        """When the call that is under way began (ns, monotonic; 0: none is), and a text that says on which query and in which line."""
        cdef PluginQuery query = self.current
        if self.since == 0 or self.thread is None:
            return 0, ""
        since, thread = self.since, self.thread
        return since, f" {question_of(query)}{place_of(thread, self.file)}"

    cdef int64_t _check(self, int64_t now) except? -2:
        """The watchdog's look after a deadline has passed. When to look again (ns, monotonic); 0: at the next deadline."""
        cdef int64_t since
        cdef bint expired = atomic_exchange32(&self.queue.expired, 0) != 0
        if atomic_peek8(&self.queue.refuses):
            self._refuse()
            return 0
        if self.thread is None and not self.ended:
            self._start()
            return 0
        if self.loop is not None and expired:
            if self.probed == 0:
                self.probed = now
            self.loop.call_soon_threadsafe(self._on_wake, self.thread, self.loop)
        since = self.since or self.probed
        if since == 0 or self.ended:
            return 0
        if now - since < self.deadline:
            return since + self.deadline
        self._hang(now)
        return 0

    cdef int _hang(self, int64_t now) except -1:
        """The thread is left behind. Another one takes over, or the executor refuses.

        The thread may return at any moment and begin to sleep where the next one does. So the look of `_check` and the change of state are one step under
        the GIL: no Python code runs, and nothing that the garbage collector knows is allocated.
        """
        cdef PluginQuery query = self.current
        thread, loop = self.thread, self.loop
        self.left.add(thread)
        self.thread = self.loop = self.current = None
        self.since = self.probed = 0
        # From here on the thread may have come back.
        metric_add(self.stuck_cell, METRIC_CONTROL, 1)
        HANGS.add((self.name,))
        REPLACED.add(())
        if loop is not None:
            with contextlib.suppress(RuntimeError):         # it has just been closed
                loop.call_soon_threadsafe(self._on_wake, thread, loop)
        return self._fail(now, f"hangs {question_of(query)}{place_of(thread, self.file)}: serve has not returned for {self.deadline / 1e9:g}s; "
                               f"its thread is left behind ({len(self.left)} of at most {STUCK_MAX})")

    cdef int _fail(self, int64_t now, str cause) except -1:
        """The executor has lost its thread. The watchdog starts another one, unless that happens too often."""
        cdef uint64_t one = 1
        cdef bint often
        cdef int i
        if self.ended:
            return self._refuse()
        for i in range(HANGS_MAX - 1):
            self.hangs[i] = self.hangs[i + 1]
        self.hangs[HANGS_MAX - 1] = now
        often = self.hangs[0] != 0 and now - self.hangs[0] < HANGS_TIME
        if often or len(self.left) >= STUCK_MAX:
            self.resumes = not often
            self.problem = (f"{len(self.left)} of its threads hang: queries get SERVFAIL until one comes back" if self.resumes else
                            f"hung {HANGS_MAX} times within a minute: queries get SERVFAIL until a reload")
            metric_add(self.refusing_cell, METRIC_CONTROL, 1)
            atomic_poke8(&self.queue.refuses, 1)
        write(self.queue.alarm, &one, 8)
        log = Log(f"plugin/{self.name}")
        log.error(cause)
        if self.problem:
            log.error(self.problem)
            events.note("plugin_quarantined", self.name, self.problem)
        return 0

    cdef int _come_back(self, thread) except -1:
        """A thread that was left behind ends. Where the executor refuses until then, the watchdog starts a thread."""
        cdef uint64_t one = 1
        self.left.discard(thread)
        metric_add(self.stuck_cell, METRIC_CONTROL, <uint64_t>-1)
        if self.resumes and self.problem and not self.ended:
            self.problem = ""
            metric_add(self.refusing_cell, METRIC_CONTROL, <uint64_t>-1)
            atomic_poke8(&self.queue.refuses, 0)
            write(self.queue.alarm, &one, 8)
            Log(f"plugin/{self.name}").info("a thread that hung has come back: queries are served again")
        return 0

    cdef int _refuse(self) except -1:
        """SERVFAIL for all that waits."""
        cdef Request *request
        cdef PluginQuery query
        text = (self.problem or "the server block is gone").encode("utf-8", "replace")[:ERROR_MAX - 1]
        while self.problem or self.ended:
            request = self._next()
            if request == NULL:
                return 0
            request.rcode = RCODE_SERVFAIL
            strncpy(request.error, text, ERROR_MAX - 1)
            if request.task != NULL:        # a coroutine whose loop hangs waits for the answer from below
                query = <PluginQuery>request.task
                query._below = None
                query_finish(query, FAILED)
            else:
                request_finish(request, FAILED)
        return 0


cdef object new_loop():
    try:
        import uvloop
        return uvloop.new_event_loop()
    except ImportError:
        import asyncio
        return asyncio.new_event_loop()


cdef str question_of(PluginQuery query):
    """The subject of a call, for the log."""
    with contextlib.suppress(RuntimeError):                 # it is answered in this moment
        if query is not None:
            return f"on {query.name} {query.type} from {query.client}"
    return "outside of a query"


cdef str file_of(serve):
    """The file of a function; "" if there is none."""
    file = getattr(getattr(serve, "__code__", None), "co_filename", "")
    return file if type(file) is str else ""


cdef str place_of(thread, str file):
    """The position of a thread: `` (FILE:LINE)`` of the innermost frame in a file, else of the innermost frame; or ""."""
    frame = innermost = sys._current_frames().get(thread.ident)
    while frame is not None and frame.f_code.co_filename != file:
        frame = frame.f_back
    frame = frame or innermost
    return "" if frame is None else f" ({os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno})"


# ---- coroutines ----

async def serve_coroutine(Executor executor, RequestHandler handler, PluginQuery query, loop):
    try:
        query_conclude(query, await Steps(executor, query, loop, handler.serve(query, next_handlers(query))))
    except BaseException as error:
        query_error(query, error)


cdef class Steps:
    """A coroutine of a plugin, each step of which the watchdog knows of."""
    cdef Executor executor
    cdef PluginQuery query
    cdef object loop
    cdef object coroutine

    def __init__(self, Executor executor, PluginQuery query, loop, coroutine):
        self.executor = executor
        self.query = query
        self.loop = loop
        self.coroutine = coroutine

    def __await__(self):
        return self

    def __iter__(self):
        return self

    def __next__(self):
        return self.send(None)

    def send(self, value):
        self.executor._begin(self.query, self.loop)
        try:
            return self.coroutine.send(value)
        finally:
            self.executor._end(self.query)

    def throw(self, *error):
        self.executor._begin(self.query, self.loop)
        try:
            return self.coroutine.throw(*error)
        finally:
            self.executor._end(self.query)

    def close(self):
        self.coroutine.close()
