"""Times in time zones. The contract is in expression/dates.pxd."""
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.stdio cimport snprintf
from libc.string cimport memcmp, memcpy, memset, strlen
from fastdns.expression.value cimport VALUE_TIME, Output, ValueArena, Value, output_put, output_word, arena_alloc, set_time_printer

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

cdef extern from "<time.h>" nogil:
    ctypedef long time_t
    struct tm:
        int tm_sec
        int tm_min
        int tm_hour
        int tm_mday
        int tm_mon
        int tm_year
        int tm_wday
        int tm_yday
        long tm_gmtoff
        const char *tm_zone
    tm *localtime_r(const time_t *time, tm *out)

cdef enum:
    SECOND = 1000000000         # ns
    DAY = 86400                 # s

cdef int64_t SECONDS_MAX = 9223372036       # range of a 64-bit number of ns

cdef const char *MONTHS[12]
MONTHS[:] = [b"January", b"February", b"March", b"April", b"May", b"June", b"July", b"August", b"September", b"October", b"November", b"December"]
cdef const char *DAYS[7]
DAYS[:] = [b"Sunday", b"Monday", b"Tuesday", b"Wednesday", b"Thursday", b"Friday", b"Saturday"]

LOCAL.local = 1
memcpy(LOCAL.title, b"Local", 6)


# ---- time zones ----

cdef void set_time(Value *out, int64_t ns, const Location *location) noexcept nogil:
    out.kind = VALUE_TIME
    out.number = ns
    out.text = <const char *>location


cdef int32_t offset_at(const Location *location, int64_t seconds, char *name) noexcept nogil:
    """Seconds east of UTC, and the abbreviation (8 octets)."""
    cdef tm parts
    cdef time_t time = <time_t>seconds
    cdef uint32_t low = 0, high, middle
    if location == NULL:
        memcpy(name, b"UTC", 4)
        return 0
    if location.local:
        if localtime_r(&time, &parts) == NULL:
            memcpy(name, b"UTC", 4)
            return 0
        snprintf(name, 8, b"%s", parts.tm_zone)
        return <int32_t>parts.tm_gmtoff
    if location.count == 0:
        memcpy(name, location.name, 8)
        return location.offset
    high = location.count
    while low + 1 < high:
        middle = (low + high) // 2
        if location.since[middle] <= seconds:
            low = middle
        else:
            high = middle
    snprintf(name, 8, b"%s", location.names[low])
    return location.offsets[low]


cdef class Zone:

    def __cinit__(self, str name not None):
        changes = changes_of(name)
        since = bytearray(8 * len(changes))
        offsets = bytearray(4 * len(changes))
        names = bytearray(sizeof(char *) * len(changes))
        self.kept = [since, offsets, names]
        self.location.since = <const int64_t *><char *>since
        self.location.offsets = <const int32_t *><char *>offsets
        self.location.names = <const char **><char *>names
        self.location.count = <uint32_t>len(changes)
        title = name.encode()[:63]
        memcpy(self.location.title, <const char *><bytes>title, <size_t>len(title))
        for place, (start, offset, text) in enumerate(changes):
            octets = text.encode()
            self.kept.append(octets)
            (<int64_t *>self.location.since)[<uint32_t>place] = start
            (<int32_t *>self.location.offsets)[<uint32_t>place] = offset
            self.location.names[<uint32_t>place] = <const char *><bytes>octets


