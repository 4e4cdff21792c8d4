"""The model of a loop: a registered one, or whatever ``torch.nn.Module`` one has."""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from fedselect.data import Federation
from fedselect.errors import ConfigError
from fedselect.randomness import generator
from fedselect.training.models import MODELS
from fedselect.training.settings import TrainingSettings

__all__ = ["Model", "build_model", "initialise", "made"]

#: A module (whose values are where training starts), or a class or function that makes one, with or without being
#: given the federation.
Model: TypeAlias = nn.Module | Callable[..., nn.Module]


def build_model(given: Model | None, federation: Federation, settings: TrainingSettings, seed: int) -> nn.Module:
    """Build the initial model of a loop; PyTorch's generator stays as it was.

    Parameters
    ----------
    given : Model, optional
        One's own: a module is copied with the values it has; a class or function is called under ``seed`` and keeps
        the values that it draws. The model that ``settings`` name if left out, whose initial values are set here.
    federation : Federation
        For models that look at the data's shape.
    settings : TrainingSettings
        Name, options and initial values of a registered model.
    seed : int
        Seed of the initial values.

    Raises
    ------
    ConfigError
        When ``given`` makes no module with parameters, or does not answer the data.
    """
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
    _check(model, federation)
    return model


def made(factory: Callable[..., Any], federation: Federation) -> nn.Module:
    """What a class or function makes, with the federation where it asks for one thing."""
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
    if not any(True for _ in model.parameters()):
        raise ConfigError(f"model {type(model).__name__} has no parameters to train")
    if any(each.dtype != torch.float32 for each in model.parameters()):
        raise ConfigError(f"model {type(model).__name__} must have float32 parameters; call .float() on it")
    sample = torch.from_numpy(federation.test.features[:1])
    training = model.training
    model.eval()
    try:
        with torch.no_grad(), _seeded(0):
            answer = model(sample)
    except (RuntimeError, ValueError, TypeError, NotImplementedError) as error:
        first = str(error).partition("\n")[0]
        raise ConfigError(
            f"model {type(model).__name__} cannot answer a sample of shape {tuple(sample.shape[1:])} "
            f"of {federation.name!r}: {first}"
        ) from error
    finally:
        model.train(training)
    if not isinstance(answer, Tensor) or answer.shape[:1] != (1,):
        got = tuple(answer.shape) if isinstance(answer, Tensor) else type(answer).__name__
        raise ConfigError(f"model {type(model).__name__} must answer one row a sample; got {got} for one sample")
    if federation.classes is not None and (answer.dim() != 2 or answer.shape[1] < federation.classes):
        raise ConfigError(
            f"model {type(model).__name__} must answer {federation.classes} numbers a sample, one a class of "
            f"{federation.name!r}; got shape {tuple(answer.shape[1:])}"
        )


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Let what draws from PyTorch's generator draw from the seed, and put the generator back."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(int(generator(seed, "model", 1).integers(2**63)))
        yield


def initialise(model: nn.Module, seed: int, scheme: str) -> None:
    """Set the initial parameters without PyTorch's generator; the schemes are those of `TrainingSettings`."""
    rng = generator(seed, "model")
    names, parameters = zip(*model.named_parameters(), strict=True)
    last = max((place for place, each in enumerate(parameters) if each.dim() > 1), default=-1)
    bound = 0.0
    with torch.no_grad():
        for place, parameter in enumerate(parameters):
            kaiming, behind = scheme == "kaiming" and place < last, scheme == "kaiming" and place > last
            if parameter.dim() > 1:
                bound = 1 / math.sqrt(math.prod(parameter.shape[1:]))
            elif not behind:
                if names[place].rpartition(".")[2].startswith("bias"):  # a layer of normalisation keeps its ones
                    parameter.zero_()
                continue
            size = tuple(parameter.shape)
            values = rng.normal(0, math.sqrt(2) * bound, size) if kaiming else rng.uniform(-bound, bound, size)
            parameter.copy_(torch.from_numpy(values.astype(np.float32)))
