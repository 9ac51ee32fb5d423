"""The names of a cluster's zone: what the labels left of the zone mean (Kubernetes DNS specification 1.1.0, CoreDNS's extensions)."""
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcpy
from fastdns.api.names cimport NAME_MAX, Name
from fastdns.plugins.kubernetes.store.records cimport NodeRecord

cdef enum Form:
    FORM_NONE                       # no name of the grammar
    FORM_APEX                       # the zone itself
    FORM_EMPTY                      # svc or pod
    FORM_NAMESPACE                  # NAMESPACE.svc or NAMESPACE.pod
    FORM_SERVICE                    # SERVICE.NAMESPACE.svc with all that may stand before it
    FORM_POD                        # IP-DASHED.NAMESPACE.pod
    FORM_SERVERS                    # ns.dns
    FORM_VERSION                    # dns-version

cdef enum Direction:
    EVERYWHERE
    PIN                             # of a zone-scoped name (property zonal): only endpoints of that topology zone
    PREFER                          # likewise: these if there are any, else all
    NEAR                            # only endpoints of the client's node or zone (property topology)

cdef enum:                          # what the zone and the view allow: bits of View.zone_flags
    GRAMMAR_IMPORTED = 1            # a multicluster zone
    GRAMMAR_ZONAL = 4

cdef struct Label:                  # borrowed from the name, lower case, without its length octet; length 0: any
    const uint8_t *text
    uint32_t length

cdef struct Near:                   # where a client is; borrowed from the store
    const NodeRecord *node
    const char *zone
    uint8_t zone_length             # 0: not known
    uint8_t by_node                 # NEAR is the node, else the zone
    uint8_t outcome                 # NearOutcome so far

cdef struct Wanted:                 # what a name asks for
    Form form
    uint32_t zone                   # index of the zone's first label in the name
    const uint8_t *namespace        # its label in wire form, lower case; NULL: the name is below none. Set for FORM_NONE too, where it is below one
    const uint8_t *service          # likewise; the namespace's label follows. Of FORM_POD the dashed address
    uint32_t key_length             # octets of both labels
    Label port
    Label protocol
    Label endpoint
    Label cluster
    uint8_t pods                    # of FORM_NAMESPACE: NAMESPACE.pod
    uint8_t by_endpoint             # an endpoint's label was given
    uint8_t by_port                 # labels of port and protocol were given; each may still be empty
    uint8_t endpoint_family         # of endpoint_ip; 0: none
    uint8_t endpoint_ip[16]         # the address that the endpoint's label spells, if it does
    Direction direction
    const Near *near                # of NEAR
    uint8_t topology_length
    char topology[256]              # the topology zone's name

# What `name` means in a zone that begins at its label `zone`.
cdef void name_parse(const Name *name, uint32_t zone, int grammar, Wanted *wanted) noexcept nogil
# What `name` means in a zone of k8s_external that begins at its label `zone`: SERVICE.NAMESPACE with an endpoint, or port and protocol, in front. The
# form is FORM_NONE, FORM_NAMESPACE or FORM_SERVICE.
cdef void name_parse_external(const Name *name, uint32_t zone, Wanted *wanted) noexcept nogil
# Does a service's or slice's port match the labels of port and protocol? text holds name and protocol.
cdef bint name_port(const Wanted *wanted, const char *text, uint32_t name_length, uint32_t protocol_length) noexcept nogil
# Equal without regard to case; label is lower case.
cdef bint label_is(const Label *label, const char *text, uint32_t length) noexcept nogil
# The label of an address: dots and colons become dashes, and no dash is last. out has 40 octets; returns the length.
cdef uint32_t name_address(const uint8_t *ip, uint8_t family, char *out) noexcept nogil
# The address that a pod's label spells (three dashes: IPv4, else IPv6). Its family, or 0. `exact` is set when that is how such an address is spelled.
cdef uint8_t name_pod(const uint8_t *label, uint32_t length, uint8_t *ip, bint *exact) noexcept nogil
# The address of a full reverse name (RFC 1035 3.5, RFC 3596 2.5): its family, or 0.
cdef uint8_t name_reverse(const Name *name, uint8_t *ip) noexcept nogil
# Does the name lie below in-addr.arpa or ip6.arpa?
cdef bint name_is_reverse(const Name *name) noexcept nogil

cdef inline uint32_t name_write(uint8_t *out, const char *label, uint32_t label_length, const char *cluster, uint32_t cluster_length,
                                const uint8_t *key, uint32_t key_length, const uint8_t *zone, uint32_t zone_length) noexcept nogil:
    """An endpoint's or service's name in a zone, in wire form: label and cluster may be empty. out has 255 octets; 0 when it is too long."""
    cdef uint32_t used = 0
    if label_length + cluster_length + key_length + zone_length + 6 > NAME_MAX:
        return 0
    if label_length:
        out[0] = <uint8_t>label_length
        memcpy(out + 1, label, label_length)
        used = label_length + 1
    if cluster_length:
        out[used] = <uint8_t>cluster_length
        memcpy(out + used + 1, cluster, cluster_length)
        used += cluster_length + 1
    memcpy(out + used, key, key_length)
    used += key_length
    memcpy(out + used, b"\x03svc", 4)
    memcpy(out + used + 4, zone, zone_length)
    return used + 4 + zone_length
