"""Big-endian numbers in octets: network byte order."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t

cdef inline uint16_t load16(const uint8_t *p) noexcept nogil:
    return <uint16_t>((p[0] << 8) | p[1])

cdef inline uint32_t load32(const uint8_t *p) noexcept nogil:
    return (<uint32_t>p[0] << 24) | (<uint32_t>p[1] << 16) | (<uint32_t>p[2] << 8) | p[3]

cdef inline void store16(uint8_t *p, uint32_t v) noexcept nogil:
    p[0] = <uint8_t>(v >> 8)
    p[1] = <uint8_t>v

cdef inline void store32(uint8_t *p, uint32_t v) noexcept nogil:
    p[0] = <uint8_t>(v >> 24)
    p[1] = <uint8_t>(v >> 16)
    p[2] = <uint8_t>(v >> 8)
    p[3] = <uint8_t>v
