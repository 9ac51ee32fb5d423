"""The executors that run, and the watchdog that looks after them: a thread that finds calls which take too long."""
import os
import threading
from weakref import WeakSet, WeakValueDictionary

from libc.errno cimport errno
from libc.stdint cimport uint64_t, int64_t
from fastdns.system.socket cimport EFD_CLOEXEC, EFD_NONBLOCK, POLLIN, close, eventfd, poll, pollfd, read, socket_clock
from fastdns.telemetry.log import Log
from fastdns.executor.executor cimport Executor

cdef enum:
    AGAIN = 1000000000                              # nanoseconds until a check that has failed is repeated
    GIL_TIME = 100000000                            # nanoseconds: whoever waited for the GIL so long has had no turn

cdef object _by_plugin = WeakValueDictionary()      # id of a plugin -> its executor, which keeps the plugin
cdef object _live = WeakSet()                       # executors that have users
cdef object _starting = threading.Lock()
cdef int _alarm = -1                                # eventfd of the watchdog


def executor_of(plugin, str name not None, bint waits, int64_t deadline):
    """The running executor of a plugin object, with one user more. Raises OSError without descriptors, RuntimeError without threads."""
    cdef Executor executor
    with _starting:
        start_watchdog()
        executor = _by_plugin.get(id(plugin))
        if executor is None or executor.ended:
            executor = Executor(plugin, name, waits, deadline, _alarm)
            executor._start()
            _by_plugin[id(plugin)] = executor
            _live.add(executor)
        executor.users += 1
        return executor


def executor_leave(Executor executor not None):
    """One handler less uses it: the last one's end is the thread's."""
    with _starting:
        executor.users -= 1
        if executor.users:
            return
        executor.ended = True
        _live.discard(executor)
    executor._finish()


cdef int start_watchdog() except -1:
    """With the first executor."""
    global _alarm
    if _alarm < 0:
        _alarm = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)
        if _alarm < 0:
            raise OSError(errno, os.strerror(errno))
        try:
            threading.Thread(target=watch, name="plugin-watchdog", daemon=True).start()
        except BaseException:
            close(_alarm)
            _alarm = -1
            raise
    return 0


def watch():
    """Woken by deadlines that passed, and when a call that was under way then will have taken too long."""
    cdef pollfd watched
    cdef uint64_t count
    cdef int64_t now, again, woken, next_ = 0
    cdef int timeout
    cdef bint waited = False
    watched.fd = _alarm
    watched.events = POLLIN
    while True:
        timeout = -1 if next_ == 0 else <int>max(0, (next_ - socket_clock()) // 1000000 + 1)
        with nogil:
            poll(&watched, 1, timeout)
            read(watched.fd, &count, 8)
            woken = socket_clock()
        now = socket_clock()
        # One plugin held the GIL. Calls of all others look as long as its own, until each thread has had a turn.
        waited = not waited and now - woken > GIL_TIME
        if waited:
            next_ = now + GIL_TIME
            continue
        next_ = 0
        with _starting:
            live = list(_live)
        now = socket_clock()
        for executor in live:
            try:
                again = (<Executor>executor)._check(now)
            except BaseException as error:  # a loop that is just being closed, no more threads
                Log(f"plugin/{executor.name}").error(f"{type(error).__name__}: {error}")
                again = now + AGAIN
            if again and (next_ == 0 or again < next_):
                next_ = again
        executor = live = None          # those that have ended are to go
