"""Models: the papers' linear ones and CNNs by name, or a custom ``torch.nn.Module``."""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedselect.data import Federation
from fedselect.errors import ConfigError
from fedselect.options import Registry, check_number
from fedselect.randomness import generator

if TYPE_CHECKING:
    from torch import Tensor, nn

    from fedselect.training.settings import TrainingSettings

#: Builders ``(federation, *, options) -> torch.nn.Module`` by name; initial values are set by the loop.
MODELS: Registry = Registry("model")


@MODELS.register("linear")
def linear(federation: Federation) -> nn.Module:
    """Multinomial logistic regression on the flattened features; linear regression where labels are real numbers."""
    from torch import nn

    return nn.Sequential(nn.Flatten(), nn.Linear(_inputs(federation), federation.outputs))


@MODELS.register("logistic")
def logistic(federation: Federation) -> nn.Module:
    r"""Logistic regression with one output, for two classes (CA-Fed's linear model).

    The answers are (0, z): their cross-entropy is the logistic loss of the logit z, with d + 1 parameters. ``"linear"``
    with its two outputs is another optimisation problem under the same settings: the difference of its outputs takes
    steps twice as long, under half the ridge. ``"linear"`` at step size γ and weight decay λ is ``"logistic"`` at 2γ
    and λ/2, from the difference of its initial outputs on (a server's weight decay stays as it is).
    """
    from torch import nn

    if federation.classes != 2:
        raise ConfigError(f"model 'logistic' has two classes; {federation.name} has {federation.classes}")
    return nn.Sequential(nn.Flatten(), nn.Linear(_inputs(federation), 1), nn.ConstantPad1d((1, 0), 0.0))


@MODELS.register("mlp")
def mlp(federation: Federation, *, hidden: int = 64) -> nn.Module:
    """One hidden layer of ReLU units on the flattened features."""
    from torch import nn

    return nn.Sequential(
        nn.Flatten(), nn.Linear(_inputs(federation), hidden), nn.ReLU(), nn.Linear(hidden, federation.outputs)
    )


@MODELS.register("cnn-cifar", "fedgs-cifar10", "e3cs-cifar10")
def cnn_cifar(federation: Federation, *, pools: int = 2) -> nn.Module:
    """FedGS's and E3CS's CNN for CIFAR-10: two 5 x 5 convolutions of 64 channels, then 384 and 192 units.

    Without padding; each convolution is followed by ReLU and a 2 x 2 maximum. 797 962 parameters on CIFAR-10. E3CS
    leaves open whether there are two pools or, with ``pools = 1``, one behind the second convolution (3 722 506).
    """
    return _cnn(federation, "cnn-cifar", channels=(64, 64), kernel=5, padding=0, hidden=(384, 192), pools=pools)


@MODELS.register("cnn-fashion", "fedgs-fashion")
def cnn_fashion(federation: Federation) -> nn.Module:
    """FedGS's CNN for FashionMNIST: two padded 5 x 5 convolutions of 32 and 64 channels, then 512 units.

    Each convolution is followed by ReLU and a 2 x 2 maximum. 1 663 370 parameters on 28 x 28 images of 10 classes; it
    is McMahan et al.'s for MNIST.
    """
    return _cnn(federation, "cnn-fashion", channels=(32, 64), kernel=5, padding=2, hidden=(512,))


@MODELS.register("cnn-emnist", "e3cs-emnist")
def cnn_emnist(federation: Federation, *, pools: int = 1) -> nn.Module:
    """E3CS's CNN for EMNIST letters: two 5 x 5 convolutions of 10 channels, then 1280 and 256 units.

    Without padding. The paper's text leaves the pools open: one 2 x 2 maximum behind the second convolution has
    1 618 668 parameters on 28 x 28 images of 26 classes, one behind each (``pools = 2``) 543 468.
    """
    return _cnn(federation, "cnn-emnist", channels=(10, 10), kernel=5, padding=0, hidden=(1280, 256), pools=pools)


@MODELS.register("cnn-fedau-svhn", "fedau-svhn", "fedau-fashion")
def cnn_fedau_svhn(federation: Federation) -> nn.Module:
    """FedAU's CNN for SVHN and FashionMNIST: two padded 3 x 3 convolutions of 32 channels, then 128 units."""
    return _cnn(federation, "cnn-fedau-svhn", channels=(32, 32), kernel=3, padding=1, hidden=(128,))


