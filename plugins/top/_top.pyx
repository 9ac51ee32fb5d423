"""The handler of *top*: after each query, nothing else."""
from fastdns.api.metadata cimport LabelHandle
from fastdns.api.names cimport ZoneList
from fastdns.api.query cimport Handler, NativeHandler, Query, handler_init
from fastdns.plugins.top._tables cimport TopOptions, top_count


cdef void count_done(Handler *self, Query *q) noexcept nogil:
    top_count(<const TopOptions *>self.state, q)


cdef class TopHandler(NativeHandler):
    cdef TopOptions options
    cdef ZoneList _search
    cdef list _labels           # LabelHandles

    def __init__(self, str name, search):
        handler_init(self)
        NativeHandler.__init__(self, name)
        self._labels = []
        self._search = ZoneList(search)
        self.options.search = &self._search.zones
        self.handler.state = &self.options
        self.handler.done = count_done

    def use(self, LabelHandle namespace not None, LabelHandle pod, LabelHandle node):
        self._labels = [namespace, pod, node]
        self.options.namespace = &namespace.label
        self.options.pod = &pod.label if pod is not None else NULL
        self.options.node = &node.label if node is not None else NULL
