"""Log lines from hooks: a line is given to the log's own thread, and dropped and counted when that cannot keep up. Text and JSON come from the same call."""
from fastdns.telemetry.log_line cimport (JSON_GROWTH, LOG_DEBUG, LOG_ERROR, LOG_FIELDS_MAX, LOG_INFO, LOG_LINE_MAX, LOG_WARNING, LogLevel,
                                         json_escape, log_is_json, log_put, log_put_fields)
from fastdns.telemetry.log_writer cimport log_wants_debug
