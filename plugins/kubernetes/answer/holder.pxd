"""Whose names a PTR record of an endpoint's address may have, where policies look at the namespace of questions (`View.guarded`).

Anybody who may write an EndpointSlice can name any address in it. So the pod that has the address says whose it is, and names in other namespaces do not
count. A pod in its node's network has the node's address: of such an address the namespaces count that have a pod there. If no pod that is watched has
the address, each namespace has its own names for it: its clients get those, and clients of namespaces that do not name the address get all.
"""
from libc.stdint cimport uint8_t
from fastdns.api.network cimport Address
from fastdns.plugins.kubernetes.answer.view cimport View
from fastdns.plugins.kubernetes.store.records cimport NamespaceNode, SliceRecord

cdef enum HolderKind:
    HOLDER_NOBODY                   # no slice that the view exposes names the address
    HOLDER_PODS                     # the pods that have it
    HOLDER_NODE                     # namespaces with a pod in the network of the node that has it
    HOLDER_CLIENT                   # the client's namespace, which names it
    HOLDER_ALL                      # all that name it

cdef struct Holder:
    const View *view
    const uint8_t *ip               # borrowed
    uint8_t family
    HolderKind kind
    uint8_t tailored                # another client may get other names
    const NamespaceNode *own        # of HOLDER_CLIENT

cdef void holder_find(Holder *holder, const View *view, const Address *client, const uint8_t *ip, uint8_t family) noexcept nogil
# False: names of endpoints in that namespace do not count.
cdef bint holder_admits(const Holder *holder, const NamespaceNode *namespace) noexcept nogil
cdef bint slice_has(const SliceRecord *slice, const uint8_t *ip, uint8_t family) noexcept nogil
# Whether PTR answers may name services of this namespace. context is the View. The property `namespaces` counts here, the mere absence of a namespace does not.
cdef bint accepts(const void *context, const NamespaceNode *namespace) noexcept nogil
