#!/usr/bin/env bash
# Run topicstream on an emulated Linux on ARM (aarch64), beside the same commands on this machine.
#
#     scripts/tools/aarch64.sh FOLDER                      prepare FOLDER (half a minute)
#     scripts/tools/aarch64.sh FOLDER python ARGUMENTS     run that Python
#     scripts/tools/aarch64.sh FOLDER drill                ingest, train, eval, show, infer, kill -9 and resume on both, and compare
#
# The bits of an engine (one after another, for kernels compile for minutes; they stay in FOLDER):
#
#     scripts/tools/aarch64.sh FOLDER python scripts/tools/golden.py check tests/project/golden.json --quick --made --only bp
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

host() { PYTHONPATH=$top "$host_python" "$@"; }

write_documents() {
  "$host_python" - > "$1" <<-'END'
	import json, random
	r = random.Random(5)
	for i in range(400):
	    text = " ".join(f"w{100 * (i % 5) + r.randrange(150)}x" for _ in range(60))
	    print(json.dumps({"id": f"d{i}", "text": text, "date": str(2010 + i % 9), "authors": [f"a{r.randrange(9)}"]}))
	END
}

# The commands of the drill in a folder of their own; what they leave is listed in its file "hashes".
run_drill() {
  local python=$1 folder=$2
  rm -rf "$folder" && mkdir -p "$folder" && cd "$folder"
  local topics=("$python" -m topicstream)
  local train=(train -K 5 --tol 0 --seed 3 -q)
  "${topics[@]}" ingest ../docs.jsonl --min-df 1 --meta date,authors -q
  "${topics[@]}" "${train[@]}" --passes 6
  "${topics[@]}" eval --heldout --json > eval.json
  "${topics[@]}" show --words 5 > show.txt
  "${topics[@]}" infer ../docs.jsonl --out shares.jsonl -q
  "${topics[@]}" "${train[@]}" --passes 400 --model killed &
  until [ -s killed/history.jsonl ] && [ "$(wc -l < killed/history.jsonl)" -ge 20 ]; do sleep 0.1; done
  # the interpreter is a child where a shell function starts it
  pkill -9 -P $! || kill -9 $! || true
  wait $! || true
  echo "killed at pass $(wc -l < killed/history.jsonl)"
  "${topics[@]}" "${train[@]}" --passes 400 --model killed
  "${topics[@]}" "${train[@]}" --passes 400 --model whole
  "${topics[@]}" train -K 5 --passes 4 --algo atm --model atm -q
  local model
  for model in model killed whole atm; do
    "${topics[@]}" info "$model" --verify --json | grep -o '"content_hash": "[^"]*"' | sed "s/^/$model /"
  done > hashes
  sha256sum eval.json show.txt shares.jsonl >> hashes
  cat hashes
}

[ -x "$root/usr/bin/python3.11" ] || fetch_interpreter
[ -d "$site/numpy" ] || fetch_wheels
if [ "${1:-}" = python ]; then
  shift
  arm_python "$@"
  exit
fi
if [ "${1:-}" = drill ]; then
  write_documents "$place/docs.jsonl"
  (run_drill host "$place/here")
  (run_drill arm_python "$place/arm")
  diff "$place/here/hashes" "$place/arm/hashes" && echo "the same bits"
  exit
fi
arm_python -c 'import platform, numpy, numba; print(platform.machine(), numpy.__version__, numba.__version__)'
