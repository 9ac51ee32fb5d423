"""The base class of all takers of Kubernetes objects; see _objects.pxd."""


cdef void begin_ignored(void *self, Kind kind, Source source) noexcept nogil:
    pass


cdef int upsert_ignored(void *self, Kind kind, const Object *object) noexcept nogil:
    return 0


cdef void remove_ignored(void *self, Kind kind, const Object *object) noexcept nogil:
    pass


cdef int commit_ignored(void *self, Kind kind) noexcept nogil:
    return 0


cdef void drop_ignored(void *self, Kind kind) noexcept nogil:
    pass


cdef void flush_ignored(void *self) noexcept nogil:
    pass


cdef class Sink:
    def __cinit__(self):
        self.self_ = <void *>self
        self.calls.begin = begin_ignored
        self.calls.upsert = upsert_ignored
        self.calls.remove = remove_ignored
        self.calls.commit = commit_ignored
        self.calls.drop = drop_ignored
        self.calls.flush = flush_ignored

    cdef int replay(self, Kind kind, const ObjectSink *into, void *into_self) noexcept nogil:
        return 0

    def lose(self, int kind, since):
        pass

    def limit_age(self, seconds, bint fails):
        pass
