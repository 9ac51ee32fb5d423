"""A sink that keeps what it is given as Python objects."""
from libc.stdint cimport uint8_t
from libc.string cimport memcmp
from fastdns.plugins.kubernetes.store.encode cimport Output, encode_object, output_free
from fastdns.plugins.kubernetes.decode.fields cimport DECODED, Scratch, scratch_free, scratch_init
from fastdns.plugins.kubernetes.decode.objects cimport (KIND_COUNT, KIND_IMPORT, KIND_IMPORT_SLICE, KIND_POD, KIND_SERVICE, KIND_SLICE, SOURCE_API,
                                                        Address, Import, Kind, Object, ObjectSink, Pod, Port, Service, Sink, Slice, Source, Span)
from fastdns.plugins.kubernetes.decode.protobuf cimport skim_object
from fastdns.plugins.kubernetes.store.find cimport Probe, address_hash, next_pod, next_slice, probe_begin
from fastdns.plugins.kubernetes.store.records cimport PodRecord, SliceRecord, pod_address_length, slice_endpoints, slice_text
from fastdns.plugins.kubernetes.store.store cimport Store, cluster_lock, cluster_unlock

NAMES = ("namespace", "service", "slice", "pod", "import", "import-slice")


cdef str text(Span span):
    return span.data[:span.length].decode("utf-8", "replace") if span.length else ""


cdef bytes octets(Span span):
    return <bytes>span.data[:span.length] if span.length else b""


cdef list addresses(const Address *array, unsigned int count):
    return [(text(array[i].text), array[i].family, bytes(array[i].ip[:16])[:array[i].family and (4 if array[i].family == 4 else 16)])
            for i in range(count)]


cdef list ports(const Port *array, unsigned int count):
    return [(text(array[i].name), text(array[i].protocol), array[i].number) for i in range(count)]


cdef dict view(Kind kind, const Object *object):
    """An object as a dictionary."""
    cdef const Service *service = <const Service *>object
    cdef const Slice *slice = <const Slice *>object
    cdef const Pod *pod = <const Pod *>object
    cdef const Import *imported = <const Import *>object
    seen = {"namespace": text(object.namespace), "name": text(object.name), "version": object.version}
    if kind == KIND_SERVICE:
        seen |= {
            "headless": bool(service.headless), "external": bool(service.external), "external_name": text(service.external_name),
            "cluster_ips": addresses(service.cluster_ips, service.cluster_ip_count),
            "external_ips": addresses(service.external_ips, service.external_ip_count),
            "ports": ports(service.ports, service.port_count),
        }
    elif kind == KIND_SLICE or kind == KIND_IMPORT_SLICE:
        seen |= {
            "service": text(slice.service), "cluster": text(slice.cluster), "trigger": slice.trigger,
            "ports": ports(slice.ports, slice.port_count),
            "endpoints": [
                (addresses(&slice.endpoints[i].address, 1)[0], text(slice.endpoints[i].hostname), text(slice.endpoints[i].pod),
                 text(slice.endpoints[i].zone)) for i in range(slice.endpoint_count)
            ],
            "places": [(text(slice.endpoints[i].node), octets(slice.endpoints[i].hints)) for i in range(slice.endpoint_count)],
        }
    elif kind == KIND_POD:
        seen |= {
            "ip": addresses(&pod.ip, 1)[0], "terminating": bool(pod.terminating), "host_network": bool(pod.host_network),
            "place": (text(pod.node), text(pod.zone)),
            "labels": {text(pod.labels[i].key): text(pod.labels[i].value) for i in range(pod.label_count)},
        }
    elif kind == KIND_IMPORT:
        seen |= {
            "headless": bool(imported.headless), "ips": addresses(imported.ips, imported.ip_count),
            "ports": ports(imported.ports, imported.port_count),
        }
    return seen


cdef void recorder_begin(void *self, Kind kind, Source source) noexcept nogil:
    with gil:
        (<Recorder>self).begun(kind, source)


cdef int recorder_upsert(void *self, Kind kind, const Object *object) noexcept nogil:
    with gil:
        return (<Recorder>self).upserted(kind, object)


cdef void recorder_remove(void *self, Kind kind, const Object *object) noexcept nogil:
    with gil:
        (<Recorder>self).removed(kind, object)


cdef int recorder_commit(void *self, Kind kind) noexcept nogil:
    with gil:
        (<Recorder>self).committed(kind)
    return 0


cdef void recorder_drop(void *self, Kind kind) noexcept nogil:
    with gil:
        (<Recorder>self).dropped(kind)


cdef void recorder_flush(void *self) noexcept nogil:
    with gil:
        (<Recorder>self).flushes += 1


