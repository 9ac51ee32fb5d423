"""Which names change with a cluster's objects; see name_observer.pxd."""
from libc.stdint cimport uint8_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy
from fastdns.plugins.cache._contents cimport SharedContents, contents_change
from fastdns.plugins.kubernetes._handler cimport ViewHandler
from fastdns.plugins.kubernetes.answer.view cimport ZONE_IMPORTED, ZONE_OBJECTS, ZONE_REVERSE
from fastdns.plugins.kubernetes.store.records cimport IMPORTED, LOCAL, NamespaceNode, Observer, ServiceNode
from fastdns.plugins.kubernetes.store.store cimport Store, cluster_lock, cluster_observe, cluster_unlock, cluster_unobserve
from fastdns._wire import name_text, name_wire

cdef enum:
    NAME_OCTETS = 255


# ---- what the store's writer tells; under the cluster's lock ----

cdef void on_changed(Observer *observer, const ServiceNode *node) noexcept nogil:
    cdef const Told *told = <const Told *>observer
    tell(told, &told.services, node.world, node.key, node.length)


cdef void on_namespace(Observer *observer, const NamespaceNode *namespace) noexcept nogil:
    cdef const Told *told = <const Told *>observer
    cdef int world
    for world in range(2):
        tell(told, &told.namespaces, world, namespace.label, namespace.length)


cdef void tell(const Told *told, const Endings *endings, int world, const uint8_t *labels, uint32_t length) noexcept nogil:
    cdef uint8_t name[2 * NAME_OCTETS]
    cdef const Ending *ending
    cdef uint32_t i
    memcpy(name, labels, length)
    for i in range(endings.count):
        ending = &endings.endings[i]
        if ending.world == world and length + ending.length <= NAME_OCTETS:
            memcpy(name + length, ending.wire, ending.length)
            contents_change(told.contents, name, length + ending.length)


cdef void on_address(Observer *observer, const uint8_t *ip, uint8_t family) noexcept nogil:
    """The reverse name of the address (RFC 1035 3.5, RFC 3596 2.5)."""
    cdef const Told *told = <const Told *>observer
    cdef uint8_t name[NAME_OCTETS]
    cdef uint32_t used = 0
    cdef int i
    if not told.reverse:
        return
    if family == 4:
        for i in range(3, -1, -1):
            used += write_number(name + used, ip[i])
        memcpy(name + used, <const char *>b"\x07in-addr\x04arpa", 14)
        contents_change(told.contents, name, used + 14)
        return
    for i in range(31, -1, -1):
        name[used] = 1
        name[used + 1] = <uint8_t>b"0123456789abcdef"[(ip[i // 2] >> (0 if i & 1 else 4)) & 15]
        used += 2
    memcpy(name + used, <const char *>b"\x03ip6\x04arpa", 10)
    contents_change(told.contents, name, used + 10)


cdef uint32_t write_number(uint8_t *label, uint32_t number) noexcept nogil:
    """A label of its digits."""
    cdef uint32_t digits = 3 if number > 99 else 2 if number > 9 else 1, i
    label[0] = <uint8_t>digits
    for i in range(digits, 0, -1):
        label[i] = <uint8_t>(48 + number % 10)
        number //= 10
    return digits + 1


# ---- Python ----

cdef int set_endings(Endings *into, list endings) except -1:
    cdef bytes wire
    into.endings = <Ending *>calloc(len(endings) + 1, sizeof(Ending))
    if into.endings == NULL:
        raise MemoryError
    for world, wire in endings:
        if len(wire) <= NAME_OCTETS:
            into.endings[into.count].world = world
            into.endings[into.count].length = <uint8_t>len(wire)
            memcpy(into.endings[into.count].wire, <const uint8_t *>wire, len(wire))
            into.count += 1
    return 0


cdef class NameObserver:

    def __cinit__(self, Store store not None, list services, list namespaces, list cuts, bint reverse):
        self.store = store
        self.cuts = cuts
        self.told.observer.changed = on_changed
        self.told.observer.namespace_changed = on_namespace
        self.told.observer.address_changed = on_address
        self.told.reverse = reverse
        set_endings(&self.told.services, [(world, name_wire(text).lower()) for world, text in services])
        set_endings(&self.told.namespaces, [(world, name_wire(text).lower()) for world, text in namespaces])

    def __dealloc__(self):
        self.end()
        free(self.told.services.endings)
        free(self.told.namespaces.endings)

    def zones(self):
        return [zone for zone, _ in self.cuts] + (["in-addr.arpa.", "ip6.arpa."] if self.told.reverse else [])

    def begin(self, SharedContents contents not None):
        self.contents = contents
        self.told.contents = contents.contents
        with nogil:
            cluster_lock(&self.store.cluster)
            cluster_observe(&self.store.cluster, &self.told.observer)
            cluster_unlock(&self.store.cluster)

    def end(self):
        if self.contents is None:
            return
        with nogil:
            cluster_lock(&self.store.cluster)
            cluster_unobserve(&self.store.cluster, &self.told.observer)
            cluster_unlock(&self.store.cluster)
        self.contents = None


def of_cluster(ViewHandler handler not None, unkept):
    services, namespaces, cuts = [], [], []
    reverse = False
    for i in range(handler.view.zones.count):
        zone = name_text(<bytes>handler.view.zones.names[i].wire[: handler.view.zones.names[i].length])
        if unkept.match(zone) is not None or handler.view.zone_flags[i] & ZONE_OBJECTS:
            continue
        world = IMPORTED if handler.view.zone_flags[i] & ZONE_IMPORTED else LOCAL
        if handler.view.zone_flags[i] & ZONE_REVERSE:
            reverse = True
            if zone != ".":
                continue
        below = "" if zone == "." else zone
        services.append((world, f"svc.{below}"))
        namespaces += [(world, f"svc.{below}"), (world, f"pod.{below}")]
        # A service with its ports and endpoints; a namespace's pods.
        cuts += [(f"svc.{below}", 2), (f"pod.{below}", 1)]
    return NameObserver(handler.store, services, namespaces, cuts, reverse) if cuts or reverse else None
