#!/bin/sh
# root.sh TARGET [BASE]
#
# Lays out what the image holds under the folder TARGET: /coredns, /node-cache and /node-server, the interpreter's library with its modules, their bytecode,
# and the shared libraries that the base image, whose files are in the folder BASE, does not have. Runs with the Python in which fastdns is installed.
# With SOURCE_DATE_EPOCH, seconds since 1970, as the time of every file.
set -eu
target=$1 base=${2:-/nonexistent}
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
# Its server: without a file capability, which would clear the signal for the parent's death.
launcher node-server fastdns

# The standard library but for what no server needs, then the installed packages but for tools, benchmarks and what only compilers and pip read.
copy() {
    from=$1 to=$2
    shift 2
    mkdir -p "$to"
    (cd "$from" && for name in __pycache__ "$@"; do echo "$name"; done | tar cf - -X - .) | tar xf - -C "$to"
}
copy "$stdlib" "$target$stdlib" './site-packages' './test' './ctypes/test' './idlelib' './tkinter' './turtledemo' './ensurepip' './lib2to3' './config-*' \
    './pydoc_data' './distutils' './unittest' './venv' './turtle.py' './pydoc.py' './doctest.py' './curses' './dbm' './sqlite3' './wsgiref' './xmlrpc' \
    './aifc.py' './chunk.py' './cgitb.py' './imghdr.py' './mailcap.py' './nntplib.py' './sndhdr.py' './sunau.py' './telnetlib.py' './xdrlib.py' \
    './asynchat.py' './asyncore.py' './smtpd.py' './msilib' './imaplib.py' './mailbox.py' './poplib.py' './ftplib.py' './cgi.py' './wave.py' \
    './statistics.py' './cProfile.py' './profile.py' './pstats.py' './optparse.py' './fileinput.py' './shelve.py' './symtable.py' './modulefinder.py' \
    './sched.py' './filecmp.py' './code.py' './codeop.py' './pty.py' './rlcompleter.py' \
    './pickletools.py' './pdb.py' './bdb.py' './antigravity.py' './this.py' './trace.py' './tabnanny.py' './pyclbr.py' './zipapp.py' \
    './lib-dynload/audioop*' './lib-dynload/ossaudiodev*' './lib-dynload/spwd*' './lib-dynload/_tkinter*' \
    './lib-dynload/*curses*' './lib-dynload/readline*' './lib-dynload/_sqlite3*' './lib-dynload/nis*' './lib-dynload/_*dbm*' './lib-dynload/*test*' \
    './lib-dynload/xx*' './_pydecimal.py' './_pyio.py' './crypt.py' './lib-dynload/_crypt*' './lib-dynload/_codecs_*' './lib-dynload/_multibytecodec*' \
    './encodings/big5*' './encodings/cp[5-9]*' './encodings/cp1[01]*' './encodings/euc_*' './encodings/gb*' './encodings/hz.py' './encodings/iso2022*' \
    './encodings/iso8859_[2-9]*' './encodings/iso8859_1?.py' './encodings/johab.py' './encodings/koi8*' './encodings/mac_*' './encodings/shift_jis*' \
    './encodings/cp[02]*' './encodings/cp12*' './encodings/cp424.py' './encodings/hp_roman8.py' './encodings/kz1048.py' './encodings/palmos.py' \
    './encodings/ptcp154.py' './encodings/tis_620.py' './tarfile.py' './lib-dynload/_lzma*' './lib-dynload/_bz2*' './smtplib.py' './plistlib.py' \
    './_osx_support.py' './asyncio/windows_*' './asyncio/proactor_events.py' './ctypes/macholib' './ctypes/wintypes.py' \
    './lib-dynload/_xxsub*' './lib-dynload/cmath*' './xml/dom' './xml/sax' './nturl2path.py' './__phello__' \
    './lzma.py' './bz2.py' './uu.py' './pipes.py' './timeit.py' './compileall.py' './cmd.py' './json/tool.py' \
    './_aix_support.py' './_bootsubprocess.py'
copy "$site" "$target$stdlib/site-packages" './pip' './pip-*' './setuptools*' './pkg_resources' './wheel*' './_distutils_hack' \
    './distutils-precedence.pth' './fastdns/bench' './dnslib/test_decode.py' './dnslib/client.py' './dnslib/proxy.py' './dnslib/intercept.py' './dnslib/*resolver.py' \
    './*.dist-info/RECORD' '*.pyx' '*.pxd' '*.pxi' '*.pyi' '*.h' '*.c'

# Shared libraries beyond those that the base image has, and those that wheels bring. Where /lib is a link to /usr/lib here, they go there:
# a folder /lib would take the place of that link in another base.
libraries=$(find "$target" -type f \( -name '*.so' -o -name '*.so.*' -o -name coredns \) -exec ldd {} + 2>/dev/null |
    awk -v target="$target/" '$2 == "=>" && $3 ~ /^\// && index($3, target) != 1 {print $3}' | sort -u |
    grep -Ev '/(ld-linux[^/]*|libc|libm|libdl|librt|libpthread|libutil|libresolv|libgcc_s|libstdc\+\+)\.so' |
    while read -r library; do
        place=$(realpath "$(dirname "$library")")/$(basename "$library")
        if [ -e "$target$place" ] || [ -e "$base$place" ] || [ -e "$base$library" ]; then continue; fi
        mkdir -p "$target$(dirname "$place")"
        cp -L "$library" "$target$place"
        case $library in "$libdir"/libpython*) ;; *) echo "$library" ;; esac
    done)
find "$target" -name '*.so*' -type f -exec strip --strip-unneeded {} + 2>/dev/null || true
PYTHONHASHSEED=0 "$python" -m compileall -q -j 0 --invalidation-mode unchecked-hash -s "$target" "$target$stdlib" >/dev/null

# Licences, and the bill of materials.
# shellcheck disable=SC2086 - paths without spaces
"$python" "$here/../tools/licenses.py" image "$target" $libraries
[ -z "${SOURCE_DATE_EPOCH:-}" ] || find "$target" -exec touch --no-dereference --date "@$SOURCE_DATE_EPOCH" {} +
