"""How one server block's external zones look. Never changed once the handler is in a chain."""
from libc.stdint cimport uint8_t, uint32_t
from fastdns.api.query cimport NativeHandler
from fastdns.api.names cimport ZoneList, ZoneName, Zones
from fastdns.plugins.kubernetes._kubernetes cimport Kubernetes
from fastdns.plugins.kubernetes.answer.view cimport View

cdef struct Apex:                   # what a zone needs besides its services
    const ZoneName *zone            # borrowed from the handler's list; lower case, as names in this zone are written
    uint8_t under_length
    uint8_t under[255]              # LABEL.ZONE, lower case: the name servers' part of the zone
    uint8_t server_length
    uint8_t server[255]             # ns1.LABEL.ZONE
    uint32_t soa_length
    uint8_t soa[530]                # rdata; its serial is filled in for each answer

cdef struct External:
    const View *view                # of the block's kubernetes, whose handler ours keeps
    const Zones *zones              # borrowed from the handler's lists, like the next
    const Zones *fallthrough        # NULL: never
    Apex *apexes                    # by position in zones.names
    uint32_t *order                 # positions in the order of the Corefile; PTR records point into the first zone
    uint32_t ttl                    # seconds; CNAME and SRV records have kubernetes's
    uint8_t headless                # endpoints of headless services are shown

cdef enum:
    SOA_NUMBERS = 20                # octets of the five numbers at the end of an SOA's rdata

cdef class ExternalZones(NativeHandler):
    cdef External external
    cdef ZoneList zones
    cdef ZoneList fall              # or None
    cdef Kubernetes kubernetes      # None until the block is set up
    cdef int _set_zone(self, bytes zone, bytes label, uint32_t number) except -1