def changes_of(str name) -> list:
    """(seconds since 1970, offset, abbreviation) of each change of a time zone's offset from 1970 to 2100. Raises ValueError."""
    try:
        place = ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        raise ValueError(f"unknown time zone {name}") from None

    def state(seconds):
        moment = datetime.fromtimestamp(seconds, UTC).astimezone(place)
        return int(moment.utcoffset() // timedelta(seconds=1)), moment.tzname() or ""

    last = state(0)
    found = [(0, *last)]
    end = 4102444800            # 2100
    step = 7 * 86400
    for start in range(0, end, step):
        if state(start + step) == last:
            continue
        low, high = start, start + step
        while high - low > 1:
            middle = (low + high) // 2
            if state(middle) == last:
                low = middle
            else:
                high = middle
        last = state(high)
        found.append((high, *last))
    return found


# ---- calendars ----

cdef int64_t days_of(int64_t year, int64_t month, int64_t day) noexcept nogil:
    """Days from 1970-01-01 to a date of the Gregorian calendar."""
    cdef int64_t y = year - (month <= 2)
    cdef int64_t era = (y if y >= 0 else y - 399) // 400
    cdef int64_t of_era = y - era * 400
    cdef int64_t of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


cdef inline int64_t floor_of(int64_t number, int64_t by) noexcept nogil:
    return number // by - (number % by < 0)


cdef void moment_of(const Value *time, Moment *out) noexcept nogil:
    cdef int64_t seconds = floor_of(time.number, SECOND), days, era, of_era, year, of_year, month
    out.nanosecond = <int>(time.number - seconds * SECOND)
    out.offset = offset_at(location_of(time), seconds, out.name)
    seconds += out.offset
    days = floor_of(seconds, DAY)
    seconds -= days * DAY
    out.hour, out.minute, out.second = <int>(seconds // 3600), <int>(seconds // 60 % 60), <int>(seconds % 60)
    out.weekday = <int>((days % 7 + 11) % 7)
    era = floor_of(days + 719468, 146097)
    of_era = days + 719468 - era * 146097
    year = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    out.day = <int>(of_year - (153 * month + 2) // 5 + 1)
    out.month = <int>(month + 3 if month < 10 else month - 9)
    out.year = year + era * 400 + (out.month <= 2)
    out.year_day = <int>(days - days_of(out.year, 1, 1) + 1)


cdef bint set_moment(Value *out, int64_t year, int64_t month, int64_t day, int64_t hour, int64_t minute, int64_t second, int64_t ns,
                     const Location *location) noexcept nogil:
    """False when the time is outside the range of VALUE_TIME."""
    cdef char name[8]
    cdef int64_t seconds
    if not -100000 < year < 100000 or not -1000000 < month < 1000000 or not -100000000 < day < 100000000:
        return False
    year += floor_of(month - 1, 12)
    month = month - 1 - floor_of(month - 1, 12) * 12 + 1
    seconds = days_of(year, month, 1) * DAY + (day - 1) * DAY + hour * 3600 + minute * 60 + second
    seconds -= offset_at(location, seconds - offset_at(location, seconds, name), name)
    if seconds <= -SECONDS_MAX or seconds >= SECONDS_MAX:
        return False
    set_time(out, seconds * SECOND + ns, location)
    return True


# ---- layouts ----

cdef enum Chunk:
    NOTHING
    LONG_MONTH
    MONTH
    NUMBER_MONTH
    ZERO_MONTH
    LONG_WEEKDAY
    WEEKDAY
    NUMBER_DAY
    BLANK_DAY
    ZERO_DAY
    ZERO_YEAR_DAY
    BLANK_YEAR_DAY
    HOUR
    HOUR_12
    ZERO_HOUR_12
    MINUTE
    ZERO_MINUTE
    SECONDS
    ZERO_SECONDS
    LONG_YEAR
    YEAR
    NOON
    SMALL_NOON
    ABBREVIATION
    OFFSET                      # +0100; the following ones in this order, each with and without Z
    OFFSET_COLON
    OFFSET_HOURS
    FRACTION_0
    FRACTION_9

cdef struct Piece:
    int chunk
    uint32_t size               # octets in the layout
    bint zulu                   # UTC is written as Z


cdef inline bint begins(const char *text, uint32_t length, const char *word) noexcept nogil:
    cdef uint32_t size = <uint32_t>strlen(word)
    return length >= size and memcmp(text, word, size) == 0


cdef inline bint is_digit(char c) noexcept nogil:
    return c'0' <= c <= c'9'


cdef void piece_at(const char *text, uint32_t length, Piece *piece) noexcept nogil:
    """The element of a layout (Go's package time) at this position; NOTHING: a literal character."""
    cdef uint32_t i = 1
    piece.chunk, piece.size, piece.zulu = NOTHING, 1, False
    if begins(text, length, b"January"):
        piece.chunk, piece.size = LONG_MONTH, 7
    elif begins(text, length, b"Jan") and not (length > 3 and c'a' <= text[3] <= c'z'):
        piece.chunk, piece.size = MONTH, 3
    elif begins(text, length, b"Monday"):
        piece.chunk, piece.size = LONG_WEEKDAY, 6
    elif begins(text, length, b"Mon") and not (length > 3 and c'a' <= text[3] <= c'z'):
        piece.chunk, piece.size = WEEKDAY, 3
    elif begins(text, length, b"MST"):
        piece.chunk, piece.size = ABBREVIATION, 3
    elif begins(text, length, b"002"):
        piece.chunk, piece.size = ZERO_YEAR_DAY, 3
    elif text[0] == c'0' and length > 1 and c'1' <= text[1] <= c'6':
        piece.size = 2
        piece.chunk = (ZERO_MONTH if text[1] == c'1' else ZERO_DAY if text[1] == c'2' else ZERO_HOUR_12 if text[1] == c'3' else ZERO_MINUTE
                       if text[1] == c'4' else ZERO_SECONDS if text[1] == c'5' else YEAR)
    elif begins(text, length, b"15"):
        piece.chunk, piece.size = HOUR, 2
    elif begins(text, length, b"2006"):
        piece.chunk, piece.size = LONG_YEAR, 4
    elif c'1' <= text[0] <= c'5':
        piece.chunk = (NUMBER_MONTH if text[0] == c'1' else NUMBER_DAY if text[0] == c'2' else HOUR_12 if text[0] == c'3' else MINUTE
                       if text[0] == c'4' else SECONDS)
    elif begins(text, length, b"__2"):
        piece.chunk, piece.size = BLANK_YEAR_DAY, 3
    elif begins(text, length, b"_2") and not begins(text, length, b"_2006"):
        piece.chunk, piece.size = BLANK_DAY, 2
    elif begins(text, length, b"PM"):
        piece.chunk, piece.size = NOON, 2
    elif begins(text, length, b"pm"):
        piece.chunk, piece.size = SMALL_NOON, 2
    elif text[0] == c'-' or text[0] == c'Z':
        piece.zulu = text[0] == c'Z'
        if begins(text + 1, length - 1, b"0700"):
            piece.chunk, piece.size = OFFSET, 5
        elif begins(text + 1, length - 1, b"07:00"):
            piece.chunk, piece.size = OFFSET_COLON, 6
        elif begins(text + 1, length - 1, b"07"):
            piece.chunk, piece.size = OFFSET_HOURS, 3
    elif (text[0] == c'.' or text[0] == c',') and length > 1 and (text[1] == c'0' or text[1] == c'9'):
        while i < length and text[i] == text[1]:
            i += 1
        if i == length or not is_digit(text[i]):
            piece.chunk, piece.size = FRACTION_0 if text[1] == c'0' else FRACTION_9, i


cdef void put_time(Output *output, const Value *time, const char *layout, uint32_t length) noexcept nogil:
    cdef Moment m
    cdef Piece piece
    cdef uint32_t at = 0
    moment_of(time, &m)
    while at < length:
        piece_at(layout + at, length - at, &piece)
        if piece.chunk == NOTHING:
            output_put(output, layout + at, 1)
        else:
            put_piece(output, &piece, &m, layout + at)
        at += piece.size


cdef void put_piece(Output *output, const Piece *piece, const Moment *m, const char *layout) noexcept nogil:
    cdef int chunk = piece.chunk, hour = m.hour % 12 if m.hour % 12 else 12, offset = m.offset // 60
    cdef char text[32]
    cdef const char *form = NULL
    cdef int number = 0
    if chunk == LONG_MONTH or chunk == LONG_WEEKDAY:
        output_word(output, MONTHS[m.month - 1] if chunk == LONG_MONTH else DAYS[m.weekday])
    elif chunk == MONTH or chunk == WEEKDAY:
        output_put(output, MONTHS[m.month - 1] if chunk == MONTH else DAYS[m.weekday], 3)
    elif chunk == NOON or chunk == SMALL_NOON:
        output_word(output, (b"PM" if m.hour >= 12 else b"AM") if chunk == NOON else b"pm" if m.hour >= 12 else b"am")
    elif chunk == ABBREVIATION:
        output_word(output, m.name)
    elif chunk >= OFFSET and chunk <= OFFSET_HOURS:
        if piece.zulu and offset == 0:
            output_word(output, b"Z")
            return
        output_word(output, b"-" if offset < 0 else b"+")
        offset = -offset if offset < 0 else offset
        output_put(output, text, <uint32_t>(snprintf(text, sizeof(text), b"%02d", offset // 60) if chunk == OFFSET_HOURS else snprintf(
            text, sizeof(text), b"%02d:%02d" if chunk == OFFSET_COLON else b"%02d%02d", offset // 60, offset % 60)))
    elif chunk >= FRACTION_0:
        put_fraction(output, m.nanosecond, piece.size - 1, layout[0], chunk == FRACTION_9)
    else:
        form = b"%02d" if chunk in (ZERO_MONTH, ZERO_DAY, HOUR, ZERO_HOUR_12, ZERO_MINUTE, ZERO_SECONDS, YEAR) else (
            b"%2d" if chunk == BLANK_DAY else b"%3d" if chunk == BLANK_YEAR_DAY else b"%03d" if chunk == ZERO_YEAR_DAY else
            b"%04d" if chunk == LONG_YEAR else b"%d")
        number = (m.month if chunk in (NUMBER_MONTH, ZERO_MONTH) else m.day if chunk in (NUMBER_DAY, BLANK_DAY, ZERO_DAY) else m.year_day if chunk in (
            ZERO_YEAR_DAY, BLANK_YEAR_DAY) else m.hour if chunk == HOUR else hour if chunk in (HOUR_12, ZERO_HOUR_12) else m.minute if chunk in (
            MINUTE, ZERO_MINUTE) else m.second if chunk in (SECONDS, ZERO_SECONDS) else <int>m.year if chunk == LONG_YEAR else <int>(m.year % 100))
        output_put(output, text, <uint32_t>snprintf(text, sizeof(text), form, number))


cdef void put_fraction(Output *output, int nanosecond, uint32_t digits, char point, bint short) noexcept nogil:
    """Writes a fraction of a second; short: without trailing zeros, and nothing for 0."""
    cdef char text[16]
    digits = min(digits, <uint32_t>9)
    snprintf(text + 1, sizeof(text) - 1, b"%09d", nanosecond)
    text[0] = point
    if short:
        while digits and text[digits] == c'0':
            digits -= 1
        if digits == 0:
            return
    output_put(output, text, digits + 1)


cdef void print_time(Output *output, const Value *time) noexcept nogil:
    """As Go's Time.String."""
    put_time(output, time, b"2006-01-02 15:04:05.999999999 -0700 MST", 39)


set_time_printer(print_time)


# ---- reading ----

cdef struct Reading:
    const char *text
    uint32_t length
    int64_t year
    int month
    int day
    int year_day                # 0: not given
    int hour
    int minute
    int second
    int nanosecond
    int noon                    # 1: AM, 2: PM
    bint has_offset
    bint zulu
    int32_t offset
    char name[8]


cdef int take_number(Reading *r, uint32_t least, uint32_t most) noexcept nogil:
    """Reads a number of this many digits, or returns -1."""
    cdef uint32_t i = 0
    cdef int number = 0
    while i < most and i < r.length and is_digit(r.text[i]):
        number = number * 10 + r.text[i] - c'0'
        i += 1
    if i < least:
        return -1
    r.text += i
    r.length -= i
    return number


cdef int take_word(Reading *r, const char **words, int count, uint32_t size) noexcept nogil:
    """Index of the word (of its first `size` octets; 0: all) that the text begins with, in any case, or -1."""
    cdef uint32_t length, j
    cdef int i
    for i in range(count):
        length = size if size else <uint32_t>strlen(words[i])
        if r.length < length:
            continue
        for j in range(length):
            if (r.text[j] | 32) != (words[i][j] | 32):
                break
        else:
            r.text += length
            r.length -= length
            return i
    return -1


cdef void take_fraction(Reading *r) noexcept nogil:
    """Reads the fraction of a second behind a point."""
    cdef int scale = SECOND // 10
    r.text += 1
    r.length -= 1
    r.nanosecond = 0
    while r.length and is_digit(r.text[0]):
        r.nanosecond += (r.text[0] - c'0') * scale
        scale //= 10
        r.text += 1
        r.length -= 1


cdef int take_offset(Reading *r, const Piece *piece) noexcept nogil:
    cdef int sign, hours, minutes = 0
    r.has_offset = True
    if piece.zulu and r.length and r.text[0] == c'Z':
        r.text += 1
        r.length -= 1
        r.zulu = True
        return 0
    if r.length == 0 or r.text[0] != c'+' and r.text[0] != c'-':
        return -1
    sign = -1 if r.text[0] == c'-' else 1
    r.text += 1
    r.length -= 1
    hours = take_number(r, 2, 2)
    if piece.chunk == OFFSET_COLON:
        if r.length == 0 or r.text[0] != c':':
            return -1
        r.text += 1
        r.length -= 1
    if piece.chunk != OFFSET_HOURS:
        minutes = take_number(r, 2, 2)
    if not 0 <= hours <= 24 or not 0 <= minutes < 60:
        return -1
    r.offset = sign * (hours * 3600 + minutes * 60)
    return 0


cdef int take_abbreviation(Reading *r) noexcept nogil:
    cdef uint32_t size = 0
    while size < r.length and size < 5 and c'A' <= r.text[size] <= c'Z':
        size += 1
    if size < 3:
        return -1
    memcpy(r.name, r.text, size)
    r.name[size] = 0
    r.text += size
    r.length -= size
    return 0


cdef int take_piece(Reading *r, const Piece *piece, bint fraction) noexcept nogil:
    """Reads one element of a layout; -1 when the text does not match. fraction: the layout has a fraction behind the seconds."""
    cdef int chunk = piece.chunk, number
    if chunk == LONG_MONTH or chunk == MONTH:
        r.month = take_word(r, MONTHS, 12, 0 if chunk == LONG_MONTH else 3) + 1
        return 0 if r.month else -1
    if chunk == LONG_WEEKDAY or chunk == WEEKDAY:
        return 0 if take_word(r, DAYS, 7, 0 if chunk == LONG_WEEKDAY else 3) >= 0 else -1
    if chunk == ABBREVIATION:
        return take_abbreviation(r)
    if chunk >= OFFSET and chunk <= OFFSET_HOURS:
        return take_offset(r, piece)
    if chunk == NOON or chunk == SMALL_NOON:
        if r.length < 2 or (r.text[1] | 32) != c'm' or (r.text[0] | 32) != c'a' and (r.text[0] | 32) != c'p':
            return -1
        r.noon = 1 if (r.text[0] | 32) == c'a' else 2
        r.text += 2
        r.length -= 2
        return 0
    if chunk == FRACTION_0 or chunk == FRACTION_9:
        if r.length > 1 and (r.text[0] == c'.' or r.text[0] == c',') and is_digit(r.text[1]):
            take_fraction(r)
            return 0
        return -1 if chunk == FRACTION_0 else 0
    if (chunk == BLANK_DAY or chunk == BLANK_YEAR_DAY) and r.length and r.text[0] == c' ':
        r.text += 1
        r.length -= 1
    if chunk == LONG_YEAR or chunk == YEAR:
        number = take_number(r, 4, 4) if chunk == LONG_YEAR else take_number(r, 2, 2)
        r.year = number if chunk == LONG_YEAR else number + (1900 if number >= 69 else 2000)
        return 0 if number >= 0 else -1
    if chunk == ZERO_YEAR_DAY or chunk == BLANK_YEAR_DAY:
        r.year_day = take_number(r, 3 if chunk == ZERO_YEAR_DAY else 1, 3)
        return 0 if 0 < r.year_day <= 366 else -1
    number = take_number(r, 2 if chunk in (ZERO_MONTH, ZERO_DAY, ZERO_HOUR_12, ZERO_MINUTE, ZERO_SECONDS) else 1, 2)
    if chunk == NUMBER_MONTH or chunk == ZERO_MONTH:
        r.month = number
        return 0 if 1 <= number <= 12 else -1
    if chunk == NUMBER_DAY or chunk == ZERO_DAY or chunk == BLANK_DAY:
        r.day = number
        return 0 if number >= 0 else -1
    if chunk == HOUR or chunk == HOUR_12 or chunk == ZERO_HOUR_12:
        r.hour = number
        return 0 if 0 <= number < (24 if chunk == HOUR else 13) else -1
    if chunk == MINUTE or chunk == ZERO_MINUTE:
        r.minute = number
        return 0 if 0 <= number < 60 else -1
    r.second = number
    if not fraction and r.length > 1 and r.text[0] == c'.' and is_digit(r.text[1]):
        take_fraction(r)
    return 0 if 0 <= number < 60 else -1


cdef int take_blanks(Reading *r, const char *layout, uint32_t length) noexcept nogil:
    """Matches literal characters; blanks of the layout match any number of blanks. Returns the octets of the layout matched, or -1."""
    cdef uint32_t used = 0
    if r.length and r.text[0] != c' ':
        return -1
    while used < length and layout[used] == c' ':
        used += 1
    while r.length and r.text[0] == c' ':
        r.text += 1
        r.length -= 1
    return <int>used


cdef int read_time(ValueArena *arena, const Value *text, const char *layout, uint32_t length, const Location *location, Value *out) noexcept nogil:
    cdef Reading r
    cdef Piece piece, following
    cdef uint32_t at = 0
    cdef int used
    memset(&r, 0, sizeof(r))
    r.text, r.length, r.month, r.day = text.text, text.length, 1, 1
    while at < length:
        piece_at(layout + at, length - at, &piece)
        if piece.chunk != NOTHING:
            following.chunk = NOTHING
            if at + piece.size < length:
                piece_at(layout + at + piece.size, length - at - piece.size, &following)
            if take_piece(&r, &piece, following.chunk >= FRACTION_0) < 0:
                return -1
            at += piece.size
        elif layout[at] == c' ':
            used = take_blanks(&r, layout + at, length - at)
            if used < 0:
                return -1
            at += <uint32_t>used
        elif r.length and r.text[0] == layout[at]:
            r.text += 1
            r.length -= 1
            at += 1
        else:
            return -1
    return -1 if r.length else finish_reading(arena, &r, location, out)


cdef int finish_reading(ValueArena *arena, Reading *r, const Location *location, Value *out) noexcept nogil:
    cdef Location *own
    cdef Value first, last
    if r.noon == 2 and r.hour < 12:
        r.hour += 12
    elif r.noon == 1 and r.hour == 12:
        r.hour = 0
    if r.year_day:
        r.month = 1
        r.day = r.year_day
    else:                       # whether the month has this day
        if r.day < 1 or not set_moment(&first, r.year, r.month, 1, 0, 0, 0, 0, NULL) or not set_moment(&last, r.year, r.month + 1, 1, 0, 0, 0, 0, NULL):
            return -1
        if r.day > (last.number - first.number) // (DAY * <int64_t>SECOND):
            return -1
    if r.zulu or r.name[0] and memcmp(r.name, b"UTC", 4) == 0:
        location = NULL
    elif r.has_offset or r.name[0]:
        own = <Location *>arena_alloc(arena, sizeof(Location))
        if own == NULL:
            return -1
        memset(own, 0, sizeof(Location))
        own.offset = r.offset
        memcpy(own.name, r.name, sizeof(own.name))
        location = own
    return 0 if set_moment(out, r.year, r.month, r.day, r.hour, r.minute, r.second, r.nanosecond, location) else -1
