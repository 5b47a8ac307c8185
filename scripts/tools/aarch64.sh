#!/usr/bin/env bash
# Run topicstream on an emulated Linux on ARM (aarch64), beside the same commands on this machine.
#
#     scripts/tools/aarch64.sh FOLDER            prepare FOLDER and run everything (about an hour)
#     scripts/tools/aarch64.sh FOLDER python ARGUMENTS     run that Python
#
# Needs Debian or Ubuntu with qemu-user-static, and the network. Nothing outside FOLDER changes: packages of
# another architecture come through an apt of their own, wheels through pip download.
set -euo pipefail
place=$(realpath -m "${1:?name a folder}")
shift
top=$(cd "$(dirname "$0")/../.." && pwd)
root=$place/root
site=$place/site
host_python=${PYTHON:-$top/.venv/bin/python}
command -v qemu-aarch64-static > /dev/null || { echo "install qemu-user-static" >&2; exit 1; }

fetch_interpreter() {
  local apt=$place/apt
  mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$root" "$place/debs"
  cat > "$apt/sources.list" <<-END
	deb [arch=arm64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bookworm main
	END
  : > "$apt/status"
  local options=(
    -o Dir::Etc::SourceList="$apt/sources.list" -o Dir::Etc::SourceParts=/dev/null
    -o Dir::State::Lists="$apt/lists" -o Dir::State::status="$apt/status" -o Dir::Cache="$apt/cache"
    -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o APT::Sandbox::User=root
  )
  apt-get "${options[@]}" -qq update
  local packages
  packages=$(apt-get "${options[@]}" -qq --print-uris install --no-install-recommends -y python3.11 libstdc++6 |
    sed -n "s/^'\([^']*\)'.*/\1/p")
  (cd "$place/debs" && for uri in $packages; do curl -fsSLO "$uri"; done)
  for package in "$place"/debs/*.deb; do dpkg-deb -x "$package" "$root"; done
}

fetch_wheels() {
  local wheels=$place/wheels
  "$host_python" - "$top/pyproject.toml" > "$place/requirements.txt" <<-'END'
	import sys, tomllib
	print(*tomllib.load(open(sys.argv[1], "rb"))["project"]["dependencies"], sep="\n")
	END
  "$host_python" -m pip download --quiet --dest "$wheels" --only-binary :all: --python-version 3.11 \
    --implementation cp --abi cp311 --abi abi3 --abi none \
    --platform manylinux2014_aarch64 --platform manylinux_2_17_aarch64 --platform manylinux_2_28_aarch64 \
    --requirement "$place/requirements.txt"
  mkdir -p "$site"
  for wheel in "$wheels"/*.whl; do (cd "$site" && unzip -qo "$wheel"); done
}

arm_python() {
  # the loader of the other system finds its libraries below $root
  NUMBA_CACHE_DIR=$place/kernels-arm PYTHONPATH=$top:$site PYTHONDONTWRITEBYTECODE=1 \
    qemu-aarch64-static -L "$root" "$root/usr/bin/python3.11" "$@"
}

[ -x "$root/usr/bin/python3.11" ] || fetch_interpreter
[ -d "$site/numpy" ] || fetch_wheels
if [ "${1:-}" = python ]; then
  shift
  arm_python "$@"
  exit
fi
arm_python -c 'import platform, numpy, numba; print(platform.machine(), numpy.__version__, numba.__version__)'
