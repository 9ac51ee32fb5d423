"""The handler of *shadow*: copies what is to be asked of the other server, once the reply is fitted."""
from fastdns.api.names cimport ZoneList, Zones, zones_hold
from fastdns.api.query cimport Handler, NativeHandler, Query, handler_init
from fastdns.plugins.shadow._copies cimport Core, copy_query
from fastdns.plugins.shadow._target cimport Target

cdef struct State:
    Core *core                  # the Target's
    const Zones *zones          # the ZoneList's; NULL: all names


cdef void shadow_done(Handler *self, Query *q) noexcept nogil:
    cdef const State *state = <const State *>self.state
    if state.zones == NULL or zones_hold(state.zones, &q.first_name):
        copy_query(state.core, q)


cdef class ShadowHandler(NativeHandler):
    cdef State state
    cdef readonly Target target
    cdef ZoneList _zones

    def __cinit__(self, *arguments):
        handler_init(self)
        self.handler.done = shadow_done
        self.handler.state = &self.state

    def __init__(self, Target target not None, zones):
        NativeHandler.__init__(self, "shadow")
        self.target = target
        self.state.core = &target.exchange.core
        if zones:
            self._zones = ZoneList(zones)
            self.state.zones = &self._zones.zones
