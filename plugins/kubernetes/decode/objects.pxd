"""Kubernetes objects as DNS needs them, and the sink that takes them: the border between the API side and the store.

The API side (reflectors with their two decoders, manifests, snapshot) fills one of these structs for each object it meets and hands it to an
`ObjectSink`; everything that DNS does not need was dropped before. All spans and arrays are borrowed: they are valid until the call returns.

Calls to one sink come from one thread at a time, without the GIL (a niced control thread, never a worker).
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef enum Kind:                     # one for each informer, not only for each resource: the two slice informers have selectors of their own
    KIND_NAMESPACE = 0
    KIND_SERVICE = 1
    KIND_SLICE = 2                  # EndpointSlice, by the label kubernetes.io/service-name
    KIND_POD = 3
    KIND_IMPORT = 4                 # ServiceImport (multicluster)
    KIND_IMPORT_SLICE = 5           # EndpointSlice again, by the label multicluster.kubernetes.io/service-name
    KIND_COUNT = 6

cdef enum Source:                   # where a full list comes from
    SOURCE_API = 0
    SOURCE_MANIFESTS = 1
    SOURCE_SNAPSHOT = 2             # stale: as last seen by an earlier process
    SOURCE_ZONE = 3                 # a zone of objects

cdef enum:                          # most of what an object has when a sink gets it: decoders cut the rest off (see Cut)
    PORTS_MAX = 4096
    PORT_NAME_MAX = 63              # octets of a port's name, and of its protocol
    TEXT_MAX = 65535                # octets of the texts of a service's ports and external addresses, and of a slice's ports, with the names before them
    CLUSTER_IPS_MAX = 256           # of a service or an import
    EXTERNAL_IPS_MAX = 4096         # different ones
    HOST_NAME_MAX = 255             # octets of an address that is a host name
    EXTERNAL_NAME_MAX = 254
    ENDPOINTS_MAX = 10000           # of a slice: addresses of ready endpoints
    ENDPOINT_TEXT_MAX = 63          # octets of an endpoint's hostname, and of its zone
    NODE_MAX = 253                  # octets of a node's name
    HINTS_MAX = 16384               # octets of an endpoint's hints; eight of each kind are what the API takes
    LABELS_MAX = 512                # of a pod
    LABELS_OCTETS_MAX = 32768       # of all labels of a pod, with LABEL_HEAD octets for each
    LABEL_HEAD = 3
    LABEL_KEY_MAX = 317
    LABEL_VALUE_MAX = 63
    NAME_OCTETS_MAX = 253           # of an object

cdef enum Cut:                      # what was beyond a limit, or can be in no name: it is left out, and the rest of the object stands
    CUT_PORTS
    CUT_CLUSTER_IPS
    CUT_EXTERNAL_IPS
    CUT_EXTERNAL_NAME
    CUT_ENDPOINTS
    CUT_ENDPOINT_TEXTS              # hostname, zone, node or hints of an endpoint
    CUT_LABELS                      # all labels of a pod: part of them would be taken for all
    CUT_COUNT

cdef struct Span:                   # UTF-8 text, not terminated; length 0 (data may then be NULL) for what is absent or empty
    const char *data
    uint32_t length

cdef struct Address:                # an IP address, or a host name where family is 0
    Span text                       # as the API has it
    uint8_t family                  # 4, 6, or 0 when the text is no IP address
    uint8_t ip[16]                  # network order, 4 or 16 octets used; an IPv4-mapped IPv6 text has family 4, as in Go

cdef struct Port:
    Span name                       # case as in the API; empty for an unnamed one
    Span protocol                   # TCP, UDP, SCTP; empty when absent in a slice
    int32_t number                  # 1 to 65535, or -1: the sentinel of a service or slice without ports, and a slice's port without a number

cdef struct Label:
    Span key
    Span value

cdef struct Object:                 # leads every struct below
    Span namespace                  # empty for a Namespace
    Span name
    uint64_t version                # metadata.resourceVersion, comparable within a kind; 0 when absent (manifests) or not a number

cdef struct Namespace:              # KIND_NAMESPACE
    Object object

cdef struct Service:                # KIND_SERVICE
    Object object
    uint8_t headless                # clusterIP is "None"; cluster_ips is then empty
    uint8_t external                # type is ExternalName
    Span external_name              # spec.externalName
    uint16_t cluster_ip_count       # spec.clusterIPs, or spec.clusterIP when that list is empty
    uint16_t port_count             # at least 1: one sentinel when the service declares none
    uint16_t external_ip_count
    const Address *cluster_ips
    const Port *ports
    const Address *external_ips     # spec.externalIPs, then for each load-balancer ingress its ip, or its hostname (family 0) when it has no ip; no IP twice

cdef struct Endpoint:               # one address of a ready endpoint (an endpoint with two addresses gives two of these)
    Address address
    Span hostname                   # empty when absent
    Span pod                        # targetRef.name where shorter than 64 octets, else empty
    Span zone                       # as in the API (zonal compares in lower case)
    Span node                       # nodeName, likewise
    Span hints                      # EndpointHints in protobuf; empty when absent

cdef struct Slice:                  # KIND_SLICE and KIND_IMPORT_SLICE
    Object object
    Span service                    # the owning service: label kubernetes.io/service-name; of KIND_IMPORT_SLICE multicluster.kubernetes.io/service-name
    Span cluster                    # label multicluster.kubernetes.io/source-cluster
    uint32_t endpoint_count         # only those whose conditions.ready is true or missing
    uint16_t port_count             # at least 1: one sentinel when the slice declares none
    const Endpoint *endpoints       # addresses of an addressType FQDN have family 0
    const Port *ports
    int64_t trigger                 # annotation endpoints.kubernetes.io/last-change-trigger-time, ns since 1970; 0 when absent or malformed

cdef struct Pod:                    # KIND_POD
    Object object
    Address ip                      # status.podIP; length 0 for none yet
    uint8_t terminating             # has a deletionTimestamp: never added or updated, but a standing entry stays until its delete event
    uint8_t host_network            # spec.hostNetwork: the address is its node's
    Span node                       # spec.nodeName
    Span zone                       # label topology.kubernetes.io/zone
    uint16_t label_count            # 0 unless the informer was started with pod labels wanted (see Options.pod_labels), and where they are too many
    const Label *labels             # no key twice

cdef struct Import:                 # KIND_IMPORT
    Object object
    uint8_t headless                # type is Headless, else ClusterSetIP
    uint16_t ip_count
    uint16_t port_count             # may be 0: there is no sentinel here
    const Address *ips
    const Port *ports

cdef struct ObjectSink:
    # A full list of a kind begins: objects upserted until commit are what there is, standing ones not seen by then are gone. Until
    # commit the standing ones go on being served; upserts and deletes in between take effect at once, as they would in a watch. A second begin
    # without a commit starts the marking anew (a list that broke off).
    void (*begin)(void *self, Kind kind, Source source) noexcept nogil
    # Adds or replaces. `object` points to the struct of its kind. An object that differs in nothing from the standing one changes nothing (no serial,
    # no memory). Outside of a list (after commit, before the next begin) one whose version is lower than the standing one's, both
    # not 0, is a late event and changes nothing; inside of a list the object always wins, for versions start over when etcd comes back
    # from a backup. 0, or -1 when memory ran out: the standing object stays, and the caller lists anew later.
    int (*upsert)(void *self, Kind kind, const Object *object) noexcept nogil
    # Deletes; an unknown name is no error. A version (not 0) lower than the standing object's changes nothing, outside of a list.
    void (*remove)(void *self, Kind kind, const Object *object) noexcept nogil
    # The list is complete: drops what was not seen since begin. The kind counts as synced from here on. 0, or -1 when memory ran out: it does not, and the
    # caller lists anew later.
    int (*commit)(void *self, Kind kind) noexcept nogil
    # Nobody wants this kind any more (a reload took `pods verified` away): forget its objects; it is no longer synced.
    void (*drop)(void *self, Kind kind) noexcept nogil
    # No more events at hand for the moment: what was put off for a batch is published now. Cheap when nothing was.
    void (*flush)(void *self) noexcept nogil

cdef class Sink:
    """What the Python side passes around; the store derives from it and fills `calls`, whose functions get `self_`."""
    cdef ObjectSink calls
    cdef void *self_                # first argument of the calls; whatever the derived class wants, <void *>self by default
    # Hands all standing objects of a kind to another sink as upserts, on the writer's thread, without the GIL: the snapshot is written by this.
    # 0, or the first status other than 0 that `into` gave. The base class has none to give.
    cdef int replay(self, Kind kind, const ObjectSink *into, void *into_self) noexcept nogil
