"""Finds the Python plugin that holds the interpreter lock. The contract is in executor/gil_watch.pxd."""
import os
import threading

from libc.errno cimport errno
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free
from libc.string cimport strncpy
from cpython.pystate cimport PyThreadState, PyThreadState_Get
from fastdns.system.atomic cimport atomic_peek32
from fastdns.system.socket cimport EFD_CLOEXEC, close, eventfd, read, socket_clock, write
from fastdns.system.thread cimport thread_name, thread_start
from fastdns.telemetry.log import Log
from fastdns.telemetry.log_line cimport LOG_WARNING, log_put
from fastdns.telemetry.metrics cimport METRIC_CONTROL, Metric

cdef extern from * nogil:
    """
    #include <pthread.h>
    #include <time.h>

    static pthread_mutex_t gil_watch_mutex = PTHREAD_MUTEX_INITIALIZER;
    static pthread_cond_t gil_watch_entered = PTHREAD_COND_INITIALIZER;

    static void gil_watch_lock(void) { pthread_mutex_lock(&gil_watch_mutex); }
    static void gil_watch_unlock(void) { pthread_mutex_unlock(&gil_watch_mutex); }
    static void gil_watch_wait(void) { pthread_cond_wait(&gil_watch_entered, &gil_watch_mutex); }
    static void gil_watch_wake(void) { pthread_cond_signal(&gil_watch_entered); }

    static void gil_watch_sleep(long ns) {
        struct timespec time = {.tv_sec = 0, .tv_nsec = ns};
        nanosleep(&time, NULL);
    }

    /* The state of the thread that has the GIL. From 3.12 on CPython tells that to nobody: NULL. */
    static PyThreadState *gil_watch_holder(void) {
    #if PY_VERSION_HEX < 0x030C0000
        return _PyThreadState_UncheckedGet();
    #else
        return NULL;
    #endif
    }

    static int gil_watch_knows(void) { return PY_VERSION_HEX < 0x030C0000; }

    /* The identifier of a thread that still is there, or 0. With the GIL. */
    static unsigned long gil_watch_ident(PyThreadState *state) {
        PyThreadState *other = PyInterpreterState_ThreadHead(PyInterpreterState_Get());
        while (other && other != state)
            other = PyThreadState_Next(other);
        return other ? other->thread_id : 0;
    }
    """
    void gil_watch_lock() noexcept
    void gil_watch_unlock() noexcept
    void gil_watch_wait() noexcept
    void gil_watch_wake() noexcept
    void gil_watch_sleep(long ns) noexcept
    PyThreadState *gil_watch_holder() noexcept
    bint gil_watch_knows() noexcept
    unsigned long gil_watch_ident(PyThreadState *state) noexcept

cdef enum:
    LOOK = 100000000                # ns between two looks
    HELD_LOOKS = 5                  # looks at which the GIL was not to be had
    PLUGIN_MAX = 64                 # octets of a plugin's name

#: ns that a plugin may have the GIL before the log names it.
HELD = LOOK * HELD_LOOKS

cdef struct Serving:                # a thread that serves a plugin
    Serving *next
    PyThreadState *state            # of the thread; compared, not followed
    RequestQueue *queue             # of the executor, which the thread keeps
    char plugin[PLUGIN_MAX]

#: State of each of these threads -> (executor, plugin's name). With the GIL.
cdef dict threads = {}

# ---- under the mutex ----
cdef Serving *serving               # of all threads that serve a plugin
cdef bint started
cdef int bell                       # eventfd that wakes the Python thread
cdef int64_t asked                  # ns, monotonic: the Python thread was told to take the GIL; 0: it has had it since
cdef uint32_t looks                 # since then, that found the same holder
cdef PyThreadState *holder          # that has had the GIL at each of the last `looks`
cdef int64_t held                   # ns, monotonic: the first of these
cdef bint reported

cdef Metric HOLDS = Metric("fastdns_plugin_lock_holds_total", "Counter of times that a Python plugin held the interpreter lock for more than 500 ms.",
                           "counter", ("plugin",))
cdef Metric HOLD_SECONDS = Metric("fastdns_plugin_lock_held_seconds_total", "Seconds of these, in which no other Python plugin could answer.",
                                  "counter", ("plugin",), scale=1e9)


cdef int gil_watch_enter(object executor, str plugin, RequestQueue *queue) except -1:
    try:
        enter(executor, plugin, queue)
    except Exception as error:      # no memory, no thread: the plugin is served all the same
        Log(f"plugin/{plugin}").warning(f"calls that hold the interpreter lock are not looked for: {type(error).__name__}: {error}")
    return 0


cdef int enter(object executor, str plugin, RequestQueue *queue) except -1:
    global serving
    cdef Serving *entry
    cdef bytes name = plugin.encode("utf-8", "replace")
    start_threads()
    HOLDS.cell((plugin,), True)
    entry = <Serving *>calloc(1, sizeof(Serving))
    if entry == NULL:
        raise MemoryError
    entry.state = PyThreadState_Get()
    entry.queue = queue
    strncpy(entry.plugin, name, PLUGIN_MAX - 1)
    threads[<size_t>entry.state] = (executor, plugin)
    gil_watch_lock()
    entry.next = serving
    serving = entry
    gil_watch_wake()
    gil_watch_unlock()
    return 0


