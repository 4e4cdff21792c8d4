"""Averaged embeddings of Gaussian noise: what a client's model says about its data (FedGS Eq. 12).

``graphs.similarity(client_embeddings(models, validation, rng), "functional")`` is the functional
similarity; this module holds the half of it that needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphs.errors import FeatureError

if TYPE_CHECKING:
    import torch

Convention = Literal["paper", "code"]


def client_embeddings(
    models: Iterable[torch.nn.Module],
    validation: ArrayLike | torch.Tensor,
    rng: np.random.Generator,
    *,
    convention: Convention = "paper",
    samples: int = 128,
    layer: str | None = None,
) -> NDArray[np.float64]:
    """Feed one batch of Gaussian noise to every client's model and average what comes out.

    Parameters
    ----------
    models
        The clients' locally trained models, all of one architecture. An iterator that loads one at a time
        will do. They are run in evaluation mode without gradients, and left in the mode they came in.
    validation
        Inputs of the server's validation set, shape (n, …); labels are not needed.
    rng
        Draws the noise; all clients see the same batch.
    convention
        Which Gaussian, see `gaussian_noise`: ``"paper"`` (default) or ``"code"``.
    samples
        Size of the batch; 128 in the authors' code.
    layer
        Name of the submodule whose output is the embedding, as in ``model.named_modules()``; ``None``
        (default) is the model's output, which is l in the paper's experiments.

    Returns
    -------
    ndarray of shape (N, d)
        e_k of Eq. 12, one row per client: the layer's outputs, flattened and averaged over the batch.

    Raises
    ------
    FeatureError
        If there are no models, the validation set is unusable (see `gaussian_noise`), a model has no such
        layer, the layer's output is not one tensor with a row per sample, its sizes differ between models,
        or a model's answer is not finite.

    Notes
    -----
    Source: FedGS (AAAI 2023), Eq. 12 and the paragraph before it.
    """
    noise = gaussian_noise(validation, samples, rng, convention=convention)
    rows: list[NDArray[np.float64]] = []
    for client, model in enumerate(models):
        row = embedding(model, noise, layer=layer, client=client)
        if rows and len(row) != len(rows[0]):
            raise FeatureError(
                f"the embedding of client {client} has length {len(row)} and that of client 0 has "
                f"{len(rows[0])}; all models must share one architecture."
            )
        rows.append(row)
    if not rows:
        raise FeatureError("there are no models; at least one is needed.")
    return np.stack(rows)


def embedding(
    model: torch.nn.Module, noise: NDArray[np.float64], *, layer: str | None = None, client: int = 0
) -> NDArray[np.float64]:
    """Feed noise to one model and average what comes out: e_k of Eq. 12, shape (d,).

    Parameters
    ----------
    model
        The client's locally trained model; see `client_embeddings`.
    noise
        The same for all clients, shape (samples, …); see `gaussian_noise`.
    layer
        As for `client_embeddings`.
    client
        Whose model it is, for messages.

    Raises
    ------
    FeatureError
        As `client_embeddings` has it of one model.
    """
    import torch

    samples = len(noise)
    parameter = next(model.parameters(), None)
    batch = torch.from_numpy(noise)
    batch = batch.to(torch.get_default_dtype()) if parameter is None else batch.to(parameter)
    with _evaluating(model), torch.no_grad():
        found = _output(model, batch, layer, client)
    if not isinstance(found, torch.Tensor) or found.ndim < 1 or len(found) != samples:
        shape = tuple(found.shape) if isinstance(found, torch.Tensor) else type(found).__name__
        raise FeatureError(
            f"the embedding of client {client} is {shape}; accepted is one tensor with a row for each of "
            f"the {samples} noise samples."
        )
    row = found.reshape(samples, -1).double().mean(dim=0).cpu().numpy()
    if not np.isfinite(row).all():
        raise FeatureError(f"the embedding of client {client} is not finite; did its local training diverge?")
    return row


def gaussian_noise(
    validation: ArrayLike | torch.Tensor,
    samples: int,
    rng: np.random.Generator,
    *,
    convention: Convention = "paper",
) -> NDArray[np.float64]:
    """Draw noise with the first two moments of a validation set.

    Parameters
    ----------
    validation
        Inputs, shape (n, …), n ≥ 2.
    samples
        How many to draw.
    rng
        Where from.
    convention
        ``"paper"``: N(μ, Σ) with the mean vector and covariance matrix over all inputs' coordinates, as the
        paper says. ``"code"``: every coordinate independent, N(mean, std²) of the scalar mean and
        standard deviation over all pixels and channels, as the authors' code does, from a batch of
        the server's *test* set.

    Returns
    -------
    ndarray of shape (samples, …)
        float64, in the shape of the inputs.

    Raises
    ------
    FeatureError
        If there are fewer than two inputs, one is not finite, `samples` is not positive or `convention` unknown.
    """
    if convention not in ("paper", "code"):
        raise FeatureError(f"convention is {convention!r}; accepted are 'paper', 'code'.")
    if samples < 1:
        raise FeatureError(f"samples is {samples}; accepted is 1 or more.")
    # A tensor may live on a device, where NumPy cannot reach it.
    inputs = validation.detach().cpu().numpy() if hasattr(validation, "detach") else np.asarray(validation)
    if inputs.ndim < 2 or len(inputs) < 2:
        raise FeatureError(
            f"the validation set has shape {inputs.shape}; accepted are at least two inputs, (n, …), because "
            "one has no covariance."
        )
    shape = inputs.shape[1:]
    flat = inputs.reshape(len(inputs), -1).astype(np.float64)
    if not np.isfinite(flat).all():
        raise FeatureError("the validation set holds a value that is not finite.")
    if convention == "code":
        drawn = rng.normal(flat.mean(), flat.std(ddof=1), (samples, flat.shape[1]))
    else:
        # μ + Xᵀz / √(n−1) with X the centred inputs and z standard normal has covariance XᵀX / (n−1), the
        # sample covariance, without forming a d×d matrix that is singular anyway when n ≤ d.
        centred = flat - flat.mean(axis=0)
        mixing = rng.standard_normal((samples, len(flat))) / np.sqrt(len(flat) - 1)
        drawn = flat.mean(axis=0) + mixing @ centred
    return drawn.reshape(samples, *shape)


@contextmanager
def _evaluating(model: torch.nn.Module) -> Iterator[None]:
    """Run a model in evaluation mode and restore every submodule's own mode."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def _output(model: torch.nn.Module, batch: torch.Tensor, layer: str | None, client: int) -> Any:
    if layer is None:
        return model(batch)
    modules = dict(model.named_modules())
    if layer not in modules:
        known = ", ".join(repr(name) for name in modules if name)
        raise FeatureError(f"the model of client {client} has no layer {layer!r}; it has {known}.")
    kept: list[Any] = []
    hook = modules[layer].register_forward_hook(lambda module, inputs, output: kept.append(output))
    try:
        model(batch)
    finally:
        hook.remove()
    if not kept:
        raise FeatureError(f"the layer {layer!r} of client {client}'s model takes no part in its answer.")
    return kept[-1]
