#!/bin/sh
# Runs a command with the sanitizers' libraries loaded first, as Python itself is not built with them, and with the
# sanitized build before the ordinary one, for the servers that the command starts too.
# FASTDNS_SANITIZE=thread takes ThreadSanitizer instead of AddressSanitizer, LeakSanitizer and UndefinedBehaviorSanitizer.
# Reports come together at the end, of all processes, and make the status 66, but for those of UndefinedBehaviorSanitizer,
# whose library writes to stderr beside AddressSanitizer's whatever it is told: they end the process, and its log has them.
set -eu
cd "$(dirname "$0")/.."
library() { ${CC:-gcc} -print-file-name="lib$1.so"; }
PYTHONMALLOC=malloc
FASTDNS_BIN="$PWD/.venv/bin/python -P -m fastdns"
FASTDNS_SANITIZED=1
FASTDNS_REPORTS=$(mktemp -d)
trap 'rm -rf "$FASTDNS_REPORTS"' EXIT
if [ "${FASTDNS_SANITIZE:-}" = thread ]; then
    preload=$(library tsan)
    PYTHONPATH="$PWD/build/threads"
    TSAN_OPTIONS="log_path=$FASTDNS_REPORTS/race suppressions=$PWD/tools/threads.supp history_size=4 ${TSAN_OPTIONS:-}"
    # Between fork and exec gRPC, a part of tests, would start threads in the child of a test process that has several.
    GRPC_ENABLE_FORK_SUPPORT=0
    export TSAN_OPTIONS GRPC_ENABLE_FORK_SUPPORT
else
    preload="$(library asan) $(library ubsan)"
    # LeakSanitizer takes a thread's dynamic TLS where glibc no longer has it, and crashes.
    PYTHONPATH="$PWD/build/sanitized:$PWD/tools/sanitizers"
    ASAN_OPTIONS="detect_leaks=1:intercept_tls_get_addr=0:leak_check_at_exit=0:handle_abort=1:halt_on_error=1:exitcode=99:log_path=$FASTDNS_REPORTS/memory:${ASAN_OPTIONS:-}"
    UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1:${UBSAN_OPTIONS:-}"
    export ASAN_OPTIONS UBSAN_OPTIONS
fi
export PYTHONPATH PYTHONMALLOC FASTDNS_BIN FASTDNS_SANITIZED FASTDNS_REPORTS
status=0
LD_PRELOAD="$preload" "$@" || status=$?
.venv/bin/python tools/sanitizers/reports.py "$FASTDNS_REPORTS" || status=$?
exit "$status"
