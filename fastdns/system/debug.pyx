"""What the counters of a debug build say; see system/debug.pyi."""
from libc.stdint cimport int64_t

import gc
import os
import re
import select
import sys

cdef extern from "<dlfcn.h>" nogil:
    void *dlopen(const char *path, int flags)
    void *dlsym(void *library, const char *symbol)
    int dlclose(void *library)
    int RTLD_LAZY, RTLD_NOLOAD

cdef extern from *:
    """
    #ifdef FASTDNS_DEBUG_H
    #define DEBUG_BUILD 1
    #else
    #define DEBUG_BUILD 0
    struct fastdns_debug_counter {
        const char *what, *function;
        int64_t made, live;
        struct fastdns_debug_counter *next;
    };
    #endif
    """
    bint DEBUG_BUILD
    struct fastdns_debug_counter:
        const char *what
        const char *function
        int64_t made
        int64_t live
        fastdns_debug_counter *next

#: The names that Cython gives to structs and functions in C.
STRUCT = r"struct __pyx_(?:t|obj)_(\w+)( \*)?"
FUNCTION = r"__pyx_(?:f|pf|pw)_(\w+)"

HEAP_TYPE = 1 << 9              # Py_TPFLAGS_HEAPTYPE
PIPE_OCTETS = 4096              # PIPE_BUF: what a pipe that can be written takes at once
PATIENCE = 0.2                  # seconds

enabled = bool(DEBUG_BUILD)


def plain(mangled):
    """The last of the names in what Cython makes of a dotted name: each but the last stands behind its length."""
    while found := re.match(r"(\d+)", mangled):
        length = int(found[1])
        rest = mangled[found.end() + length:]
        if not rest:
            return mangled[found.end():]
        mangled = rest.removeprefix("_")
    return mangled


def title(what, function):
    """The struct that a block holds, else the function that allocates it."""
    if function is None:
        return what
    if found := re.search(STRUCT, what):
        return plain(found[1]) + (found[2] or "")
    found = re.match(FUNCTION, function)
    return f"{plain(found[1]) if found else function}()"


cdef void collect(str module, str path, dict counted):
    cdef void *library = dlopen(os.fsencode(path), RTLD_LAZY | RTLD_NOLOAD)
    cdef fastdns_debug_counter **head
    cdef fastdns_debug_counter *counter
    if library == NULL:
        return
    head = <fastdns_debug_counter **>dlsym(library, b"fastdns_debug_list")
    counter = head[0] if head != NULL else NULL
    while counter != NULL:
        name = f"{module}.{title(counter.what.decode(), counter.function.decode() if counter.function != NULL else None)}"
        made, live = counted.get(name, (0, 0))
        counted[name] = (made + counter.made, live + counter.live)
        counter = counter.next
    dlclose(library)


def counters():
    counted = {}
    if enabled:
        for name, module in sorted(sys.modules.items()):
            if name.startswith("fastdns.") and (getattr(module, "__file__", None) or "").endswith(".so"):
                collect(name, module.__file__, counted)
    return counted


def objects():
    counted = {}
    if enabled:
        gc.collect()
        for thing in gc.get_objects():
            kind = type(thing)
            if not kind.__flags__ & HEAP_TYPE and (name := f"{kind.__module__}.{kind.__qualname__}").startswith("fastdns."):
                counted[name] = counted.get(name, 0) + 1
    return counted


def report() -> None:
    if not enabled:
        return
    living = sorted(objects().items())      # first: it collects what is garbage
    lines = [f"fastdns: debug: {name}: {made} made, {live} live" for name, (made, live) in sorted(counters().items())]
    lines += [f"fastdns: debug: {name}: {number} objects" for name, number in living]
    text = "".join(f"{line}\n" for line in lines).encode()
    sys.stderr.flush()
    for at in range(0, len(text), PIPE_OCTETS):
        if not select.select((), (2,), (), PATIENCE)[1]:
            return                      # a pipe that nobody reads must not hold up the end
        os.write(2, text[at:at + PIPE_OCTETS])
