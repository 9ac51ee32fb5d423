"""Functions of expressions on times and durations."""
from libc.stdint cimport int64_t, uint32_t
from libc.stdlib cimport strtod
from libc.string cimport memcpy
from fastdns._value cimport VALUE_DURATION, VALUE_STRING, VALUE_TIME, Room, Value, set_int
from fastdns.expression._functions cimport add_function

cdef extern from "<time.h>" nogil:
    ctypedef long time_t
    struct timespec:
        time_t tv_sec
        long tv_nsec
    struct tm:
        int tm_sec
        int tm_min
        int tm_hour
        int tm_mday
        int tm_mon
        int tm_year
        int tm_wday
        int tm_yday
    enum:
        CLOCK_REALTIME
    int clock_gettime(int clock, timespec *out)
    tm *localtime_r(const time_t *time, tm *out)


cdef int f_now(Room *room, const Value *a, uint32_t count, Value *out) noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_REALTIME, &now)
    out.kind = VALUE_TIME
    out.number = <int64_t>now.tv_sec * 1000000000 + now.tv_nsec
    return 0


cdef int f_duration(Room *room, const Value *a, uint32_t count, Value *out) noexcept nogil:
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


cdef int part_of_time(const Value *a, int which, Value *out) noexcept nogil:
    cdef time_t seconds
    cdef tm parts
    if a[0].kind != VALUE_TIME:
        return -1
    seconds = <time_t>(a[0].number // 1000000000)
    if which == 8:
        set_int(out, seconds)
        return 0
    if which == 9:
        set_int(out, a[0].number % 1000000000)
        return 0
    if localtime_r(&seconds, &parts) == NULL:
        return -1
    set_int(out, parts.tm_year + 1900 if which == 0 else parts.tm_mon + 1 if which == 1 else parts.tm_mday if which == 2 else parts.tm_hour if which == 3
            else parts.tm_min if which == 4 else parts.tm_sec if which == 5 else parts.tm_wday if which == 6 else parts.tm_yday + 1)
    return 0


cdef int f_year(Room *room, const Value *a, uint32_t count, Value *out) noexcept nogil:
    return part_of_time(a, 0, out)


cdef int f_month(Room *room, const Value *a, uint32_t count, Value *out) noexcept nogil:
    return part_of_time(a, 1, out)


cdef int f_day(Room *room, const Value *a, uint32_t count, Value *out) noexcept nogil:
    return part_of_time(a, 2, out)


cdef int f_hour(Room *room, const Value *a, uint32_t count, Value *out) noexcept nogil:
    return part_of_time(a, 3, out)


cdef int f_minute(Room *room, const Value *a, uint32_t count, Value *out) noexcept nogil:
    return part_of_time(a, 4, out)


cdef int f_second(Room *room, const Value *a, uint32_t count, Value *out) noexcept nogil:
    return part_of_time(a, 5, out)


cdef int f_weekday(Room *room, const Value *a, uint32_t count, Value *out) noexcept nogil:
    return part_of_time(a, 6, out)


cdef int f_year_day(Room *room, const Value *a, uint32_t count, Value *out) noexcept nogil:
    return part_of_time(a, 7, out)


cdef int f_unix(Room *room, const Value *a, uint32_t count, Value *out) noexcept nogil:
    return part_of_time(a, 8, out)


cdef int f_nanosecond(Room *room, const Value *a, uint32_t count, Value *out) noexcept nogil:
    return part_of_time(a, 9, out)


add_function("now", f_now)
add_function("duration", f_duration)
add_function("time Year", f_year)
add_function("time Month", f_month)
add_function("time Day", f_day)
add_function("time Hour", f_hour)
add_function("time Minute", f_minute)
add_function("time Second", f_second)
add_function("time Weekday", f_weekday)
add_function("time YearDay", f_year_day)
add_function("time Unix", f_unix)
add_function("time Nanosecond", f_nanosecond)
