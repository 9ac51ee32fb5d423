"""Composes log lines. The contract is in telemetry/log_line.pxd."""
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.string cimport memcpy, strlen

from fastdns.system.atomic cimport atomic_poke32
from fastdns.system cimport watchdog
from fastdns.telemetry.log_writer cimport log_write
from fastdns.telemetry.metrics cimport METRIC_CONTROL

cdef extern from "<time.h>" nogil:
    cdef struct timespec:
        long tv_sec
        long tv_nsec
    int CLOCK_REALTIME
    int clock_gettime(int clock, timespec *now) noexcept

cdef enum:
    PLUGIN_MAX = 64                 # octets of a plugin's name in JSON
    FIXED_MAX = 128                 # octets of time, level and the names of members
    JSON_MAX = JSON_GROWTH * (LOG_LINE_MAX + PLUGIN_MAX) + LOG_FIELDS_MAX + FIXED_MAX
    DAY = 86400                     # seconds

cdef const char *PREFIXES[6]        # by LogLevel
PREFIXES[:] = [b"", b"[DEBUG] ", b"[INFO] ", b"[WARNING] ", b"[ERROR] ", b"[FATAL] "]
cdef const char *LEVELS[6]
LEVELS[:] = [b"INFO", b"DEBUG", b"INFO", b"WARN", b"ERROR", b"FATAL"]
cdef const char *HEX = "0123456789abcdef"
cdef const char *DIGITS = "0123456789"


cdef int log_put(uint32_t worker, LogLevel level, const char *plugin, const char *text, uint32_t length) noexcept nogil:
    return log_put_fields(worker, level, plugin, text, length, NULL, 0)


cdef int log_put_fields(uint32_t worker, LogLevel level, const char *plugin, const char *text, uint32_t length, const char *fields,
                        uint32_t fields_length) noexcept nogil:
    if log_is_json():
        return put_json(worker, level, plugin, text, length, fields, fields_length)
    return put_text(worker, level, plugin, text, length)


# ---- text ----

cdef int put_text(uint32_t worker, LogLevel level, const char *plugin, const char *text, uint32_t length) noexcept nogil:
    cdef char line[LOG_LINE_MAX]
    return log_write(worker, line, compose_text(line, level, plugin, text, length))


cdef uint32_t compose_text(char *line, LogLevel level, const char *plugin, const char *text, uint32_t length) noexcept nogil:
    """line: LOG_LINE_MAX octets."""
    cdef uint32_t used = append(line, 0, PREFIXES[<int>level], LOG_LINE_MAX)
    if plugin != NULL:
        used = append(line, used, b"plugin/", LOG_LINE_MAX)
        used = append(line, used, plugin, LOG_LINE_MAX - 2)
        used = append(line, used, b": ", LOG_LINE_MAX)
    length = truncated(text, length, LOG_LINE_MAX - used)
    memcpy(line + used, text, length)
    return used + length


cdef inline uint32_t append(char *line, uint32_t used, const char *what, uint32_t end) noexcept nogil:
    """NUL-terminated octets, as many as there are before `end`."""
    cdef uint32_t length = min(<uint32_t>strlen(what), end - used)
    memcpy(line + used, what, length)
    return used + length


cdef inline uint32_t truncated(const char *text, uint32_t length, uint32_t most) noexcept nogil:
    """The length of a text that is cut at the end of a character."""
    if length <= most:
        return length
    while most and (<uint8_t>text[most] & 0xc0) == 0x80:
        most -= 1
    return most


# ---- JSON ----

cdef int put_json(uint32_t worker, LogLevel level, const char *plugin, const char *text, uint32_t length, const char *fields,
                  uint32_t fields_length) noexcept nogil:
    cdef char line[JSON_MAX]
    return log_write(worker, line, compose_json(line, level, plugin, text, length, fields, fields_length))


