"""Memory that malloc keeps."""

cdef extern from * nogil:
    """
    #include <stdlib.h>
    #ifdef __GLIBC__
    #include <malloc.h>
    #define FASTDNS_TRIM() (void)malloc_trim(0)
    #define FASTDNS_BOUND(octets) (void)(mallopt(M_MMAP_THRESHOLD, octets), mallopt(M_TRIM_THRESHOLD, octets))
    #else
    #define FASTDNS_TRIM() (void)0
    #define FASTDNS_BOUND(octets) (void)0
    #endif
    """
    void trim "FASTDNS_TRIM"()
    void bound "FASTDNS_BOUND"(int octets)

cdef enum:
    LARGE = 1 << 20


def give_back():
    with nogil:
        trim()


def give_back_large():
    bound(LARGE)
