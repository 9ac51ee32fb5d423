"""Questions for another server. The contract is in the .pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.string cimport memcpy, memset

from fastdns.system.byteorder cimport load16, store16
from fastdns._wire cimport (CLASS_IN, EDNS_DO, EDNS_SIZE, FLAG_CD, FLAG_RD, HEADER_SIZE, OPCODE_QUERY, OPTION_SUBNET, OPT_SIZE, TYPE_AXFR, TYPE_IXFR,
                            TYPE_OPT, Message, Name, copy_octets, flags_opcode, wire_answers, wire_option, wire_parse_reply)

cdef enum:
    SIZE_LEAST = 512            # RFC 6891 6.2.3
    SUBNET_MAX = 24             # octets of the option: code, length, family, two prefixes, address (RFC 7871 6)
    SUBNET_SCOPE = 7            # where its scope stands, which is 0 in a question


cdef uint32_t question_write(const Message *message, const Name *name, bint wide, uint8_t *out) noexcept nogil:
    cdef uint32_t n, size
    cdef uint8_t *at = out
    cdef const uint8_t *subnet
    if (flags_opcode(message.flags) != OPCODE_QUERY or message.counts[0] != 1 or message.qclass != CLASS_IN or message.tsig or not name.length
            or message.qtype == TYPE_AXFR or message.qtype == TYPE_IXFR or (message.edns.present and message.edns.version)):
        return 0
    memset(out, 0, HEADER_SIZE)
    store16(out + 2, message.flags & (FLAG_RD | FLAG_CD))
    out[5] = 1
    at += HEADER_SIZE
    copy_octets(at, name.wire, name.length)
    at += name.length
    store16(at, message.qtype)
    store16(at + 2, message.qclass)
    at += 4
    if not message.edns.present and not wide:
        return <uint32_t>(at - out)
    out[11] = 1
    size = WIDE_SIZE if wide else max(<uint32_t>SIZE_LEAST, min(<uint32_t>message.edns.udp_size, <uint32_t>EDNS_SIZE))
    memset(at, 0, OPT_SIZE)
    store16(at + 1, TYPE_OPT)
    store16(at + 3, <uint16_t>size)
    if not message.edns.present:
        return <uint32_t>(at - out) + OPT_SIZE
    store16(at + 7, message.edns.flags & EDNS_DO)
    subnet = wire_option(&message.edns, OPTION_SUBNET) if message.edns.options_length else NULL
    n = 4 + load16(subnet + 2) if subnet != NULL else 0
    if n <= SUBNET_SCOPE or n > SUBNET_MAX:
        return <uint32_t>(at - out) + OPT_SIZE
    store16(at + 9, <uint16_t>n)
    memcpy(at + OPT_SIZE, subnet, n)
    at[OPT_SIZE + SUBNET_SCOPE] = 0
    return <uint32_t>(at - out) + OPT_SIZE + n


def question_of(bytes message not None, bint wide=False):
    cdef Message parsed
    cdef Name name
    cdef uint8_t out[QUESTION_MAX]
    cdef uint32_t n
    name.length = 0
    if wire_parse_reply(message, <uint32_t>len(message), &parsed, &name) < 0:
        return b""
    n = question_write(&parsed, &name, wide, out)
    return out[:n]


def is_answer(bytes reply not None, bytes question not None):
    cdef Message parsed
    cdef bytes asked = reply[:2] + question[2:]
    if wire_parse_reply(asked, <uint32_t>len(asked), &parsed, NULL) < 0 or parsed.question_length < 5:
        return False
    return wire_answers(reply, <uint32_t>len(reply), asked, parsed.question_length)
