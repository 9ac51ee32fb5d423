"""See date.pxd. Each worker writes the text once a second."""
from libc.stdint cimport uint32_t
from libc.stdio cimport snprintf
from libc.time cimport gmtime_r, time, time_t, tm

cdef struct Date:                   # of a worker
    time_t second
    char text[32]

cdef Date dates[DATE_PYTHON + 1]
cdef const char *DAYS = "SunMonTueWedThuFriSat"
cdef const char *MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec"


cdef const char *http_date(uint32_t worker) noexcept nogil:
    cdef Date *date = &dates[worker]
    cdef time_t now = time(NULL)
    cdef tm parts
    if date.second != now:
        gmtime_r(&now, &parts)
        snprintf(date.text, sizeof(date.text), b"%.3s, %02d %.3s %04d %02d:%02d:%02d GMT", DAYS + 3 * parts.tm_wday, parts.tm_mday,
                 MONTHS + 3 * parts.tm_mon, parts.tm_year + 1900, parts.tm_hour, parts.tm_min, parts.tm_sec)
        date.second = now
    return date.text


def date() -> str:
    return http_date(DATE_PYTHON).decode()
