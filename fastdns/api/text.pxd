"""Text written into a bounded buffer: names, types and numbers as log lines show them."""
from fastdns.message.text cimport (Text, text_address, text_char, text_class, text_name, text_number, text_printable, text_put, text_rcode,
                                   text_seconds, text_string, text_type)
