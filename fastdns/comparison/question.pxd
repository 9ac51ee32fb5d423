"""A question as another server is asked it: that of a client, without what is between the client and its server."""
from libc.stdint cimport uint8_t, uint32_t
from fastdns._wire cimport Message, Name

cdef enum:
    QUESTION_MAX = 320          # octets: header, question, OPT with a client-subnet option
    WIDE_SIZE = 4096            # octets over UDP that an answer may have whose client came by another transport

# Writes header (id 0; RD and CD as in the message), question, and OPT where the message has one, or where the client did not come over UDP (`wide`): with
# DO, and with the client's subnet alone of its options. Returns the length; 0: not a question for another server (opcode, class, transfer, TSIG, no name).
cdef uint32_t question_write(const Message *message, const Name *name, bint wide, uint8_t *out) noexcept nogil
