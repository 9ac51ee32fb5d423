"""Times in time zones, and the layouts of Go's package time."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from fastdns.expression.value cimport Output, ValueArena, Value

cdef struct Location:           # a time zone; Value.text of a VALUE_TIME points to its Location, NULL for UTC
    uint8_t local               # the time zone of the process's environment
    uint32_t count              # changes of the offset; 0: `offset` and `name` are constant
    const int64_t *since        # time of each change, s since 1970
    const int32_t *offsets      # s east of UTC from each change on
    const char **names          # abbreviation from each change on
    int32_t offset
    char name[8]
    char title[64]              # name in the time zone database

cdef struct Moment:             # fields of a time in its location
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
# Sets *out to the time of a date and a time of day in a location. Fields out of range are normalised, as by Go's time.Date. False when the time is
# outside the range of VALUE_TIME.
cdef bint set_moment(Value *out, int64_t year, int64_t month, int64_t day, int64_t hour, int64_t minute, int64_t second, int64_t ns,
                     const Location *location) noexcept nogil
# Writes a time by a layout of Go's package time.
cdef void put_time(Output *output, const Value *time, const char *layout, uint32_t length) noexcept nogil

# Parses a string by a layout of Go's package time. A time without an offset is one of the location. 0, or -1 when the string does not match.
cdef int read_time(ValueArena *arena, const Value *text, const char *layout, uint32_t length, const Location *location, Value *out) noexcept nogil

cdef class Zone:                # Zone(name): a time zone of the database; ValueError when there is none of this name
    cdef Location location
    cdef list kept
