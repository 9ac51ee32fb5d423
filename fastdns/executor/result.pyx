"""From what a plugin returned to a request. The contract is in executor/result.pxd."""
from operator import index

from libc.stdint cimport uint8_t, uint32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, strncpy
from fastdns.telemetry.metrics cimport METRIC_CONTROL, Metric, metric_add
from fastdns.walk.query cimport ANSWERED, DROPPED, ERROR_MAX, FAILED, NEXT
from fastdns.executor.request cimport Request
from fastdns.executor.verdicts cimport terms_read
from fastdns._wire cimport MESSAGE_MAX, Message, Section, WireRecord, wire_begin_records, wire_next_record, wire_parse_reply
from fastdns.protocol.header cimport FLAGS_RCODE
from fastdns.executor.query import DROP, PASS, Answer, Failure, Remembered, Reply

cdef enum:
    RCODE_MAX = 4095                # twelve bits (RFC 6891 6.1.3)

cdef Metric ERRORS = Metric("fastdns_plugin_errors_total", "Counter of exceptions raised by a Python plugin.", "counter", ("plugin",))


# ---- reading ----

cdef Outcome result_read(PluginQuery query, result, str plugin):
    cdef Outcome outcome = Outcome.__new__(Outcome)
    cdef bint remembered = type(result) is Remembered
    read_verdict(outcome, query, result.verdict if remembered else result)
    if remembered:
        try:
            outcome.terms = terms_read(result)
            outcome.terms.rcode = outcome.rcode
        except Exception as error:          # the verdict is used for this query
            result_report(plugin, f"remember: {error}")
    return outcome


cdef int read_verdict(Outcome outcome, PluginQuery query, result) except -1:
    outcome.verdict = ANSWERED
    if result is None or result is PASS:
        outcome.verdict = NEXT
    elif result is DROP:
        outcome.verdict = DROPPED
    elif isinstance(result, Failure) or isinstance(result, Answer) and result.message is None:      # its own, or one from below
        outcome.verdict = FAILED
        outcome.rcode = read_rcode(result.rcode, FLAGS_RCODE if isinstance(result, Failure) else RCODE_MAX)
        outcome.text = read_text(result.error)
    elif isinstance(result, (bytes, bytearray)):
        read_message(outcome, result, True)
    elif isinstance(result, Reply):
        read_rcode(result.rcode, RCODE_MAX)
        read_message(outcome, result.to_wire(query), False)
    elif isinstance(result, Answer):
        read_message(outcome, result.to_wire(query), True)
    elif hasattr(result, "to_wire"):
        read_message(outcome, result.to_wire(), True)
    elif hasattr(result, "pack"):
        read_message(outcome, result.pack(), True)
    else:
        raise TypeError(f"serve returned {type(result).__name__}, which is no reply")
    return 0


cdef int read_rcode(value, int most) except -1:
    number = index(value)
    if not 0 <= number <= most:
        raise ValueError(f"the response code is a number from 0 to {most}, not {number}")
    return number


cdef bytes read_text(value):
    if not isinstance(value, str):
        raise TypeError(f"the text of a failure is a str, not {type(value).__name__}")
    return str.encode(value, "utf-8", "replace")[:ERROR_MAX - 1]


cdef int read_message(Outcome outcome, value, bint verbatim) except -1:
    cdef Message parsed
    cdef Section section
    cdef WireRecord record
    cdef bytes message
    cdef int status
    if not isinstance(value, (bytes, bytearray)):
        raise TypeError(f"a message is octets, not {type(value).__name__}")
    # An exact copy: those of a subclass may be others than it says.
    message = bytes.join(b"", (value,)) if type(value) is not bytes else value
    if len(message) > MESSAGE_MAX:
        raise ValueError(f"the reply is too large: {len(message)} octets, and a DNS message has at most {MESSAGE_MAX}")
    if wire_parse_reply(message, <uint32_t>len(message), &parsed, NULL) < 0:
        raise ValueError("the reply is no DNS message")
    wire_begin_records(message, <uint32_t>len(message), &parsed, &section)
    status = 1
    while status > 0:
        status = wire_next_record(&section, &record)
    if status < 0:
        raise ValueError("a record of the reply is malformed")
    outcome.message = message
    outcome.verbatim = verbatim
    return 0


# ---- applying ----

cdef Verdict outcome_apply(PluginQuery query, Outcome outcome, Verdicts verdicts, str plugin) except? DROPPED:
    cdef Request *request = query.request
    cdef uint8_t *octets
    if outcome.verdict == FAILED:
        request.rcode = outcome.rcode
        strncpy(request.error, outcome.text, ERROR_MAX - 1)
    elif outcome.verdict == ANSWERED:
        octets = <uint8_t *>malloc(len(outcome.message))
        if octets == NULL:
            raise MemoryError
        memcpy(octets, <const uint8_t *>outcome.message, len(outcome.message))
        free(request.message)
        request.message = octets
        request.message_length = <uint32_t>len(outcome.message)
        request.verbatim = outcome.verbatim
    if outcome.terms is not None:
        metric_add(outcome.terms.counter, METRIC_CONTROL, 1)
        # Where only the scope is wrong the verdict is used for this query.
        try:
            verdicts.keep(query, outcome.terms, outcome.message)
        except Exception as error:
            result_report(plugin, f"remember: {error}")
    return outcome.verdict


cdef object result_report(str plugin, str text):
    from fastdns.telemetry.log import Log
    ERRORS.add((plugin,))
    log = Log(f"plugin/{plugin}")
    log.error(text)
    return log
