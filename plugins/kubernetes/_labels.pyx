"""Metadata of kubernetes: the parts of the client's question, and whose pod asks. Computed when somebody reads it."""
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcmp
from fastdns.api.query cimport Query
from fastdns.api.names cimport ZoneName, zones_match
from fastdns.api.metadata cimport Label as MetadataLabel, LabelHandle
from fastdns.api.text cimport Text, text_put
from fastdns.plugins.kubernetes.store.find cimport Probe, address_hash, find_pod, next_pod, probe_begin
from fastdns.plugins.kubernetes._handler cimport ViewHandler
from fastdns.plugins.kubernetes.answer.name cimport (FORM_APEX, FORM_NAMESPACE, FORM_NONE, FORM_POD, FORM_SERVICE, GRAMMAR_IMPORTED, Wanted,
                                                     name_parse)
from fastdns.plugins.kubernetes.store.records cimport NodeRecord, PodLabel, PodRecord, pod_address_length, pod_label_next, pod_node
from fastdns.plugins.kubernetes.answer.owners cimport owners_write
from fastdns.plugins.kubernetes.answer.view cimport PODS_VERIFIED, View

cdef enum Part:
    PART_NAMESPACE
    PART_SERVICE
    PART_ENDPOINT
    PART_PORT
    PART_PROTOCOL
    PART_KIND
    PART_ZONE
    PART_CLUSTER
    PART_ERROR
    PART_CLIENT
    PART_CLIENT_POD

CLIENT_LABEL = "client-label/"
CERTAIN = ("client-namespace", "client-pod-name", "client-node-name", "client-kind")

cdef enum:
    POD_NAME = 0xFFFFFFFF       # for `read_label`, in place of a key's length
    NODE_NAME = 0xFFFFFFFE
    OWNERS_MAX = 512            # octets of the labels of namespaces that a question may be for

PARTS = {
    "namespace": PART_NAMESPACE, "service": PART_SERVICE, "endpoint": PART_ENDPOINT, "port-name": PART_PORT, "protocol": PART_PROTOCOL, "kind": PART_KIND,
    "zone": PART_ZONE, "cluster": PART_CLUSTER, "parse-error": PART_ERROR, "client-namespace": PART_CLIENT,
    "client-pod-name": PART_CLIENT_POD,
}


cdef bint put(Text *out, const uint8_t *text, uint32_t length) noexcept nogil:
    if length:                      # a part that is not there has no address
        text_put(out, <const char *>text, length)
    return True


cdef bint write_part(const MetadataLabel *label, Query *q, Text *out) noexcept nogil:
    """A part that the question does not name is empty, but set: CoreDNS publishes all of a name that it can parse."""
    cdef const View *view = <const View *>label.argument
    cdef const ZoneName *zone = zones_match(view.zones, &q.first_name)
    cdef Wanted wanted
    cdef uint32_t part = label.key
    cdef int grammar
    if zone == NULL:
        return False
    grammar = view.zone_flags[zone - view.zones.names]
    name_parse(&q.first_name, q.first_name.labels - zone.labels, grammar, &wanted)
    if part == PART_ERROR:
        return wanted.form == FORM_NONE and put(out, <const uint8_t *>b"invalid query name", 18)
    if wanted.form == FORM_NONE:
        return False
    if part == PART_PORT:
        return put(out, wanted.port.text, wanted.port.length)
    if part == PART_PROTOCOL:
        return put(out, wanted.protocol.text, wanted.protocol.length)
    if part == PART_ENDPOINT:
        return put(out, wanted.endpoint.text, wanted.endpoint.length)
    if part == PART_CLUSTER:
        return grammar & GRAMMAR_IMPORTED != 0 and put(out, wanted.cluster.text, wanted.cluster.length)
    if part == PART_ZONE:
        return view.zonal != 0 and put(out, <const uint8_t *>wanted.topology, wanted.topology_length)
    if part == PART_KIND:
        return wanted.form == FORM_APEX or put(out, <const uint8_t *>(b"pod" if wanted.pods else b"svc"), 3)
    if part == PART_NAMESPACE:
        return wanted.form not in (FORM_NAMESPACE, FORM_SERVICE, FORM_POD) or put(out, wanted.namespace + 1, wanted.namespace[0])
    return wanted.form not in (FORM_SERVICE, FORM_POD) or put(out, wanted.service + 1, wanted.service[0])


cdef bint write_client(const MetadataLabel *label, Query *q, Text *out) noexcept nogil:
    cdef const View *view = <const View *>label.argument
    cdef const PodRecord *pod
    if view.pods != PODS_VERIFIED:
        return False
    pod = find_pod(view.cluster, q.client.octets, q.client.family)
    if pod == NULL:
        return False
    if label.key == PART_CLIENT_POD:
        return put(out, pod.data + pod_address_length(pod), pod.name_length)
    return put(out, pod.namespace.label + 1, pod.namespace.label[0])


cdef bint write_client_label(const MetadataLabel *label, Query *q, Text *out) noexcept nogil:
    """label.argument is the key, of label.key octets."""
    cdef const View *view = <const View *>label.handler.state
    cdef const PodRecord *pod
    cdef PodLabel found
    cdef uint32_t place = 0
    if view.pods != PODS_VERIFIED:
        return False
    pod = find_pod(view.cluster, q.client.octets, q.client.family)
    while pod != NULL and pod_label_next(pod, &place, &found):
        if found.key_length == label.key and memcmp(found.key, label.argument, label.key) == 0:
            return put(out, found.value, found.value_length)
    return False


