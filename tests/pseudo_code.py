"""AMD's instruction pseudo-code, made executable.

The ISA documents define each instruction by a few lines such as `D0.u32 = S0.u32 + S1.u32`. The Python package
tinygrad carries these lines for CDNA, taken from AMD's document; here they are parsed and run, one lane at a time.

    state = State(names={"S0": unsigned(1), "S1": unsigned(2), "D0": unsigned(0)})
    code("V_ADD_U32_E32").run(state)
    state.names["D0"].number == 3
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Callable

from pseudo_code_functions import DEFINED, FUNCTIONS, conversion
from pseudo_code_operators import binary, index_of, unary
from pseudo_code_storage import TYPE, Expression, State, Step, Target, cast_float, follow, insert, reading, store, view
from pseudo_code_values import FORMATS, ONE, ZERO, Untranslatable, Value, floating, number_of

INSTALL = "the tests of the simulator's opcodes need AMD's pseudo-code: pip install --no-deps tinygrad==0.14.0"


Statement = Callable[[State], "Value | str | None"]

_TOKEN = re.compile(
    r"\s*(?:(?P<comment>//[^\n]*)"
    r"|(?P<cast>\d+'(?:U|I|B|BF|F)\b)"
    r"|(?P<sized>\d+'(?:0x[0-9a-fA-F]+|\d+\.\d+|\d+)[UIF]?)"
    r"|(?P<number>0x[0-9a-fA-F]+(?:U?LL|U)?|\d+\.\d+F?|\d+(?:U?LL|U)?)"
    r"|(?P<name>[A-Za-z_]\w*)"
    r'|(?P<text>"[^"]*")'
    r"|(?P<symbol><>|==|!=|<=|>=|<<|>>|&&|\|\||\*\*|\+:|\+=|-=|[-+*/%&|^~!<>=?:;,.(){}\[\]]))"
)
_SIGNED_ZEROS = [["+", "0.0"], ["-", "0.0"]]
_LEVELS = (
    ("||",),
    ("&&",),
    ("|",),
    ("^",),
    ("&",),
    ("==", "!=", "<>"),
    ("<", ">", "<=", ">="),
    ("<<", ">>"),
    ("+", "-"),
    ("*", "/", "%"),
    ("**",),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Token:
    kind: str
    text: str


def _tokens(text: str) -> list[_Token]:
    tokens, at = [], 0
    while at < len(text.rstrip()):
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            raise Untranslatable(f"not pseudo-code: {text[at : at + 30]!r}")
        at = match.end()
        if match.lastgroup != "comment":
            tokens.append(_Token(kind=match.lastgroup, text=match[match.lastgroup]))
    return [*tokens, _Token(kind="end", text="")]


def _literal(token: _Token) -> Value:
    text = token.text
    width = 32
    if token.kind == "sized":
        size, text = text.split("'")
        width = int(size)
    if "." in text:
        name = f"f{width}" if token.kind == "sized" else "f32" if text.endswith("F") else "f64"
        return floating(name, float(text.rstrip("F")))
    digits = text.rstrip("UL") if text.startswith("0x") else text.rstrip("ULI")
    if text.endswith("LL"):
        width = 64
    # Hexadecimal digits are a bit pattern: 32'F(0xffc00000) is a NaN, not a large number.
    kind = "b" if text.startswith("0x") else "u" if "U" in text else "i"
    return Value(int(digits, 0), kind, width)


class _Parser:
    def __init__(self, text: str) -> None:
        self.tokens = _tokens(text)
        self.at = 0
        self.lambdas: dict[str, tuple[list[str], Statement]] = {}

    # ---- tokens

    @property
    def next(self) -> str:
        return self.tokens[self.at].text

    def take(self) -> _Token:
        self.at += 1
        return self.tokens[self.at - 1]

    def accept(self, text: str) -> bool:
        if self.next == text and self.tokens[self.at].kind != "end":
            self.at += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.accept(text):
            raise Untranslatable(f"{text!r} expected before {self.next!r}")

    # ---- statements

    def program(self) -> Statement:
        body = self.block()
        if self.tokens[self.at].kind != "end":
            raise Untranslatable(f"{self.next!r} is no statement")
        return body

    def block(self, *ends: str) -> Statement:
        statements: list[Statement] = []
        while self.next not in ends and self.tokens[self.at].kind != "end":
            if not self.accept(";"):
                statements.append(self.statement())

        def run(state: State) -> Value | str | None:
            for statement in statements:
                signal = statement(state)
                if signal is not None:
                    return signal
            return None

        return run

    def statement(self) -> Statement:
        if self.accept("declare"):
            return self.declaration()
        if self.accept("for"):
            return self.loop()
        if self.accept("if"):
            return self.condition()
        if self.accept("break"):
            return lambda state: "break"
        if self.accept("return"):
            result = self.expression()
            return lambda state: result(state)
        if self.tokens[self.at].kind == "name" and [t.text for t in self.tokens[self.at + 1 : self.at + 3]] == [
            "=",
            "lambda",
        ]:
            return self.function()
        return self.assignment()

    def declaration(self) -> Statement:
        name = self.take().text
        self.expect(":")
        size, letter = self.take().text.split("'")
        kind = {"U": "u", "I": "i", "B": "b", "F": f"f{size}", "BF": "bf16"}[letter]
        if self.accept("["):
            count = int(self.take().text)
            self.expect("]")

            def declare_array(state: State) -> None:
                # An array given from outside (the sources of V_MAD_MIX) is only described here.
                if name not in state.arrays:
                    state.arrays[name] = [Value(0, kind, int(size)) for _ in range(count)]

            return declare_array

        def declare(state: State) -> None:
            if name not in state.names:
                state.names[name] = Value(0, kind, int(size))

        return declare

    def loop(self) -> Statement:
        name = self.take().text
        self.expect("in")
        first = self.expression()
        self.expect(":")
        last = self.expression()
        self.expect("do")
        body = self.block("endfor")
        self.expect("endfor")

        def run(state: State) -> Value | str | None:
            for number in range(first(state).number, last(state).number + 1):
                state.names[name] = Value(number, "i", 32)
                signal = body(state)
                if signal == "break":
                    return None
                if signal is not None:
                    return signal
            return None

        return run

    def condition(self) -> Statement:
        branches: list[tuple[Expression, Statement]] = []
        otherwise: Statement = lambda state: None  # noqa: E731
        while True:
            test = self.expression()
            self.expect("then")
            branches.append((test, self.block("elsif", "else", "endif")))
            if self.accept("elsif"):
                continue
            if self.accept("else"):
                otherwise = self.block("endif")
            self.expect("endif")
            break

        def run(state: State) -> Value | str | None:
            for test, body in branches:
                if test(state).number:
                    return body(state)
            return otherwise(state)

        return run

    def function(self) -> Statement:
        name = self.take().text
        self.expect("=")
        self.expect("lambda")
        self.expect("(")
        parameters = [self.take().text]
        while self.accept(","):
            parameters.append(self.take().text)
        self.expect(")")
        self.expect("(")
        if self.next in ("if", "declare", "for", "return"):
            body = self.block(")")
        else:
            result = self.expression()
            body = lambda state: result(state)  # noqa: E731
        self.expect(")")
        self.lambdas[name] = (parameters, body)
        return lambda state: None

    def assignment(self) -> Statement:
        start = self.at
        self.expression()
        if self.next not in ("=", "+=", "-="):
            if self.tokens[start].kind == "name" and self.tokens[start + 1].text == "(":
                return lambda state: None  # nop()
            raise Untranslatable(f"no assignment before {self.next!r}")
        self.at = start
        target = self.target()
        operator = self.take().text
        value = self.expression()
        targets = [target]
        while operator == "=" and self.next == "=":
            self.at = self.before_value
            targets.append(self.target())
            self.expect("=")
            value = self.expression()
        if operator != "=":
            old, added = reading(target), value
            value = lambda state: binary(operator[0], old(state), added(state))  # noqa: E731

        def run(state: State) -> None:
            result = value(state)
            for each in targets:
                store(state, each, result)

        return run

    def target(self) -> Target:
        if self.accept("{"):
            parts = [self.target()]
            while self.accept(","):
                parts.append(self.target())
            self.expect("}")
            made = Target(parts=tuple(parts))
        else:
            made = self.access(self.take().text)
        # A chain a = b = value: the expression behind the first sign starts with the next target.
        self.before_value = self.at + 1
        return made

    # ---- expressions

    def expression(self) -> Expression:
        test = self.level(0)
        if not self.accept("?"):
            return test
        yes = self.expression()
        self.expect(":")
        no = self.expression()
        return lambda state: yes(state) if test(state).number else no(state)

    def level(self, depth: int) -> Expression:
        if depth == len(_LEVELS):
            return self.prefix()
        left = self.level(depth + 1)
        while self.next in _LEVELS[depth] and self.tokens[self.at].kind == "symbol":
            if self.next == "==" and self.tokens[self.at + 1].text == "DENORM":
                left = self.subnormal(left)
                continue
            if self.next == "==" and [t.text for t in self.tokens[self.at + 1 : self.at + 3]] in _SIGNED_ZEROS:
                left = self.zero_with_sign(left)
                continue
            left = self.operation(self.take().text, left, self.level(depth + 1))
        return left

    def operation(self, operator: str, left: Expression, right: Expression) -> Expression:
        if operator == "&&":
            return lambda state: (ONE if right(state).number else ZERO) if left(state).number else ZERO
        if operator == "||":
            return lambda state: ONE if left(state).number else (ONE if right(state).number else ZERO)
        return lambda state: binary(operator, left(state), right(state))

    def subnormal(self, left: Expression) -> Expression:
        """x == DENORM.f32: whether x is subnormal in that format."""
        self.expect("==")
        self.expect("DENORM")
        self.expect(".")
        smallest_normal = 2.0 ** (1 - FORMATS[self.take().text].bias)
        return lambda state: ONE if 0 < abs(number_of(left(state))) < smallest_normal else ZERO

    def zero_with_sign(self, left: Expression) -> Expression:
        """x == -0.0: V_MIN_F32 and its kin write the sign where they mean that zero alone."""
        self.expect("==")
        sign = 1.0 if self.take().text == "+" else -1.0
        self.take()

        def run(state: State) -> Value:
            number = number_of(left(state))
            return ONE if number == 0 and math.copysign(1.0, number) == sign else ZERO

        return run

    def prefix(self) -> Expression:
        if self.next in ("+", "-", "~", "!") and self.tokens[self.at].kind == "symbol":
            operator = self.take().text
            operand = self.prefix()
            return lambda state: unary(operator, operand(state))
        return self.primary()

    def primary(self) -> Expression:
        token = self.take()
        if token.kind in ("sized", "number"):
            value = _literal(token)
            return lambda state: value
        if token.kind == "cast":
            return self.cast(token.text)
        if token.text == "(":
            inner = self.expression()
            self.expect(")")
            return self.accessed(inner)
        if token.text == "{":
            return self.joined()
        if token.kind != "name":
            raise Untranslatable(f"{token.text!r} starts no expression")
        if self.next == "(":
            return self.accessed(self.call(token.text))
        return reading(self.access(token.text))

    def cast(self, text: str) -> Expression:
        size, letter = text.split("'")
        width = int(size)
        self.expect("(")
        inner = self.expression()
        self.expect(")")
        if letter in ("F", "BF"):
            name = f"{letter.lower()}{width}"
            return lambda state: cast_float(inner(state), name)
        kind = letter.lower()

        def run(state: State) -> Value:
            value = inner(state)
            number = index_of(value) & ((1 << width) - 1)
            if kind == "i" and number >> (width - 1):
                number -= 1 << width
            return Value(number, kind, width, value.open)

        return self.accessed(run)

    def joined(self) -> Expression:
        parts = [self.expression()]
        while self.accept(","):
            parts.append(self.expression())
        self.expect("}")

        def run(state: State) -> Value:
            made = Value(0, "b", 0)
            for part in reversed(parts):
                value = part(state)
                made = insert(made, made.width, value.width, value)
            return made

        return self.accessed(run)

    def call(self, name: str) -> Expression:
        self.expect("(")
        arguments: list[Expression] = []
        while not self.accept(")"):
            arguments.append(self.expression())
            self.accept(",")
        if name in self.lambdas:
            parameters, body = self.lambdas[name]

            def apply(state: State) -> Value:
                values = [argument(state) for argument in arguments]
                inner = dataclasses.replace(
                    state, names={**state.names, **dict(zip(parameters, values, strict=True))}, arrays={}
                )
                result = body(inner)
                if not isinstance(result, Value):
                    raise Untranslatable(f"{name} returns nothing")
                return result

            return apply
        if re.fullmatch(r"Calc(?!Ds)\w+Addr", name):
            # The address is the test's business: the text only says that one is made of these operands.
            return reading(Target(name="ADDRESS"))
        function = FUNCTIONS.get(name) or conversion(name) or _instruction(name)
        if function is None:
            raise Untranslatable(f"unknown function {name}")
        return lambda state: function(*(argument(state) for argument in arguments))

    def steps(self) -> tuple[Step, ...]:
        steps: list[Step] = []
        while True:
            if self.next == "." and TYPE.fullmatch(self.tokens[self.at + 1].text):
                self.take()
                steps.append(Step(type=self.take().text))
            elif self.accept("["):
                low = self.expression()
                if self.accept(":"):
                    high, low = low, self.expression()
                    steps.append(Step(low=low, high=high))
                elif self.accept("+:"):
                    steps.append(Step(low=low, width=self.expression()))
                else:
                    steps.append(Step(low=low))
                self.expect("]")
                if len(steps) > 1 and steps[-2].type:
                    # The type says how the whole is meant; S0.u32[63 : 32] still reads the upper half.
                    del steps[-2]
            else:
                return tuple(steps)

    def access(self, name: str) -> Target:
        while self.next == "." and not TYPE.fullmatch(self.tokens[self.at + 1].text):
            self.take()
            field = self.take().text
            if not field.isupper():
                # Fields of state are capitals (WAVE_MODE.IEEE): anything else would be a type that is not known.
                raise Untranslatable(f"{name}.{field} is neither a type nor a field")
            name += f".{field}"
        # The document's other names of the same things.
        name = {"D": "D0", "laneID": "laneId", "LDS": "MEM", "DATA0": "DATA"}.get(name, name)
        return Target(name=name, steps=self.steps())

    def accessed(self, inner: Expression) -> Expression:
        steps = self.steps()
        if not steps:
            return inner
        return lambda state: follow(state, inner(state), steps)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Code:
    """One instruction's pseudo-code, ready to run. `names` are the identifiers that its text uses."""

    text: str
    run: Callable[[State], object]
    names: frozenset[str]

    def uses(self, name: str) -> bool:
        return name in self.names


