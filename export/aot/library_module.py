"""Writes the LLVM IR of a library: its tables as constants, and the functions that callers see."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...capture.sizes.size_expr import SizeExpr
from ...codegen.llvm.control_vm import control_vm_text
from ...codegen.llvm.step_table import loop_text
from ...codegen.runtime.target import Target
from ...codegen.runtime.thread_pool import IN_ORDER
from .abi import MESSAGES, UNKNOWN, Code, number_of
from .argument_checks import LOOKS, TYPES
from .call import CALL, STACK_WORKSPACE
from .sizes import SizeFormula
from .variants import Variant
from .weight_file import MAPPED
from .weights import FACTOR, HEAD

COMPUTED = -(1 << 63)  # in the table of an array: a size that `_shapes` computes


@dataclass(frozen=True)
class ArraySignature:
    """An input or output: its name, dtype, and shape for any sizes."""

    name: str
    dtype: Any
    shape: Sequence[SizeExpr]

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype.name}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class Library:
    """The parts of a library. A call runs the first variant that fits its sizes.

    `inputs`: the last `state_count` are states of random generators
    `programs`: symbols of programs by their IR
    `stack`: the most bytes of stack that a kernel takes
    `weights`: the whole block; empty for none
    """

    name: str
    inputs: Sequence[ArraySignature]
    state_count: int
    outputs: Sequence[ArraySignature]
    sizes: Sequence[str]
    variants: Sequence[Variant]
    programs: Mapping[str, str]
    stack: int
    weights: bytes
    embedded: bool

    @property
    def functions(self) -> list[str]:
        """The names of the functions that callers see, without the library's name."""
        return ["run", "workspace", "shapes", "error", *(_BESIDE if self.beside else ())]

    @property
    def exports(self) -> list[str]:
        """The names of all exported symbols."""
        return [f"{self.name}_{name}" for name in (*self.functions, "inputs", "outputs", "sizes")]

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """The least and the largest value of each size, over all variants."""
        each = zip(*[v.sizes.ranges.values() for v in self.variants])
        return [(min(n for n, _ in of), max(n for _, n in of)) for of in map(list, each)]

    @property
    def workspace(self) -> int:
        """The most bytes of workspace that a call needs."""
        return max(v.image.size for v in self.variants)

    @property
    def stack_bytes(self) -> int:
        """The most bytes of stack that a call takes: of kernels, a workspace, tables of arrays."""
        arrays = len(self.inputs) + len(self.outputs) + 2
        constants = max(len(v.constants) for v in self.variants)
        return self.stack + STACK_WORKSPACE + 16 * arrays + 8 * constants

    @property
    def beside(self) -> bool:
        """True if the weights are a separate file."""
        return bool(self.weights) and not self.embedded


_BESIDE = ("check_weights", "map_weights", "unmap_weights")


def texts_of(library: Library, target: Target) -> list[str]:
    """The LLVM modules of a library: one per program, and one with the functions that call them."""
    programs = [_renamed(ir, symbol) for ir, symbol in library.programs.items()]
    operations = sorted(set().union(*[v.image.operations for v in library.variants]))
    parts = [target.header, TYPES, LOOKS, IN_ORDER, loop_text(", ptr %team"),
             control_vm_text(", ptr %team", operations), *_constants(library), CALL,
             _functions(library), f"attributes #0 = {{ {target.attributes} }}\n"]
    return [*programs, "\n".join(parts)]


def _renamed(ir: str, symbol: str) -> str:
    """The IR of a program, with names for its constants that are distinct in the library."""
    return ir.replace("\n@program =", f"\n@{symbol} =").replace("\n@later =",
                                                               f"\n@later.{symbol} =")


