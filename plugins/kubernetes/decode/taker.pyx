"""A sink in Python; see taker.pyi."""
from fastdns.plugins.kubernetes.decode.objects cimport Kind, Sink, Source

from fastdns.plugins.kubernetes.decode.refusals import Refusals
from fastdns.telemetry.log import Log

log = Log("plugin/kubernetes")


cdef void call(void *self, str method) noexcept:
    """Whatever the method raises is logged: a list must not end by it."""
    try:
        getattr(<object>self, method)()
    except Exception as error:
        log.error(f"{type(<object>self).__name__}.{method}: {type(error).__name__}: {error}")


cdef void taker_begin(void *self, Kind kind, Source source) noexcept nogil:
    with gil:
        call(self, "begin")


cdef int taker_commit(void *self, Kind kind) noexcept nogil:
    with gil:
        call(self, "commit")
    return 0


cdef void taker_drop(void *self, Kind kind) noexcept nogil:
    with gil:
        call(self, "drop")


cdef void taker_flush(void *self) noexcept nogil:
    with gil:
        call(self, "flush")


cdef class Taker(Sink):
    cdef public object refusals

    def __cinit__(self, *args, **options):
        self.refusals = Refusals(type(self).__name__)
        self.calls.begin = taker_begin
        self.calls.commit = taker_commit
        self.calls.drop = taker_drop
        self.calls.flush = taker_flush

    def begin(self):
        pass

    def take(self, octets, removed):
        return None

    def withdraw(self, namespace, name, version):
        pass

    def commit(self):
        pass

    def drop(self):
        pass

    def flush(self):
        pass
