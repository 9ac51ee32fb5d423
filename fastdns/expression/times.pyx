"""Functions of expressions on times and durations."""
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport strtod
from libc.string cimport memcpy, strlen
from fastdns.expression.value cimport (VALUE_DURATION, VALUE_INT, VALUE_LOCATION, VALUE_MONTH, VALUE_STRING, VALUE_TIME, VALUE_WEEKDAY, Output, ValueArena,
                                       Value, copy_text, output_begin, output_end, set_bool, set_float, set_int, set_text, value_text)
from fastdns.expression.dates cimport LOCAL, Location, Moment, location_of, moment_of, put_time, read_time, set_moment, set_time
from fastdns.expression.functions cimport add_function, texts

cdef extern from "<time.h>" nogil:
    ctypedef long time_t
    struct timespec:
        time_t tv_sec
        long tv_nsec
    enum:
        CLOCK_REALTIME
    int clock_gettime(int clock, timespec *out)

cdef enum:
    SECOND = 1000000000         # ns


cdef int f_now(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_REALTIME, &now)
    set_time(out, <int64_t>now.tv_sec * SECOND + now.tv_nsec, &LOCAL)
    return 0


cdef const char *LAYOUTS[7]
LAYOUTS[:] = [b"2006-01-02", b"15:04:05", b"2006-01-02 15:04:05", b"2006-01-02T15:04:05Z07:00", b"02 Jan 06 15:04 MST", b"Monday, 02-Jan-06 15:04:05 MST",
              b"Mon, 02 Jan 2006 15:04:05 MST"]