# ---- constants
def _constants(library: Library) -> Iterator[str]:
    yield from (f"@{symbol} = external constant %program" for symbol in library.programs.values())
    for i, variant in enumerate(library.variants):
        yield from _variant(variant, i)
    yield _list("variants", "%variant",
                [f"{{{_variant_fields(v, i)}}}" for i, v in enumerate(library.variants)])
    yield _weights(library)
    size = len(library.weights)
    yield f"@library = internal constant %library {{ptr @variants, i64 {len(library.variants)}, " \
          f"i64 {len(library.inputs)}, i64 {len(library.outputs)}, i64 {len(library.sizes)}, " \
          f"ptr {'@weights' if size and library.embedded else 'null'}, i64 {size}, ptr @head, " \
          f"i64 {library.state_count}}}"
    yield from _information(library)


def _variant(variant: Variant, number: int) -> Iterator[str]:
    """The constant arrays of one variant."""
    sizes: list[SizeFormula] = []
    kinds = []
    for type, shape in zip(variant.types, (*variant.inputs, *variant.outputs)):
        kinds.append(_i64s(number_of(type.dtype), type.dtype.itemsize, len(shape), len(sizes)))
        sizes += shape
    symbols = [s for size in sizes for s in size.sizes]
    ends = _ends([len(size.sizes) for size in sizes])
    yield _list(f"kinds.{number}", "%kind", kinds)
    yield _list(f"shapes.{number}", "%size", [_i64s(size.factor, size.offset, first, end)
                                              for size, (first, end) in zip(sizes, ends)])
    yield _list(f"symbols.{number}", "i64", symbols)
    yield _list(f"ranges.{number}", "i64",
                [n for both in variant.sizes.ranges.values() for n in both])
    yield from _image(variant, number)


def _image(variant: Variant, number: int) -> Iterator[str]:
    """The control image of a variant, and the constants that it reads, in records of 32 bytes."""
    image = variant.image
    words = [f"ptrtoint (ptr @{word} to i64)" if isinstance(word, str) else word
             for word in image.instructions]
    yield _list(f"instructions.{number}", "i64", words)
    yield _list(f"lists.{number}", "i64", image.argument_lists)
    yield _list(f"offsets.{number}", "i64", image.offsets)
    arrays = ", ".join(f"ptr @{name}.{number}" for name in ("instructions", "lists", "offsets"))
    numbers = ", ".join(f"i64 {n}" for n in (1, _NO_BUDGET, *image.numbers))
    yield f"@image.{number} = internal constant %control_image {{{arrays}, {numbers}}}, align 16"
    records = b"".join(array.tobytes().ljust(32, b"\0") for array in variant.constants)
    yield f"@constants.{number} = internal constant [{len(records)} x i8] {_text_of(records)}, " \
          "align 16"


_NO_BUDGET = (1 << 63) - 1  # nanoseconds: a call never returns before it has ended


def _variant_fields(variant: Variant, number: int) -> str:
    """The fields of a %variant struct."""
    def symbol(name: str) -> str:
        return f"ptr @{name}.{number}"

    fields = [symbol("image"), variant.image.size, symbol("ranges"), symbol("kinds"),
              symbol("shapes"), symbol("symbols"), symbol("constants"), len(variant.constants)]
    return ", ".join(w if isinstance(w, str) else f"i64 {w}" for w in fields)


def _ends(lengths: Iterable[int]) -> Iterator[tuple[int, int]]:
    """The first index and the end of each of several concatenated lists."""
    end = 0
    for length in lengths:
        yield end, end + length
        end += length


def _i64s(*numbers: int) -> str:
    return "{" + ", ".join(f"i64 {n}" for n in numbers) + "}"


def _list(name: str, kind: str, items: Sequence[Any], linkage: str = "internal") -> str:
    """A constant array."""
    text = ", ".join(f"{kind} {item}" for item in items)
    return f"@{name} = {linkage} constant [{len(items)} x {kind}] [{text}], align 16"


