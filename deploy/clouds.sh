#!/bin/sh
# clouds.sh TARGET
#
# Lays out what the image's tag -clouds has beyond the image, under the folder TARGET: the libraries of clouds and OpenTelemetry (tools/locks/clouds.txt), their
# bytecode and a bill of materials. Runs with the Python of root.sh, and takes SOURCE_DATE_EPOCH as it does.
set -eu
target=$1
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}
site=$target$("$python" -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')/site-packages

"$python" -m pip install --quiet --no-cache-dir --no-compile --require-hashes --target "$site" -r "$here/../tools/locks/clouds.txt"
rm -rf "$site/bin"
find "$site" -type d \( -name tests -o -name test -o -name testing \) -prune -exec rm -rf {} +
find "$site" \( -name '*.pyi' -o -name '*.pxd' -o -name '*.c' -o -name '*.h' \) -type f -delete
# Of Amazon's services those that a plugin asks, and those that give credentials.
for service in "$site"/botocore/data/*/ "$site"/boto3/data/*/ "$site"/boto3/examples; do
    case $service in */route53/ | */secretsmanager/ | */sts/ | */sso/ | */sso-oidc/ | */signin/) ;; *) rm -rf "$service" ;; esac
done
find "$site" -name '*.so*' -type f -exec strip --strip-unneeded {} + 2>/dev/null || true
PYTHONHASHSEED=0 "$python" -m compileall -q -j 0 --invalidation-mode unchecked-hash -s "$target" "$site" >/dev/null
"$python" "$here/../tools/licenses.py" packages "$target" fastdns-clouds
[ -z "${SOURCE_DATE_EPOCH:-}" ] || find "$target" -exec touch --no-dereference --date "@$SOURCE_DATE_EPOCH" {} +