@MODELS.register("cnn-fedau-cifar10", "fedau-cifar10")
def cnn_fedau_cifar10(federation: Federation) -> nn.Module:
    """FedAU's CNN for CIFAR-10: two padded 3 x 3 convolutions of 32 channels, then 256 and 64 units."""
    return _cnn(federation, "cnn-fedau-cifar10", channels=(32, 32), kernel=3, padding=1, hidden=(256, 64))


@MODELS.register("cnn-fedau-cifar100", "fedau-cifar100", "fedau-cinic10")
def cnn_fedau_cifar100(federation: Federation, *, drop: float = 0.2) -> nn.Module:
    """FedAU's CNN for CIFAR-100 and CINIC-10: two padded 3 x 3 convolutions of 32 channels, then 512 and 256 units.

    In training, a share ``drop`` of the units before each linear layer is dropped. Clients of such a model train one
    by one; ``drop = 0`` leaves the layers out.
    """
    name = "cnn-fedau-cifar100"
    return _cnn(federation, name, channels=(32, 32), kernel=3, padding=1, hidden=(512, 256), drop=drop)


def _cnn(
    federation: Federation,
    name: str,
    *,
    channels: tuple[int, int],
    kernel: int,
    padding: int,
    hidden: tuple[int, ...],
    pools: int = 2,
    drop: float = 0.0,
) -> nn.Module:
    """Two convolutions, each with ReLU and (the last ``pools`` of them) a 2 x 2 maximum; then linear layers."""
    from torch import nn

    shape = federation.test.shape
    if len(shape) != 3:
        raise ConfigError(
            f"model {name!r} needs images (channels, height, width); {federation.name} has features of shape {shape}"
        )
    if pools not in (1, 2):
        raise ConfigError(f"model {name!r}: pools must be 1 or 2; got {pools}")
    check_number(f"model {name!r}: drop", drop, 0, 1, open_high=True)
    width, *sides = shape
    layers: list[nn.Module] = []
    for place, count in enumerate(channels):
        layers += [nn.Conv2d(width, count, kernel, padding=padding), nn.ReLU()]
        sides = [side + 2 * padding - kernel + 1 for side in sides]
        if place + pools >= len(channels):
            layers.append(nn.MaxPool2d(2))
            sides = [side // 2 for side in sides]
        width = count
    if min(sides) < 1:
        raise ConfigError(f"model {name!r} needs larger images than {shape[1]} x {shape[2]} of {federation.name}")
    width *= math.prod(sides)
    layers.append(nn.Flatten())
    for units in (*hidden, federation.outputs):
        layers += [*([nn.Dropout(drop)] if drop else []), nn.Linear(width, units), nn.ReLU()]
        width = units
    return nn.Sequential(*layers[:-1])  # no ReLU behind the answers


def _inputs(federation: Federation) -> int:
    return math.prod(federation.test.shape)


#: A module (whose values are where training starts), or a class or function that makes one, with or without being
#: given the federation.
Model: TypeAlias = "nn.Module | Callable[..., nn.Module]"


def build_model(given: Model | None, federation: Federation, settings: TrainingSettings, seed: int) -> nn.Module:
    """Build the initial model of a loop; PyTorch's generator stays as it was.

    Parameters
    ----------
    given : Model, optional
        A custom one: a module is copied with the values it has; a class or function is called under ``seed`` and keeps
        the values that it draws. The model that ``settings`` name if left out, whose initial values are set here.
    federation : Federation
        For models that look at the data's shape.
    settings : TrainingSettings
        Name, options and initial values of a registered model; the file of initial values of any.
    seed : int
        Seed of the initial values.

    Raises
    ------
    ConfigError
        When ``given`` makes no module with parameters, or does not answer the data; when the file of initial values
        cannot be read, or is another model's.
    """
    from torch import nn

    if isinstance(given, nn.Module):
        model = copy.deepcopy(given)
    elif given is None:
        with _seeded(seed):
            model = MODELS.build(settings.model, federation, **settings.model_options)
        initialise(model, seed, settings.initialisation)
    elif callable(given):
        with _seeded(seed):
            model = made(given, federation)
    else:
        raise ConfigError(f"model must be a torch.nn.Module, or a class or function that makes one; got {given!r}")
    if settings.initial_model is not None:
        load_weights(model, settings.initial_model)
    _check(model, federation)
    model.is_own = given is not None  # messages name its class then, not the model of the settings
    return model


def made(factory: Callable[..., Any], federation: Federation) -> nn.Module:
    """Make a module by a class or function, which gets the federation where it asks for ``federation`` alone."""
    from torch import nn

    name = getattr(factory, "__name__", repr(factory))
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):
        parameters = {}.values()
    asked = [
        each.name
        for each in parameters
        if each.default is each.empty and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
    ]
    if len(asked) > 1 or (asked and asked != ["federation"]):
        raise ConfigError(
            f"model {name} asks for {', '.join(asked)}: give an instance, or lambda: {name}(...), "
            "or a function of federation"
        )
    model = factory(federation) if asked else factory()
    if not isinstance(model, nn.Module):
        raise ConfigError(f"model {name} must make a torch.nn.Module; got {type(model).__name__}")
    return model


