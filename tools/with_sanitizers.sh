#!/bin/sh
# Runs a command with the sanitizers' libraries loaded first, as Python itself is not built with them, and with the
# sanitized build before the ordinary one, for the servers that the command starts too.
set -eu
cd "$(dirname "$0")/.."
LD_PRELOAD="$(${CC:-gcc} -print-file-name=libasan.so) $(${CC:-gcc} -print-file-name=libubsan.so)"
ASAN_OPTIONS="detect_leaks=0:halt_on_error=1:exitcode=99:${ASAN_OPTIONS:-}"
UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1:${UBSAN_OPTIONS:-}"
PYTHONMALLOC=malloc
PYTHONPATH="$PWD/build/sanitized"
FASTDNS_BIN="$PWD/.venv/bin/python -P -m fastdns"
FASTDNS_SANITIZED=1
export LD_PRELOAD ASAN_OPTIONS UBSAN_OPTIONS PYTHONMALLOC PYTHONPATH FASTDNS_BIN FASTDNS_SANITIZED
exec "$@"
