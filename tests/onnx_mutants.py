"""Loads and runs mutants of ONNX models: every file runs, or raises an error of this package.

    python tests/onnx_mutants.py [<number of mutants> [<seed>]]

The mutants run in other processes. A mutant that ends its process or hangs is reported by its seed.
`test_onnx_mutants.py` runs some hundreds.
"""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, ModelProto, TensorProto, helper, numpy_helper

import fusewire as fw

LIMITS = fw.onnx.Limits(seconds=2, bytes=1 << 26, nodes=2000)
WAIT = 60.0  # seconds that one mutant may take, on a busy machine
FLOAT, INT64, BOOL, TEXT = (TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL,
                            TensorProto.STRING)


# ---- models to mutate
def node(kind: str, inputs: str, outputs: str = "y", **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(kind, inputs.split(), outputs.split(), **attributes)


def value(name: str, kind: int = FLOAT, shape: Any = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def model(nodes: Any, shape: Any = ("n", 3), functions: Any = (), opset: int = 20,
          **weights: Any) -> ModelProto:
    weight_tensors = [numpy_helper.from_array(np.asarray(v), k) for k, v in weights.items()]
    graph = helper.make_graph(nodes, "net", [value("x", FLOAT, shape)],
                              [helper.make_empty_tensor_value_info("y")], weight_tensors)
    return helper.make_model(graph, functions=list(functions), opset_imports=[
        helper.make_opsetid("", opset), helper.make_opsetid("own", 1)])


def _loop() -> ModelProto:
    body = helper.make_graph(
        [node("Sin", "v", "w"), node("Less", "i k", "more"), node("Shape", "w", "s")], "body",
        [value("i", INT64, []), value("go", BOOL, []), value("v")],
        [value("more", BOOL, []), value("w"), value("s", INT64)])
    return model([helper.make_node("Loop", ["k", "", "x"], ["y", "all"], body=body)],
                 k=np.int64(4))


def _scan() -> ModelProto:
    body = helper.make_graph([node("Add", "a b", "c"), node("Identity", "c", "d")], "body",
                             [value("a"), value("b")], [value("c"), value("d")])
    return model([node("ReduceSum", "x", "s", keepdims=0), node(
        "Scan", "s x", "t y", body=body, num_scan_inputs=1)])


def _branches() -> ModelProto:
    def graph(kind: str) -> onnx.GraphProto:
        return helper.make_graph([node(kind, "x", "r")], kind, [], [value("r")])

    return model([node("ReduceSum", "x", "s", keepdims=0), node("Less", "s z", "c"), node(
        "If", "c", then_branch=graph("Relu"), else_branch=graph("Abs"))], z=np.float32(0))


def _functions() -> ModelProto:
    opsets = [helper.make_opsetid("own", 1), helper.make_opsetid("", 20)]
    leaky = node("LeakyRelu", "a", "b")
    leaky.attribute.add(name="alpha", ref_attr_name="slope", type=AttributeProto.FLOAT)
    inner = helper.make_function("own", "F", ["a"], ["b"], [leaky], opsets, attributes=["slope"])
    outer = helper.make_function("own", "G", ["a"], ["c"], [
        helper.make_node("F", ["a"], ["b"], domain="own", slope=0.5),
        helper.make_node("F", ["b"], ["c"], domain="own", slope=2.0)], opsets)
    calls = [helper.make_node("G", [a], [b], domain="own") for a, b in ("xh", "hy")]
    return model(calls, functions=[inner, outer])


def _sparse() -> ModelProto:
    sparse_model = model([node("MatMul", "x w")])
    values = numpy_helper.from_array(np.float32([1, 2]), "w")
    indices = numpy_helper.from_array(np.int64([[0, 1], [2, 0]]), "places")
    sparse_model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [3, 2]))
    return sparse_model


