"""What is used of libunbound (unbound.h, unbound-event.h), declared once."""
from posix.time cimport timeval

cdef extern from "unbound.h" nogil:
    cdef struct ub_ctx:
        pass
    int ub_ctx_set_option(ub_ctx *context, const char *option, const char *value) noexcept
    int ub_ctx_config(ub_ctx *context, const char *file) noexcept
    int ub_ctx_zone_add(ub_ctx *context, const char *name, const char *type) noexcept
    int ub_ctx_zone_remove(ub_ctx *context, const char *name) noexcept
    void ub_ctx_delete(ub_ctx *context) noexcept
    const char *ub_strerror(int error) noexcept

cdef extern from "unbound-event.h" nogil:
    enum: UB_EV_TIMEOUT
    enum: UB_EV_READ
    enum: UB_EV_WRITE
    enum: UB_EV_PERSIST
    enum: UB_EVENT_MAGIC

    ctypedef void (*ub_event_callback_type)(void *data, int rcode, void *packet, int length, int security, char *why_bogus,
                                            int was_ratelimited) noexcept nogil

    cdef struct ub_event:
        unsigned long magic
        ub_event_vmt *vmt

    cdef struct ub_event_base:
        unsigned long magic
        ub_event_base_vmt *vmt

    cdef struct ub_event_base_vmt:          # what libunbound does not call is left out
        ub_event *(*new_event)(ub_event_base *base, int fd, short bits, void (*callback)(int, short, void *) noexcept nogil,
                               void *argument) noexcept nogil

    cdef struct ub_event_vmt:               # likewise
        void (*add_bits)(ub_event *event, short bits) noexcept nogil
        void (*del_bits)(ub_event *event, short bits) noexcept nogil
        void (*set_fd)(ub_event *event, int fd) noexcept nogil
        void (*free)(ub_event *event) noexcept nogil
        int (*add)(ub_event *event, timeval *time) noexcept nogil
        int (*del_ "del")(ub_event *event) noexcept nogil
        int (*add_timer)(ub_event *event, ub_event_base *base, void (*callback)(int, short, void *) noexcept nogil, void *argument,
                         timeval *time) noexcept nogil
        int (*del_timer)(ub_event *event) noexcept nogil

    ub_ctx *ub_ctx_create_ub_event(ub_event_base *base) noexcept
    int ub_resolve_event(ub_ctx *context, const char *name, int type, int klass, void *data, ub_event_callback_type callback, int *id) noexcept