cdef bint read_label(const MetadataLabel *label, const PodRecord *pod, PodLabel *found) noexcept nogil:
    """label.argument is the key, of label.key octets; that of no octets is the namespace, that of POD_NAME the pod's name, that of NODE_NAME its node's."""
    cdef const NodeRecord *node
    cdef uint32_t place = 0
    if label.key == NODE_NAME:
        if not pod.placed:
            return False
        node = pod_node(pod)
        found.value = <const uint8_t *>node.name
        found.value_length = node.length
        return True
    if label.key == POD_NAME:
        found.value = pod.data + pod_address_length(pod)
        found.value_length = <uint8_t>pod.name_length
        return True
    if label.key == 0:
        found.value = pod.namespace.label + 1
        found.value_length = pod.namespace.label[0]
        return True
    while pod_label_next(pod, &place, found):
        if found.key_length == label.key and memcmp(found.key, label.argument, label.key) == 0:
            return True
    return False


cdef bint write_certain(const MetadataLabel *label, Query *q, Text *out) noexcept nogil:
    """What all pods with the client's address have in common: while a pod goes whose address another one has already, both may be there.

    A pod in its node's network says nothing of who asks: everything on that node has the address.
    """
    cdef const View *view = <const View *>label.handler.state
    cdef const PodRecord *pod
    cdef PodLabel first, other
    cdef Probe probe
    probe_begin(&probe, &view.cluster.pod_addresses, address_hash(q.client.octets, q.client.family))
    pod = next_pod(&probe, q.client.octets, q.client.family)
    if pod == NULL or pod.host_network or not read_label(label, pod, &first):
        return False
    while True:
        pod = next_pod(&probe, q.client.octets, q.client.family)
        if pod == NULL:
            return put(out, first.value, first.value_length)
        if pod.host_network or not read_label(label, pod, &other) or other.value_length != first.value_length or memcmp(
                other.value, first.value, first.value_length) != 0:
            return False


cdef bint write_kind(const MetadataLabel *label, Query *q, Text *out) noexcept nogil:
    """Whether the client has the address of a pod, or of a node with a pod that uses its network, or of none that is known."""
    cdef const View *view = <const View *>label.handler.state
    cdef const PodRecord *pod
    cdef Probe probe
    cdef bint any = False
    probe_begin(&probe, &view.cluster.pod_addresses, address_hash(q.client.octets, q.client.family))
    while True:
        pod = next_pod(&probe, q.client.octets, q.client.family)
        if pod == NULL:
            return put(out, <const uint8_t *>b"pod", 3) if any else put(out, <const uint8_t *>b"unknown", 7)
        if pod.host_network:
            return put(out, <const uint8_t *>b"node", 4)
        any = True


cdef bint write_own(const MetadataLabel *label, Query *q, Text *out) noexcept nogil:
    """Whether all namespaces that the question is for are the client's; unset where it is for none."""
    cdef const View *view = <const View *>label.handler.state
    cdef char names[OWNERS_MAX]
    cdef char client[64]
    cdef Text owners, own
    cdef uint32_t at = 0
    owners.out, owners.used, owners.capacity, owners.full = names, 0, OWNERS_MAX, 0
    own.out, own.used, own.capacity, own.full = client, 0, sizeof(client), 0
    owners_write(view, &q.client, &q.first_name, q.qtype, &owners)
    if owners.used == 0 and not owners.full:
        return False
    if owners.full or view.pods != PODS_VERIFIED or not write_certain(label, q, &own):
        return put(out, <const uint8_t *>b"false", 5)
    while at < owners.used:
        if <uint8_t>names[at] != own.used or memcmp(names + at + 1, client, own.used) != 0:
            return put(out, <const uint8_t *>b"false", 5)
        at += <uint8_t>names[at] + 1u
    return put(out, <const uint8_t *>b"true", 4)


cdef LabelHandle keyed(ViewHandler handler, str key):
    cdef LabelHandle handle = LabelHandle()
    cdef bytes octets = key.encode("utf-8", "surrogateescape")
    handle.kept = (octets, handler)
    handle.label.key = <uint32_t>len(octets)
    handle.label.argument = octets
    handle.label.handler = &handler.handler
    return handle


def certain(ViewHandler handler not None, str name not None):
    """See kubernetes/_labels.pyi."""
    cdef LabelHandle handle
    kind, _, key = name.partition("/")
    if handler.view.pods != PODS_VERIFIED or kind not in (("client-label",) if key else CERTAIN):
        return None
    handle = keyed(handler, key)
    if kind == "client-pod-name":
        handle.label.key = POD_NAME
    elif kind == "client-node-name":
        handle.label.key = NODE_NAME
    handle.label.value = write_kind if kind == "client-kind" else write_certain
    return handle


def publish(ViewHandler handler not None, str name not None):
    """The label of metadata ``kubernetes/NAME``, or None."""
    cdef LabelHandle handle
    if name.startswith(CLIENT_LABEL):
        handle = keyed(handler, name[len(CLIENT_LABEL):])
        handle.label.value = write_client_label
        return handle
    if name == "own-namespace":
        handler.view.guarded = 1
        handle = keyed(handler, "")     # without a key `write_certain` reads the client's namespace
        handle.label.value = write_own
        return handle
    part = PARTS.get(name)
    if part is None:
        return None
    handle = LabelHandle()
    handle.label.key = part
    handle.label.argument = <const char *>&handler.view
    handle.label.value = write_client if part in (PART_CLIENT, PART_CLIENT_POD) else write_part
    return handle
