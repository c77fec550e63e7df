"""One instruction line taken apart: mnemonic, operands, modifiers. Nothing here knows an opcode."""

from __future__ import annotations

import dataclasses
import re

REGISTER = re.compile(r"([vsa])(?:(\d+)|\[(\d+)(?::(\d+))?\])")
# What stands without a colon behind the operands.
_FLAGS = frozenset(
    {"offen", "idxen", "lds", "sc0", "sc1", "nt", "gds", "clamp", "tfe", "row_mirror", "row_half_mirror"}
)


class Refused(Exception):
    """Why the instruction at hand cannot be decoded, as one sentence."""


def number(text: str) -> int:
    """A number of the text, decimal or 0x."""
    try:
        return int(text, 0)
    except ValueError:
        raise Refused(f"{text} is not a number") from None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Statement:
    """Mnemonic, operands, `name:value` modifiers, bare flags."""

    mnemonic: str
    operands: tuple[str, ...]
    modifiers: dict[str, str]
    flags: frozenset[str]

    @property
    def encoding(self) -> str:
        """The encoding that the mnemonic spells out: "e32", "e64", "sdwa", "dpp", or "" where it leaves it open."""
        suffix = self.mnemonic.rpartition("_")[2]
        return suffix if suffix in ("e32", "e64", "sdwa", "dpp") else ""


def take_apart(text: str) -> Statement:
    """The parts of one instruction line."""
    mnemonic, _, rest = text.partition(" ")
    if not rest:
        mnemonic, _, rest = text.partition("\t")
    if mnemonic == "s_waitcnt":
        return Statement(mnemonic=mnemonic, operands=(rest.strip(),), modifiers={}, flags=frozenset())
    operands = _split(rest, ",")
    modifiers: dict[str, str] = {}
    flags: set[str] = set()
    if operands:
        first, *words = _split(operands[-1].replace("\t", " "), " ")
        operands[-1] = first
        for word in words:
            name, colon, value = word.partition(":")
            if colon:
                modifiers[name] = value
            else:
                flags.add(word)
        if first in _FLAGS or (":" in first and REGISTER.fullmatch(first.strip("-|")) is None and "(" not in first):
            # No operand at all, only modifiers: "buffer_inv sc1".
            operands.pop()
            flags.add(first)
    return Statement(mnemonic=mnemonic, operands=tuple(operands), modifiers=modifiers, flags=frozenset(flags))


def _split(text: str, separator: str) -> list[str]:
    """Splits outside of brackets and quotes."""
    if "[" not in text and "(" not in text:
        return [part.strip() for part in text.split(separator) if part.strip()]
    parts, depth, start = [], 0, 0
    for at, character in enumerate(text):
        if character in "[(":
            depth += 1
        elif character in "])":
            depth -= 1
        elif character == separator and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    parts.append(text[start:])
    return [part.strip() for part in parts if part.strip()]