def _weights(library: Library) -> str:
    """The constants of the weights: the head of the block, and the block with zeros after its head.

    `filled` writes the weights into the object file, since LLVM takes very long to parse so many
    numbers.
    """
    head = _text_of(library.weights[:HEAD].ljust(HEAD, b"\0"))
    lines = [f"@head = internal constant [{HEAD} x i8] {head}, align 64"]
    if library.weights and library.embedded:
        rest = len(library.weights) - HEAD
        lines.append(
            f"@weights = internal externally_initialized constant "
            f"<{{[{HEAD} x i8], [{rest} x i8]}}> "
            f"<{{[{HEAD} x i8] {head}, [{rest} x i8] zeroinitializer}}>, align 64")
    return "\n".join(lines)


def filled(image: bytes, weights: bytes) -> bytes:
    """An object file with the weights written over the zeros."""
    start = image.find(weights[:HEAD] + bytes(min(len(weights) - HEAD, HEAD)))
    assert start >= 0
    out = bytearray(image)
    out[start:start + len(weights)] = weights
    return bytes(out)


def _text_of(raw: bytes) -> str:
    """Bytes as a constant of LLVM IR."""
    return 'c"' + "".join(f"\\{b:02X}" for b in raw) + '"'


# ---- information
def _information(library: Library) -> Iterator[str]:
    """The exported tables of inputs, outputs and sizes."""
    yield "%information = type {ptr, ptr, i32, i32}"
    for role, arrays in (("inputs", library.inputs), ("outputs", library.outputs)):
        rows = []
        for i, array in enumerate(arrays):
            yield _string(f"{role}.name.{i}", array.name)
            yield _list(f"{role}.shape.{i}", "i64", [_shown(n, library) for n in array.shape])
            rows.append(f"{{ptr @{role}.name.{i}, ptr @{role}.shape.{i}, "
                        f"i32 {len(array.shape)}, i32 {number_of(array.dtype)}}}")
        rows.append("{ptr null, ptr null, i32 0, i32 0}")
        yield _list(f"{library.name}_{role}", "%information", rows, "")
    for i, name in enumerate(library.sizes):
        yield _string(f"size.name.{i}", name)
    yield "%named = type {ptr, i64, i64}"
    rows = [f"{{ptr @size.name.{i}, i64 {least}, i64 {most}}}"
            for i, (least, most) in enumerate(library.ranges)]
    rows.append("{ptr null, i64 0, i64 0}")
    yield _list(f"{library.name}_sizes", "%named", rows, "")


def _shown(size: SizeExpr, library: Library) -> int:
    """A size in the exported tables: a number, -1 - n for size number n, or COMPUTED."""
    if size.number is not None:
        return size.number
    return COMPUTED if size.name is None else -1 - [*library.sizes].index(size.name)


def _string(name: str, text: str) -> str:
    raw = text.encode() + b"\0"
    return f"@{name} = internal constant [{len(raw)} x i8] {_text_of(raw)}"


# ---- functions
def _functions(library: Library) -> str:
    name = library.name
    codes = [_string(f"message.{code}", MESSAGES[code]) for code in Code]
    cases = "\n".join(f"    i32 {code}, label %code{code}" for code in Code)
    blocks = "\n".join(f"code{code}:\n  ret ptr @message.{code}" for code in Code)
    parts = [*codes, _string("message.unknown", UNKNOWN),
             _FUNCTIONS.format(name=name, cases=cases, blocks=blocks, count=Code.COUNT,
                               null=Code.NULL, size=Code.SIZE, ok=Code.OK)]
    if library.beside:
        parts.append(MAPPED.format(name=name, bytes=len(library.weights), factor=FACTOR,
                                   words=(len(library.weights) - HEAD) // 8, head=HEAD // 8,
                                   null=Code.NULL, weights=Code.WEIGHTS, file=Code.FILE,
                                   ok=Code.OK))
    return "\n".join(parts)


