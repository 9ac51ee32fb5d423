"""What AddressSanitizer and LeakSanitizer are told of memory that is mapped and not malloc's. Nothing where they do not watch the build."""
from fastdns.system.sanitizer cimport ADDRESS_SANITIZER

cdef extern from * nogil:
    """
    #if FASTDNS_ADDRESS_SANITIZER
    #include <sanitizer/asan_interface.h>
    #include <sanitizer/lsan_interface.h>
    #else
    #define __asan_poison_memory_region(region, size) ((void)(region), (void)(size))
    #define __asan_unpoison_memory_region(region, size) ((void)(region), (void)(size))
    #define __lsan_register_root_region(region, size) ((void)(region), (void)(size))
    #define __lsan_unregister_root_region(region, size) ((void)(region), (void)(size))
    #endif
    """
    # From then on nobody may read or write it; and all may again. Both at multiples of 8 octets.
    void region_hide "__asan_poison_memory_region"(const void *region, size_t size)
    void region_show "__asan_unpoison_memory_region"(const void *region, size_t size)
    # Blocks of malloc that it has the addresses of are not lost.
    void root_region_add "__lsan_register_root_region"(const void *region, size_t size)
    void root_region_remove "__lsan_unregister_root_region"(const void *region, size_t size)
