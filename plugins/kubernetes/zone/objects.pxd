"""The zone of a cluster's objects, which replicas have instead of watches: an RRset for each object, of records for private use (RFC 6895 3.1).

The owner is the SHA-256 digest of kind, namespace and name, of which the first half is one label in hexadecimal, below the zone. The rdata begin with the
object's Kind and the part: PART_HEAD is the object as the snapshot has it, of a slice without endpoints, and PART_ENDPOINT one endpoint of it, as a field of
that message. So the parts of an object, head first, are its message, and a changed endpoint is a changed record. Resource versions are left out: an object
that has only another version has the same records.

A message that one record does not hold is divided (pieces.pxd): the first piece is the head, others are PART_PIECE. So is a slice with too many endpoints for
a record each. Replicas of versions before PART_PIECE append any part, and so read these, too. An object that no records hold is left out of the zone.

The record of the apex has FORMAT, the kinds that are in the zone as an octet of bits, and an octet of Extra: what pods and endpoints have beside their names
and addresses.
"""
from libc.stdint cimport uint16_t, uint32_t
from fastdns.plugins.kubernetes.store.records cimport PodRecord, ServiceNode
from fastdns.plugins.kubernetes.zone.content cimport Content
from fastdns.plugins.kubernetes.zone.rows cimport RowSet
from fastdns.plugins.transfer._rows cimport Rows

cdef enum:
    TYPE_OBJECT = 65281
    FORMAT = 1

cdef enum Extra:
    EXTRA_LABELS = 1                # of pods
    EXTRA_PLACES = 2                # the nodes, zones and hints that `topology` reads

cdef enum Part:
    PART_HEAD = 0
    PART_ENDPOINT = 1
    PART_PIECE = 2                  # of a head that one record does not hold

# Adds the records of a service, or service import, and of its slices; none for one in a namespace that the view does not name.
cdef void objects_service(const Content *content, const ServiceNode *node, RowSet *rows) noexcept nogil
# Whether the zone has pods.
cdef bint has_pods(const Content *content) noexcept nogil
# Adds the record of a pod.
cdef void objects_pod(const Content *content, const PodRecord *pod, RowSet *rows) noexcept nogil
# Adds the record of the apex, and those of the namespaces that the view exposes.
cdef void objects_namespaces(const Content *content, RowSet *rows) noexcept nogil
# Adds the records of all services and pods to those of a transfer. False: memory ran out.
cdef bint objects_give(const Content *content, Rows *into) noexcept nogil