cdef class Recorder(Sink):
    cdef list kept                  # for each kind a dict: (namespace, name) -> (view, encoded)
    cdef list seen                  # for each kind the names met since begin, or None outside of a list
    cdef readonly list log
    cdef readonly set synced
    cdef readonly int flushes
    cdef public bint refuses

    def __cinit__(self):
        self.kept = [{} for _ in range(KIND_COUNT)]
        self.seen = [None] * KIND_COUNT
        self.log = []
        self.synced = set()
        self.calls.begin = recorder_begin
        self.calls.upsert = recorder_upsert
        self.calls.remove = recorder_remove
        self.calls.commit = recorder_commit
        self.calls.drop = recorder_drop
        self.calls.flush = recorder_flush

    def objects(self, int kind):
        return {name: kept[0] for name, kept in self.kept[kind].items()}

    def at(self, Store store not None, bytes address not None):
        cdef uint8_t family = 4 if len(address) == 4 else 6
        cdef const uint8_t *ip = address
        cdef SliceRecord *slice
        cdef PodRecord *pod
        cdef Probe probe
        found = set()
        probe_begin(&probe, &store.cluster.endpoint_addresses, address_hash(ip, family))
        while True:
            slice = next_slice(&probe)
            if slice == NULL:
                break
            if any(slice_endpoints(slice)[i].family == family and memcmp(slice_endpoints(slice)[i].ip, ip, len(address)) == 0
                   for i in range(slice.endpoint_count)):
                found.add("slice " + slice_text(slice)[:slice.name_length].decode())
        probe_begin(&probe, &store.cluster.pod_addresses, address_hash(ip, family))
        while True:
            pod = next_pod(&probe, ip, family)
            if pod == NULL:
                return sorted(found)
            found.add("pod " + (<const char *>pod.data + pod_address_length(pod))[:pod.name_length].decode())

    def take(self, Store store not None):
        cdef int kind, status = 0
        with nogil:
            cluster_lock(&store.cluster)
            for kind in range(KIND_COUNT):
                self.calls.begin(self.self_, <Kind>kind, SOURCE_API)
                status |= store.replay(<Kind>kind, &self.calls, self.self_)
                self.calls.commit(self.self_, <Kind>kind)
            cluster_unlock(&store.cluster)
        if status:
            raise MemoryError

    cdef void begun(self, Kind kind, Source source) noexcept:
        self.seen[<int>kind] = set()
        self.log.append(("begin", NAMES[<int>kind], <int>source))

    cdef int upserted(self, Kind kind, const Object *object) noexcept:
        cdef Output out
        cdef int status
        if self.refuses:
            return -1
        seen = view(kind, object)
        name = (seen["namespace"], seen["name"])
        kept = self.kept[<int>kind]
        if self.seen[<int>kind] is not None:
            self.seen[<int>kind].add(name)
        elif name in kept and seen["version"] and seen["version"] < kept[name][0]["version"]:
            return 0
        if seen.get("terminating") and name not in kept:
            return 0
        if seen.get("terminating"):
            return 0
        if name in kept and {**kept[name][0], "version": 0} == {**seen, "version": 0}:
            kept[name][0]["version"] = seen["version"]
            return 0
        out.data = NULL
        out.length = out.capacity = 0
        out.failed = 0
        status = encode_object(&out, kind, object)
        if status == 0:
            kept[name] = (seen, <bytes>out.data[:out.length])
            self.log.append(("upsert", NAMES[<int>kind], *name))
        output_free(&out)
        return status

    cdef void removed(self, Kind kind, const Object *object) noexcept:
        name = (text(object.namespace), text(object.name))
        kept = self.kept[<int>kind].get(name)
        if kept is None:
            return
        if self.seen[<int>kind] is None and object.version and object.version < kept[0]["version"]:
            return
        del self.kept[<int>kind][name]
        self.log.append(("remove", NAMES[<int>kind], *name))

    cdef void committed(self, Kind kind) noexcept:
        seen = self.seen[<int>kind]
        if seen is not None:
            for name in [name for name in self.kept[<int>kind] if name not in seen]:
                del self.kept[<int>kind][name]
                self.log.append(("remove", NAMES[<int>kind], *name))
        self.seen[<int>kind] = None
        self.synced.add(<int>kind)
        self.log.append(("commit", NAMES[<int>kind]))

    cdef void dropped(self, Kind kind) noexcept:
        self.kept[<int>kind].clear()
        self.seen[<int>kind] = None
        self.synced.discard(<int>kind)
        self.log.append(("drop", NAMES[<int>kind]))

    cdef int replay(self, Kind kind, const ObjectSink *into, void *into_self) noexcept nogil:
        with gil:
            return self.replay_kept(kind, into, into_self)

    cdef int replay_kept(self, Kind kind, const ObjectSink *into, void *into_self) noexcept:
        cdef Scratch scratch
        cdef const Object *object = NULL
        cdef Span body, version
        cdef int status = 0
        scratch_init(&scratch)
        for _, encoded in self.kept[<int>kind].values():
            body.data = encoded
            body.length = <unsigned int>len(encoded)
            status = skim_object(kind, body, True, &scratch, &object, &version)
            if status == DECODED:
                status = into.upsert(into_self, kind, object)
            if status != 0:
                break
        scratch_free(&scratch)
        return status
