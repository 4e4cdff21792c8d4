"""FedJAX: its federated averaging, whose clients' steps are compiled; batches come from the file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

os.environ["JAX_PLATFORMS"] = "cpu"

import fedjax
import jax
import jax.numpy as jnp
import numpy as np
from simulators.work import RATE, Watch, Work


def answers(name: str, weights: dict[str, Any], x: Any) -> Any:
    """The network's outputs, by the names of PyTorch's parameters."""

    def dense(layer: int, x: Any) -> Any:
        return x @ weights[f"{layer}.weight"].T + weights[f"{layer}.bias"]

    def convolution(key: str, x: Any, stride: int = 1, margin: int = 1) -> Any:
        kinds = ("NCHW", "OIHW", "NCHW")
        pads = [(margin, margin)] * 2
        found = jax.lax.conv_general_dilated(x, weights[f"{key}.weight"], (stride,) * 2, pads, dimension_numbers=kinds)
        return found + weights[f"{key}.bias"][:, None, None] if f"{key}.bias" in weights else found

    def normal(key: str, x: Any) -> Any:
        groups = x.reshape(len(x), 8, -1)
        groups = (groups - groups.mean(2, keepdims=True)) * jax.lax.rsqrt(groups.var(2, keepdims=True) + 1e-5)
        return groups.reshape(x.shape) * weights[f"{key}.weight"][:, None, None] + weights[f"{key}.bias"][:, None, None]

    def pooled(x: Any) -> Any:
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")

    if name == "linear":
        return dense(0, x)
    if name == "mlp":
        return dense(2, jax.nn.relu(dense(0, x)))
    if name == "cnn":
        for layer in (0, 3):
            x = pooled(jax.nn.relu(convolution(str(layer), x)))
        return dense(9, jax.nn.relu(dense(7, x.reshape(len(x), -1))))
    x = jax.nn.relu(normal("1", convolution("0", x)))
    for block in range(3, 11):
        stride = 2 if f"{block}.short.0.weight" in weights else 1
        y = jax.nn.relu(normal(f"{block}.norm1", convolution(f"{block}.conv1", x, stride)))
        y = normal(f"{block}.norm2", convolution(f"{block}.conv2", y))
        short = normal(f"{block}.short.1", convolution(f"{block}.short.0", x, stride, 0)) if stride > 1 else x
        x = jax.nn.relu(y + short)
    return dense(13, x.mean((2, 3)))


def run(work: Work, cores: int, done: Watch) -> None:
    """Do the work; XLA takes the cores that the process may use."""
    case, at = work.case, 0

    def loss(weights: Any, batch: Any, key: Any) -> Any:
        logs = jax.nn.log_softmax(answers(case.model, weights, batch["x"]))
        return -jnp.take_along_axis(logs, batch["y"][:, None], 1).mean()

    class Samples(fedjax.ClientDataset):
        """A client's samples, in the batches of the file."""

        client = 0

        def shuffle_repeat_batch(self, hparams: Any = None, **more: Any) -> Iterator[Any]:
            raw = self.raw_examples
            for rows in work.plan(at, self.client):
                yield {"x": raw["x"][rows], "y": raw["y"][rows]}

    clients = []
    for client in range(case.clients):
        x, y = work.samples(client)
        clients.append(Samples({"x": x, "y": y.astype(np.int32)}))
        clients[-1].client = client
    algorithm = fedjax.algorithms.fed_avg.federated_averaging(
        jax.grad(loss),
        fedjax.optimizers.sgd(RATE),
        fedjax.optimizers.sgd(1.0),
        fedjax.ShuffleRepeatBatchHParams(batch_size=case.batch),
    )
    state = algorithm.init({name: jnp.asarray(value) for name, value in work.initial.items()})
    key = jax.random.PRNGKey(0)
    for chosen in work.clients.tolist():
        state, _ = algorithm.apply(state, [(client, clients[client], key) for client in chosen])
        jax.block_until_ready(state.params)
        done(lambda now=state: now.params)
        at += 1
