"""The chain's handler for a Python plugin: `RequestHandler` with the plugin's executor and what the plugin may ask of its server block."""
from weakref import ref

from fastdns.executor.executor cimport Executor
from fastdns.executor.hooks cimport RequestHandler
from fastdns.executor.watchdog import executor_leave, executor_of
from fastdns.walk.metadata import resolve


class Use:
    """One handler's use of an executor. It ends with `end` or with the last reference."""

    def __init__(self, executor):
        self.executor = executor
        self.leave = executor_leave         # the name may be gone when the interpreter ends
        self.ended = False

    def end(self):
        if not self.ended:
            self.ended = True
            self.leave(self.executor)

    __del__ = end


cdef class PythonHandler(RequestHandler):
    """The handler of a plugin object that has ``serve(query)`` or ``async serve(query, next)``; see plugin.Plugin."""
    cdef object use                 # None until the chain is prepared
    cdef object config              # weak: the block's Config
    cdef dict labels                # of metadata, as resolved

    def __init__(self, str name, plugin, config=None):
        RequestHandler.__init__(self, name, plugin)
        self.config = (lambda: None) if config is None else ref(config)
        self.labels = {}

    cpdef attach(self, list servers, str view):
        cdef Executor executor
        if self.use is None:
            executor = executor_of(self.plugin, self.name, self.waits, self.deadline)
            self.use = Use(executor)
            self.state.queue = &executor.queue

    cpdef close(self):
        if self.use is not None:
            self.use.end()
        self.labels.clear()             # they keep other handlers
        self.verdicts.forget()
        closing = getattr(self.plugin, "close", None)
        if closing is not None:
            closing()

    def note(self):
        """For the page of `ready`: why queries get SERVFAIL at once; "" while they do not."""
        return "" if self.use is None else self.use.executor.problem

    def metadata_label(self, str text not None):
        """The label of metadata of this name, as `resolve` gives it; None once the block is gone."""
        found = self.labels.get(text)
        if found is None:
            config = self.config()
            if config is None:
                return None
            if len(self.labels) >= 256:     # names that come from queries
                self.labels.clear()
            found = self.labels[text] = resolve(config, text)
        return found

    def cluster(self):
        """The view of the block's cluster: what the first handler that has a method ``cluster_view`` gives; or None."""
        config = self.config()
        for handler in config.handlers if config is not None else ():
            view = getattr(handler, "cluster_view", None)
            if view is not None:
                return view()
        return None
