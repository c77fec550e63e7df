"""The command line: python -m inductor_flydsl demo | ops | doctor | kernels | bench.

Exit codes: 0 done, 1 something fell short, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence

from inductor_flydsl import __version__


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code."""
    parser = argparse.ArgumentParser(prog="inductor_flydsl", description=__doc__.splitlines()[0])
    parser.add_argument("--version", action="version", version=f"inductor_flydsl {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    demo = commands.add_parser("demo", help="compile a small Llama model and run its linear layers in the simulator")
    demo.add_argument("--layers", type=_positive, default=2, help="decoder layers (2)")
    demo.add_argument("--tokens", type=_positive, default=48, help="tokens in the prompt (48)")
    demo.add_argument("--json", action="store_true", help="print JSON instead of a table")
    commands.add_parser("ops", help="the table of ops").add_argument(
        "--json", action="store_true", help="print JSON instead of a table"
    )
    commands.add_parser("doctor", help="what works here, and what to do about the rest").add_argument(
        "--json", action="store_true", help="print JSON instead of lines"
    )
    kernels = commands.add_parser("kernels", help="compile every shipped kernel: registers, LDS, spills, occupancy")
    kernels.add_argument("--op", help="only this op's kernels")
    kernels.add_argument("--check", action="store_true", help="run each in the simulator, against its reference")
    kernels.add_argument(
        "--assumptions", action="store_true", help="check, also with each assumed rule of the hardware flipped"
    )
    kernels.add_argument(
        "--hazards", action="store_true", help="check, also in the hazard mode: late effects, several orders of waves"
    )
    kernels.add_argument("--json", action="store_true", help="print JSON instead of a table")
    from inductor_flydsl.benchmarks import command as bench

    bench.add(commands)
    chosen = parser.parse_args(arguments)
    try:
        # The environment's options are read here, so that a wrong one is one line.
        from inductor_flydsl import config, options  # noqa: F401

        options.check()
    except ValueError as error:
        print(f"inductor_flydsl: {error}", file=sys.stderr)
        return 2
    try:
        code = _run(chosen)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # Who reads has gone: nothing is left to say, and the interpreter's own flush must not say it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        print(f"inductor_flydsl: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninductor_flydsl: interrupted", file=sys.stderr)
        return 130


def _run(chosen: argparse.Namespace) -> int:
    if chosen.command == "demo":
        from inductor_flydsl import demo as run_demo

        return run_demo.run(layers=chosen.layers, tokens=chosen.tokens, as_json=chosen.json)
    if chosen.command == "ops":
        return _ops(as_json=chosen.json)
    if chosen.command == "bench":
        from inductor_flydsl.benchmarks import command as bench

        return bench.run(chosen)
    if chosen.command == "kernels":
        return _kernels(chosen)
    from inductor_flydsl import doctor

    return doctor.run(as_json=chosen.json)


def _kernels(chosen: argparse.Namespace) -> int:
    from inductor_flydsl.compiler import flydsl_problem
    from inductor_flydsl.ops import OPS
    from inductor_flydsl.simulator import SimulatorError

    if chosen.op is not None and chosen.op not in OPS:
        print(f"inductor_flydsl: --op {chosen.op} is not one of {', '.join(OPS)}", file=sys.stderr)
        return 2
    if problem := flydsl_problem():
        print(f"inductor_flydsl: {problem}", file=sys.stderr)
        return 1
    from inductor_flydsl import kernels

    try:
        return kernels.run(
            op=chosen.op,
            check=chosen.check,
            assumptions=chosen.assumptions,
            hazards=chosen.hazards,
            as_json=chosen.json,
        )
    except SimulatorError as error:
        print(f"inductor_flydsl: {error}", file=sys.stderr)
        return 1


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def _ops(*, as_json: bool) -> int:
    import dataclasses

    from inductor_flydsl.ops import OPS, PLANNED

    if as_json:
        rows = [dataclasses.asdict(op) for op in OPS.values()]
        print(json.dumps({"ops": rows, "planned": PLANNED}, indent=1))
        return 0
    for op in OPS.values():
        print(f"{op.name}: {op.summary}")
        for name in ("aten", "path", "dtypes", "layouts", "shapes", "arch", "state"):
            value = getattr(op, name)
            print(f"    {name:8} {', '.join(value) if isinstance(value, tuple) else value}")
    print("not built yet: " + ", ".join(PLANNED))
    return 0


if __name__ == "__main__":
    sys.exit(main())