def models() -> list[ModelProto]:
    """Small models that together use all kinds of parts of files."""
    w = np.arange(6, dtype=np.float32).reshape(3, 2)
    return [
        _loop(), _scan(), _branches(), _functions(), _sparse(),
        model([node("Gemm", "x w b", "h"), node("Softmax", "h", axis=1)], w=w, b=w[0]),
        model([node("Einsum", "x w", equation="ij,jk->ik")], w=w),
        model([node("Shape", "x", "s"), node("Gather", "s zero", "n"), node(
            "Mul", "n two", "m"), node("Unsqueeze", "m first", "r"), node(
            "ConstantOfShape", "r", "y")], zero=np.int64(0), first=np.int64([0]), two=np.int64(2)),
        model([node("Conv", "x w", "c", pads=[1, 1, 1, 1], strides=[2, 1]), node(
            "MaxPool", "c", "p", kernel_shape=[2, 2]), node("Resize", "p e f", mode="linear")],
            (1, 1, 8, 6), w=np.ones((2, 1, 3, 3), np.float32), e=np.float32([]),
            f=np.float32([1, 1, 2, 1.5])),
        model([node("StringConcat", "s t", "u"), node("RegexFullMatch", "u", pattern="(a+)+b|c*"),
               node("StringSplit", "u", "parts count", delimiter="a")],
              s=np.array([["aa"], ["b"]], object), t=np.array(["ab", "c"], object)),
        model([node("SequenceConstruct", "x x", "q"), node("SequenceInsert", "q x", "r"), node(
            "ConcatFromSequence", "r", axis=0)]),
        model([node("SplitToSequence", "x", "q", axis=0), node("SequenceAt", "q k")],
              k=np.int64(0)),
        model([node("Split", "x", "a b c", axis=1, num_outputs=3), node("Concat", "a c", axis=1)]),
        model([node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z")],
              s=np.float32(0.1), z=np.uint8(3)),
        model([node("LSTM", "x w r", "y h c", hidden_size=2)], (3, 1, 2),
              w=np.ones((1, 8, 2), np.float32), r=np.ones((1, 8, 2), np.float32)),
        model([node("LayerNormalization", "x g", axis=-1)], g=np.ones(3, np.float32)),
        model([node("TopK", "x k", "v i", largest=0), node("ScatterElements", "x i v", axis=1),
               node("NonZero", "v", "z")], k=np.int64([2])),
        model([node("Pad", "x p", "h"), node("Tile", "h r", "t"), node("Slice", "t a b"), node(
            "Reshape", "y m", "z")], p=np.int64([1, 0, 0, 2]), r=np.int64([2, 3]),
            a=np.int64([1]), b=np.int64([9]), m=np.int64([-1])),
        model([node("RandomNormalLike", "x", "r", seed=1.0), node("Add", "x r", "s"), node(
            "CumSum", "s k", "c"), node("Clip", "c lo hi")], k=np.int64(0), lo=np.float32(-1),
            hi=np.float32(1)),
        model([node("Range", "a b c", "r"), node("Cast", "r", "f", to=1), node(
            "Expand", "f e", "g"), node("SoftmaxCrossEntropyLoss", "x t", "y")],
            a=np.int64(0), b=np.int64(5), c=np.int64(1), e=np.int64([3, 5]), t=np.int64([0, 2])),
        model([helper.make_node("DFT", ["x", "", "k"], ["d"]), node("Attention", "q q q")],
              (1, 4, 1), opset=23, q=np.ones((1, 1, 2, 2), np.float32), k=np.int64(1)),
        model([node("TfIdfVectorizer", "t", "f", max_gram_length=2, max_skip_count=1,
                    min_gram_length=1, mode="TF", ngram_counts=[0, 2], ngram_indexes=[0, 1, 2],
                    pool_int64s=[1, 2, 1, 2]), node("Identity", "f")], t=np.int64([1, 2, 1])),
    ]


# ---- changes
INTS = [-1, 0, 1, 2, 3, 7, 64, 1 << 20, (1 << 31) - 1, 1 << 31, 1 << 40, (1 << 63) - 1, -(1 << 63)]
FLOATS = [0.0, -0.0, 1.0, -1.0, 1e-30, 1e30, float("inf"), float("-inf"), float("nan")]
TEXTS = [b"", b"a.b", b"ij,jk", b"...", b"(a*)*b", b"((", b"linear", b"SAME_UPPER", b"\xff",
         b"a" * 99,
         ",".join("abcdefghijkl").encode(), b"NOTSET", b"->", b"i->ii"]
Graph = onnx.GraphProto
Change = Callable[[random.Random, ModelProto], None]


def graphs_of(changed: ModelProto) -> list[Any]:
    """The graph of a model, its nested graphs, and its functions."""
    graphs: list[Any] = [changed.graph, *changed.functions]
    for graph in graphs:
        graphs += [a.g for n in graph.node for a in n.attribute if a.HasField("g")]
    return graphs


def nodes_of(changed: ModelProto) -> list[tuple[Any, Any]]:
    return [(graph, n) for graph in graphs_of(changed) for n in graph.node]


def names_of(changed: ModelProto) -> list[str]:
    names = [t.name for t in changed.graph.initializer]
    return [*names, "", "x", "y", *(e for _, n in nodes_of(changed) for e in (*n.input, *n.output))]


def change_attribute(rng: random.Random, changed: ModelProto) -> None:
    attributes = [a for _, n in nodes_of(changed) for a in n.attribute]
    if attributes:
        a = rng.choice(attributes)
        if a.type == a.INT:
            a.i = rng.choice(INTS)
        elif a.type == a.FLOAT:
            a.f = rng.choice(FLOATS)
        elif a.type == a.STRING:
            a.s = rng.choice(TEXTS)
        elif a.type == a.INTS and a.ints and rng.random() < 0.7:
            a.ints[rng.randrange(len(a.ints))] = rng.choice(INTS)
        elif a.type == a.INTS:
            a.ints.extend(rng.choices(INTS, k=rng.choice([1, 9])))
        else:
            a.type = rng.randrange(15)


def name_attribute(rng: random.Random, changed: ModelProto) -> None:
    _, n = rng.choice(nodes_of(changed))
    if n.attribute and rng.random() < 0.5:
        del n.attribute[rng.randrange(len(n.attribute))]
        return
    schemas = [s for s in _schemas() if s.name == n.op_type]
    name = rng.choice([*(schemas[0].attributes if schemas else ()), "axis", "to", "body"])
    attribute_value = rng.choice([rng.choice(INTS), rng.choice(FLOATS), rng.choice(TEXTS), [1, 2]])
    n.attribute.append(helper.make_attribute(name, attribute_value))


def _schemas() -> list[Any]:
    if not _SCHEMAS:
        _SCHEMAS.extend(s for s in onnx.defs.get_all_schemas() if not s.domain)
    return _SCHEMAS


_SCHEMAS: list[Any] = []


def change_kind(rng: random.Random, changed: ModelProto) -> None:
    rng.choice(nodes_of(changed))[1].op_type = rng.choice(_schemas()).name


def rewire(rng: random.Random, changed: ModelProto) -> None:
    _, n = rng.choice(nodes_of(changed))
    ends = rng.choice([n.input, n.input, n.output])
    choice = rng.randrange(3)
    if choice == 0 and ends:
        ends[rng.randrange(len(ends))] = rng.choice(names_of(changed))
    elif choice == 1 and ends:
        del ends[rng.randrange(len(ends))]
    else:
        ends.extend(rng.choices(names_of(changed), k=rng.choice([1, 1, 12])))


def move_nodes(rng: random.Random, changed: ModelProto) -> None:
    graph, n = rng.choice(nodes_of(changed))
    choice = rng.randrange(4)
    if choice == 0:
        graph.node.remove(n)
    elif choice == 1:
        graph.node.append(n)
    elif choice == 2:
        rng.choice(graphs_of(changed)).node.append(n)
    else:
        nodes = list(graph.node)
        rng.shuffle(nodes)
        del graph.node[:]
        graph.node.extend(nodes)


def change_tensor(rng: random.Random, changed: ModelProto) -> None:
    tensors = [*changed.graph.initializer, *(v.values for v in changed.graph.sparse_initializer)]
    if not tensors:
        return
    t, choice = rng.choice(tensors), rng.randrange(6)
    if choice == 0:
        t.data_type = rng.randrange(28)
    elif choice == 1 and t.dims:
        t.dims[rng.randrange(len(t.dims))] = rng.choice(INTS)
    elif choice == 2:
        t.dims.append(rng.choice([0, 1, 1, *INTS]))
    elif choice == 3:
        t.raw_data = t.raw_data[:-1] if rng.random() < 0.5 else t.raw_data + b"\0" * 8
    elif choice == 4:
        t.name = rng.choice(names_of(changed))
    elif t.data_type == INT64 and len(t.raw_data) >= 8:
        t.raw_data = np.array(rng.choices(INTS, k=len(t.raw_data) // 8), np.int64).tobytes()
    else:
        t.raw_data = rng.randbytes(len(t.raw_data))


def change_ends(rng: random.Random, changed: ModelProto) -> None:
    graph = rng.choice(graphs_of(changed))
    if not isinstance(graph, Graph):
        rng.choice([graph.input, graph.output]).append(rng.choice(names_of(changed)))
        return
    ends = rng.choice([graph.input, graph.output])
    choice = rng.randrange(4)
    if choice == 0 and ends:
        del ends[rng.randrange(len(ends))]
    elif choice == 1:
        ends.append(value(rng.choice(names_of(changed)), rng.randrange(1, 27), rng.choice(
            [None, [], [2], [rng.choice(INTS)], ["n", "n"]])))
    elif choice == 2 and ends:
        rng.choice(ends).type.tensor_type.elem_type = rng.randrange(28)
    elif ends:
        rng.choice(ends).name = rng.choice(names_of(changed))


def change_functions(rng: random.Random, changed: ModelProto) -> None:
    """Adds calls of functions, or changes versions of opsets."""
    if not changed.functions or rng.random() < 0.3:
        owners = rng.choice([changed, *changed.functions]).opset_import
        if owners:
            rng.choice(owners).version = rng.choice([*range(26), *INTS])
        return
    function = rng.choice(changed.functions)
    n = helper.make_node(rng.choice(changed.functions).name, [rng.choice(names_of(changed))],
                         [rng.choice(names_of(changed))], domain="own")
    function.node.extend([n] * rng.choice([1, 2, 30]))


def wrap(rng: random.Random, changed: ModelProto) -> None:
    """Replaces a node by a loop or a branch with the node as its body."""
    graph, n = rng.choice(nodes_of(changed))
    index = list(graph.node).index(n)
    outputs = [value(name) for name in n.output]
    if rng.random() < 0.5:
        body = helper.make_graph([n], "b", [], outputs)
        replacement = helper.make_node("If", [rng.choice(names_of(changed))], list(n.output),
                                       then_branch=body, else_branch=body)
    else:
        body = helper.make_graph([n], "b", [value("i", INT64, []), value("g", BOOL, []), *(
            value(name) for name in n.input[:1])], [value("g", BOOL, []), *outputs])
        replacement = helper.make_node("Loop", ["", "", *n.input[:1]], list(n.output), body=body)
    graph.node.insert(index, replacement)
    del graph.node[index + 1]


def cross(rng: random.Random, changed: ModelProto) -> None:
    other = rng.choice(models())
    changed.graph.initializer.extend(other.graph.initializer)
    changed.functions.extend(other.functions)
    changed.graph.node.extend(other.graph.node)


CHANGES: list[Change] = [change_attribute, name_attribute, change_kind, rewire, move_nodes,
                         change_tensor, change_ends, change_functions, wrap, cross]


def _bytes_changed(rng: random.Random, raw: bytes) -> bytes:
    """The bytes, some of them replaced, removed, or copied from elsewhere in the file."""
    data = bytearray(raw)
    for _ in range(rng.choice([1, 1, 2, 5])):
        if not data:
            break
        index, end, to = (rng.randrange(len(data)) for _ in range(3))
        choice = rng.randrange(5)
        if choice <= 1:
            data[index] = rng.randrange(256)
        elif choice == 2:
            data[to:to] = data[index:min(end, index + 64)]
        elif choice == 3:
            del data[index:index + rng.choice([1, 2, 20])]
        else:
            data[index] ^= 1 << rng.randrange(8)
    return bytes(data[:rng.randrange(len(data))] if data and rng.random() < 0.1 else data)


def mutant(seed: int) -> bytes:
    """The file of a mutant. Two of three mutants change the model, the others its bytes."""
    rng = random.Random(seed)
    changed = rng.choice(models())
    if seed % 3 == 2:
        return _bytes_changed(rng, changed.SerializeToString())
    for _ in range(rng.choice([1, 1, 2, 4])):
        if nodes_of(changed):
            rng.choice(CHANGES)(rng, changed)
    return changed.SerializeToString()


# ---- outcomes
def inputs_for(loaded: Any, rng: np.random.Generator) -> Iterator[Any]:
    """Arguments that fit the inputs that a model declares."""
    for declared in loaded._inputs:
        if declared.kind != "tensor":
            yield [fw.ones(2, 3)] if declared.kind == "sequence" else None
            continue
        shape = [n if type(n) is int and 0 <= n < 100 else 2 for n in declared.shape or ()]
        if declared.dtype in fw.eager.arrays.dtypes.DTYPES:
            yield fw.tensor(rng.integers(0, 3, shape[:6])).astype(declared.dtype)
        else:
            yield np.full(shape[:6], "ab", object)


def outcome(data: bytes) -> str:
    """The outcome of loading and running a file, in a few words. Errors of other packages are
    raised."""
    try:
        loaded = fw.onnx.load(data, limits=LIMITS)
    except fw.LimitError as error:
        return f"limit of {error.limit} while loading"
    except fw.ImportModelError:
        return "refused"
    try:
        with fw.no_grad():
            loaded(*inputs_for(loaded, np.random.default_rng(0)))
    except fw.LimitError as error:
        return f"limit of {error.limit} while running"
    except fw.FusewireError as error:
        return f"runs to {type(error).__name__}"
    return "runs"


def _child(first: int, stop: int) -> None:
    """Runs mutants, and prints a line at the begin and at the end of each."""
    warnings.simplefilter("ignore")
    for seed in range(first, stop):
        print("begins", seed, flush=True)
        try:
            result = outcome(mutant(seed))
        except BaseException as error:
            result = f"WRONG {type(error).__name__}: {str(error)[:200]!r}"
        print("ends", result, flush=True)


def run(count: int, seed: int = 0) -> tuple[Counter[str], list[str], float]:
    """Counts of the outcomes, the failures, and the seconds of the slowest mutant."""
    outcomes: Counter[str] = Counter()
    wrong: list[str] = []
    next_seed, slowest = seed, 0.0
    while next_seed < seed + count:
        next_seed, longest = _one_process(next_seed, seed + count, outcomes, wrong)
        slowest = max(slowest, longest)
    return outcomes, wrong, slowest


def _one_process(first: int, stop: int, outcomes: Counter[str], wrong: list[str]
                 ) -> tuple[int, float]:
    """The seed after the last mutant that ran, and the seconds of the slowest. Runs mutants in one
    process until it ends."""
    command = [sys.executable, __file__, "--child", str(first), str(stop)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    lines: SimpleQueue[str] = SimpleQueue()
    assert process.stdout is not None
    reader = threading.Thread(target=_pass_on, args=(process.stdout, lines))
    reader.start()
    current, start, longest, problem = first, time.monotonic(), 0.0, "it ended its process"
    try:
        while True:
            event, _, rest = lines.get(timeout=WAIT).strip().partition(" ")
            if event == "begins":
                current, start = int(rest), time.monotonic()
            elif event == "ends":
                longest = max(longest, time.monotonic() - start)
                outcomes[rest.split(":")[0]] += 1
                wrong += [f"seed {current}: {rest}"] if rest.startswith("WRONG") else []
                if current == stop - 1:
                    return stop, longest
            elif not event:
                break
    except Empty:
        problem = f"it took more than {WAIT} s"
    finally:
        process.kill()
        process.wait()
        reader.join()
        process.stdout.close()
    wrong.append(f"seed {current}: {problem}")
    return current + 1, longest


def _pass_on(stream: Any, lines: SimpleQueue[str]) -> None:
    for line in stream:
        lines.put(line)
    lines.put("")


def main(arguments: list[str]) -> int:
    """Runs mutants and prints the outcomes. Returns 1 if there are failures."""
    if arguments[:1] == ["--child"]:
        _child(*map(int, arguments[1:]))
        return 0
    count, seed = [*map(int, arguments), *[10_000, 0][len(arguments):]]
    outcomes, wrong, slowest = run(count, seed)
    for name, number in outcomes.most_common():
        print(f"{number:7} {name}")
    print(f"{len(wrong)} wrong; the slowest took {slowest:.1f} s", *wrong, sep="\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parent)]
    sys.exit(main(sys.argv[1:]))
