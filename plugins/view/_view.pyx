"""The filter of view: runs its expressions on the worker, before the block is chosen."""
from libc.stdint cimport uint32_t
from libc.stdlib cimport calloc, free
from fastdns.api.query cimport Handler, NativeHandler, Query, handler_init
from fastdns.api.metadata cimport Label, LabelHandle
from fastdns.api.text cimport Text, text_put
from fastdns.api.expression cimport Code, Program, evaluate_truth

cdef struct State:
    uint32_t count
    const Program **programs    # owned; each borrowed from its Code


cdef bint view_filter(Handler *self, Query *q) noexcept nogil:
    """All expressions are true; one that fails, or is none of true and false, is not."""
    cdef const State *state = <const State *>self.state
    cdef uint32_t i
    for i in range(state.count):
        if not evaluate_truth(state.programs[i], q):
            return False
    return True


cdef bint view_name(const Label *label, Query *q, Text *out) noexcept nogil:
    text_put(out, label.argument, label.key)
    return True


cdef class ViewFilter(NativeHandler):
    cdef State state
    cdef list codes
    cdef bytes view

    def __cinit__(self, str view, list codes):
        handler_init(self)
        cdef Code code
        self.codes = codes
        self.view = view.encode("utf-8", "surrogateescape")
        self.state.programs = <const Program **>calloc(len(codes) + 1, sizeof(Program *))
        if self.state.programs == NULL:
            raise MemoryError
        for code in codes:
            self.state.programs[self.state.count] = &code.program
            self.state.count += 1
        self.handler.state = &self.state
        self.filter = view_filter

    def __init__(self, str view, list codes):
        super().__init__("view")

    def __dealloc__(self):
        free(self.state.programs)

    def resolve(self, config):
        for code in self.codes:
            code.resolve(config)

    def label(self, str name):
        cdef LabelHandle handle
        if name != "name":
            return None
        handle = LabelHandle()
        handle.label.value = view_name
        handle.label.argument = self.view
        handle.label.key = <uint32_t>len(self.view)
        return handle
