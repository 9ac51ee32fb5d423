"""Search paths of pods, for plugin autopath."""
from libc.stdint cimport uint8_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy
from fastdns._mux cimport Query
from fastdns._wire cimport NAME_MAX
from fastdns._wire import name_wire
from fastdns._zones cimport ZoneName, zones_match
from fastdns.plugins.autopath._autopath cimport SearchPath, SearchPathHandle
from fastdns.plugins.kubernetes._find cimport find_pod
from fastdns.plugins.kubernetes._kubernetes cimport Kubernetes
from fastdns.plugins.kubernetes._records cimport NamespaceNode, PodRecord
from fastdns.plugins.kubernetes._view cimport PODS_VERIFIED, View

cdef struct Search:
    SearchPath path                 # first: what `element` gets is the whole
    const View *view                # borrowed from the handler, which the handle keeps
    uint32_t count
    uint8_t *names                  # of resolv.conf; NAME_MAX + 1 octets each: length, wire form


cdef int element(SearchPath *path, Query *q, uint32_t index, uint8_t *out) noexcept nogil:
    cdef Search *search = <Search *>path
    cdef const ZoneName *zone = zones_match(search.view.zones, q.name)
    cdef const PodRecord *pod
    cdef const uint8_t *name
    if zone == NULL or search.view.pods != PODS_VERIFIED:
        return 0
    pod = find_pod(search.view.cluster, q.client.octets, q.client.family)
    if pod == NULL:
        return 0
    if index < 3:
        return own_element(pod.namespace, zone, index, out)
    index -= 3
    if index < search.count:
        name = search.names + index * (NAME_MAX + 1)
        memcpy(out, name + 1, name[0])
        return name[0]
    out[0] = 0
    return 1 if index == search.count else 0


cdef int own_element(const NamespaceNode *namespace, const ZoneName *zone, uint32_t index, uint8_t *out) noexcept nogil:
    """NAMESPACE.svc.ZONE, svc.ZONE, ZONE."""
    cdef uint32_t used = 0
    if zone.length + namespace.length + 4 > NAME_MAX:
        return 0
    if index == 0:
        memcpy(out, namespace.label, namespace.length)
        used = namespace.length
    if index < 2:
        memcpy(out + used, b"\x03svc", 4)
        used += 4
    memcpy(out + used, zone.wire, zone.length)
    return <int>(used + zone.length)


cdef class Path:
    """Owns a Search and keeps the handler that its view belongs to."""
    cdef Search search
    cdef Kubernetes handler

    def __cinit__(self, Kubernetes handler not None, list names):
        cdef uint32_t i
        cdef bytes octets
        self.handler = handler
        self.search.path.element = element
        self.search.path.state = &self.search
        self.search.view = &handler.view
        self.search.names = <uint8_t *>calloc(len(names) + 1, NAME_MAX + 1)
        if self.search.names == NULL:
            raise MemoryError
        for octets in names:
            i = self.search.count
            self.search.names[i * (NAME_MAX + 1)] = <uint8_t>len(octets)
            memcpy(self.search.names + i * (NAME_MAX + 1) + 1, <const uint8_t *>octets, len(octets))
            self.search.count += 1

    def __dealloc__(self):
        free(self.search.names)


def search_path(Kubernetes handler not None, search):
    cdef Path path = Path(handler, [name_wire(name.lower()) for name in search])
    cdef SearchPathHandle handle = SearchPathHandle.__new__(SearchPathHandle)
    handle.path = &path.search.path
    handle.owner = path
    return handle