@functools.cache
def compile_text(text: str) -> Code:
    """Raises Untranslatable where the text is prose or uses what is not known here."""
    parser = _Parser(text)
    return Code(text=text, run=parser.program(), names=frozenset(t.text for t in parser.tokens if t.kind == "name"))


@functools.cache
def entries() -> dict[str, str]:
    """AMD's pseudo-code by instruction name, in capitals, with _E32 or _E64 where the document has an encoding's."""
    try:
        from tinygrad.runtime.autogen.amd.cdna.str_pcode import PCODE
    except ImportError as error:
        raise ImportError(INSTALL) from error
    return {key.name: text for key, text in PCODE.items()}


def entry_of(mnemonic: str) -> str | None:
    """The name of the entry that defines a mnemonic of the assembly text, which may end in an encoding."""
    base, _, suffix = mnemonic.rpartition("_")
    if suffix not in ("e32", "e64", "sdwa", "dpp"):
        base = mnemonic
    upper = base.upper()
    return next((name for name in (upper, f"{upper}_E64", f"{upper}_E32") if name in entries()), None)


def code(name: str) -> Code:
    """The compiled entry of that name."""
    return compile_text(entries()[name])


def _instruction(name: str) -> Callable[..., Value] | None:
    """Another instruction called as a function, v_max_f32(a, b): its entry, or a definition that has none."""
    text = DEFINED.get(name)
    if text is None:
        entry = entry_of(name)
        if entry is None:
            return None
        text = entries()[entry]
    # v_sad_u8 is named after what it reads: the type of a call is the one that its text writes.
    written = re.findall(r"\bD0?\.(\w+)", text)
    result = written[-1] if written else name.rpartition("_")[2]

    def call(*arguments: Value) -> Value:
        names = {f"S{n}": argument for n, argument in enumerate(arguments)}
        # The only mode that these helpers read.
        state = State(names={**names, "D0": Value(0, "b", 64), "WAVE_MODE.IEEE": ieee_mode()})
        compile_text(text).run(state)
        return view(state.names["D0"], result if TYPE.fullmatch(result) and result != "b32" else "u32")

    return call


def ieee_mode() -> Value:
    """MODE.IEEE as HSA kernels start: set (LLVM AMDGPUUsage, .amdhsa_ieee_mode, default 1)."""
    return ONE
