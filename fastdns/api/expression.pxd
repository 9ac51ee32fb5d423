"""Regular expressions in linear time, values of expressions and templates, and compiled expressions."""
from fastdns.expression.matcher cimport GROUPS_MAX, Pattern, Regex, Span, regex_match

# Values, in a Room: memory that each thread has once.
from fastdns.expression.value cimport (MAP_OF_TEXTS, VALUE_ARRAY, VALUE_BOOL, VALUE_FLOAT, VALUE_INT, VALUE_MAP, VALUE_NIL, VALUE_OBJECT,
                                       VALUE_STRING, VALUE_UINT, Room, Value, copy_text, map_find, map_settle, room_open, room_step, room_take,
                                       set_bool, set_float, set_int, set_nil, set_text, value_compare, value_equal)
# Text that grows in the room.
from fastdns.expression.value cimport Output, output_begin, output_end, output_float, output_number, output_put, output_quoted, output_value, output_word

# Expressions of `view` and `template`.
from fastdns.expression.evaluate cimport Code, Program, evaluate, evaluate_truth
from fastdns.expression.question cimport Groups
