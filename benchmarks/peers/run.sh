#!/usr/bin/env bash
# Measures unspool and peers in one run of the peers' harness.
#
#   benchmarks/peers/run.sh [--scenarios s2,s3-100] [--fws floor,agno,unspool] [--reps 3]
#
# UNSPOOL_SHARED (default ../shared) holds the harness in bench/, BENCH_VENVS (default .cache/venvs) one
# virtual environment per peer; those that are missing are made, by the harness's own installer.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
shared=${UNSPOOL_SHARED:-$root/../shared}
export BENCH_VENVS=${BENCH_VENVS:-$root/.cache/venvs}
scenarios=s2,s3-10,s3-100 peers=floor,floorplus,agno,unspool reps=3
while [ $# -gt 0 ]; do
  case $1 in
    --scenarios) scenarios=$2 ;;
    --fws) peers=$2 ;;
    --reps) reps=$2 ;;
    *) echo "usage: run.sh [--scenarios LIST] [--fws LIST] [--reps N]" >&2; exit 2 ;;
  esac
  shift 2
done
[ -d "$shared/bench" ] || { echo "no harness in $shared/bench; set UNSPOOL_SHARED" >&2; exit 2; }
mkdir -p "$BENCH_VENVS"
for peer in ${peers//,/ }; do
  [ "$peer" = floorplus ] && peer=floor
  venv=$BENCH_VENVS/${peer//_/-}
  [ -x "$venv/bin/python" ] && continue
  if [ "$peer" = unspool ]; then
    python3 -m venv "$venv" && "$venv/bin/pip" install -q -e "$root"
  else
    bash "$shared/bench/install_peers.sh" "${peer//_/-}"
  fi
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$shared"/bench/*.py "$work"/ && chmod u+w "$work"/*.py
cp "$here/fw_unspool.py" "$work"/
for adapter in "$work"/fw_*.py; do # the report has a line for each adapter it finds
  name=$(basename "$adapter" .py)
  case ,$peers, in *,"${name#fw_}",*) ;; *) rm "$adapter" ;; esac
done
export BENCH_RAW=$work/raw.jsonl
python3 "$work/bench.py" run --scenarios "$scenarios" --fws "$peers" --reps "$reps"
python3 "$work/bench.py" report --out "$work/report.md" >/dev/null
cat "$work/report.md"