def _check(model: nn.Module, federation: Federation) -> None:
    """Raise `ConfigError` where the model does not fit the data; one sample tells."""
    import torch

    from fedselect.training.losses import batch_of, on_device

    if not trained(model):
        why = "; all have requires_grad = False" if any(True for _ in model.parameters()) else ""
        raise ConfigError(f"model {type(model).__name__} has no parameters to train{why}")
    if any(each.dtype != torch.float32 for each in model.parameters()):
        raise ConfigError(f"model {type(model).__name__} must have float32 parameters; call .float() on it")
    sample, _ = batch_of(on_device(federation.test, torch.device("cpu")), np.arange(1))
    training = model.training
    model.eval()
    try:
        with torch.no_grad(), _seeded(0):
            answer = model(sample)
    except (RuntimeError, ValueError, TypeError, NotImplementedError) as error:
        first = str(error).partition("\n")[0]
        raise ConfigError(
            f"model {type(model).__name__} cannot answer a sample of shape {federation.test.shape} "
            f"of {federation.name!r}: {first}"
        ) from error
    finally:
        model.train(training)
    if not isinstance(answer, torch.Tensor) or answer.shape[:1] != (1,):
        got = tuple(answer.shape) if isinstance(answer, torch.Tensor) else type(answer).__name__
        raise ConfigError(f"model {type(model).__name__} must answer one row a sample; got {got} for one sample")
    if federation.classes is not None and (answer.dim() != 2 or answer.shape[1] < federation.classes):
        raise ConfigError(
            f"model {type(model).__name__} must answer {federation.classes} numbers a sample, one a class of "
            f"{federation.name!r}; got shape {tuple(answer.shape[1:])}"
        )


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Let PyTorch's generator draw from the seed inside the block, and put it back."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(int(generator(seed, "model", 1).integers(2**63)))
        yield


def initialise(model: nn.Module, seed: int, scheme: str) -> None:
    """Set the initial parameters without PyTorch's generator; the schemes are those of `TrainingSettings`.

    Those that are not trained keep what their builder gave them.
    """
    import torch

    rng = generator(seed, "model")
    named = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
    last = max((place for place, (_, each) in enumerate(named) if each.dim() > 1), default=-1)
    bound = 0.0
    with torch.no_grad():
        for place, (name, parameter) in enumerate(named):
            kaiming, behind = scheme == "kaiming" and place < last, scheme == "kaiming" and place > last
            if parameter.dim() > 1:
                bound = 1 / math.sqrt(math.prod(parameter.shape[1:]))
            elif not behind:
                if name.rpartition(".")[2].startswith("bias"):  # a layer of normalisation keeps its ones
                    parameter.zero_()
                continue
            size = tuple(parameter.shape)
            values = rng.normal(0, math.sqrt(2) * bound, size) if kaiming else rng.uniform(-bound, bound, size)
            parameter.copy_(torch.from_numpy(values.astype(np.float32)))