cdef void gil_watch_leave() noexcept:
    cdef PyThreadState *state = PyThreadState_Get()
    cdef Serving **link = &serving
    cdef Serving *entry
    gil_watch_lock()
    while link[0] != NULL and link[0].state != state:
        link = &link[0].next
    entry = link[0]
    if entry != NULL:
        link[0] = entry.next
    gil_watch_unlock()
    free(entry)
    threads.pop(<size_t>state, None)


cdef int start_threads() except -1:
    """With the first plugin. OSError without descriptors, RuntimeError without threads: the next thread of a plugin tries again."""
    global started, bell
    if started:
        return 0
    descriptor = eventfd(0, EFD_CLOEXEC)
    if descriptor < 0:
        raise OSError(errno, os.strerror(errno))
    bell = descriptor
    started = True              # before the GIL is given away
    try:
        threading.Thread(target=take_gil, name="gil-probe", daemon=True).start()
    except BaseException:
        started = False
        close(descriptor)
        raise
    status = thread_start(watch_gil, b"gil-watch")
    if status:
        Log().warning(f"no thread that finds plugins which hold the interpreter lock: {os.strerror(status)}")
    return 0


# ---- the native thread ----

cdef void *watch_gil(void *nothing) noexcept nogil:
    while True:
        gil_watch_lock()
        while serving == NULL and asked == 0:
            gil_watch_wait()
        look()
        gil_watch_unlock()
        gil_watch_sleep(LOOK)
    return NULL


cdef void look() noexcept nogil:
    """One look, under the mutex."""
    global asked, looks, holder, held, reported
    cdef PyThreadState *now = gil_watch_holder()
    cdef uint64_t one = 1
    if asked == 0:
        if requests_wait():
            asked = socket_clock()
            looks = 0
            reported = False
            write(bell, &one, 8)
        return
    if reported:
        return
    if looks == 0 or holder != now or (now == NULL and gil_watch_knows()):
        looks = 0
        holder = now
        held = socket_clock()
    looks += 1
    if looks > HELD_LOOKS and (now != NULL or not gil_watch_knows()):
        reported = True
        report_begin()


cdef bint requests_wait() noexcept nogil:
    """True if a plugin is asked, or will be. A request of a query whose deadline has passed counts, too."""
    cdef Serving *entry = serving
    while entry != NULL:
        if atomic_peek32(&entry.queue.limit.requests):
            return True
        entry = entry.next
    return False


cdef void report_begin() noexcept nogil:
    """A line that comes out while the GIL is held."""
    cdef char text[256]
    cdef Serving *entry = serving
    cdef const char *plugin = NULL
    cdef const char *what = "a thread of no plugin"
    while entry != NULL and entry.state != holder:
        entry = entry.next
    if entry != NULL:
        plugin = entry.plugin
        what = "a call of it"
    elif not gil_watch_knows():
        what = "one thread"
    cdef int length = snprintf(text, sizeof(text), "%s has held the interpreter lock for %d ms: no Python plugin can answer until it returns", what,
                               <int>(LOOK * HELD_LOOKS // 1000000))
    log_put(METRIC_CONTROL, LOG_WARNING, plugin, text, <uint32_t>length)


# ---- the Python thread ----

def take_gil():
    """Has the GIL whenever the native thread wants to know that it is to be had."""
    global asked
    cdef uint64_t count
    cdef int64_t since
    cdef PyThreadState *state
    cdef bint alone
    thread_name(b"gil-probe")
    while True:
        with nogil:
            read(bell, &count, 8)
        gil_watch_lock()
        since, state, alone = held, holder, reported
        asked = 0
        gil_watch_unlock()
        if alone:
            report_end(state, socket_clock() - since)


cdef int report_end(PyThreadState *state, int64_t time) except -1:
    cdef unsigned long ident = gil_watch_ident(state)
    text = f"the interpreter lock for {time / 1e9:.1f} s: no other Python plugin could answer meanwhile"
    try:
        plugin = call = ""
        if <size_t>state in threads:
            executor, plugin = threads[<size_t>state]
            call = executor.under_way()[1]
        elif not gil_watch_knows():
            plugin, call = oldest_call(socket_clock() - time)
        if plugin:
            HOLDS.add((plugin,))
            HOLD_SECONDS.add((plugin,), time)
            Log(f"plugin/{plugin}").warning(f"a call{call} held {text}")
        else:
            names = {thread.ident: thread.name for thread in threading.enumerate()}
            Log().warning(f"a thread of no plugin ({names.get(ident, 'that has ended')}) held {text}")
    except Exception as error:          # out of memory: the next hold is looked for all the same
        Log().warning(f"held {text} ({type(error).__name__}: {error})")
    return 0


cdef tuple oldest_call(int64_t began):
    """The plugin whose call has been under way for longest, if it began before."""
    calls = [(*executor.under_way(), name) for executor, name in list(threads.values())]
    since, call, name = min([found for found in calls if found[0]], default=(0, "", ""))
    return (name, call) if since <= began + LOOK else ("", "")
