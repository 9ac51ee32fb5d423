"""Whether AddressSanitizer watches this build. What is kept for the next use is freed at once there, so that leaks and uses after free are seen."""

cdef extern from *:
    """
    #if defined(__SANITIZE_ADDRESS__)           /* gcc */
    #define FASTDNS_ADDRESS_SANITIZER 1
    #elif defined(__has_feature)                /* clang */
    #if __has_feature(address_sanitizer)
    #define FASTDNS_ADDRESS_SANITIZER 1
    #endif
    #endif
    #ifndef FASTDNS_ADDRESS_SANITIZER
    #define FASTDNS_ADDRESS_SANITIZER 0
    #endif
    """
    bint ADDRESS_SANITIZER "FASTDNS_ADDRESS_SANITIZER"
