"""Local training: what the selected clients do between the received model and their updates.

`sgd` is a client's work, or that of several clients in a stack: so many steps, each with a batch of (seed, round,
client). Gradients of one client are PyTorch's (`Autograd`); those of a stack are in `fedselect.training.stacks`, which
says where it pays. Models with dropout layers or buffers are trained one by one everywhere, and so are clients that
augment images. ``batching = "always"`` and ``"never"`` override the rule.

**What is promised.** A run repeats to the same bits: same settings, same machine and library versions, same number of
PyTorch threads (runs use one). Stacked and one by one agree within float error, not in bits; so does one client's
update in two runs whose selections differ, as libraries may choose another kernel for another stack. On CUDA it holds
as far as PyTorch's kernels are deterministic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils import vector_to_parameters

from fedselect.data import Federation
from fedselect.errors import ConfigError
from fedselect.randomness import generator
from fedselect.training.losses import Objective, objective_of
from fedselect.training.models import read_buffers, write_buffers
from fedselect.training.optimizers import MakesOptimizer, checked, named_optimizer
from fedselect.training.settings import TrainingSettings, epochs_of
from fedselect.training.stacks import Batch, Gradients, Stacks, stacking

__all__ = ["Answers", "Autograd", "LocalTraining", "batches", "crop_and_flip", "sgd"]

#: Answers of m clients: updates (m, d), two losses (2, m) (mean over the steps, and of the received model on the first
#: batch), and the buffers (m, q) of each client's model, where it has any.
Answers = tuple[Tensor, NDArray[np.float64], Tensor | None]


def batches(
    size: int, settings: TrainingSettings, epochs: int, rng: np.random.Generator, least: int = 1
) -> list[NDArray[np.int64]]:
    """Draw the client's batches of one round, in order.

    Parameters
    ----------
    size : int
        The client's samples.
    settings : TrainingSettings
        Batch size, and the number of steps unless clients train by epochs.
    epochs : int
        Passes over the samples where clients train by epochs (`fedselect.training.settings.epochs_of`); 0 where they
        train by steps.
    rng : numpy.random.Generator
        ``generator(seed, "training", round, client)``.
    least : int
        A last batch of fewer samples joins the one before it.

    Returns
    -------
    list of (b,) ndarray of int
        Positions among the client's samples; every pass is a fresh shuffle and keeps its short last batch.
    """
    found: list[NDArray[np.int64]] = []
    starts = list(range(0, size, settings.batch_size))
    if len(starts) > 1 and size - starts[-1] < least:
        starts.pop()
    steps = settings.local_steps or epochs * len(starts)
    while len(found) < steps:
        order = rng.permutation(size)
        found += [order[start:end] for start, end in zip(starts, [*starts[1:], size], strict=True)]
    return found[:steps]


def sgd(
    start: Tensor,
    steps: Sequence[int],
    batches: Iterable[Batch],
    gradients: Gradients,
    rate: float,
    settings: TrainingSettings,
    optimizer: Callable[[Tensor], Callable[[Tensor], None]] | None = None,
) -> tuple[Tensor, Tensor]:
    """Train one client, or several together, from the same model.

    Parameters
    ----------
    start : (d,) tensor
        The received model; left as it is.
    steps : sequence of int
        Steps of each of m clients, most first.
    batches : iterable of (features, labels, shares)
        One batch a step, of the clients that still have a step to take.
    gradients : callable
        Loss and gradient of every client, of their parameters (m, d) and a batch.
    rate : float
        Step size.
    settings : TrainingSettings
        Momentum, weight decay, proximal term, and the norm that gradients are clipped to.
    optimizer : callable, optional
        Of one client's parameters (1, d), makes the step of another optimizer: a function of the gradient.

    Returns
    -------
    updates : (m, d) tensor
    losses : (2, m) tensor of float64
        Mean loss over each client's steps, and its loss on the first batch.
    """
    m = len(steps)
    weights = now = start.repeat(m, 1)
    velocity = moving = torch.zeros_like(weights) if settings.momentum else None
    losses = torch.zeros((2, m), dtype=torch.float64, device=start.device)
    total = losses[0]
    move = None if optimizer is None else optimizer(weights)
    for step, batch in enumerate(batches):
        if steps[m - 1] <= step:
            m = sum(count > step for count in steps)
            now, total, moving = weights[:m], losses[0, :m], None if velocity is None else velocity[:m]
        loss, gradient = gradients(now, *batch)
        total += loss
        if step == 0:
            losses[1] = loss
        if settings.clip_gradient is not None:
            norms = torch.linalg.vector_norm(gradient, dim=1).clamp(min=torch.finfo(gradient.dtype).tiny)
            gradient = gradient * torch.clamp(settings.clip_gradient / norms, max=1.0).unsqueeze(1)
        if settings.weight_decay and move is None:
            gradient = gradient.add(now, alpha=settings.weight_decay)
        if settings.proximal:
            gradient = gradient.add(now - start, alpha=settings.proximal)
        if move is not None:
            move(gradient)
            continue
        if moving is not None:
            gradient = moving.mul_(settings.momentum).add_(gradient)
        now.sub_(gradient, alpha=rate)
    losses[0] /= torch.tensor(steps, device=start.device)
    return weights - start, losses


class Autograd:
    """Loss and gradient of one client, by PyTorch's automatic differentiation of the model itself."""

    def __init__(self, model: nn.Module, objective: Objective) -> None:
        self.model, self.objective, self.parameters = model, objective, list(model.parameters())

    def hold(self, weights: Tensor) -> None:
        """Let the model's parameters be views of ``weights`` (1, d): what changes the one changes the other."""
        vector_to_parameters(weights[0], self.parameters)

    def __call__(self, weights: Tensor, features: Tensor, labels: Tensor, shares: None = None) -> tuple[Tensor, Tensor]:
        """Differentiate the mean loss of a batch (b, ...) by parameters (1, d)."""
        if self.parameters[0].data_ptr() != weights.data_ptr():
            self.hold(weights)
        loss = self.objective.mean(self.model(features), labels)
        gradients = torch.autograd.grad(loss, self.parameters)
        return loss.detach().double(), torch.cat([gradient.reshape(-1) for gradient in gradients]).unsqueeze(0)


