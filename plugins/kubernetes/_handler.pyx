"""The view that a handler of kubernetes answers from, made of the directive's properties."""
from libc.stdint cimport uint8_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy
from fastdns.api.query cimport handler_init
from fastdns.plugins.kubernetes.store.memory cimport load_count
from fastdns.plugins.kubernetes.answer.name cimport GRAMMAR_ZONAL
from fastdns.plugins.kubernetes.answer.view cimport LocalAddress, PODS_DISABLED, PODS_INSECURE, PODS_VERIFIED, ZONE_IMPORTED, ZONE_OBJECTS, ZONE_REVERSE
from fastdns.corefile.address import packed


cdef bytes wire(str name):
    """Wire form of a zone in lower case."""
    cdef ZoneList listed = ZoneList([name])
    return listed.zones.names[0].wire[: listed.zones.names[0].length]


cdef class ViewHandler(NativeHandler):

    def __cinit__(self, *args, **options):
        handler_init(self)
        self.handler.state = &self.view

    def __init__(self, str name, Store store not None, zones, str primary, *, multicluster=(), str objects="", int extras=0, namespaces=(),
                 fallthrough=None, uint32_t ttl=5, uint32_t kinds=0, str pods="disabled", bint pod_names=False, bint no_endpoints=False,
                 bint ignore_empty=False, bint zonal=False, bint replica=False, addresses=(), int near=0):
        cdef ZoneList listed = ZoneList(zones)
        cdef ZoneList fall
        cdef View *view = &self.view
        cdef bytes octets
        super().__init__(name)
        self.store = store
        self.zones = listed
        view.cluster = &store.cluster
        view.zones = &listed.zones
        if fallthrough is not None:
            fall = ZoneList(fallthrough)
            self.fall = fall
            view.fallthrough = &fall.zones
        view.ttl = ttl
        view.kinds = kinds
        view.extras = <uint8_t>extras
        view.pods = {"disabled": PODS_DISABLED, "insecure": PODS_INSECURE, "verified": PODS_VERIFIED}[pods]
        view.pod_names = pod_names
        view.no_endpoints = no_endpoints
        view.ignore_empty = ignore_empty
        view.zonal = zonal
        view.near = <uint8_t>near
        octets = wire(primary)
        view.primary_length = <uint8_t>len(octets)
        memcpy(view.primary, <const uint8_t *>octets, len(octets))
        self._set_zones(listed, [wire(zone) for zone in multicluster], wire(objects) if objects else None)
        self._set_namespaces([wire(namespace + ".") for namespace in namespaces])
        self._set_addresses([packed(text.partition("%")[0]) for text in addresses])

    cdef _set_zones(self, ZoneList listed, list imported, bytes objects):
        cdef uint32_t i
        self.view.zone_flags = <uint8_t *>calloc(listed.zones.count + 1, 1)
        self.view.serials = <uint32_t *>calloc(listed.zones.count + 1, sizeof(uint32_t))
        if self.view.zone_flags == NULL or self.view.serials == NULL:
            raise MemoryError
        for i in range(listed.zones.count):
            octets = <bytes>listed.zones.names[i].wire[: listed.zones.names[i].length]
            if self.view.zonal:
                self.view.zone_flags[i] |= GRAMMAR_ZONAL
            if octets in imported:
                self.view.zone_flags[i] |= ZONE_IMPORTED
            if octets == b"\0" or octets.endswith(b"\x04arpa\0"):
                self.view.zone_flags[i] |= ZONE_REVERSE
            if octets == objects:
                self.view.zone_flags[i] = ZONE_OBJECTS

    cdef _set_namespaces(self, list labels):
        cdef uint32_t i = 0
        self.view.namespaces = <uint8_t *>calloc(len(labels) + 1, 64)
        if self.view.namespaces == NULL:
            raise MemoryError
        for label in labels:
            # Names of several labels are names of no namespace: they match nothing, but they do count as a choice.
            if len(label) == label[0] + 2:
                memcpy(self.view.namespaces + 64 * i, <const uint8_t *><bytes>label, len(label) - 1)
            i += 1
        self.view.namespace_count = i

    cdef _set_addresses(self, list addresses):
        cdef uint32_t i = 0
        self.view.locals = <LocalAddress *>calloc(len(addresses) + 1, sizeof(LocalAddress))
        if self.view.locals == NULL:
            raise MemoryError
        for octets in addresses:
            memcpy(self.view.locals[i].ip, <const uint8_t *><bytes>octets, len(octets))
            self.view.locals[i].family = 4 if len(octets) == 4 else 6
            i += 1
        self.view.local_count = i

    def ready(self) -> bool:
        return load_count(&self.view.cluster.synced) & self.view.kinds == self.view.kinds

    def __dealloc__(self):
        free(self.view.zone_flags)
        free(self.view.serials)
        free(self.view.namespaces)
        free(self.view.locals)
