"""The external zones of a server block, made of the directive's properties. The contract is in _external.pxd."""
from libc.stdint cimport uint8_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy
from fastdns.api.query cimport handler_init
from fastdns.api.names cimport NAME_MAX
from fastdns.api.wire cimport store32
from fastdns.plugins.kubernetes.store.records cimport LOCAL
from fastdns._wire import name_wire

cdef enum:
    REFRESH = 7200
    RETRY = 1800
    EXPIRE = 86400


cdef class ExternalZones(NativeHandler):

    def __cinit__(self, *args, **options):
        handler_init(self)
        self.handler.state = &self.external

    def __init__(self, zones, str apex, uint32_t ttl, *, bint headless=False, fallthrough=None):
        cdef External *external = &self.external
        cdef uint32_t number = 0
        super().__init__("k8s_external")
        self.zones = ZoneList(zones)
        external.zones = &self.zones.zones
        if fallthrough is not None:
            self.fall = ZoneList(fallthrough)
            external.fallthrough = &self.fall.zones
        external.ttl = ttl
        external.headless = headless
        external.apexes = <Apex *>calloc(external.zones.count, sizeof(Apex))
        external.order = <uint32_t *>calloc(external.zones.count, sizeof(uint32_t))
        if external.apexes == NULL or external.order == NULL:
            raise MemoryError
        label = name_wire(apex)
        for zone in dict.fromkeys([name_wire(text.lower()) for text in zones]):
            self._set_zone(zone, label[: len(label) - 1], number)
            number += 1

    cdef int _set_zone(self, bytes zone, bytes label, uint32_t number) except -1:
        """The records of the zone that stands at this place in the Corefile."""
        cdef External *external = &self.external
        cdef uint32_t i
        cdef Apex *apex
        cdef bytes under = label.lower() + zone
        cdef bytes server = b"\x03ns1" + label + zone
        cdef bytes names = server + b"\x0ahostmaster" + label + zone
        if len(names) - len(server) > NAME_MAX:
            raise ValueError("the zone's name is too long for those in front of it")
        for i in range(external.zones.count):
            if external.zones.names[i].wire[: external.zones.names[i].length] == zone:
                external.order[number] = i
                apex = &external.apexes[i]
                apex.zone = &external.zones.names[i]
                apex.under_length = <uint8_t>len(under)
                memcpy(apex.under, <const uint8_t *>under, len(under))
                apex.server_length = <uint8_t>len(server)
                memcpy(apex.server, <const uint8_t *>server, len(server))
                apex.soa_length = <uint32_t>len(names) + SOA_NUMBERS
                memcpy(apex.soa, <const uint8_t *>names, len(names))
                store32(apex.soa + len(names) + 4, REFRESH)
                store32(apex.soa + len(names) + 8, RETRY)
                store32(apex.soa + len(names) + 12, EXPIRE)
                store32(apex.soa + len(names) + 16, external.ttl)
        return 0

    def use(self, Kubernetes kubernetes not None):
        self.kubernetes = kubernetes
        self.external.view = &kubernetes.view

    def name_observer(self, unkept):
        from fastdns.plugins.kubernetes.name_observer import NameObserver

        zones = [zone for zone in self.zones.names if unkept.match(zone) is None]
        endings = [(LOCAL, zone) for zone in zones]
        reverse = any(zone in (".", "arpa.") or zone.endswith(".arpa.") for zone in zones)
        return NameObserver(self.kubernetes.store, endings, endings, [(zone, 2) for zone in zones], reverse) if zones else None

    def __dealloc__(self):
        free(self.external.apexes)
        free(self.external.order)
