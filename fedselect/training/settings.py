"""Settings of a training: how clients train and the server aggregates, on which device."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from fedselect.errors import ConfigError
from fedselect.options import check_choice, check_count, check_number
from fedselect.randomness import generator
from fedselect.training.corruption import CORRUPTIONS
from fedselect.training.losses import LOSSES, METRICS, names_in
from fedselect.training.models import MODELS
from fedselect.training.server_rules import SERVER_RULES
from solvers.options import check_keywords, did_you_mean, matches

if TYPE_CHECKING:
    import torch

__all__ = [
    "OPTIMIZERS",
    "TrainingSettings",
    "epochs_of",
    "one_thread",
    "pick_device",
    "samples_trained",
]

_POSITIVE = (
    *("learning_rate", "decay", "server_learning_rate", "server_tau"),
    *("projection", "clip_norm", "clip_gradient"),  # where given
)

_COUNTS = (
    *("batch_size", "evaluate_every", "workers"),
    *("local_steps", "schedule_rounds", "evaluate_clients_every"),  # where given
)

#: Optimizers of ``torch.optim`` that take gradients alone, by their names in small letters.
OPTIMIZERS = (
    *("sgd", "adadelta", "adafactor", "adagrad", "adam", "adamax", "adamw", "asgd"),
    *("nadam", "radam", "rmsprop", "rprop"),
)

_CHOICES = {
    "schedule": ("exponential", "cosine", "linear", "step"),
    "importance": ("samples", "equal"),
    "initialisation": ("fan-in", "kaiming"),
    "augmentation": ("none", "crop", "crop-flip"),
    "batching": ("auto", "never", "always", "timed", "captured"),
    "memory_format": ("contiguous", "channels_last"),
}


#: The largest number of single precision, in which models are trained.
_SINGLE = float(np.finfo(np.float32).max)


def check_size(name: str, value: float) -> float:
    """Return a number that single precision can hold; raise `ConfigError` for a larger one."""
    if value > _SINGLE:
        raise ConfigError(f"{name} must be at most {_SINGLE:.2g}, the largest of single precision; got {value:.3g}")
    return value


@dataclass(frozen=True)
class TrainingSettings:
    r"""Settings of the clients' training and the server's aggregation.

    A step of SGD of a client from the received model :math:`w_0`, in PyTorch's convention: :math:`g` is the gradient of
    the batch's mean ``loss`` (scaled down as ``clip_gradient`` has it) plus ``weight_decay``\ ·w plus ``proximal``\ ·(w
    − w₀); v ← ``momentum``\ ·v + g; w ← w − rate·v.

    Attributes
    ----------
    model : str
        Name in `fedselect.training.models.MODELS`.
    model_options : dict
        The model's own options (``{"hidden": 32}`` for ``"mlp"``).
    initial_model : str, optional
        File of the initial values, in the place of ``initialisation``: the ``state_dict`` of the model, as
        ``torch.save`` writes it and a run folder's ``model.pt`` has it. Tensors alone are read; nothing is executed.
    learning_rate : float
        Local step size of the first round.
    decay : float
        The step size is multiplied by this after every round (FedGS: 0.998), or at every drop of ``"step"``; the other
        schedules do not use it.
    schedule : {"exponential", "cosine", "linear", "step"}
        How the step size falls over the rounds: by ``decay`` in every round or, under ``"step"``, every
        ``schedule_rounds`` rounds; along half a cosine, or a line, to 0 at ``schedule_rounds``.
    schedule_rounds : int, optional
        Rounds of the schedule; ``"step"`` needs it. ``"cosine"`` and ``"linear"`` have the experiment's rounds by
        default, and need it where there is no experiment.
    optimizer : str
        The clients' optimizer: ``"sgd"``, or another of ``torch.optim`` that `OPTIMIZERS` lists, by its name in small
        letters (``"adam"``, ``"adamw"``, ``"rmsprop"``). Its state starts anew in every round. With another than SGD
        clients train one by one.
    optimizer_options : dict
        Options of that optimizer (``{"betas": [0.9, 0.99]}``).
    clip_gradient : float, optional
        Gradients of a batch's loss longer than this are scaled down to this norm before the step.
    local_steps : int, optional
        Steps of each selected client, E; FedGS's and FedAU's E counts steps. 10 unless ``local_epochs`` is given.
    local_epochs : int or list of int, optional
        Instead of steps: passes over the client's own samples (CA-Fed, FedSS, E3CS). From a list each client draws its
        number once for the run, uniformly (E3CS: [1, 2, 3, 4]).
    batch_size : int
        Samples a step; a client passes over its shuffled samples again and again, keeping short last batches. (With
        batch normalisation a last batch of one sample joins the one before it.)
    momentum, weight_decay : float
        Of the clients' optimizer, the first of SGD alone; v starts at zero in every round.
    proximal : float
        FedProx's μ: the local objective gains μ/2 ‖w − w₀‖² (Li et al., MLSys 2020); combines with any selector.
    server_rule : {"fedavg", "fedavgm", "fedadam", "fedyogi"} or a name in `SERVER_RULES`
        Rule by which the server combines the updates; see `fedselect.training.server_rules`. ``"fedavgm"`` is FedAvg
        with a ``server_momentum`` of 0.9, where none is given.
    server_rule_options : dict
        That rule's own options, of which those named here have none.
    corrupt : str, optional
        Name in `fedselect.training.corruption.CORRUPTIONS`: some clients send something else than their updates
        (``"sign-flip"``, ``"noise"``). All are honest if left out.
    corrupt_options : dict
        Options of that corruption (``{"share": 0.1}``).
    server_beta1, server_beta2, server_tau : float
        Of FedAdam and FedYogi: decay of the first and the second moment, and adaptivity τ. They need a small
        ``server_learning_rate``, 0.01 to 0.1 say.
    server_learning_rate : float
        The change is multiplied by this before it is applied (FedAU's η).
    server_momentum : float
        b ← ``server_momentum``\ ·b + change, and b is applied (CA-Fed's code: 0.9).
    server_weight_decay : float
        The change loses ``server_weight_decay``\ ·w of the global model before all that (CA-Fed's code: 0.01); where
        nothing arrived, nothing is lost.
    projection : float, optional
        After a round in which updates arrived the model is projected onto the ball of this radius around 0 (CA-Fed's
        W).
    importance : {"samples", "equal"}
        The objective is Σ α_k F_k with α_k = n_k / Σ n ("samples": FedGS, CA-Fed, E3CS, FedSS) or 1 / N ("equal":
        FedAU, FedVARP, MIFA). Server rules are told it; metrics compare realised importance with it.
    update_limit : float
        An update is refused, and its client *failed*, when its norm exceeds this many times the largest of 1, the norm
        of the initial model and, from three on, the median norm of all updates so far; ``inf`` accepts every finite
        update. See `fedselect.training.screen`.
    clip_norm : float, optional
        Updates longer than this are scaled down to this norm before they are applied, stored, or shown to the selector
        (not at all by default).
    evaluate_every : int
        The model is evaluated on the test set after every so many rounds, and in the last round planned.
    evaluate_clients_every : int, optional
        After every so many rounds the model is evaluated at every client: on its own test samples where clients hold
        some out (``data.client_test_fraction``), else on its training samples. The curves are in ``client_rounds.csv``
        of a run folder. If left out, a run does so after its last round alone, a custom loop not at all.
    initialisation : {"fan-in", "kaiming"}
        Initial weights of a model that is named: U(±1/√fan-in) and biases 0; or, as in FedAU's code, N(0, 2/fan-in) and
        biases 0 in all layers but the last, which has weights and biases from U(±1/√fan-in).
    augmentation : {"none", "crop", "crop-flip"}
        Change of batches of images in training: none; a shift by up to four pixels (FedAU on SVHN); the same and a
        mirror half of the time (FedAU on CIFAR-10 and CINIC-10). With another than none clients train one by one.
    batching : {"auto", "never", "always", "timed", "captured"}
        Whether clients are trained together in one batched computation; see `fedselect.training.stacks`. ``"timed"``
        lets the first round with two clients or more decide it by the clock, for models without a closed form of their
        gradients: the checkpoint keeps the decision, so a run that goes on keeps its bits, and the log says it, so that
        another run can be told (the two agree within float error, not in bits). ``"captured"`` is ``"auto"`` whose
        stacked steps CUDA captures as graphs and replays; it has not been run on a GPU yet, and gains nothing on a CPU.
    memory_format : {"contiguous", "channels_last"}
        How images lie in memory where clients train one by one: channel by channel, or pixel by pixel as PyTorch's
        ``torch.channels_last``. The results of the two agree within float error, not in bits. Stacked clients (see
        ``batching``) have the first.
    workers : int
        Threads that train clients of one round beside each other, where these train one by one (see ``batching``) and
        the model has no layers that draw, as of dropout. It changes no result of
        ``fit`` or a run, and may differ when a run continues. In ``FedAvg.step`` alone one worker takes PyTorch's
        threads.
    device : str
        ``"cpu"``, ``"cuda"``, ``"cuda:1"`` and so on; ``"auto"`` takes CUDA when it is there.
    metrics : list of str
        Names in `fedselect.training.losses.METRICS`, of measures that are evaluated beside loss and accuracy (``"f1"``,
        ``"auroc"``).
    loss : str
        Name in `fedselect.training.losses.LOSSES`; ``"auto"`` is the cross-entropy where labels are classes, and the
        squared error where they are real numbers.
    """

    model: str = "linear"
    model_options: dict = field(default_factory=dict)
    initial_model: str | None = None
    learning_rate: float = 0.1
    decay: float = 0.998
    schedule: str = "exponential"
    schedule_rounds: int | None = None
    optimizer: str = "sgd"
    optimizer_options: dict = field(default_factory=dict)
    clip_gradient: float | None = None
    local_steps: int | None = None
    local_epochs: int | list[int] | None = None
    batch_size: int = 10
    momentum: float = 0.0
    weight_decay: float = 0.0
    proximal: float = 0.0
    server_rule: str = "fedavg"
    server_rule_options: dict = field(default_factory=dict)
    corrupt: str | None = None
    corrupt_options: dict = field(default_factory=dict)
    server_learning_rate: float = 1.0
    server_momentum: float = 0.0
    server_weight_decay: float = 0.0
    server_beta1: float = 0.9
    server_beta2: float = 0.99
    server_tau: float = 1e-3
    projection: float | None = None
    update_limit: float = 1000.0
    clip_norm: float | None = None
    importance: str = "samples"
    evaluate_every: int = 1
    evaluate_clients_every: int | None = None
    initialisation: str = "fan-in"
    augmentation: str = "none"
    batching: str = "auto"
    memory_format: str = "contiguous"
    workers: int = 1
    device: str = "auto"
    metrics: list[str] | str = field(default_factory=list)
    loss: str = "auto"

    def __new__(cls, *_: Any, **given: Any) -> Self:
        """Refuse a setting that there is not, with the name that was meant."""
        check_keywords("TrainingSettings", cls.__init__, given)
        return super().__new__(cls)

    def __post_init__(self) -> None:
        if callable(self.learning_rate):
            raise ConfigError("training: learning_rate must be a number; how it falls is said by schedule and decay")
        if self.local_steps is not None and self.local_epochs is not None:
            raise ConfigError("training: give local_steps or local_epochs, not both")
        if self.local_steps is None and self.local_epochs is None:
            object.__setattr__(self, "local_steps", 10)
        self._check_numbers()
        self._check_optimizers()
        for name, accepted in _CHOICES.items():
            check_choice(f"training: {name}", getattr(self, name), *accepted)
        if self.memory_format == "channels_last" and self.batching == "always":
            raise ConfigError(
                "training: memory_format 'channels_last' is for clients that train one by one; batching "
                "must not be 'always'"
            )
        if not (isinstance(self.device, str) and re.fullmatch(r"auto|cpu|cuda(:\d+)?", self.device)):
            raise ConfigError(f"training: device must be 'auto', 'cpu', 'cuda' or 'cuda:1', say; got {self.device!r}")
        if self.loss != "auto":
            LOSSES.check(self.loss, {})
        MODELS.check(self.model, self.model_options)

    def _check_numbers(self) -> None:
        """Raise `ConfigError` for numbers that are out of range, or no whole ones where these are meant."""
        for name in _POSITIVE:
            if getattr(self, name) is not None:
                check_size(f"training: {name}", check_number(f"training: {name}", getattr(self, name), open_low=True))
        for name in _COUNTS:
            if getattr(self, name) is not None:
                check_count(f"training: {name}", getattr(self, name))
        if not (matches(self.update_limit, float) and self.update_limit > 0):
            raise ConfigError(f"training: update_limit must be positive (inf for none); got {self.update_limit!r:.80}")
        if self.update_limit < math.inf:
            check_size("training: update_limit", self.update_limit)
        for epochs in self.epoch_choices:
            check_count("training: local_epochs", epochs)
        if self.local_epochs is not None and not self.epoch_choices:
            raise ConfigError("training: local_epochs must be a number of passes, or a list of at least one")
        for name in ("momentum", "weight_decay", "proximal", "server_momentum", "server_weight_decay"):
            check_size(f"training: {name}", check_number(f"training: {name}", getattr(self, name)))

    def _check_optimizers(self) -> None:
        """Raise `ConfigError` for optimizers or metrics that are not known, or settings beside them that are SGD's."""
        for name in ("optimizer", "server_rule", "schedule", "corrupt"):
            if not isinstance(given := getattr(self, name), str | None):
                where = f"FedAvg({name}=...) takes an object" if name != "schedule" else "none is a function"
                raise ConfigError(f"training: {name} is a name; got {given!r:.80} ({where})")
        for name in ("optimizer", "server_rule", "schedule"):
            object.__setattr__(self, name, str(getattr(self, name)).lower())  # Adam, as PyTorch has it
        for name in ("server_beta1", "server_beta2"):
            check_number(f"training: {name}", getattr(self, name), high=1.0, open_high=True)
        if isinstance(self.metrics, str):
            object.__setattr__(self, "metrics", names_in(self.metrics))
        for name in self.metrics:
            METRICS.check(name, {})
        SERVER_RULES.check(self.server_rule, self.server_rule_options)
        if self.corrupt is not None:
            CORRUPTIONS.check(self.corrupt, self.corrupt_options)
        elif self.corrupt_options:
            raise ConfigError("training: corrupt_options are of a corruption; name it, corrupt = 'sign-flip' say")
        if self.server_rule == "fedavgm" and not self.server_momentum:
            object.__setattr__(self, "server_momentum", 0.9)
        if self.optimizer not in OPTIMIZERS:
            hint = did_you_mean(self.optimizer, OPTIMIZERS)
            raise ConfigError(
                f"training: there is no optimizer {self.optimizer!r}{hint} (known: {', '.join(OPTIMIZERS)}; "
                "FedAvg takes any other as optimizer=, a function of parameters and step size)"
            )
        if self.optimizer == "sgd":
            if self.optimizer_options:
                raise ConfigError("training: optimizer_options are of other optimizers; sgd has momentum, weight_decay")
        elif self.momentum:
            raise ConfigError(f"training: momentum is sgd's; that of {self.optimizer!r} is in optimizer_options")

    @property
    def epoch_choices(self) -> list[int]:
        """The numbers of local epochs there are; empty when clients train by steps."""
        if self.local_epochs is None:
            return []
        return np.atleast_1d(np.array(self.local_epochs, dtype=object)).tolist()

    def rate(self, round: int) -> float:
        """Local step size in ``round``; raise `ConfigError` beyond single precision or without ``schedule_rounds``."""
        if self.schedule_rounds is None and self.schedule != "exponential":
            raise ConfigError(f"training: schedule {self.schedule!r} needs schedule_rounds, a number of rounds")
        if self.schedule_rounds is None or self.schedule in ("exponential", "step"):
            drops = round // self.schedule_rounds if self.schedule_rounds and self.schedule == "step" else round
            try:
                rate = self.learning_rate * self.decay**drops
            except OverflowError:  # a power of floats, where a product is infinite
                rate = math.inf
            return check_size(f"training: the step size of round {round}", rate)
        share = min(round / self.schedule_rounds, 1.0)
        return self.learning_rate * ((1 + math.cos(math.pi * share)) / 2 if self.schedule == "cosine" else 1 - share)

    def importances(self, sizes: NDArray[np.int64]) -> NDArray[np.float64]:
        """The objective's α of clients with these numbers of samples, shape (N,); sums to 1."""
        weights = sizes if self.importance == "samples" else np.ones(len(sizes))
        return weights / weights.sum()


def epochs_of(n_clients: int, settings: TrainingSettings, seed: int) -> NDArray[np.int64]:
    """Local epochs of each client for the whole run, shape (N,); zeros where clients train by steps."""
    choices = settings.epoch_choices
    if len(choices) < 2:
        return np.full(n_clients, choices[0] if choices else 0, dtype=np.int64)
    return np.asarray(choices, dtype=np.int64)[generator(seed, "effort").integers(len(choices), size=n_clients)]


def samples_trained(sizes: NDArray[np.int64], settings: TrainingSettings, seed: int) -> NDArray[np.int64]:
    """Count the samples that each client passes through its model in a round, shape (N,), by epochs or by steps.

    By steps it counts as without batch normalisation, which joins a last batch of one sample to the one before it.
    """
    if settings.epoch_choices:
        return sizes * epochs_of(len(sizes), settings, seed)
    assert settings.local_steps is not None
    passes, rest = np.divmod(settings.local_steps, -(-sizes // settings.batch_size))
    return passes * sizes + rest * settings.batch_size


def pick_device(name: str) -> torch.device:
    """Return the device that a setting ``"auto"``, ``"cpu"``, ``"cuda"`` or ``"cuda:1"`` means here.

    Raises
    ------
    ConfigError
        When a CUDA device was asked for and is not there.
    """
    import torch

    there = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if name == "auto":
        return torch.device("cuda" if there else "cpu")
    if name == "cpu":
        return torch.device("cpu")
    if int(name.partition(":")[2] or 0) >= there:
        known = ", ".join(f"'cuda:{place}'" for place in range(there))
        seen = f"sees only {known}" if there else "sees no CUDA device"
        raise ConfigError(f"training: device {name!r} was asked for, but PyTorch {seen} (use 'auto' or 'cpu')")
    return torch.device(name)


@contextmanager
def one_thread() -> Iterator[None]:
    """Let PyTorch use one thread: the models are small, and runs go side by side instead."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