class LocalTraining:
    """Clients' data on the device, and their training.

    Parameters
    ----------
    model : torch.nn.Module
        The architecture, on the device; its parameter values are scratch.
    federation : Federation
        Whose clients train.
    settings : TrainingSettings
        How.
    seed : int
        Seed of the batches.
    device : torch.device
        Where.
    objective : Objective, optional
        The loss; that of the settings if left out.
    optimizer : callable, optional
        Makes the clients' optimizer of parameters and step size, in the place of the one that the settings name.

    Attributes
    ----------
    datasets : list of (tensor, tensor)
        Each client's features and labels.
    stack : int
        Clients trained together at most; 1 means one by one.

    Raises
    ------
    ConfigError
        When batching is ``"always"`` and clients must train one by one, or a batch would have one sample to normalise.
    """

    def __init__(
        self,
        model: nn.Module,
        federation: Federation,
        settings: TrainingSettings,
        seed: int,
        device: torch.device,
        objective: Objective | None = None,
        optimizer: MakesOptimizer | None = None,
    ) -> None:
        self._optimizer = named_optimizer(settings) if optimizer is None else checked(optimizer)
        self.objective = objective or objective_of(settings.loss, None, None, federation)
        self.settings, self.seed, self.device, self.model = settings, seed, device, model
        self._sizes, self._epochs = federation.sizes, epochs_of(len(federation), settings, seed)
        self._alone = Autograd(model, self.objective)
        self._drops = any(isinstance(module, nn.modules.dropout._DropoutNd) for module in model.modules())
        normalises = any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in model.modules())
        self._least = 2 if normalises else 1  #: samples a batch has at least
        if normalises and min(int(self._sizes.min()), settings.batch_size) < 2:
            raise ConfigError(
                f"training: model {name_of(model, settings)} normalises over batches, which need 2 samples, and "
                + (f"client {self._sizes.argmin()} has 1" if settings.batch_size > 1 else "batch_size is 1")
            )
        shape = federation.test.features.shape[1:]
        if settings.augmentation != "none" and len(shape) != 3:
            raise ConfigError(f"training: augmentation needs images (channels, height, width); got features of {shape}")
        self._stacks = self._stacking(federation)
        self.stack = 1 if self._stacks is None else self._stacks.largest
        self.datasets = (
            [
                (torch.from_numpy(samples.features).to(device), torch.from_numpy(samples.labels).to(device))
                for samples in federation.datasets
            ]
            if self._stacks is None
            else self._stacks.datasets
        )

    def train(self, clients: Sequence[int], weights: Tensor, round: int, buffers: Tensor | None = None) -> Answers:
        """Train clients from the same model.

        Parameters
        ----------
        clients : sequence of int
            Who trains.
        weights : (d,) tensor
            The global model; left as it is.
        round : int
            Round index: gives the step size and the batches.
        buffers : (q,) tensor, optional
            The global model's buffers, where it has any.

        Returns
        -------
        Answers
            In the order of ``clients``.
        """
        draws = [generator(self.seed, "training", round, client) for client in clients]
        plans = [
            batches(int(self._sizes[client]), self.settings, int(self._epochs[client]), rng, self._least)
            for client, rng in zip(clients, draws, strict=True)
        ]
        updates = torch.empty((len(clients), weights.numel()), dtype=weights.dtype, device=self.device)
        losses = torch.empty((2, len(clients)), dtype=torch.float64, device=self.device)
        rate, left = self.settings.rate(round), []
        self.model.train()
        if self._stacks is not None:
            for places in self._stacks.groups(clients, plans):
                members, steps = [clients[place] for place in places], [plans[place] for place in places]
                of_each = self._stacks.batches(members, steps)
                counts = [len(plan) for plan in steps]
                found = sgd(weights, counts, of_each, self._stacks.gradients, rate, self.settings)
                updates[places], losses[:, places] = found
        else:
            optimizer = None if self._optimizer is None else lambda held: self._stepper(held, rate)
            for place, (client, plan) in enumerate(zip(clients, plans, strict=True)):
                if buffers is not None:
                    write_buffers(self.model, buffers)
                with self._own_dropout(round, client):
                    of_one = self._batches(client, plan, round)
                    found = sgd(weights, [len(plan)], of_one, self._alone, rate, self.settings, optimizer)
                updates[place], losses[:, place] = found[0][0], found[1][:, 0]
                if buffers is not None:
                    left.append(read_buffers(self.model))
        return updates, losses.cpu().numpy(), torch.stack(left) if left else None

    def _batches(self, client: int, plan: list[NDArray[np.int64]], round: int) -> Iterator[Batch]:
        """Yield the batches of one client, augmented as the settings have it."""
        features, labels = self.datasets[client]
        name = self.settings.augmentation
        # Batches use the same generator's first draws, dropout layers its first child; the second is independent.
        images = generator(self.seed, "training", round, client).spawn(2)[1] if name != "none" else None
        for places in plan:
            rows = torch.from_numpy(places).to(self.device)
            batch = features.index_select(0, rows)
            if images is not None:
                batch = crop_and_flip(batch, images, flip=name == "crop-flip")
            yield batch, labels.index_select(0, rows), None

    def _stepper(self, weights: Tensor, rate: float) -> Callable[[Tensor], None]:
        """Make the step of the clients' own optimizer for parameters (1, d)."""
        assert self._optimizer is not None
        parameters = self._alone.parameters
        self._alone.hold(weights)
        optimizer = self._optimizer(parameters, rate)
        sizes = [parameter.numel() for parameter in parameters]

        def move(gradient: Tensor) -> None:
            for parameter, part in zip(parameters, gradient[0].split(sizes), strict=True):
                parameter.grad = part.view_as(parameter)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

        return move

    def _stacking(self, federation: Federation) -> Stacks | None:
        """Training in stacks; None where clients train one by one."""
        always = self.settings.batching == "always"
        if self.settings.augmentation != "none":
            if always:
                raise ConfigError("training: clients that augment their images train one by one; leave batching")
            return None
        has_buffers = any(True for _ in self.model.buffers())
        alone = "dropout layers" if self._drops else "buffers" if has_buffers else None
        alone = "another optimizer than sgd" if self._optimizer is not None else alone
        if always and alone is not None:
            raise ConfigError(
                f"training: model {name_of(self.model, self.settings)} has {alone}, whose clients train one by one; "
                "batching must be 'auto' or 'never'"
            )
        if self.settings.batching == "never" or alone is not None:
            return None
        return stacking(self.model, self.objective, federation, self.settings, self.device)

    @contextmanager
    def _own_dropout(self, round: int, client: int) -> Iterator[None]:
        """Let dropout layers draw from this client's randomness: they know only PyTorch's own, which is put back."""
        if not self._drops:
            yield
            return
        devices = [self.device] if self.device.type == "cuda" else []
        # Batches use the same generator's first draws; a spawned one is independent of them.
        seed = int(generator(self.seed, "training", round, client).spawn(1)[0].integers(2**63))
        with torch.random.fork_rng(devices=devices):
            if devices:
                torch.cuda.manual_seed(seed)
            else:
                torch.default_generator.manual_seed(seed)
            yield


