"""Builds whole training steps for each library: loss, gradients, and the optimizer's step."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import fusewire as fw
from fusewire.export.demo.train import training_step

from . import place
from .workload import Inputs, Maker

ARGUMENTS: dict[str, dict[str, float]] = {"SGD": {"momentum": 0.9}}  # other than the learning rate


def fusewire_training(
    build: Callable[[Inputs], Any], optimizer: str, lr: float, compiled: bool
) -> Maker:
    """A training step of the module from `build`, with inputs["weights"] as its weights."""
    def make(inputs: Inputs) -> functools.partial[Any]:
        model = build(inputs)
        model.load_state_dict(inputs["weights"], strict=False)  # counts of batches are missing
        model = place.moved(model)
        step = training_step(model, stepper(fw, model.parameters(), optimizer, lr=lr))
        tensors = [place.moved(fw.from_numpy(inputs[name])) for name in ("x", "labels")]
        return functools.partial(fw.compile(step) if compiled else step, *tensors)

    return make


def torch_training(
    build: Callable[[Inputs], Any], optimizer: str, lr: float, fused: bool, compiled: bool
) -> Maker:
    """A training step in torch. `compiled`: compiles model and loss; optimizers are fused."""
    def make(inputs: Inputs) -> Callable[[], Any]:
        import torch

        model = build(inputs)
        given = {k: torch.tensor(v) for k, v in inputs["weights"].items()}
        model.load_state_dict(given, strict=False)
        model = place.moved(model)
        made = stepper(torch, model.parameters(), optimizer, lr=lr, fused=fused or None)
        x, labels = (place.moved(torch.from_numpy(inputs[name])) for name in ("x", "labels"))

        def loss_of(x: Any, labels: Any) -> Any:
            return torch.nn.functional.cross_entropy(model(x), labels)

        loss_of = torch.compile(loss_of) if compiled else loss_of

        def step() -> Any:
            loss = loss_of(x, labels)
            made.zero_grad()
            loss.backward()
            made.step()
            return loss

        return step

    return make


def stepper(library: Any, parameters: Any, optimizer: str, **given: Any) -> Any:
    """The optimizer of fusewire or torch for these parameters."""
    return getattr(library.optim, optimizer)(parameters, **given, **ARGUMENTS.get(optimizer, {}))


def jax_training(scores: Callable[[Inputs], Callable[..., Any]], optimizer: str, lr: float
                 ) -> Maker:
    """A training step in jax with donated state; scores(inputs) maps weights, x and a key."""
    def make(inputs: Inputs) -> Callable[[], Any]:
        import jax
        import jax.numpy as jnp

        model, changed = scores(inputs), UPDATES[optimizer]

        def loss_of(weights: Any, x: Any, labels: Any, key: Any) -> Any:
            logs = jax.nn.log_softmax(model(weights, x, key))
            return -jnp.take_along_axis(logs, labels[:, None], 1).mean()

        def step(state: Any, x: Any, labels: Any) -> Any:
            weights, means, squares, count, key = state
            key, used = jax.random.split(key)
            loss, grads = jax.value_and_grad(loss_of)(weights, x, labels, used)
            return (*changed(weights, means, squares, count, grads, lr), key), loss

        weights = {k: jnp.array(v) for k, v in inputs["weights"].items()}
        zeros = functools.partial(jax.tree.map, jnp.zeros_like, weights)
        state = [(weights, zeros(), zeros(), jnp.float32(0), jax.random.key(0))]
        x, labels = jnp.asarray(inputs["x"]), jnp.asarray(inputs["labels"].astype("int32"))
        run, wait = jax.jit(step, donate_argnums=0), place.unless_queued(jax.block_until_ready)

        def call() -> Any:
            state[0], loss = run(state[0], x, labels)
            return wait(loss)

        return call

    return make


def _momentum(weights: Any, means: Any, squares: Any, count: Any, grads: Any, lr: float
              ) -> tuple[Any, ...]:
    import jax

    means = jax.tree.map(lambda m, g: 0.9 * m + g, means, grads)
    return jax.tree.map(lambda p, m: p - lr * m, weights, means), means, squares, count


def _adam(weights: Any, means: Any, squares: Any, count: Any, grads: Any, lr: float,
          decay: float = 0.0) -> tuple[Any, ...]:
    import jax
    import jax.numpy as jnp

    def changed(p: Any, m: Any, v: Any) -> Any:
        return p * (1 - lr * decay) - lr / first * m / (jnp.sqrt(v) / second + 1e-8)

    count = count + 1
    first, second = 1 - 0.9 ** count, jnp.sqrt(1 - 0.999 ** count)
    means = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, means, grads)
    squares = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, squares, grads)
    return jax.tree.map(changed, weights, means, squares), means, squares, count


UPDATES = {"SGD": _momentum, "Adam": _adam,
           "AdamW": functools.partial(_adam, decay=0.01)}  # the default of all three


def trainings(fusewire: Callable[[Inputs], Any], torch: Callable[[Inputs], Any],
              jax: Callable[[Inputs], Callable[..., Any]], optimizer: str, lr: float
              ) -> dict[str, Maker]:
    """Makers of all variants of a training step."""
    return {
        "fusewire": fusewire_training(fusewire, optimizer, lr, True),
        "fusewire eager": fusewire_training(fusewire, optimizer, lr, False),
        "torch": torch_training(torch, optimizer, lr, False, False),
        "torch fused": torch_training(torch, optimizer, lr, True, False),
        "torch.compile": torch_training(torch, optimizer, lr, True, True),
        "jax.jit": jax_training(jax, optimizer, lr),
    }
