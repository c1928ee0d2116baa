"""The C header of a library, for C99 and C++."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from .abi import DTYPES, MESSAGES, VERSION, Code
from .library_module import ArraySpec, Library

# The part that all libraries have in common; the first header that is included brings it.
_COMMON = """#ifndef FUSEWIRE_AOT_H
#define FUSEWIRE_AOT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define FUSEWIRE_ABI {version} /* of this interface */
#define FUSEWIRE_COMPUTED INT64_MIN /* in a shape: a size that NAME_shapes() computes */

/* What functions return. NAME_error() says it in words. */
enum {{
{codes}
}};

/* The dtypes of elements. Floats of 16 bits are passed as their bits, bools as 0 and 1. */
enum {{
{dtypes}
}};

/* An array: its elements in C order, neighbours along the last axis, without gaps. */
typedef struct {{
  void *data;           /* aligned to an element; those of inputs are not written */
  const int64_t *shape; /* `rank` sizes; may be NULL for a scalar */
  int32_t rank;
  int32_t dtype;
}} fusewire_array;

/* What is known of an input or output: a size of -1 - n is the size number n of the library. */
typedef struct {{
  const char *name;
  const int64_t *shape;
  int32_t rank;
  int32_t dtype;
}} fusewire_information;

/* A size that is known when the library is called. */
typedef struct {{
  const char *name;
  int64_t least, largest;
}} fusewire_size;

/* One part of a call's work, which is independent of the other parts. */
typedef void (*fusewire_task)(void *arguments, int64_t number);

/* Runs task(arguments, 0) ... task(arguments, tasks - 1), in any order and on any threads, and
   returns when all are done. */
typedef void (*fusewire_parallel_for)(void *context, fusewire_task task, void *arguments,
                                      int64_t tasks);

/* A call. All of it has to be 0 at first: memset(&call, 0, sizeof call). */
typedef struct {{
  int64_t abi; /* FUSEWIRE_ABI */
  const fusewire_array *inputs;
  int64_t input_count;
  const fusewire_array *outputs;
  int64_t output_count;
  const int64_t *sizes; /* in the order of NAME_sizes; NULL where there are none */
  int64_t size_count;
  void *workspace; /* aligned to {align} bytes; NULL: it is allocated for the call */
  int64_t workspace_bytes;
  const void *weights; /* aligned to {align} bytes; NULL where they are inside of the library */
  int64_t weights_bytes;
  fusewire_parallel_for parallel_for; /* NULL: the thread of the caller does all */
  void *context;                      /* is handed to parallel_for */
}} fusewire_call;

#endif /* FUSEWIRE_AOT_H */
"""

_OWN = """/* {title}, made by fusewire {made}for {target}.

{about}

All functions may be called by several threads at once. None writes anything but what its caller
hands over. A call that is wrong returns a code, and has written nothing but perhaps the outputs.
Link with the C library and -lm. */
#ifndef {guard}
#define {guard}

{common}
#ifdef __cplusplus
extern "C" {{
#endif

#define {upper}_INPUTS {inputs}
#define {upper}_OUTPUTS {outputs}
#define {upper}_SIZES {sizes}
#define {upper}_STACK {stack} /* bytes of stack that a thread needs, at most */

/* Each with one more at its end, whose name is NULL. */
extern const fusewire_information {name}_inputs[{upper}_INPUTS + 1];
extern const fusewire_information {name}_outputs[{upper}_OUTPUTS + 1];
extern const fusewire_size {name}_sizes[{upper}_SIZES + 1];

/* Computes the outputs of a call. */
int {name}_run(const fusewire_call *call);

/* The bytes of workspace of a call with these sizes; where it is negative, -code. */
int64_t {name}_workspace(const int64_t *sizes, int64_t size_count);

/* The sizes of all axes of all outputs, one after the other: {axes} of them. */
int {name}_shapes(const int64_t *sizes, int64_t size_count, int64_t *shapes);

/* A code in words. */
const char *{name}_error(int code);
{beside}
{call}
#ifdef __cplusplus
}}
#endif

#endif /* {guard} */
"""

_BESIDE = """
/* The weights lie in {name}.weights. */
#define {upper}_WEIGHTS {bytes} /* bytes of that file */

/* Whether a block in memory is that file, to its last byte; a call looks at the beginning only. */
int {name}_check_weights(const void *weights, int64_t bytes);

/* Maps the file into memory and checks it. */
int {name}_map_weights(const char *path, const void **weights, int64_t *bytes);
void {name}_unmap_weights(const void *weights, int64_t bytes);
"""

_CALL = """
/* A call on the thread of the caller, with memory of its own: the arrays one after the other, in
   the shapes that these sizes give. */