cdef uint32_t compose_json(char *line, LogLevel level, const char *plugin, const char *text, uint32_t length, const char *fields,
                           uint32_t fields_length) noexcept nogil:
    """line: JSON_MAX octets, which hold whatever the arguments are."""
    cdef uint32_t used = append(line, 0, b'{"time":"', JSON_MAX)
    used += write_time(line + used)
    used = append(line, used, b'","level":"', JSON_MAX)
    used = append(line, used, LEVELS[<int>level], JSON_MAX)
    used = append(line, used, b'","msg":"', JSON_MAX)
    used += json_escape(line + used, text, truncated(text, length, LOG_LINE_MAX))
    if plugin != NULL:
        used = append(line, used, b'","plugin":"', JSON_MAX)
        used += json_escape(line + used, plugin, truncated(plugin, <uint32_t>strlen(plugin), PLUGIN_MAX))
    line[used] = c'"'
    used += 1
    if fields_length:
        line[used] = c','
        used += 1
        fields_length = min(fields_length, <uint32_t>LOG_FIELDS_MAX)
        memcpy(line + used, fields, fields_length)
        used += fields_length
    line[used] = c'}'
    return used + 1


cdef uint32_t json_escape(char *out, const char *text, uint32_t length) noexcept nogil:
    """Escapes what JSON wants, and what a terminal would act on: DEL, C1 controls, U+2028 and U+2029."""
    cdef const uint8_t *at = <const uint8_t *>text
    cdef const uint8_t *end = at + length
    cdef uint32_t used = 0, size
    while at < end:
        size = character_size(at, <uint32_t>(end - at))
        if size == 0:
            used += write_escape(out + used, 0xfffd)
            size = 1
        elif size == 1 and (at[0] == c'"' or at[0] == c'\\'):
            out[used] = c'\\'
            out[used + 1] = at[0]
            used += 2
        elif size == 1 and at[0] == c'\n':
            out[used] = c'\\'
            out[used + 1] = c'n'
            used += 2
        elif size == 1 and (at[0] < 0x20 or at[0] == 0x7f):
            used += write_escape(out + used, at[0])
        elif size == 2 and at[0] == 0xc2 and at[1] < 0xa0:
            used += write_escape(out + used, at[1])
        elif size == 3 and at[0] == 0xe2 and at[1] == 0x80 and (at[2] | 1) == 0xa9:
            used += write_escape(out + used, 0x2000 | at[2] & 0x3f)
        else:
            memcpy(out + used, at, size)
            used += size
        at += size
    return used


cdef inline uint32_t character_size(const uint8_t *at, uint32_t left) noexcept nogil:
    """Octets of the character that begins here, 0 if it is not UTF-8 (RFC 3629 4)."""
    cdef uint8_t low = 0x80, high = 0xbf
    cdef uint32_t size, i
    if at[0] < 0x80:
        return 1
    if at[0] < 0xc2 or at[0] > 0xf4:
        return 0
    size = 2 if at[0] < 0xe0 else 3 if at[0] < 0xf0 else 4
    if size > left:
        return 0
    if at[0] == 0xe0:
        low = 0xa0
    elif at[0] == 0xed:
        high = 0x9f
    elif at[0] == 0xf0:
        low = 0x90
    elif at[0] == 0xf4:
        high = 0x8f
    if at[1] < low or at[1] > high:
        return 0
    for i in range(2, size):
        if (at[i] & 0xc0) != 0x80:
            return 0
    return size


cdef inline uint32_t write_escape(char *out, uint32_t code) noexcept nogil:
    out[0] = c'\\'
    out[1] = c'u'
    out[2] = HEX[code >> 12]
    out[3] = HEX[code >> 8 & 15]
    out[4] = HEX[code >> 4 & 15]
    out[5] = HEX[code & 15]
    return 6


