"""AMDGPU assembly text -> one kernel: its instruction lines, labels, directives and metadata. Nothing is decoded here.

Reads what LLVM's AMDGPU backend prints for code object version 5 and 6 (FlyDSL's `isa` output).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Any

from inductor_flydsl.simulator.errors import SimulatorError


@dataclasses.dataclass(frozen=True, kw_only=True)
class KernelArg:
    """One kernel argument of the metadata. `offset` and `size` in bytes within the kernarg segment."""

    offset: int
    size: int
    value_kind: str
    name: str

    @property
    def hidden(self) -> bool:
        return self.value_kind.startswith("hidden_")


@dataclasses.dataclass(frozen=True, kw_only=True)
class KernelFacts:
    """What the assembly says about a kernel. Registers per lane or wave, sizes in bytes, `instructions` is static."""

    name: str
    vgprs: int
    agprs: int
    sgprs: int
    vgpr_spills: int
    sgpr_spills: int
    lds_bytes: int
    scratch_bytes: int
    kernarg_bytes: int
    max_workgroup_size: int
    args: tuple[KernelArg, ...]
    instructions: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Line:
    """One instruction: its line number in the text (from 1) and its text without comments."""

    number: int
    text: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Kernel:
    """One kernel of the text. `labels` maps a label to the index in `lines` of the instruction behind it."""

    name: str
    lines: tuple[Line, ...]
    labels: dict[str, int]
    directives: dict[str, int]
    required_workgroup_size: tuple[int, int, int] | None
    facts: KernelFacts


_COMMENT = re.compile(r";.*|//.*")
_LABEL = re.compile(r"([.\w$@]+):\s*(.*)")


def parse(text: str, kernel: str | None = None) -> Kernel:
    """The kernel named `kernel`, or the only one of the text. Raises SimulatorError when there is no such kernel."""
    lines = text.split("\n")
    directives = _directives(lines)
    if not directives:
        raise SimulatorError("the assembly text holds no kernel: no .amdhsa_kernel directive; pass FlyDSL's isa output")
    if kernel is None:
        if len(directives) > 1:
            raise SimulatorError(f"the assembly text holds several kernels ({', '.join(directives)}): name one")
        kernel = next(iter(directives))
    if kernel not in directives:
        raise SimulatorError(f"the assembly text holds no kernel {kernel!r}; it holds {', '.join(directives)}")
    body, labels = _with_callees(lines, *_body(lines, kernel))
    metadata = _metadata(lines, kernel)
    required = metadata.get(".reqd_workgroup_size")
    if required and not (
        isinstance(required, list) and len(required) == 3 and all(isinstance(n, int) for n in required)
    ):
        raise SimulatorError(
            f"the metadata of kernel {kernel} has .reqd_workgroup_size {required!r}, not three numbers"
        )
    return Kernel(
        name=kernel,
        lines=body,
        labels=labels,
        directives=directives[kernel],
        required_workgroup_size=(required[0], required[1], required[2]) if required else None,
        facts=_facts(kernel, metadata, len(body)),
    )


def kernel_facts(text: str, kernel: str | None = None) -> KernelFacts:
    """Registers, spills, memory and arguments of a kernel, without decoding it and without the C core."""
    return parse(text, kernel).facts


def _directives(lines: list[str]) -> dict[str, dict[str, int]]:
    """kernel -> the numbers of its .amdhsa_* directives, without the prefix."""
    found: dict[str, dict[str, int]] = {}
    current: dict[str, int] | None = None
    for line in lines:
        if ".amdhsa_" not in line and ".end_amdhsa_kernel" not in line:
            continue
        word, *rest = _COMMENT.sub("", line).split() or [""]
        if word == ".amdhsa_kernel" and rest:
            current = found.setdefault(rest[0], {})
        elif word == ".end_amdhsa_kernel":
            current = None
        elif current is not None and word.startswith(".amdhsa_"):
            try:
                current[word.removeprefix(".amdhsa_")] = int(rest[0], 0)
            except (ValueError, IndexError):
                # A symbolic expression: nothing here needs one, and what does need it says so by name.
                continue
    return found


def _body(lines: list[str], kernel: str) -> tuple[tuple[Line, ...], dict[str, int]]:
    body: list[Line] = []
    labels: dict[str, int] = {}
    start = f"{kernel}:"
    inside = False
    for number, line in enumerate(lines, 1):
        if not inside:
            inside = line.startswith(start)
            continue
        if line.startswith(".Lfunc_end"):
            break
        content = line.strip()
        if ";" in content or "//" in content:
            content = _COMMENT.sub("", content).strip()
        if not content:
            continue
        if ":" in content and (match := _LABEL.fullmatch(content)) is not None:
            labels[match[1]] = len(body)
            content = match[2]
            if not content:
                continue
        if content.startswith("."):
            continue
        body.append(Line(number=number, text=content))
    if not inside:
        raise SimulatorError(f"the assembly text declares kernel {kernel} but holds no label {start}")
    if not body:
        raise SimulatorError(f"kernel {kernel} holds no instruction")
    return tuple(body), labels


# How the address of a function that is called appears: s_add_u32 s4, s4, name@rel32@lo+4.
_CALLEE = re.compile(r"([\w.$]+)@rel32@lo")


def _with_callees(
    lines: list[str], body: tuple[Line, ...], labels: dict[str, int]
) -> tuple[tuple[Line, ...], dict[str, int]]:
    """The kernel's body and, behind it, those of the functions it names whose text is there; their names are labels."""
    at = 0
    while at < len(body):
        match = _CALLEE.search(body[at].text) if "@rel32@lo" in body[at].text else None
        at += 1
        if match is None or match[1] in labels or not any(line.startswith(f"{match[1]}:") for line in lines):
            continue
        callee, inner = _body(lines, match[1])
        labels = labels | {match[1]: len(body)} | {label: len(body) + index for label, index in inner.items()}
        body += callee
    return body, labels


