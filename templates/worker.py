"""Compiles kernels in a process of its own: `python -m inductor_flydsl.templates.worker`.

For machines where Triton's LLVM is loaded in the user's process, beside which importing flydsl has crashed. One JSON
request per line on stdin, one JSON answer per line on stdout, in order, until stdin ends:

    {"op": "gemm", "config": {...}, "signature": {...}, "arch": "gfx950", "format": "isa"}
    {"ok": true, "code": "<base64>", "kernel": "...", "threads": 256, "format": "isa", "seconds": 0.4, "timings": {...}}
    {"ok": false, "error": "one sentence", "type": "ValueError"}

An "id" in a request comes back in its answer. Nothing else reaches stdout: what FlyDSL or LLVM print goes to stderr.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import os
import sys
from typing import Any, BinaryIO

from inductor_flydsl.templates.compile import compile_kernel


def answer(line: bytes) -> dict[str, Any]:
    """The answer to one request line; whatever goes wrong is an answer too."""
    identity: dict[str, Any] = {}
    try:
        try:
            request = json.loads(line)
        except ValueError as error:
            raise ValueError(f"a request is one line of JSON, and this line is not: {error}") from error
        if not isinstance(request, dict):
            raise ValueError(f"a request is a JSON object, not {type(request).__name__}")
        if "id" in request:
            identity["id"] = request.pop("id")
        made = compile_kernel(**request)
    except Exception as error:
        return {**identity, "ok": False, "error": str(error), "type": type(error).__name__}
    return {
        **identity,
        "ok": True,
        "code": base64.b64encode(made.code).decode(),
        "kernel": made.kernel,
        "threads": made.threads,
        "format": made.format,
        "seconds": made.seconds,
        "timings": dataclasses.asdict(made.timings),
    }


def _take_stdio() -> tuple[BinaryIO, BinaryIO]:
    """stdin and stdout for requests and answers alone: fd 0 reads nothing and fd 1 is stderr from here on.

    At the level of descriptors, as LLVM and child processes do not ask Python's sys.stdout.
    """
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    sys.stdout.flush()
    os.dup2(2, 1)
    return requests, answers


def main() -> None:
    """Serve requests until stdin ends."""
    requests, answers = _take_stdio()
    for line in iter(requests.readline, b""):
        if line.strip():
            answers.write(json.dumps(answer(line)).encode() + b"\n")
            answers.flush()


if __name__ == "__main__":
    main()