cdef uint32_t write_time(char *out) noexcept nogil:
    """Now, as 2026-11-23T13:24:42.012345678Z. Not by gmtime_r: that takes a lock of libc."""
    cdef timespec now
    clock_gettime(CLOCK_REALTIME, &now)
    cdef int64_t seconds = now.tv_sec % DAY
    write_date(out, now.tv_sec // DAY)
    out[10] = c'T'
    write_number(out + 11, seconds // 3600, 2)
    out[13] = c':'
    write_number(out + 14, seconds // 60 % 60, 2)
    out[16] = c':'
    write_number(out + 17, seconds % 60, 2)
    out[19] = c'.'
    write_number(out + 20, now.tv_nsec, 9)
    out[29] = c'Z'
    return 30


cdef void write_date(char *out, int64_t days) noexcept nogil:
    """The date of a day since 1970-01-01, years from 1970 to 9999. A year is taken to begin in March: a leap day is its last day then."""
    days += 719468                                      # since 0000-03-01
    cdef int64_t era = days // 146097                   # 400 years
    cdef int64_t of_era = days - era * 146097
    cdef int64_t year = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    cdef int64_t of_year = of_era - (365 * year + year // 4 - year // 100)
    cdef int64_t month = (5 * of_year + 2) // 153       # from March
    write_number(out + 8, of_year - (153 * month + 2) // 5 + 1, 2)
    month = month + 3 if month < 10 else month - 9
    out[7] = c'-'
    write_number(out + 5, month, 2)
    out[4] = c'-'
    write_number(out, era * 400 + year + (month <= 2), 4)


cdef inline void write_number(char *out, int64_t number, uint32_t digits) noexcept nogil:
    while digits:
        digits -= 1
        out[digits] = DIGITS[number % 10]
        number //= 10


# ---- a process that is killed ----

cdef uint32_t compose_killed(char *line) noexcept nogil:
    cdef const char *text = "The process did not end in time: killed"
    cdef uint32_t length = <uint32_t>strlen(text)
    length = compose_json(line, LOG_ERROR, NULL, text, length, NULL, 0) if log_is_json() else compose_text(line, LOG_ERROR, NULL, text, length)
    line[length] = c'\n'
    return length + 1

watchdog.watchdog_line = compose_killed


# ---- Python ----

cdef dict NUMBERS = {"": LOG_PLAIN, "DEBUG": LOG_DEBUG, "INFO": LOG_INFO, "WARNING": LOG_WARNING, "ERROR": LOG_ERROR, "FATAL": LOG_FATAL}


def put(str level not None, str plugin not None, str text not None, bytes fields=b"") -> bool:
    cdef bytes octets = encoded(text)
    cdef bytes name = encoded(plugin)
    if len(fields) > <Py_ssize_t>LOG_FIELDS_MAX:        # a part of them is no JSON
        fields = b""
    return log_put_fields(METRIC_CONTROL, NUMBERS[level], <const char *>name if name else NULL, octets,
                          <uint32_t>min(len(octets), 2 * LOG_LINE_MAX), fields, <uint32_t>len(fields)) == 0


def compose(str level not None, str plugin not None, str text not None) -> bytes:
    cdef char line[JSON_MAX]
    cdef bytes octets = encoded(text)
    cdef bytes name = encoded(plugin)
    cdef const char *named = <const char *>name if name else NULL
    cdef uint32_t length = <uint32_t>min(len(octets), 2 * LOG_LINE_MAX)
    if log_is_json():
        length = compose_json(line, NUMBERS[level], named, octets, length, NULL, 0)
    else:
        length = compose_text(line, NUMBERS[level], named, octets, length)
    return line[:length]


cdef bytes encoded(str text):
    """Text lines have control characters as \\DDD; JSON has an escape of its own for them."""
    if not text.isprintable() and not log_is_json():
        text = "".join([escaped(character) for character in text])
    return text.encode("utf-8", "backslashreplace")


cdef str escaped(str character):
    """Escapes control characters as \\DDD; other octets stay as they are."""
    cdef int code = ord(character)
    if code >= 0xd800 and code < 0xe000 or code in (0x2028, 0x2029):
        return f"\\u{code:04x}"
    if code == 9 or (code >= 32 and code < 127) or code >= 0xa0:
        return character
    return "".join([f"\\{octet:03d}" for octet in character.encode()])


def set_json(bint wanted) -> None:
    atomic_poke32(&log_json, wanted)


def is_json() -> bool:
    return log_is_json()
