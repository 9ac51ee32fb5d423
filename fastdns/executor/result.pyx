"""From what a plugin returned to a request. The contract is in executor/result.pxd."""
from libc.stdint cimport uint8_t, uint32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, strncpy
from fastdns.telemetry.metrics cimport METRIC_CONTROL, Metric, metric_add
from fastdns.walk.query cimport ANSWERED, DROPPED, ERROR_MAX, FAILED, NEXT
from fastdns.executor.request cimport Request
from fastdns._wire cimport MESSAGE_MAX, Message, wire_parse_reply
from fastdns.executor.query import DROP, PASS, Answer, Failure, Remembered, Reply

cdef Metric ERRORS = Metric("fastdns_plugin_errors_total", "Counter of exceptions raised by a Python plugin.", "counter", ("plugin",))


cdef Verdict result_write(PluginQuery query, result, Verdicts verdicts, str plugin) except? DROPPED:
    cdef Verdict verdict
    if type(result) is not Remembered:
        return write_verdict(query, result)
    verdict = write_verdict(query, result.verdict)
    metric_add(result.counter, METRIC_CONTROL, 1)
    # Where only the scope is wrong the verdict is used for this query.
    try:
        verdicts.put(query, result, query.request.message[:query.request.message_length] if verdict == ANSWERED else None)
    except Exception as error:
        result_report(plugin, f"remember: {error}")
    return verdict


cdef Verdict write_verdict(PluginQuery query, result) except? DROPPED:
    cdef Request *request = query.request
    if result is None or result is PASS:
        return NEXT
    if result is DROP:
        return DROPPED
    if isinstance(result, Failure) or isinstance(result, Answer) and result.message is None:    # its own, or one from below
        request.rcode = result.rcode
        text = result.error.encode("utf-8", "replace")[:ERROR_MAX - 1]
        strncpy(request.error, text, ERROR_MAX - 1)
        return FAILED
    if isinstance(result, (bytes, bytearray)):
        write_message(request, bytes(result), True)
    elif isinstance(result, (Reply, Answer)):
        write_message(request, result.to_wire(query), isinstance(result, Answer))
    elif hasattr(result, "to_wire"):
        write_message(request, result.to_wire(), True)
    elif hasattr(result, "pack"):
        write_message(request, bytes(result.pack()), True)
    else:
        raise TypeError(f"serve returned {type(result).__name__}, which is no reply")
    return ANSWERED


cdef int write_message(Request *request, bytes message, bint verbatim) except -1:
    cdef Message parsed
    if len(message) > MESSAGE_MAX:
        raise ValueError(f"the reply is too large: {len(message)} octets, and a DNS message has at most {MESSAGE_MAX}")
    if wire_parse_reply(message, <uint32_t>len(message), &parsed, NULL) < 0:
        raise ValueError("the reply is no DNS message")
    request.verbatim = verbatim
    free(request.message)
    request.message = <uint8_t *>malloc(max(1, len(message)))
    if request.message == NULL:
        raise MemoryError
    memcpy(request.message, <const uint8_t *>message, len(message))
    request.message_length = <uint32_t>len(message)
    return 0


cdef object result_report(str plugin, str text):
    from fastdns.telemetry.log import Log
    ERRORS.add((plugin,))
    log = Log(f"plugin/{plugin}")
    log.error(text)
    return log
