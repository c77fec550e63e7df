"""Where our candidates join Inductor's: a preprocessing function that sees each op's choices before autotuning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._inductor import ir
from torch._inductor.select_algorithm import ExternKernelCaller
from torch._inductor.virtualized import V

from inductor_flydsl import activation, compiler, config, device, launch, ledger, simulator
from inductor_flydsl.gate import Decline
from inductor_flydsl.lowering import gemm
from inductor_flydsl.lowering.candidate import KernelChoice
from inductor_flydsl.ops import OPS
from inductor_flydsl.options import selected_ops

# Which op serves an aten overload, and the module that reads its nodes.
LOWERINGS: dict[Any, tuple[str, Any]] = dict.fromkeys(gemm.TARGETS, ("gemm", gemm))


def offer(choices: list[Any]) -> list[Any]:
    """Add our candidates to the choices for the node that is being lowered, or take them alone under `force`.

    Without an active switch, for an op that is not ours, and for every declined input, `choices` comes back as it was.
    """
    if not activation.active():
        return choices
    node = V.current_node
    op, reader = LOWERINGS.get(getattr(node, "target", None), ("", None))
    if not op or op not in selected_ops():
        return choices
    device.note_compile()
    given, layout = _nodes(node, choices, reader)
    inputs = reader.operands(node, given, layout)
    if inputs is None:
        return choices
    problem = reader.problem(node, inputs, layout)
    decision = ledger.add(
        ledger.Decision(
            op=op,
            overload=problem.overload.removesuffix(".default"),
            shapes=problem.shapes,
            dtypes=problem.dtypes_line,
            strides=problem.strides_line,
            choice=_name(choices[0]) if choices else "",
            candidates=[ledger.Candidate(name=_name(choice), time="not timed") for choice in choices],
        ),
        V.graph,
    )
    target = device.target_of(layout.device)
    ours = _candidates(op, problem, target, inputs, layout, decision, [each.get_name() for each in given])
    if isinstance(ours, Decline):
        ledger.declined(decision, ours)
        # Nothing is timed by the wall clock in the simulated world, so PyTorch's first choice stands.
        return choices[:1] if isinstance(target, device.Target) and target.kind == "simulated" else choices
    ledger.count("candidate", op, number=len(ours))
    alone = config.force or (isinstance(target, device.Target) and target.kind == "simulated")
    return ours[:1] if alone else [*choices, *ours]


def _candidates(
    op: str,
    problem: Any,
    target: device.Target | Decline,
    inputs: list[Any],
    layout: Any,
    decision: ledger.Decision,
    names: list[str],
) -> list[Any] | Decline:
    """Our choices for one op instance, best expected first, or why there are none. `names` are the op's inputs'."""
    module = OPS[op].module
    if isinstance(target, Decline):
        return target
    reason = compiler.flydsl_problem() or _wrapper_problem() or module.supports(problem)
    if reason is None and not config.force:
        reason = module.profitable(problem, target)
    fixed = _row_major(layout)
    if reason is not None or isinstance(fixed, Decline):
        return reason or fixed
    number = {"baseline": 1, "ranked": config.max_candidates, "exhaustive": None}[config.search]
    ranked = module.configs(problem, target)[:number]
    signature = module.signature_of(problem)
    kernels = [
        launch.kernel(op, config=each, signature=signature, target=target, ranges=module.ranges(problem, target, each))
        for each in ranked
    ]
    decision.candidates += [
        ledger.Candidate(name=f"flydsl {each.tile}", time=f"rank {rank}") for rank, each in enumerate(ranked, 1)
    ]
    if config.force or target.kind == "simulated":
        # Taken without timing: it has to be known now that it compiles, while PyTorch's kernel can still be kept.
        try:
            kernels[0].compile()
        except (compiler.CompileError, simulator.SimulatorError) as error:
            return Decline("{error}", error=error)
    return [KernelChoice(kernel, inputs, fixed, decision, names) for kernel in kernels]


def _nodes(node: Any, choices: list[Any], reader: Any) -> tuple[list[Any], Any]:
    """The op's lowered inputs in ATen's order, and the output layout."""
    if choices and isinstance(choices[0], ExternKernelCaller):
        return list(choices[0].input_nodes), choices[0].layout
    # Other backends' choices may hold packed or reordered inputs, and there may be no choice at all.
    return reader.lowered(node)  # type: ignore[no-any-return]


def _wrapper_problem() -> Decline | None:
    if V.graph.cpp_wrapper or V.graph.aot_mode:
        return Decline("the graph is compiled to C++ (cpp_wrapper or AOTInductor), which cannot call our launcher")
    if getattr(V.graph, "fx_wrapper", False):
        return Decline("the graph is compiled to FX (fx_wrapper), which cannot call our launcher")
    return None


def _row_major(layout: Any) -> Any:
    """A fixed row-major layout for the output, or a Decline where Inductor has already fixed another one."""
    strides = ir.FlexibleLayout.contiguous_strides(layout.size)
    if isinstance(layout, ir.FixedLayout):
        pairs = zip(layout.stride, strides, strict=True)
        if not all(V.graph.sizevars.statically_known_equals(have, want) for have, want in pairs):
            return Decline("the output has strides {have}, not row-major {want}", have=layout.stride, want=strides)
        return layout
    return ir.FixedLayout(layout.device, layout.dtype, layout.size, strides, layout.offset)


def _name(choice: Any) -> str:
    return f"aten {choice.name}" if isinstance(choice, ExternKernelCaller) else str(choice.name)


def learn_timings(
    timings: dict[Any, float],
    name: str,
    inputs: list[Any],
    choices: list[Any],
    profiled: Callable[..., Any],
    *rest: Any,
) -> None:
    """Inductor's feedback after benchmarking: write its milliseconds into the decision, as microseconds."""
    ours = [choice for choice in timings if isinstance(choice, KernelChoice)]
    if ours:
        ours[0].decision.candidates = [
            ledger.Candidate(name=_label(choice), time=round(time * 1000, 2))
            for choice, time in sorted(timings.items(), key=lambda item: item[1])
        ]
        best = min(timings, key=lambda choice: timings[choice])
        if not isinstance(best, KernelChoice):
            ours[0].decision.choice = _name(best)


def _label(choice: Any) -> str:
    return f"flydsl {choice.kernel.spec.config.tile}" if isinstance(choice, KernelChoice) else _name(choice)
