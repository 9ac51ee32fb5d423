"""A handler that keeps its worker in a batch: a query for the name stuck.example does not go on before a file is there."""
from posix.unistd cimport F_OK, access, usleep
from fastdns.api.names cimport ZoneList, Zones, zones_hold
from fastdns.api.query cimport NEXT, Handler, NativeHandler, Query, Verdict, handler_init

cdef struct State:
    const Zones *zones          # borrowed from Stuck.zones
    const char *path            # borrowed from Stuck.path


cdef Verdict stuck_query(Handler *self, Query *q) noexcept nogil:
    cdef State *state = <State *>self.state
    while zones_hold(state.zones, q.name) and access(state.path, F_OK) != 0:
        usleep(1000)
    return NEXT


cdef class Stuck(NativeHandler):
    """``Stuck(name, path)``: goes on when there is a file at the path."""

    cdef State state
    cdef ZoneList zones
    cdef bytes path

    def __cinit__(self, str name, str path):
        handler_init(self)
        self.zones = ZoneList(["stuck.example."])
        self.path = path.encode()
        self.state.zones = &self.zones.zones
        self.state.path = self.path
        self.handler.state = &self.state
        self.handler.query = stuck_query

    def __init__(self, str name, str path):
        NativeHandler.__init__(self, name)
