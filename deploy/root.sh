#!/bin/sh
# Lays out what the image holds under a folder: /coredns and /node-cache, the interpreter's library with its modules, their bytecode,
# and the shared libraries that the base image does not have. Runs with the Python in which fastdns is installed.
set -eu
target=$1
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}

ask() {
    "$python" -c "import sys, sysconfig; print($1)"
}
prefix=$(ask 'sys.base_prefix')
stdlib=$(ask 'sysconfig.get_path("stdlib")')
site=$(ask 'sysconfig.get_path("purelib")')
include=$(ask 'sysconfig.get_path("include")')
libdir=$(ask 'sysconfig.get_config_var("LIBDIR")')
version=$(ask 'sysconfig.get_config_var("LDVERSION")')

mkdir -p "$target$libdir" "$target$stdlib"
launcher() {
    ${CC:-gcc} -O2 -Wall -fPIE -pie -Wl,-z,relro,-z,now -DFASTDNS_PYTHON="\"$prefix/bin/python3\"" -DFASTDNS_MODULE="\"$2\"" -I"$include" \
        -o "$target/$1" "$here/launcher.c" -L"$libdir" -Wl,-rpath,"$libdir" -Wl,--export-dynamic "-lpython$version" -ldl -lm -lpthread
}
launcher coredns fastdns
# Only the image of the cache on every node has what this needs.
launcher node-cache fastdns.node

# The standard library but for what no server needs, then the installed packages but for tools.
copy() {
    from=$1 to=$2
    shift 2
    mkdir -p "$to"
    (cd "$from" && for name in __pycache__ "$@"; do echo "$name"; done | tar cf - -X - .) | tar xf - -C "$to"
}
copy "$stdlib" "$target$stdlib" './site-packages' './test' './idlelib' './tkinter' './turtledemo' './ensurepip' './lib2to3' './config-*' \
    './pydoc_data' './distutils' './unittest' './venv' './turtle.py' './pydoc.py' './lib-dynload/_tkinter*' './lib-dynload/*curses*' \
    './lib-dynload/readline*' './lib-dynload/_sqlite3*' './lib-dynload/nis*' './lib-dynload/_*dbm*' './lib-dynload/*test*' './lib-dynload/xx*'
copy "$site" "$target$stdlib/site-packages" './pip' './pip-*' './setuptools*' './pkg_resources' './wheel*' './_distutils_hack' \
    './distutils-precedence.pth'
find "$target" -name '*.so*' -type f -exec strip --strip-unneeded {} + 2>/dev/null || true
"$python" -m compileall -q -j 0 --invalidation-mode unchecked-hash -s "$target" "$target$stdlib" >/dev/null

# Shared libraries beyond those of glibc and gcc, which the base image has, and those that wheels bring; with their licences and the bill of materials.
libraries=$(find "$target" -type f \( -name '*.so' -o -name '*.so.*' -o -name coredns \) -exec ldd {} + 2>/dev/null |
    awk -v target="$target/" '$2 == "=>" && $3 ~ /^\// && index($3, target) != 1 {print $3}' | sort -u |
    grep -Ev '/(ld-linux[^/]*|libc|libm|libdl|librt|libpthread|libutil|libresolv|libgcc_s|libstdc\+\+)\.so' |
    while read -r library; do
        [ -e "$target$library" ] && continue
        mkdir -p "$target$(dirname "$library")"
        cp -L "$library" "$target$library"
        case $library in "$libdir"/libpython*) ;; *) echo "$library" ;; esac
    done)
# shellcheck disable=SC2086 - paths without spaces
"$python" "$here/../tools/licenses.py" image "$target" $libraries