_FUNCTIONS = """
define i32 @{name}_run(ptr %call) #0 {{
  %code = call i32 @fusewire_call(ptr @library, ptr %call)
  ret i32 %code
}}

; The variant for the sizes of a caller, or null. Stores the code of an error.
define internal ptr @asked(ptr %sizes, i64 %count, ptr %code) #0 {{
entry:
  %library = load %library, ptr @library
  %wanted = extractvalue %library %library, 4
  %same = icmp eq i64 %count, %wanted
  br i1 %same, label %counted, label %miscounted
counted:
  %none = icmp eq i64 %count, 0
  %there = icmp ne ptr %sizes, null
  %fine = or i1 %none, %there
  br i1 %fine, label %choose, label %null
choose:
  store i32 {ok}, ptr %code
  %found = call ptr @variant_for(ptr @library, ptr %sizes)
  %known = icmp ne ptr %found, null
  br i1 %known, label %done, label %size
size:
  store i32 {size}, ptr %code
  br label %done
done:
  ret ptr %found
null:
  store i32 {null}, ptr %code
  ret ptr null
miscounted:
  store i32 {count}, ptr %code
  ret ptr null
}}

define i64 @{name}_workspace(ptr %sizes, i64 %count) #0 {{
entry:
  %code.slot = alloca i32, align 4
  %variant = call ptr @asked(ptr %sizes, i64 %count, ptr %code.slot)
  %none = icmp eq ptr %variant, null
  br i1 %none, label %wrong, label %right
right:
  %needed.slot = getelementptr %variant, ptr %variant, i64 0, i32 1
  %needed = load i64, ptr %needed.slot
  ret i64 %needed
wrong:
  %code = load i32, ptr %code.slot
  %wide = sext i32 %code to i64
  %negative = sub i64 0, %wide
  ret i64 %negative
}}

; Stores the sizes of all axes of all outputs, one after the other.
define i32 @{name}_shapes(ptr %sizes, i64 %count, ptr %shapes) #0 {{
entry:
  %code.slot = alloca i32, align 4
  %variant = call ptr @asked(ptr %sizes, i64 %count, ptr %code.slot)
  %none = icmp eq ptr %variant, null
  br i1 %none, label %wrong, label %right
right:
  %target.none = icmp eq ptr %shapes, null
  br i1 %target.none, label %null, label %begin
begin:
  %library = load %library, ptr @library
  %inputs = extractvalue %library %library, 2
  %outputs = extractvalue %library %library, 3
  %last = sub i64 %outputs, 1
  %last.kind = add i64 %inputs, %last
  %kinds.slot = getelementptr %variant, ptr %variant, i64 0, i32 3
  %kinds = load ptr, ptr %kinds.slot
  %from.slot = getelementptr %kind, ptr %kinds, i64 %inputs
  %to.slot = getelementptr %kind, ptr %kinds, i64 %last.kind
  %from = load %kind, ptr %from.slot
  %to = load %kind, ptr %to.slot
  %first = extractvalue %kind %from, 3
  %to.rank = extractvalue %kind %to, 2
  %to.first = extractvalue %kind %to, 3
  %end = add i64 %to.first, %to.rank
  br label %head
head:
  %i = phi i64 [%first, %begin], [%up, %one]
  %left = icmp slt i64 %i, %end
  br i1 %left, label %one, label %done
one:
  %up = add i64 %i, 1
  %size = call i64 @size_at(ptr %variant, i64 %i, ptr %sizes)
  %number = sub i64 %i, %first
  %where = getelementptr i64, ptr %shapes, i64 %number
  store i64 %size, ptr %where
  br label %head
done:
  ret i32 {ok}
null:
  ret i32 {null}
wrong:
  %code = load i32, ptr %code.slot
  ret i32 %code
}}

define ptr @{name}_error(i32 %code) #0 {{
  switch i32 %code, label %unknown [
{cases}
  ]
{blocks}
unknown:
  ret ptr @message.unknown
}}
"""
