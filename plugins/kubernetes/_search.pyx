"""Search paths of pods, for plugin autopath."""
from libc.stdint cimport uint8_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy
from fastdns.api.query cimport Query
from fastdns.api.names cimport NAME_MAX, Name, ZoneName, zones_match
from fastdns._wire import name_wire
from fastdns.plugins.autopath._autopath cimport SearchPath, SearchPathHandle
from fastdns.plugins.kubernetes.store.find cimport find_namespace, find_pod, find_service
from fastdns.plugins.kubernetes._handler cimport ViewHandler
from fastdns.plugins.kubernetes.store.records cimport LOCAL, NamespaceNode, PodRecord, ServiceNode, node_service
from fastdns.plugins.kubernetes.answer.view cimport PODS_VERIFIED, View, ZONE_IMPORTED, ZONE_OBJECTS, ZONE_REVERSE, view_exposes

cdef struct Search:
    SearchPath path                 # first: what `element` gets is the whole
    const View *view                # borrowed from the handler, which the handle keeps
    uint32_t count
    uint8_t *names                  # of resolv.conf; NAME_MAX + 1 octets each: length, wire form


cdef int element_of_client(SearchPath *path, Query *q, uint32_t index, uint8_t *out) noexcept nogil:
    """The path of the pod that has the client's address."""
    cdef Search *search = <Search *>path
    cdef const ZoneName *zone = zones_match(search.view.zones, q.name)
    cdef const PodRecord *pod
    if zone == NULL or search.view.pods != PODS_VERIFIED:
        return 0
    pod = find_pod(search.view.cluster, q.client.octets, q.client.family)
    if pod == NULL:
        return 0
    return element_of(search, pod.namespace, zone, index, out)


cdef int element_of_question(SearchPath *path, Query *q, uint32_t index, uint8_t *out) noexcept nogil:
    """The path of a pod in the namespace that the question itself names: NAME.NAMESPACE.svc.ZONE is what it asks first, whatever its address is.

    So does who asks for a name of the cluster, which must not lead elsewhere. Hence NAME has two labels at least, and its last one, which
    stands where a service's name would, is no service's.
    """
    cdef Search *search = <Search *>path
    cdef const View *view = search.view
    cdef const Name *name = q.name
    cdef const ZoneName *zone = zones_match(view.zones, name)
    cdef const NamespaceNode *namespace
    cdef const ServiceNode *service
    cdef const uint8_t *label
    cdef uint32_t front
    if zone == NULL or view.zone_flags[zone - view.zones.names] & (ZONE_IMPORTED | ZONE_OBJECTS | ZONE_REVERSE):
        return 0
    front = name.labels - zone.labels
    if front < 4 or memcmp(name.lower + name.offset[front - 1], <const char *>b"\x03svc", 4) != 0:
        return 0
    label = name.lower + name.offset[front - 2]
    namespace = find_namespace(view.cluster, label)
    if not view_exposes(view, namespace):
        return 0
    if index == 0:
        label = name.lower + name.offset[front - 3]
        service = find_service(view.cluster, LOCAL, label, label[0] + namespace.length + 1u)
        if service != NULL and node_service(service) != NULL:
            return 0
    return element_of(search, namespace, zone, index, out)


cdef int element_of(const Search *search, const NamespaceNode *namespace, const ZoneName *zone, uint32_t index, uint8_t *out) noexcept nogil:
    """Of the path of a pod in this namespace."""
    cdef const uint8_t *name
    if index < 3:
        return own_element(namespace, zone, index, out)
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
    cdef ViewHandler handler

    def __cinit__(self, ViewHandler handler not None, list names, bint by_question):
        cdef uint32_t i
        cdef bytes octets
        self.handler = handler
        self.search.path.element = element_of_question if by_question else element_of_client
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


def search_path(ViewHandler handler not None, search, bint by_question):
    cdef Path path = Path(handler, [name_wire(name.lower()) for name in search], by_question)
    cdef SearchPathHandle handle = SearchPathHandle.__new__(SearchPathHandle)
    handle.path = &path.search.path
    handle.owner = path
    return handle
