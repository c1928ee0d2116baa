"""The kernels of a convolution that is computed by tiles.

    once, where the weights stay the same:
        transform the weights                    weights[panel][point][channel][filter]
    task = one block of tiles; or one block and one panel of filters, where there are few blocks:
        copy pixels with their channels side by side, and transform them (a kernel of its own in the
        second case)                             data[point][tile][channel]
        for each panel of filters:
            for each point: products[point][tile][filter] = data[point] @ weights[panel][point]
            transform them back, turn them, and do what the group computes from the sums
"""

from __future__ import annotations

from collections.abc import Sequence

from ..index import as_index
from ..loops import Buffer, For, Kernel, Stmt, Var, const
from ..lower import buffers_of
from ..nest import counter
from .block import Block
from .layer import Layer
from .operands import Images, weight_chunks, weight_statements
from .results import Results


def winograd_kernels(of: Layer) -> list[Kernel]:
    """The kernels of a layer, in order."""
    if of.at_once:
        return [_weights(of), _at_once(of)]
    return [_weights(of), *_data(of), _products(of)]


def _weights(of: Layer) -> Kernel:
    tasks = of.panels * weight_chunks(of)
    var, task = counter("task", tasks)
    body, held = weight_statements(of, task)
    return _kernel(of, "_weights", var, tasks, body, (held,), of.weights.size * 2.0)


def _at_once(of: Layer) -> Kernel:
    var, task = counter("task", of.block_count)
    block, images, results = Block(of, task), Images(of), Results(of)
    base = as_index(0)
    p, panel = counter("panel", of.panels)
    each = For(p, const(0), const(of.panels), tuple(results.statements(block, base, panel)))
    return _kernel(of, "", var, of.block_count, [*images.all_channels(block, base), each],
                   (images.staged, of.data, *results.scratch), of.nanoseconds())


def _data(of: Layer) -> list[Kernel]:
    """Kernels that transform all tiles: a task for a block and some channels."""
    images = Images(of)
    kernels, done = [], 0
    for times, size in images.chunks():
        tasks = of.block_count * times
        var, task = counter("task", tasks)
        block = Block(of, task // times)
        base, first = block.number * of.block_size, task % times * images.wide + done
        body = [images.zeros(), *images.channels(block, base, first, size)]
        kernels.append(_kernel(of, f"_data{done or ''}", var, tasks, body, (images.staged,),
                               of.nanoseconds(0.2)))
        done += times * size
    return kernels


def _products(of: Layer) -> Kernel:
    tasks = of.block_count * of.panels
    var, task = counter("task", tasks)
    block, panel = Block(of, task % of.block_count), task // of.block_count
    results = Results(of)
    body = results.statements(block, block.number * of.block_size, panel)
    return _kernel(of, "", var, tasks, body, results.scratch, of.nanoseconds())


def _kernel(of: Layer, name: str, var: Var, tasks: int, body: Sequence[Stmt],
            scratch: tuple[Buffer, ...], cost: float) -> Kernel:
    return Kernel(of.name + name, *buffers_of(tuple(body)), scratch, var, tasks, tuple(body), cost,
                  of.sites)
