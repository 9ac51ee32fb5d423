"""Metadata: values that plugins publish about a query, by labels such as ``forward/upstream``; computed when somebody reads them.

A reader (log's format, view, rewrite, template) resolves a label once all of a block is set up, and keeps what it gets: a function of the handler that
publishes it. Where the block has no `metadata`, nothing is published.
"""
from libc.stdint cimport uint32_t
from fastdns.walk.query cimport Handler, Query
from fastdns.message.text cimport Text
from fastdns.index.zone_list cimport Zones, zones_hold

cdef enum:
    LABEL_MAX = 8192            # octets of a value; what is longer is cut

cdef struct Label

# Writes the value; False when the query has none. May run before the chain does (view), when no scratch is valid: q.chain is NULL then.
ctypedef bint (*label_func)(const Label *label, Query *q, Text *out) noexcept nogil

cdef struct Label:
    label_func value            # NULL: nobody publishes it
    Handler *handler            # whose it is
    const Zones *zones          # of the block's `metadata`; NULL: whatever the query's name
    uint32_t key                # the publisher's own
    const char *argument        # the publisher's own; borrowed from the LabelHandle

cdef inline bint label_read(const Label *label, Query *q, Text *out) noexcept nogil:
    """Writes the label's value for the query as it came; False when it is unset."""
    if label.value == NULL or label.zones != NULL and not zones_hold(label.zones, &q.first_name):
        return False
    return label.value(label, q, out)

cdef class LabelHandle:         # keep it as long as `label` is used
    cdef Label label
    cdef public object kept     # what the label borrows from
    cdef public bint anywhere   # not bound to the zones of `metadata`: set by the handler as it answers
