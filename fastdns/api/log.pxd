"""Log lines from hooks: a line is given to the log's own thread, and dropped and counted when that cannot keep up."""
from fastdns.telemetry.log_writer cimport LOG_LINE_MAX, log_put, log_wants_debug