static inline int {name}_call({parameters}) {{
{body}  return {name}_run(&call_);
}}
"""


def header(library: Library, target: str, version: str, stack: int) -> str:
    """The text of the header."""
    upper = library.name.upper()
    beside = _BESIDE.format(name=library.name, upper=upper, bytes=len(library.weights)) \
        if library.beside else ""
    return _OWN.format(
        title=library.name, made=f"{version} " if version else "", target=target,
        about="\n".join(_about(library)), guard=f"FUSEWIRE_AOT_{upper}_H", common=_common(),
        upper=upper, name=library.name, inputs=len(library.inputs), outputs=len(library.outputs),
        sizes=len(library.sizes), stack=stack,
        axes=sum(len(a.shape) for a in library.outputs), beside=beside, call=_call(library))


def _common() -> str:
    codes = [f"  FUSEWIRE_{code.name} = {int(code)}, /* {MESSAGES[code]} */" for code in Code]
    dtypes = [f"  FUSEWIRE_{name.upper()} = {kind.number}," for name, kind in DTYPES.items()]
    return _COMMON.format(version=VERSION, align=64, codes=_listed(codes), dtypes=_listed(dtypes))


def _listed(lines: list[str]) -> str:
    """The lines of an enum: before C99 none had a comma at its end."""
    *others, last = lines
    return "\n".join([*others, last.replace(",", "", 1)])


def _about(library: Library) -> Iterator[str]:
    """The inputs and outputs in words."""
    for what, arrays in (("in", library.inputs), ("out", library.outputs)):
        for array in arrays:
            yield f"  {what:4}{array}"
    yield from (f"  {line}" for line in sizes_in_words(library))


def sizes_in_words(library: Library) -> Iterator[str]:
    """Which sizes there are programs for, a line each."""
    for program in library.programs if library.sizes else ():
        ranges = [f"{name} = {least}" if least == most else f"{name} from {least} to {most}"
                  for name, (least, most) in zip(library.sizes, program.ranges)]
        yield f"for {', '.join(ranges)}"


# ---- the simple call
def _call(library: Library) -> str:
    """A function with a parameter for each size and array."""
    arrays = [*library.inputs, *library.outputs]
    names = c_names([*library.sizes, *(a.name for a in arrays)])
    sizes, pointers = names[:len(library.sizes)], names[len(library.sizes):]
    parameters = [f"int64_t {size}" for size in sizes]
    for i, (array, pointer) in enumerate(zip(arrays, pointers)):
        const = "const " if i < len(library.inputs) else ""
        parameters.append(f"{const}{DTYPES[array.dtype.name].c} *{pointer}")
    if library.beside:
        parameters.append("const void *weights_")
    lines = [*_arrays(library, sizes, pointers), *_members(library)]
    return _CALL.format(name=library.name, parameters=", ".join(parameters) or "void",
                        body="".join(f"  {line}\n" for line in lines))


def _arrays(library: Library, sizes: Sequence[str], pointers: Sequence[str]) -> Iterator[str]:
    """Lines that describe the arrays. Names of ours end with an underscore."""
    shapes = [f"{library.name}_inputs[{i}].shape" for i in range(len(library.inputs))]
    shapes += [f"{library.name}_outputs[{i}].shape" for i in range(len(library.outputs))]
    axes = sum(len(a.shape) for a in library.outputs)
    if library.inputs:
        yield f"fusewire_array inputs_[{len(library.inputs)}];"
    yield f"fusewire_array outputs_[{len(library.outputs)}];"
    if library.sizes:
        yield f"const int64_t sizes_[{len(sizes)}] = {{{', '.join(sizes)}}};"
        yield f"int64_t shapes_[{max(axes, 1)}];"
        for i, array in enumerate(library.inputs):
            if array.shape:
                shapes[i] = f"shape{i}_"
                yield f"const int64_t shape{i}_[{len(array.shape)}] = " \
                      f"{{{', '.join(_lengths(array, library, sizes))}}};"
        ends = [sum(len(b.shape) for b in library.outputs[:i]) for i in range(len(library.outputs))]
        shapes[len(library.inputs):] = [f"shapes_ + {end}" for end in ends]
    yield "fusewire_call call_;"
    if library.sizes:
        yield f"int code_ = {library.name}_shapes(sizes_, {len(sizes)}, shapes_);"
        yield "if (code_ != FUSEWIRE_OK) return code_;"
    for i, array in enumerate((*library.inputs, *library.outputs)):
        first = len(library.inputs)
        where = f"inputs_[{i}]" if i < first else f"outputs_[{i - first}]"
        yield f"{where}.data = (void *){pointers[i]};"
        yield f"{where}.shape = {shapes[i]};"
        yield f"{where}.rank = {len(array.shape)};"
        yield f"{where}.dtype = FUSEWIRE_{array.dtype.name.upper()};"


def _lengths(array: ArraySpec, library: Library, names: Sequence[str]) -> list[str]:
    """The sizes of an input in C: each is a number, or has a name."""
    known = dict(zip(library.sizes, names))
    return [known[n.name] if n.name is not None else str(n.number) for n in array.shape]


def _members(library: Library) -> Iterator[str]:
    """Lines that fill in the call."""
    yield "memset(&call_, 0, sizeof call_);"
    yield "call_.abi = FUSEWIRE_ABI;"
    for what, arrays in (("input", library.inputs), ("output", library.outputs)):
        if arrays:
            yield f"call_.{what}s = {what}s_;"
            yield f"call_.{what}_count = {len(arrays)};"
    if library.sizes:
        yield "call_.sizes = sizes_;"
        yield f"call_.size_count = {len(library.sizes)};"
    if library.beside:
        yield "call_.weights = weights_;"
        yield f"call_.weights_bytes = {library.name.upper()}_WEIGHTS;"


def c_names(names: Sequence[str]) -> list[str]:
    """Names of C for these, all different, none of them a word of the language."""
    found: dict[str, None] = {}
    for name in names:
        plain = re.sub(r"[^A-Za-z0-9_]", "_", name).strip("_") or "x"
        if plain in _WORDS or plain[0].isdigit():
            plain = f"x_{plain}"
        number, made = 1, plain
        while made in found:
            number, made = number + 1, f"{plain}_{number + 1}"
        found[made] = None
    return list(found)


_WORDS = set("""
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl const
    constexpr continue decltype default delete do double else enum explicit export extern false
    float for friend goto if inline int int8_t int16_t int32_t int64_t long memset mutable namespace
    new noexcept not not_eq nullptr operator or or_eq private protected public register
    reinterpret_cast restrict return short signed sizeof static static_assert struct switch
    template this thread_local throw true try typedef typeid typename uint8_t uint16_t
    uint32_t uint64_t union unsigned using virtual void volatile wchar_t while xor xor_eq
""".split())