# -- images --------------------------------------------------------------------------------------------------------

#: Pixels added on every side before the crop.
_PAD = 4


def crop_and_flip(images: Tensor, rng: np.random.Generator, *, flip: bool = True) -> Tensor:
    """Shift a batch by up to four pixels each way, and mirror it half of the time.

    What comes in from outside is 0, the mean colour of normalised images. All images of a batch are changed alike, as
    in FedAU's code, where torchvision transforms the batch as one tensor.

    Parameters
    ----------
    images : (b, channels, height, width) tensor
        The batch.
    rng : numpy.random.Generator
        Draws two offsets and a coin, whether ``flip`` or not.
    flip : bool
        Whether to mirror at all (SVHN's digits are not).
    """
    down, right = rng.integers(0, 2 * _PAD + 1, size=2).tolist()
    mirrored = bool(rng.integers(2))
    height, width = images.shape[-2:]
    padded = torch.nn.functional.pad(images, (_PAD, _PAD, _PAD, _PAD))
    found = padded[..., down : down + height, right : right + width]
    return found.flip(-1) if flip and mirrored else found


def name_of(model: nn.Module, settings: TrainingSettings) -> str:
    """Name of a model in messages: the registered one, or its class."""
    is_named = isinstance(model, nn.Sequential) and not getattr(model, "is_own", False)
    return repr(settings.model) if is_named else type(model).__name__
