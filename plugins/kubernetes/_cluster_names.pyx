"""Which namespaces a question is for, and the SOA of the cluster's zones, for plugin acl."""
from fastdns.api.query cimport Query
from fastdns.api.reply cimport SECTION_AUTHORITY
from fastdns.api.names cimport ZoneList, ZoneName, zones_match
from fastdns.api.text cimport Text
from fastdns.plugins.acl._cluster cimport ClusterNames, ClusterNamesHandle
from fastdns.plugins.kubernetes._handler cimport ViewHandler
from fastdns.plugins.kubernetes.answer.owners cimport owners_write
from fastdns.plugins.kubernetes.answer.records cimport Ask, answer_soa
from fastdns.plugins.kubernetes.answer.view cimport View


cdef void write_namespaces(const ClusterNames *names, const Query *q, Text *out) noexcept nogil:
    owners_write(<const View *>names.state, &q.client, q.name, q.qtype, out)


cdef void add_soa(const ClusterNames *names, Query *q) noexcept nogil:
    cdef const View *view = <const View *>names.state
    cdef const ZoneName *zone = zones_match(view.zones, q.name)
    cdef Ask ask
    if zone == NULL:
        return
    ask.view = view
    ask.q = q
    ask.zone = q.name.wire + q.name.length - zone.length
    ask.zone_length = zone.length
    ask.zone_flags = view.zone_flags[zone - view.zones.names]
    ask.zone_name = zone
    answer_soa(&ask, SECTION_AUTHORITY)


def cluster_names(ViewHandler handler not None, bint guarded):
    """See _kubernetes.pyi."""
    cdef ClusterNamesHandle handle = ClusterNamesHandle()
    handler.view.guarded |= guarded
    handle.names.namespaces = write_namespaces
    handle.names.soa = add_soa
    handle.names.state = &handler.view
    handle.kept = handler
    handle.zones = (<ZoneList>handler.zones).names
    return handle
