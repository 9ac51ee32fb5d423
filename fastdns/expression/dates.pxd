"""Points of time in places: offsets from UTC, and the layouts of Go's package time."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from fastdns.expression.value cimport Output, Room, Value

cdef struct Location:           # a Value of VALUE_TIME has the one that it is shown in at `text`, NULL for UTC
    uint8_t local               # as the process's environment has it
    uint32_t count              # changes; 0: always `offset` and `name`
    const int64_t *since        # s since 1970, of each change
    const int32_t *offsets      # s east of UTC from there on
    const char **names          # abbreviations, likewise
    int32_t offset
    char name[8]
    char title[64]              # of the time zone database

cdef struct Moment:             # parts of a time in its location
    int64_t year
    int month                   # from 1
    int day
    int hour
    int minute
    int second
    int nanosecond
    int weekday                 # 0: Sunday
    int year_day                # from 1
    int32_t offset
    char name[8]

cdef Location LOCAL

cdef inline const Location *location_of(const Value *time) noexcept nogil:
    return <const Location *>time.text

cdef void set_time(Value *out, int64_t ns, const Location *location) noexcept nogil
cdef void moment_of(const Value *time, Moment *out) noexcept nogil
# The time of a date and a time of day in a place; what is out of range goes on into the next day, month or year.
cdef bint set_moment(Value *out, int64_t year, int64_t month, int64_t day, int64_t hour, int64_t minute, int64_t second, int64_t ns,
                     const Location *location) noexcept nogil
cdef void put_time(Output *output, const Value *time, const char *layout, uint32_t length) noexcept nogil

# Reads a text by a layout: 0, or -1. Without an offset in it the time is one of the location's.
cdef int read_time(Room *room, const Value *text, const char *layout, uint32_t length, const Location *location, Value *out) noexcept nogil

cdef class Zone:                # Zone(name): a place of the time zone database. ValueError
    cdef Location location
    cdef list kept
