"""Regular expressions in linear time, values of expressions and templates, and compiled expressions."""
from fastdns.expression.matcher cimport GROUPS_MAX, Pattern, Regex, Span, regex_match

# Values, in a ValueArena: memory that each thread has once.
from fastdns.expression.value cimport (MAP_OF_TEXTS, VALUE_ARRAY, VALUE_BOOL, VALUE_FLOAT, VALUE_INT, VALUE_MAP, VALUE_NIL, VALUE_OBJECT,
                                       VALUE_STRING, VALUE_UINT, ValueArena, Value, copy_text, map_find, map_sort, arena_open, arena_count_step, arena_alloc,
                                       set_bool, set_float, set_int, set_nil, set_text, value_compare, value_equal)
# Text that grows in the arena.
from fastdns.expression.value cimport Output, output_begin, output_end, output_float, output_number, output_put, output_quoted, output_value, output_word

# Expressions of `view` and `template`.
from fastdns.expression.evaluate cimport Code, Program, evaluate, evaluate_truth
from fastdns.expression.question cimport Groups
