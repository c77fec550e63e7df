"""`python -m inductor_flydsl kernels`: every shipped config compiled, and on request run against its reference.

All of it happens in the simulator: a config that is right here was executed instruction by instruction, and no figure
is a measurement.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from typing import Any

from inductor_flydsl import checks, device, launch
from inductor_flydsl.main_loop import MainLoop, main_loop
from inductor_flydsl.ops import OPS
from inductor_flydsl.simulator import ASSUMPTIONS, Finding, Hazards, KernelFacts, SimulatorError, timing
from inductor_flydsl.simulator.assumptions import Assumption
from inductor_flydsl.simulator.hazards import ORDERS


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """One shipped kernel: a config, and what it computes (`signature`).

    `occupancy` in waves per SIMD; `lds` in bytes; `max_error` a fraction, None if not checked. `main_loop`: what a K
    tile of its loop takes, None for a kernel without one, or where its launches failed; its bars do not decide `ok`.

    `hazards` holds what the hazard mode found. `assumptions` holds the flipped rules under which the kernel is wrong,
    `held` those of them that must hold, with the reason. `ok`: it compiled without spills and everything that was asked
    for holds; else `reason` says what does not.
    """

    op: str
    name: str
    config: dict[str, Any]
    signature: dict[str, Any]
    ok: bool
    max_error: float | None
    spills: int
    hazards: list[str]
    vgprs: int
    agprs: int
    sgprs: int
    lds: int
    occupancy: int
    main_loop: MainLoop | None
    shapes: list[str]
    assumptions: list[str]
    held: dict[str, str]
    reason: str


def occupancy(facts: KernelFacts, threads: int) -> int:
    """Waves per SIMD that registers and LDS admit, for workgroups of `threads` threads. 0: not even one workgroup."""
    return -(-timing.workgroups_per_cu(facts, threads) * -(-threads // 64) // timing.SIMDS)


def rows(
    *, op: str | None = None, check: bool = False, assumptions: bool = False, hazards: bool = False
) -> Iterable[Row]:
    """A row per shipped config, dtype and layout, as they are made. Compiles into the store; raises CompileError."""
    with device.simulate():
        import torch

        target = device.target_of(torch.device("cpu"))
        assert isinstance(target, device.Target)
        for name in [op] if op else list(OPS):
            module = OPS[name].module
            for config in module.CONFIGS:
                for signature in (each for dtype in module.DTYPES for each in module.signatures(dtype)):
                    if not module.serves(config, signature):
                        continue
                    kernel = launch.kernel(name, config=config, signature=signature, target=target)
                    yield _row(kernel, check=check or assumptions or hazards, assumptions=assumptions, hazards=hazards)


def _row(kernel: launch.Kernel, *, check: bool, assumptions: bool, hazards: bool) -> Row:
    spec, facts = kernel.spec, kernel.facts
    spills = facts.vgpr_spills + facts.sgpr_spills
    faults = [f"{spills} registers spilled"] if spills else []
    loop = None
    try:
        loop = main_loop(kernel)
    except SimulatorError as error_of_loop:
        faults.append(f"the launches that show the main loop: {error_of_loop}")
    errors: list[float] = []
    shapes: list[str] = []
    broken: dict[str, str] = {}
    found: list[str] = []
    if check:
        for case in checks.cases(spec.op, spec.config, spec.signature):
            shapes.append(case.shape)
            error, fault, _ = _run(kernel, case)
            errors.append(error)
            if fault:
                faults.append(f"{case.name} {case.shape}: {fault}")
            for assumption in ASSUMPTIONS if assumptions and not fault else ():
                _, fault, _ = _run(kernel, case, flipped=(assumption.name,))
                if fault:
                    broken.setdefault(assumption.name, f"{case.name} {case.shape}: {fault}")
            if hazards:
                _, fault, findings = _run(kernel, case, hazards=Hazards())
                found += [str(finding) for finding in findings]
                if fault:
                    faults.append(f"{case.name} {case.shape} in hazard mode: {fault}")
    found = list(dict.fromkeys(found))
    faults += [f"hazard: {finding}" for finding in found]
    held = {each.name: each.must_hold for each in ASSUMPTIONS if each.name in broken and each.must_hold}
    faults += [f"depends on an assumption: {_rule(name)} ({broken[name]})" for name in broken if name not in held]
    return Row(
        op=spec.op,
        name=facts.name,
        config=dataclasses.asdict(spec.config),
        signature=dataclasses.asdict(spec.signature),
        ok=not faults,
        max_error=max(errors) if errors else None,
        spills=spills,
        hazards=found,
        vgprs=facts.vgprs,
        agprs=facts.agprs,
        sgprs=facts.sgprs,
        lds=facts.lds_bytes,
        occupancy=occupancy(facts, spec.config.threads),
        main_loop=loop,
        shapes=shapes,
        assumptions=list(broken),
        held=held,
        reason="; ".join(faults),
    )


def _run(
    kernel: launch.Kernel, case: checks.Case, *, flipped: tuple[str, ...] = (), hazards: Hazards | None = None
) -> tuple[float, str, tuple[Finding, ...]]:
    """(error, what is wrong or "", findings) of one launch on poisoned memory."""
    case.poison()
    try:
        findings = kernel.simulate(*case.tensors, assumptions=flipped, hazards=hazards, **case.numbers)
    except SimulatorError as fault:
        return float("inf"), str(fault), ()
    error, right = case.error()
    return error, "" if right else f"a wrong element, off by {error:.3g} of the largest", findings


def _rule(name: str) -> str:
    found: Assumption = next(each for each in ASSUMPTIONS if each.name == name)
    return f"{name}: {found.rule}"


def run(*, op: str | None, check: bool, assumptions: bool, hazards: bool, as_json: bool) -> int:
    """Print the rows; 0 if all are ok, 1 otherwise."""
    made: list[Row] = []
    if not as_json:
        print(
            f"{'kernel':46} {'VGPR':>5} {'AGPR':>5} {'SGPR':>5} {'LDS':>7} {'spills':>6} {'waves':>5} {_LOOP}  result"
        )
    for row in rows(op=op, check=check, assumptions=assumptions, hazards=hazards):
        made.append(row)
        if not as_json:
            print(
                f"{row.name:46} {row.vgprs:5} {row.agprs:5} {row.sgprs:5} {row.lds:7} {row.spills:6} "
                f"{row.occupancy:5} {_loop(row)}  {_result(row)}",
                flush=True,
            )
    if as_json:
        print(json.dumps({"kernels": [dataclasses.asdict(row) for row in made]}, indent=1))
    else:
        _print_summary(made, check=check or assumptions or hazards, assumptions=assumptions, hazards=hazards)
    return 0 if all(row.ok for row in made) else 1


# Clocks of a K tile, as MainLoop has them; an asterisk where a bar is missed.
_LOOP = f"{'MFMA':>5} {'issue':>6} {'LDS':>6} {'DMA':>5} {'conflicts':>9}"


def _loop(row: Row) -> str:
    loop = row.main_loop
    if loop is None:
        return f"{'-':>5} {'-':>6} {'-':>6} {'-':>5} {'-':>9}"
    issue, lds, conflicts = ("*" if name in loop.over else " " for name in ("issue", "lds", "conflicts"))
    return (
        f"{loop.mfma:5.0f} {loop.issue:5.0f}{issue} {loop.lds:5.0f}{lds} {loop.lds_dma:5.0f} "
        f"{100 * loop.conflicts:6.1f} %{conflicts}"
    )


def _result(row: Row) -> str:
    if not row.ok:
        return f"FAILED: {row.reason}"
    return "compiled" if row.max_error is None else f"right on {len(row.shapes)} shapes, error {row.max_error:.1e}"


def _print_summary(made: list[Row], *, check: bool, assumptions: bool, hazards: bool) -> None:
    good = sum(row.ok for row in made)
    print(f"{good} of {len(made)} kernels are ok" + ("; simulated, against fp64" if check else "; --check runs them"))
    looped = [row.main_loop for row in made if row.main_loop is not None]
    if looped:
        hidden = sum(not loop.over for loop in looped)
        print(
            "MFMA, issue, LDS, DMA: simulated, clocks of a K tile in the main loop: of the matrix unit and of issuing "
            "all else, per SIMD, of the LDS, and of what loads write into it"
        )
        print(f"in {hidden} of {len(looped)} all else hides under the MFMAs and conflicts are below 1 %; * where not")
    if hazards:
        count = sum(len(row.hazards) for row in made)
        print(f"each was also run in the hazard mode, waves in {len(ORDERS)} orders: {count} findings")
    if not assumptions:
        return
    print(f"each was also run with each of {len(ASSUMPTIONS)} assumed rules flipped")
    held = {name: reason for row in made for name, reason in row.held.items()}
    for name, reason in held.items():
        count = sum(name in row.held for row in made)
        print(f"  {_rule(name)}\n    {count} kernels rest on it; it must hold: {reason}")
