"""Runs llama.cpp's HTTP server until standard input ends: ``serve.py PORT MODEL.gguf TEMPLATE.jinja``.

Runs in the virtual environment that ``setup.sh`` makes, not in the one of the tests. Prints one
line when the server answers.
"""

import sys
from pathlib import Path

import xllamacpp  # type: ignore[import-not-found]  # lives in the other environment

CONTEXT_TOKENS = 4096  # of each slot: a test overflows it on purpose


def main(port: str, model: str, template: str) -> None:
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.hostnames = ["127.0.0.1"]
    params.port = int(port)
    params.n_parallel = 2
    params.n_ctx = CONTEXT_TOKENS * params.n_parallel
    params.cpuparams.n_threads = 1  # more of them spin against each other on a busy machine
    params.n_gpu_layers = 0
    params.sampling.temp = 0.0  # where a request names none: the same answer each time
    params.use_jinja = True
    params.chat_template = Path(template).read_text(encoding="utf-8")
    server = xllamacpp.Server(params)
    print("listening", server.listening_address, flush=True)
    sys.stdin.read()  # it ends with whoever started us, however that one ends


if __name__ == "__main__":
    main(*sys.argv[1:])
