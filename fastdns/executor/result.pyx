"""From what a plugin returned to a ticket. The contract is in executor/result.pxd."""
from libc.stdint cimport uint8_t, uint32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, strncpy
from fastdns.telemetry.metrics cimport Metric
from fastdns.walk.query cimport ANSWERED, DROPPED, ERROR_MAX, FAILED, NEXT
from fastdns.executor.request cimport Ticket
from fastdns._wire cimport MESSAGE_MAX, Message, wire_parse_reply
from fastdns.executor.query import DROP, PASS, Answer, Failure, Remembered, Reply

cdef Metric ERRORS = Metric("fastdns_plugin_errors_total", "Counter of exceptions raised by a Python plugin.", "counter", ("plugin",))


cdef Verdict outcome_write(PluginQuery query, outcome, Verdicts verdicts, str plugin) except? DROPPED:
    cdef Verdict verdict
    if type(outcome) is not Remembered:
        return write_verdict(query, outcome)
    verdict = write_verdict(query, outcome.verdict)
    # What the plugin said wrongly of its scope is no reason not to use its verdict here.
    try:
        verdicts.put(query, outcome, query.ticket.message[:query.ticket.message_length] if verdict == ANSWERED else None)
    except Exception as error:
        outcome_report(plugin, f"remember: {error}")
    return verdict


cdef Verdict write_verdict(PluginQuery query, outcome) except? DROPPED:
    cdef Ticket *ticket = query.ticket
    if outcome is None or outcome is PASS:
        return NEXT
    if outcome is DROP:
        return DROPPED
    if isinstance(outcome, Failure) or isinstance(outcome, Answer) and outcome.message is None:    # its own, or one from below
        ticket.rcode = outcome.rcode
        text = outcome.error.encode("utf-8", "replace")[:ERROR_MAX - 1]
        strncpy(ticket.error, text, ERROR_MAX - 1)
        return FAILED
    if isinstance(outcome, (bytes, bytearray)):
        write_message(ticket, bytes(outcome), True)
    elif hasattr(outcome, "to_wire"):
        write_message(ticket, outcome.to_wire(query), not isinstance(outcome, Reply))
    elif hasattr(outcome, "pack"):
        write_message(ticket, bytes(outcome.pack()), True)
    else:
        raise TypeError(f"serve returned {type(outcome).__name__}, which is no reply")
    return ANSWERED


cdef int write_message(Ticket *ticket, bytes message, bint verbatim) except -1:
    cdef Message parsed
    if len(message) > MESSAGE_MAX or wire_parse_reply(message, <uint32_t>len(message), &parsed, NULL) < 0:
        raise ValueError("the reply is no DNS message")
    ticket.verbatim = verbatim
    free(ticket.message)
    ticket.message = <uint8_t *>malloc(max(1, len(message)))
    if ticket.message == NULL:
        raise MemoryError
    memcpy(ticket.message, <const uint8_t *>message, len(message))
    ticket.message_length = <uint32_t>len(message)
    return 0


cdef object outcome_report(str plugin, str text):
    from fastdns.telemetry.log import Log
    ERRORS.add((plugin,))
    log = Log(f"plugin/{plugin}")
    log.error(text)
    return log