def load_weights(model: nn.Module, path: str) -> None:
    """Give a model the parameters and buffers of a file; nothing that the file may hold is executed.

    Raises
    ------
    ConfigError
        When it cannot be read, holds more than weights, or weights of another model.
    """
    import pickle

    import torch

    what = f"training: initial_model {path}"
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise ConfigError(f"{what} cannot be read: {error.strerror or error}") from error
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, KeyError, IndexError, AttributeError) as error:
        raise ConfigError(
            f"{what} holds no weights, or more than weights, which is not read: write it by "
            "torch.save(model.state_dict(), path)"
        ) from error
    if not isinstance(found, dict) or not all(isinstance(value, torch.Tensor) for value in found.values()):
        raise ConfigError(f"{what} must be a model's state_dict, tensors by name; got a {type(found).__name__}")
    own = model.state_dict()
    if found.keys() != own.keys():
        missing, more = own.keys() - found.keys(), found.keys() - own.keys()
        named = [
            f"{sorted(each)[0]!r} {why}" for each, why in ((missing, "is missing"), (more, "is none of it")) if each
        ]
        raise ConfigError(f"{what} is of another model than {type(model).__name__}: {', '.join(named)}")
    if wrong := [name for name, value in own.items() if value.shape != found[name].shape]:
        name = wrong[0]
        raise ConfigError(
            f"{what}: {name!r} has shape {tuple(found[name].shape)}; the model's is {tuple(own[name].shape)}"
        )
    model.load_state_dict(found)


def name_of(model: nn.Module, settings: TrainingSettings) -> str:
    """Name of a model in messages: the registered one, or its class."""
    from torch import nn

    is_named = isinstance(model, nn.Sequential) and not getattr(model, "is_own", False)
    return repr(settings.model) if is_named else type(model).__name__


def has_dropout(model: nn.Module) -> bool:
    """Whether a model has layers that draw: of dropout, ``RReLU``, or recurrent and attention ones with dropout."""
    from torch import nn

    layers = (nn.modules.dropout._DropoutNd, nn.RReLU)
    inside = (nn.RNNBase, nn.MultiheadAttention)  # which drop by functions, without a layer for it
    return any(
        isinstance(module, layers) or (isinstance(module, inside) and module.dropout > 0) for module in model.modules()
    )


def trained(model: nn.Module) -> list[nn.Parameter]:
    """Return the parameters that are trained, in order: those with ``requires_grad``.

    The others, a frozen trunk say, stay as they are at all clients and the server: they are in no vector, no update
    and no message.
    """
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def read_weights(model: nn.Module) -> Tensor:
    """Return the values of the parameters that are trained as one vector, (d,)."""
    from torch.nn.utils import parameters_to_vector

    return parameters_to_vector(trained(model)).detach()


def write_weights(model: nn.Module, values: Tensor) -> None:
    """Let the parameters that are trained be views of (d,) values."""
    from torch.nn.utils import vector_to_parameters

    vector_to_parameters(values, trained(model))


def bytes_of(model: nn.Module) -> int:
    """Count the bytes of a model that is sent: parameters that are trained, and buffers."""
    sent = [*trained(model), *model.buffers()]
    return sum(each.numel() * each.element_size() for each in sent)


def read_buffers(model: nn.Module) -> Tensor | None:
    """Return the values of a model's buffers as one vector of float32, (q,); None where it has none."""
    import torch

    parts = [buffer.detach().reshape(-1).float() for buffer in model.buffers()]
    return torch.cat(parts) if parts else None


def write_buffers(model: nn.Module, values: Tensor) -> None:
    """Put (q,) values into a model's buffers; whole numbers are rounded."""
    import torch

    buffers = list(model.buffers())
    with torch.no_grad():
        for buffer, part in zip(buffers, values.split([each.numel() for each in buffers]), strict=True):
            part = part.view_as(buffer)
            buffer.copy_(part if buffer.is_floating_point() else part.round())


def averaged(server: Tensor, arrived: Tensor, weights: NDArray[np.float64]) -> Tensor:
    """Average the server's buffers (q,) with those of m clients (m, q) that arrived with these weights (m,).

    Buffers are running statistics of batch normalisation, and whatever else a model keeps beside its parameters, whose
    updates do not carry them. Every client starts from the server's, and the server takes the average of those that
    arrived, with weights scaled to sum to one (those below zero count as zero; where nothing counts, the server keeps
    its own): b ← b + Σ a_i (b_i − b) / Σ a_i, so that a buffer that never changes keeps its bits.
    """
    import torch

    shares = np.maximum(weights, 0.0)
    if not shares.sum() > 0:
        return server
    shares = torch.from_numpy((shares / shares.sum()).astype(np.float32)).to(server.device)
    return server + shares @ (arrived - server)
