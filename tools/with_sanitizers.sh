#!/bin/sh
# Runs a command with the sanitizers' libraries loaded first, as Python itself is not built with them, and with the
# sanitized build before the ordinary one, for the servers that the command starts too.
# FASTDNS_SANITIZE=thread takes ThreadSanitizer instead of AddressSanitizer and UndefinedBehaviorSanitizer: its reports come
# together at the end, of all processes, and make the status 66.
set -eu
cd "$(dirname "$0")/.."
library() { ${CC:-gcc} -print-file-name="lib$1.so"; }
PYTHONMALLOC=malloc
FASTDNS_BIN="$PWD/.venv/bin/python -P -m fastdns"
FASTDNS_SANITIZED=1
export LD_PRELOAD PYTHONPATH PYTHONMALLOC FASTDNS_BIN FASTDNS_SANITIZED
if [ "${FASTDNS_SANITIZE:-}" = thread ]; then
    reports=$(mktemp -d)
    trap 'rm -rf "$reports"' EXIT
    TSAN_OPTIONS="log_path=$reports/race suppressions=$PWD/tools/threads.supp history_size=4 ${TSAN_OPTIONS:-}"
    PYTHONPATH="$PWD/build/threads"
    export TSAN_OPTIONS
    status=0
    LD_PRELOAD="$(library tsan)" "$@" || status=$?
    for report in "$reports"/race*; do
        [ -e "$report" ] || exit "$status"
        cat "$report"
    done
    exit 66
fi
LD_PRELOAD="$(library asan) $(library ubsan)"
ASAN_OPTIONS="detect_leaks=0:halt_on_error=1:exitcode=99:${ASAN_OPTIONS:-}"
UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1:${UBSAN_OPTIONS:-}"
PYTHONPATH="$PWD/build/sanitized"
export ASAN_OPTIONS UBSAN_OPTIONS
exec "$@"