def _metadata(lines: list[str], kernel: str) -> dict[str, Any]:
    """The kernel's entry in the .amdgpu_metadata block."""
    try:
        first = next(n for n, line in enumerate(lines) if line.strip() == ".amdgpu_metadata")
        last = next(n for n in range(first, len(lines)) if lines[n].strip() == ".end_amdgpu_metadata")
    except StopIteration:
        raise SimulatorError(f"the assembly text of kernel {kernel} has no .amdgpu_metadata block") from None
    try:
        document = _Block(lines[first + 1 : last]).value(0)
    except RecursionError:
        raise SimulatorError(f"the .amdgpu_metadata block of kernel {kernel} is nested without end") from None
    kernels = document.get("amdhsa.kernels") if isinstance(document, dict) else None
    for entry in kernels if isinstance(kernels, list) else []:
        if isinstance(entry, dict) and entry.get(".name") == kernel:
            return entry
    raise SimulatorError(f"the .amdgpu_metadata block does not describe kernel {kernel}")


class _Block:
    """The part of YAML that LLVM prints: nested mappings and lists by indentation, plain or quoted scalars."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = [(len(line) - len(line.lstrip()), line.strip()) for line in lines]
        self.lines = [(indent, line) for indent, line in self.lines if line and line not in ("---", "...")]
        self.at = 0

    def value(self, indent: int) -> Any:
        if self.at < len(self.lines) and self.lines[self.at][1].startswith("-"):
            return list(self._items(self.lines[self.at][0]))
        return dict(self._pairs(indent))

    def _items(self, indent: int) -> Iterator[Any]:
        while self.at < len(self.lines):
            here, line = self.lines[self.at]
            if here != indent or not line.startswith("-"):
                return
            content = line[1:].lstrip()
            if re.match(r"[\w.]+:(\s|$)", content):
                # "- .key: value" opens a mapping whose keys stand where this one does.
                inner = indent + len(line) - len(content)
                self.lines[self.at] = (inner, content)
                yield dict(self._pairs(inner))
            else:
                self.at += 1
                yield _scalar(content)

    def _pairs(self, indent: int) -> Iterator[tuple[str, Any]]:
        while self.at < len(self.lines):
            here, line = self.lines[self.at]
            if here != indent or line.startswith("-"):
                return
            key, _, content = line.partition(":")
            self.at += 1
            content = content.strip()
            if content:
                yield key, _scalar(content)
            elif self.at < len(self.lines) and self._nested(indent):
                yield key, self.value(self.lines[self.at][0])
            else:
                yield key, None

    def _nested(self, indent: int) -> bool:
        here, line = self.lines[self.at]
        return here > indent or (here == indent and line.startswith("-"))


def _scalar(text: str) -> Any:
    if text == "[]":
        return []
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    try:
        return int(text, 0)
    except ValueError:
        return {"true": True, "false": False}.get(text, text)


# What a launch reserves by these numbers has to stay within what any real kernel asks for.
_LIMITS = {
    ".group_segment_fixed_size": 160 * 1024,
    ".private_segment_fixed_size": 128 * 1024,
    ".kernarg_segment_size": 1 << 20,
    ".max_flat_workgroup_size": 1024,
}


def _facts(name: str, metadata: dict[str, Any], instructions: int) -> KernelFacts:
    def number(key: str, default: int | None = None) -> int:
        value = metadata.get(key, default)
        if value is None:
            raise SimulatorError(f"the metadata of kernel {name} has no {key}")
        limit = _LIMITS.get(key, 2**31 - 1)
        if not isinstance(value, int) or not 0 <= value <= limit:
            raise SimulatorError(f"the metadata of kernel {name} has {key} {value!r}, which has to be 0 to {limit}")
        return value

    wave = number(".wavefront_size", 64)
    if wave != 64:
        raise SimulatorError(f"kernel {name} has waves of {wave} lanes; gfx950 has wave64 only")
    return KernelFacts(
        name=name,
        vgprs=number(".vgpr_count"),
        agprs=number(".agpr_count", 0),
        sgprs=number(".sgpr_count"),
        vgpr_spills=number(".vgpr_spill_count", 0),
        sgpr_spills=number(".sgpr_spill_count", 0),
        lds_bytes=number(".group_segment_fixed_size"),
        scratch_bytes=number(".private_segment_fixed_size"),
        kernarg_bytes=number(".kernarg_segment_size"),
        max_workgroup_size=number(".max_flat_workgroup_size"),
        args=_arguments(name, metadata.get(".args") or [], number(".kernarg_segment_size")),
        instructions=instructions,
    )


def _arguments(name: str, entries: Any, segment: int) -> tuple[KernelArg, ...]:
    args = []
    for number, entry in enumerate(entries if isinstance(entries, list) else [entries]):
        offset, size, kind = (
            entry.get(key) if isinstance(entry, dict) else None for key in (".offset", ".size", ".value_kind")
        )
        if not (isinstance(offset, int) and isinstance(size, int) and isinstance(kind, str)):
            raise SimulatorError(f"argument {number} of kernel {name} has no .offset, .size and .value_kind: {entry!r}")
        if offset < 0 or size < 1 or offset + size > max(segment, 1):
            raise SimulatorError(
                f"argument {number} of kernel {name} lies at bytes {offset} to {offset + size} of a kernarg segment of "
                f"{segment}"
            )
        args.append(KernelArg(offset=offset, size=size, value_kind=kind, name=str(entry.get(".name", ""))))
    return tuple(args)