cdef int f_date(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    """date([PLACE,] TEXT [, LAYOUT [, PLACE]])"""
    cdef const Location *location = NULL
    cdef uint32_t i
    if count and a[0].kind == VALUE_LOCATION:
        location = <const Location *>a[0].text
        a += 1
        count -= 1
    if count > 2 and a[2].kind == VALUE_LOCATION:
        location = <const Location *>a[2].text
        count = 2
    if not 1 <= count <= 2 or not texts(a, count):
        return -1
    if count == 2:
        return read_time(arena, a, a[1].text, a[1].length, location, out)
    for i in range(7):
        if read_time(arena, a, LAYOUTS[i], <uint32_t>strlen(LAYOUTS[i]), location, out) == 0:
            return 0
    return -1


cdef int f_duration(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    """``1h2m3.5s``, as Go reads it."""
    cdef const char *text = a[0].text
    cdef uint32_t at = 0, length = a[0].length, begin
    cdef double sum = 0, part, scale
    cdef bint negative = False
    cdef char digits[32]
    if a[0].kind != VALUE_STRING:
        return -1
    if length and (text[0] == c'-' or text[0] == c'+'):
        negative = text[0] == c'-'
        at = 1
    out.kind = VALUE_DURATION
    out.number = 0
    if at + 1 == length and text[at] == c'0':
        return 0
    if at == length:
        return -1
    while at < length:
        begin = at
        while at < length and (c'0' <= text[at] <= c'9' or text[at] == c'.'):
            at += 1
        if at == begin or at - begin >= sizeof(digits):
            return -1
        memcpy(digits, text + begin, at - begin)
        digits[at - begin] = 0
        part = strtod(digits, NULL)
        if at + 1 < length and text[at + 1] == c's' and (text[at] == c'n' or text[at] == c'u' or text[at] == c'm'):
            scale = 1 if text[at] == c'n' else 1e3 if text[at] == c'u' else 1e6
            at += 2
        elif at < length and (text[at] == c's' or text[at] == c'm' or text[at] == c'h'):
            scale = 1e9 if text[at] == c's' else 60e9 if text[at] == c'm' else 3600e9
            at += 1
        else:
            return -1
        sum += part * scale
        if sum > 9.2e18:
            return -1
    out.number = <int64_t>(-sum if negative else sum)
    return 0


# ---- methods of times ----

cdef enum Part:
    YEAR
    MONTH
    DAY
    HOUR
    MINUTE
    SECONDS
    NANOSECOND
    WEEKDAY
    YEAR_DAY


cdef inline int part(const Value *a, int which, Value *out) noexcept nogil:
    cdef Moment m
    if a.kind != VALUE_TIME:
        return -1
    moment_of(a, &m)
    set_int(out, m.year if which == YEAR else m.month if which == MONTH else m.day if which == DAY else m.hour if which == HOUR else m.minute if which == MINUTE
            else m.second if which == SECONDS else m.nanosecond if which == NANOSECOND else m.weekday if which == WEEKDAY else m.year_day)
    if which == MONTH:
        out.kind = VALUE_MONTH
    elif which == WEEKDAY:
        out.kind = VALUE_WEEKDAY
    return 0


cdef int f_year(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    return part(a, YEAR, out)


cdef int f_month(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    return part(a, MONTH, out)


cdef int f_day(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    return part(a, DAY, out)


cdef int f_hour(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    return part(a, HOUR, out)


cdef int f_minute(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    return part(a, MINUTE, out)


cdef int f_second(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    return part(a, SECONDS, out)


cdef int f_nanosecond(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    return part(a, NANOSECOND, out)


cdef int f_weekday(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    return part(a, WEEKDAY, out)


cdef int f_year_day(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    return part(a, YEAR_DAY, out)


cdef inline int since_1970(const Value *a, int64_t unit, Value *out) noexcept nogil:
    if a.kind != VALUE_TIME:
        return -1
    set_int(out, a.number // unit - (a.number % unit < 0))
    return 0


cdef int f_unix(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    return since_1970(a, SECOND, out)


cdef int f_unix_milli(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    return since_1970(a, 1000000, out)


cdef int f_unix_micro(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    return since_1970(a, 1000, out)


cdef int f_unix_nano(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    return since_1970(a, 1, out)


cdef int f_is_zero(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    set_bool(out, False)        # Go's zero time, in the year 1, is outside the range of VALUE_TIME
    return 0 if a.kind == VALUE_TIME else -1


cdef int f_format(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    cdef Output output
    if a[0].kind != VALUE_TIME or a[1].kind != VALUE_STRING:
        return -1
    output_begin(&output, arena)
    put_time(&output, a, a[1].text, a[1].length)
    return 0 if output_end(&output, out) else -1


cdef int f_add(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    if a[0].kind != VALUE_TIME or a[1].kind != VALUE_DURATION:
        return -1
    set_time(out, <int64_t>(<uint64_t>a[0].number + <uint64_t>a[1].number), location_of(a))
    return 0


cdef int f_add_date(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    cdef Moment m
    if a[0].kind != VALUE_TIME or a[1].kind != VALUE_INT or a[2].kind != VALUE_INT or a[3].kind != VALUE_INT:
        return -1
    moment_of(a, &m)
    if not -100000 < a[1].number < 100000 or not -1000000 < a[2].number < 1000000 or not -10000000 < a[3].number < 10000000:
        return -1
    return 0 if set_moment(out, m.year + a[1].number, m.month + a[2].number, m.day + a[3].number, m.hour, m.minute, m.second, m.nanosecond,
                           location_of(a)) else -1


cdef int f_sub(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    if a[0].kind != VALUE_TIME or a[1].kind != VALUE_TIME:
        return -1
    out.kind = VALUE_DURATION
    out.number = <int64_t>(<uint64_t>a[0].number - <uint64_t>a[1].number)
    return 0


cdef int f_before(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    set_bool(out, a[0].number < a[1].number)
    return 0 if a[0].kind == VALUE_TIME and a[1].kind == VALUE_TIME else -1


cdef int f_after(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    set_bool(out, a[0].number > a[1].number)
    return 0 if a[0].kind == VALUE_TIME and a[1].kind == VALUE_TIME else -1


cdef int f_equal(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    set_bool(out, a[0].number == a[1].number)
    return 0 if a[0].kind == VALUE_TIME and a[1].kind == VALUE_TIME else -1


cdef int f_compare(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    set_int(out, (a[0].number > a[1].number) - (a[0].number < a[1].number))
    return 0 if a[0].kind == VALUE_TIME and a[1].kind == VALUE_TIME else -1


cdef int f_utc(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    set_time(out, a[0].number, NULL)
    return 0 if a[0].kind == VALUE_TIME else -1


cdef int f_local(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    set_time(out, a[0].number, &LOCAL)
    return 0 if a[0].kind == VALUE_TIME else -1


cdef int f_in(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    if a[0].kind != VALUE_TIME or a[1].kind != VALUE_LOCATION:
        return -1
    set_time(out, a[0].number, <const Location *>a[1].text)
    return 0


cdef int f_zone(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    cdef Moment m
    if a.kind != VALUE_TIME:
        return -1
    moment_of(a, &m)
    return 0 if copy_text(arena, m.name, <uint32_t>strlen(m.name), out) else -1


cdef int64_t BEFORE_1970 = 62135596800      # s since the year 1


cdef int to_multiple(const Value *a, bint nearest, Value *out) noexcept nogil:
    """Rounds down, or to the nearest multiple of a duration. Times are counted from the year 1, as in Go."""
    cdef int64_t unit = a[1].number, rest
    cdef int64_t start = 0
    if a[1].kind != VALUE_DURATION or a[0].kind != VALUE_TIME and a[0].kind != VALUE_DURATION:
        return -1
    out[0] = a[0]
    if unit <= 0:
        return 0
    if a[0].kind == VALUE_TIME:
        start = (BEFORE_1970 % unit) * (SECOND % unit) % unit if unit < SECOND else (BEFORE_1970 % (unit // SECOND)) * SECOND if unit % SECOND == 0 else 0
    rest = (a[0].number % unit + start) % unit
    if a[0].kind == VALUE_TIME and rest < 0:
        rest += unit
    out.number = a[0].number - rest
    if nearest and 2 * rest >= unit:
        out.number += unit
    elif nearest and 2 * rest <= -unit:
        out.number -= unit
    return 0


cdef int f_truncate(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    return to_multiple(a, False, out)


cdef int f_round(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    return to_multiple(a, True, out)


cdef int f_string(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    cdef const Location *location = <const Location *>a[0].text
    if a[0].kind == VALUE_LOCATION:
        if location == NULL:
            set_text(out, b"UTC", 3)
        else:
            set_text(out, location.title, <uint32_t>strlen(location.title))
        return 0
    return 0 if value_text(arena, &a[0], out) else -1


# ---- methods of durations ----

cdef inline int in_units(const Value *a, double unit, Value *out) noexcept nogil:
    if a.kind != VALUE_DURATION:
        return -1
    set_float(out, <double>a.number / unit)
    return 0


cdef inline int whole_units(const Value *a, int64_t unit, Value *out) noexcept nogil:
    if a.kind != VALUE_DURATION:
        return -1
    set_int(out, a.number // unit)
    return 0


cdef int f_hours(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    return in_units(a, 3600e9, out)


cdef int f_minutes(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    return in_units(a, 60e9, out)


cdef int f_seconds(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    return in_units(a, 1e9, out)


cdef int f_milliseconds(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    return whole_units(a, 1000000, out)


cdef int f_microseconds(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    return whole_units(a, 1000, out)


cdef int f_nanoseconds(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    return whole_units(a, 1, out)


cdef int f_abs(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    out[0] = a[0]
    out.number = <int64_t>(0 - <uint64_t>a[0].number) if a[0].number < 0 else a[0].number
    return 0 if a[0].kind == VALUE_DURATION else -1


add_function("now", f_now)
add_function("date", f_date)
add_function("duration", f_duration)
add_function("time Year", f_year)
add_function("time Month", f_month)
add_function("time Day", f_day)
add_function("time Hour", f_hour)
add_function("time Minute", f_minute)
add_function("time Second", f_second)
add_function("time Nanosecond", f_nanosecond)
add_function("time Weekday", f_weekday)
add_function("time YearDay", f_year_day)
add_function("time Unix", f_unix)
add_function("time UnixMilli", f_unix_milli)
add_function("time UnixMicro", f_unix_micro)
add_function("time UnixNano", f_unix_nano)
add_function("time IsZero", f_is_zero)
add_function("time Format", f_format)
add_function("time Add", f_add)
add_function("time AddDate", f_add_date)
add_function("time Sub", f_sub)
add_function("time Before", f_before)
add_function("time After", f_after)
add_function("time Equal", f_equal)
add_function("time Compare", f_compare)
add_function("time UTC", f_utc)
add_function("time Local", f_local)
add_function("time In", f_in)
add_function("time Zone", f_zone)
add_function("time Truncate", f_truncate)
add_function("time Round", f_round)
add_function("time String", f_string)
add_function("time Hours", f_hours)
add_function("time Minutes", f_minutes)
add_function("time Seconds", f_seconds)
add_function("time Milliseconds", f_milliseconds)
add_function("time Microseconds", f_microseconds)
add_function("time Nanoseconds", f_nanoseconds)
add_function("time Abs", f_abs)
