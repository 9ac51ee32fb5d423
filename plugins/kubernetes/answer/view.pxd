"""How one server block sees a store: its zones and properties. Never changed once the handler is in a chain."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from fastdns.api.names cimport Name, Zones
from fastdns.api.network cimport Address
from fastdns.plugins.kubernetes.store.records cimport (IMPORTED, Cluster, EndpointRecord, NamespaceNode, ServiceNode, ServiceRecord, SliceRecord,
                                                       slice_cluster)
from fastdns.plugins.kubernetes.answer.name cimport GRAMMAR_IMPORTED, Near, Wanted, name_write

cdef enum PodsMode:
    PODS_DISABLED
    PODS_INSECURE
    PODS_VERIFIED

cdef enum:                          # View.zone_flags, besides GRAMMAR_ZONAL
    ZONE_IMPORTED = GRAMMAR_IMPORTED    # multicluster
    ZONE_REVERSE = 2                # reverse names may lie in it
    ZONE_OBJECTS = 8                # of objects, for replicas: transferred, and not asked

cdef enum:                          # View.near, the property topology
    NEAR_NODE = 1                   # endpoints of the client's node come before others
    NEAR_ZONE = 2                   # those of its zone
    NEAR_ONLY = 4                   # others do not come at all

cdef enum NearOutcome:
    NEAR_UNKNOWN                    # nobody knows where the client is: all endpoints
    NEAR_ON_NODE
    NEAR_IN_ZONE
    NEAR_ELSEWHERE                  # none is near: all endpoints
    NEAR_NOWHERE                    # none is near: no endpoints
    NEAR_OUTCOMES

cdef struct LocalAddress:           # of this machine
    uint8_t family
    uint8_t ip[16]

cdef struct View:
    Cluster *cluster                # borrowed from the Store, which the handler keeps
    const Zones *zones              # borrowed, like the next
    const Zones *fallthrough        # NULL: never
    uint8_t *zone_flags             # by position in zones.names
    uint32_t *serials               # by position in zones.names; atomic; of zones with versions of their own, else 0
    uint8_t *namespaces             # 64 octets each: labels in wire form, lower case
    LocalAddress *locals
    uint32_t namespace_count        # 0: all
    uint32_t local_count
    uint32_t ttl
    uint32_t kinds                  # bits of the kinds that must have been listed
    uint8_t extras                  # Extra of zone/objects.pxd, which a zone of objects has
    uint8_t pods                    # PodsMode
    uint8_t pod_names               # endpoint_pod_names
    uint8_t no_endpoints
    uint8_t ignore_empty
    uint8_t zonal
    uint8_t near                    # bits of NEAR_NODE and others; 0: it does not matter where clients are
    uint32_t *near_cells            # of metrics, by server label and NearOutcome; the handler's
    uint8_t guarded                 # a policy looks at the namespace of questions, so an alias into another one is a question of its own
    uint8_t primary_length
    uint8_t primary[255]            # first zone that is no reverse zone, wire form

cdef enum Found:
    FOUND_NOTHING                   # name error
    FOUND_EMPTY                     # the name exists, without data
    FOUND_CLUSTER_IP                # the record's cluster IPs and matching ports
    FOUND_ENDPOINTS                 # endpoints of the node, see Walk; whether there are any is for the walk to say
    FOUND_ALIAS                     # CNAME to the record's alias
    FOUND_POD                       # one address
    FOUND_SERVERS                   # ns.dns

cdef struct Result:                 # borrowed, valid until the batch ends
    Found found
    ServiceNode *node
    ServiceRecord *record
    uint32_t entries                # of FOUND_CLUSTER_IP and FOUND_POD: what SRV weights are shares of
    uint8_t anywhere                # of FOUND_ENDPOINTS: the topology zone has none, so all count
    uint8_t pinned                  # of FOUND_ENDPOINTS: none is no name error
    uint8_t ip[16]                  # of FOUND_POD
    uint8_t family

cdef struct Walk:                   # over the endpoints that a name asks for
    const View *view
    const Wanted *wanted
    const Result *result
    const SliceRecord *slice
    const EndpointRecord *endpoint
    uint32_t next
    uint32_t ports                  # matching ports of this slice
    uint32_t first                  # the first one that matches,
    uint32_t end                    # ... and the one behind the last
    const char *text                # of this slice

cdef bint view_exposes(const View *view, const NamespaceNode *node) noexcept nogil
# Whether the property `namespaces` names it, or is not there.
cdef bint view_names(const View *view, const NamespaceNode *node) noexcept nogil
# What a parsed name stands for.
cdef void view_resolve(const View *view, int zone_flags, const Name *name, const Wanted *wanted, uint64_t key_hash, Result *result) noexcept nogil
# Of a headless service: sets wanted.direction so that a walk finds only what is nearest to the client. `near` has to live as long as `wanted`.
cdef void near_begin(const View *view, const Address *client, Wanted *wanted, Near *near) noexcept nogil
# After a walk that found nothing: sets what comes next. False: no other walk finds anything.
cdef bint near_widen(const View *view, Wanted *wanted, Result *result, Near *near) noexcept nogil
cdef void walk_begin(Walk *walk, const View *view, const Wanted *wanted, const Result *result) noexcept nogil
# The next endpoint of slices with a matching port; False at the end.
cdef bint walk_next(Walk *walk) noexcept nogil
# Sum of matching ports over all endpoints, up to `limit`; with `hosts`, endpoints that are host names count, too.
cdef uint32_t walk_count(const View *view, const Wanted *wanted, const Result *result, uint32_t limit, bint hosts) noexcept nogil
# The label of an endpoint's name. out has 64 octets; returns the length.
cdef uint32_t endpoint_label(const View *view, const SliceRecord *slice, const EndpointRecord *endpoint, char *out) noexcept nogil

cdef inline uint32_t endpoint_write(uint8_t *out, const View *view, const SliceRecord *slice, const EndpointRecord *endpoint, const uint8_t *zone,
                                    uint32_t zone_length) noexcept nogil:
    """The name of an endpoint of a slice in a zone, as `name_write` has it."""
    cdef char label[64]
    cdef uint32_t length = endpoint_label(view, slice, endpoint, label)
    return name_write(out, label, length, slice_cluster(slice), slice.cluster_length if slice.service.world == IMPORTED else 0, slice.service.key,
                      slice.service.length, zone, zone_length)
