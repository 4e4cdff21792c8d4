"""FedAvg loop: ask a selector, train the selected clients, apply the weights, report the outcomes."""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fedselect.availability import Availability, Dropout
from fedselect.clock import Clock
from fedselect.data import Federation
from fedselect.embeddings import embedding, gaussian_noise
from fedselect.errors import ConfigError, missing_extra
from fedselect.options import check_count
from fedselect.randomness import generator
from fedselect.rounds.engine import Callbacks, Round, listeners, round_record
from fedselect.rounds.history import History
from fedselect.rounds.protocol import EndOfRun, Selector
from fedselect.rounds.scenario import Scenario, World
from fedselect.training.settings import TrainingSettings
from solvers.environment import how_to_install

try:
    import torch
except (ImportError, MemoryError, OSError) as error:
    sentence = f"training needs PyTorch, which is not installed: {how_to_install('fl')}"
    raise missing_extra("torch", sentence, error) from error

from fedselect.training.client import Answers, LocalTraining
from fedselect.training.corruption import Corrupts
from fedselect.training.losses import (
    Measure,
    Metrics,
    client_means,
    client_scores,
    count,
    measured,
    objective_of,
    on_device,
    scores,
)
from fedselect.training.models import (
    Model,
    build_model,
    bytes_of,
    read_buffers,
    read_weights,
    write_buffers,
    write_weights,
)
from fedselect.training.optimizers import MakesOptimizer, MakesServerOptimizer, own_rule
from fedselect.training.server import Server
from fedselect.training.server_rules import ServerRule
from fedselect.training.settings import one_thread, pick_device
from solvers.options import check_keywords

__all__ = ["FedAvg", "Round"]

_log = logging.getLogger(__name__)


def _check_parts(federation: Any = None, selector: Any = None, availability: Any = None) -> None:
    """Raise `ConfigError` for what is no federation, selector or availability."""
    if federation is not None and not isinstance(federation, Federation):
        made = "Federation.from_tensors, from_datasets or from_split makes one (of a DataLoader, its .dataset)"
        raise ConfigError(f"the first argument is a Federation; got a {type(federation).__name__}: {made}")
    if selector is not None and (isinstance(selector, type) or not callable(getattr(selector, "select", None))):
        made = "an instance of a class with select(round), Uniform(10) say; SELECTORS.build makes one by name"
        raise ConfigError(f"a selector is {made}; got {selector!r:.80}")
    if availability is not None and not callable(getattr(availability, "available", None)):
        made = "AVAILABILITY.build('ideal', federation, seed) makes one by name"
        raise ConfigError(f"an availability model has available(round): {made}; got {availability!r:.80}")


def _settings_of(settings: TrainingSettings | Mapping[str, Any] | None, **named: Any) -> TrainingSettings:
    """Return settings, with the parts that were given to the loop by their names."""
    texts: dict[str, Any] = {key: value for key, value in named.items() if isinstance(value, str)}
    if isinstance(settings, Mapping):
        return TrainingSettings(**{**settings, **texts})
    return replace(settings or TrainingSettings(), **texts)


class FedAvg(Server):
    r"""Federated averaging driven by a selector.

    Every round: the selector decides among the available clients; those of the selected that return have trained from
    the current model (`fedselect.training.client`); their updates are checked and applied as by any `Server`,
    and the selector learns the outcomes.

    Randomness is a function of (seed, purpose, round, client), so that two selectors under one seed meet the same
    availability (on a clock, at the same moment), dropouts, batches and initial model, and a loop restored from
    `state_dict` continues to the same bits on the same machine (another processor's kernels round differently).

    Parameters
    ----------
    federation : Federation
        Clients and test set.
    selector : Selector
        Decides.
    availability : Availability
        Which clients are available.
    model : torch.nn.Module, class, function or str, optional
        A custom model (`fedselect.training.models.build_model`), or the name of one, instead of the one that
        ``settings`` name: a module starts from the values it has, a class or function is called under the seed.
    loss : callable, optional
        ``(outputs, labels) -> (b,)``, or one of PyTorch's loss modules, instead of the loss that ``settings`` name.
    metrics : mapping, sequence or callable, optional
        Further numbers of each test sample, ``(outputs, labels) -> (b,)``, whose means are in each evaluated `Round`;
        metrics of the whole test set (`fedselect.training.losses.whole_set`, names in ``METRICS``, objects of
        torchmetrics).
    optimizer : callable or str, optional
        Makes the clients' optimizer, ``(parameters, rate) -> torch.optim.Optimizer``, once per client and round; or
        the name of one, as in the settings.
    dropout : Dropout, optional
        Which clients come back; all by default.
    settings : TrainingSettings, optional
        How clients train; a mapping of them by name is one, too.
    seed : int
        Seed of initial model, batches and the selector's draws.
    time_limit : float, optional
        Seconds that a selector is told it may take for a decision (FedGS's τ_max is 5); None for no limit.
    clock : Clock, optional
        How long rounds last, and which clients are late (`fedselect.training.settings.samples_trained` counts what it
        needs).
    server_rule : ServerRule, callable or str, optional
        Combines the updates (`fedselect.training.server_rules.ServerRule`; the loop works on a copy); or makes the
        server's optimizer, ``(parameters) -> torch.optim.Optimizer``, for which the selection's sum is a step downhill;
        or the name of a rule, as in the settings.
    corrupt : callable or str, optional
        What clients that lie send, ``(client, update, round) -> (d,) tensor``; or the name of a corruption, as in the
        settings (`fedselect.training.corruption`).
    workers : int, optional
        Threads that train clients, as in the settings.
    """

    def __new__(cls, *given: Any, **named: Any) -> Self:
        """Refuse what a loop cannot begin with, with what was meant."""
        check_keywords("FedAvg", cls.__init__, named)
        _check_parts(*given[:3])
        what = ("a federation", "a selector", "an availability model (AVAILABILITY.build('ideal', federation, 0))")
        if None in given[:3]:
            raise ConfigError(f"FedAvg begins with {', '.join(what)}; got None for {what[given.index(None)]}")
        if given and "availability" not in named and len(given) < 3:
            raise ConfigError(f"FedAvg begins with {', '.join(what)}; got {len(given)} of the three")
        return super().__new__(cls)

    def __init__(
        self,
        federation: Federation,
        selector: Selector,
        availability: Availability,
        *,
        model: Model | None = None,
        loss: Measure | None = None,
        metrics: Metrics | None = None,
        optimizer: MakesOptimizer | str | None = None,
        dropout: Dropout | None = None,
        settings: TrainingSettings | Mapping[str, Any] | None = None,
        seed: int = 0,
        time_limit: float | None = 5.0,
        clock: Clock | None = None,
        server_rule: ServerRule | MakesServerOptimizer | str | None = None,
        corrupt: Corrupts | str | None = None,
        workers: int | None = None,
    ) -> None:
        world = World(federation.sizes, availability, dropout, seed, time_limit, clock)  # type: ignore[arg-type]
        named = {"model": model, "optimizer": optimizer, "loss": loss, "server_rule": server_rule}
        named["corrupt"] = corrupt
        settings = _settings_of(settings, **named)
        settings = settings if workers is None else replace(settings, workers=workers)
        own: dict[str, Any] = {name: None if isinstance(each, str) else each for name, each in named.items()}
        self._begin(federation, selector, world, settings, metrics=metrics, **own)

    @classmethod
    def within(cls, scenario: Scenario, selector: Selector, *, settings: TrainingSettings | None = None) -> FedAvg:
        """Build the loop of a scenario, which says everything but ``selector`` and ``settings``."""
        loop = cls.__new__(cls)
        loop._begin(scenario.federation, selector, scenario, settings or TrainingSettings())
        return loop

    def _begin(
        self,
        federation: Federation,
        selector: Selector,
        world: World,
        settings: TrainingSettings,
        model: Model | None = None,
        loss: Measure | None = None,
        metrics: Metrics | None = None,
        optimizer: MakesOptimizer | None = None,
        server_rule: ServerRule | MakesServerOptimizer | None = None,
        corrupt: Corrupts | None = None,
    ) -> None:
        self.federation = federation
        device = pick_device(settings.device)
        self._objective = objective_of(settings.loss, loss, metrics, federation, settings.metrics)
        self._model = build_model(model, federation, settings, world.seed).to(device)
        weights, size = read_weights(self._model), bytes_of(self._model)
        own = (self._objective, optimizer, corrupt)
        self._local = LocalTraining(self._model, federation, settings, world.seed, device, *own)
        buffers = read_buffers(self._model)
        rule = None if server_rule is None else partial(own_rule, server_rule)
        super().__init__(selector, world, weights, settings=settings, model_bytes=size, buffers=buffers, rule=rule)
        self._noise: NDArray[np.float64] | None = None
        self.embeds = bool(federation.validation)  # whose moments the noise may have
        test = federation.test
        self._test, *self._tests = (on_device(each, device) for each in (test, *federation.client_tests))

    @property
    def stack(self) -> int:
        """Clients trained together at most (see `fedselect.training.client`); 1 means one by one."""
        return self._local.stack

    def step(self, evaluate: bool | None = None) -> Round:
        """Run one round.

        Parameters
        ----------
        evaluate : bool, optional
            Whether to evaluate the model afterwards; by default as ``settings.evaluate_every`` has it.

        Returns
        -------
        Round
        """
        held_out = self.validation_losses if self.federation.validation else None
        decision = self.decide(probe=self.losses, validation_probe=held_out)
        start = time.perf_counter()
        clients = decision.selection.clients[decision.returned].tolist()
        trained = self._train(clients)
        seconds = time.perf_counter() - start
        return self.conclude(decision, clients, trained, train_seconds=seconds, evaluate=evaluate)

    def _train(self, clients: list[int]) -> Answers:
        """Train clients from the global model or, where the server's rule has some, from their own."""
        if not self._rule.own_models or not clients:
            return self._local.train(clients, self._weights, self.round, self._buffers)
        each = [self._local.train([k], self._rule.start(k), self.round, self._buffers) for k in clients]
        updates, losses, buffers = zip(*each, strict=True)
        left = [part for part in buffers if part is not None]
        return torch.cat(updates), np.concatenate(losses, axis=1), torch.cat(left) if left else None

    def fit(self, rounds: int, callbacks: Callbacks = ()) -> list[Round]:
        """Play so many more rounds, with one thread of PyTorch's as in a run; the last of so many is evaluated.

        Parameters
        ----------
        rounds : int
            How many.
        callbacks : iterable
            Called with every round: ``on_round(record)``, or a function of the record (the line that a run folder has).
            One that raises `StopIteration` ends the training after that round. So does a selector that raises
            `fedselect.rounds.EndOfRun`, before the next.

        Returns
        -------
        list of Round
        """
        check_count("rounds", rounds, least=0)
        played: list[Round] = []
        with listeners(callbacks) as tell, one_thread():
            while len(played) < rounds:
                try:
                    played.append(self.step(evaluate=True if len(played) + 1 == rounds else None))
                except EndOfRun as reason:
                    _log.info("the selector ends the run: %s", reason)
                    break
                if not tell(round_record(played[-1])):
                    break
        return played

    def run(self, rounds: int, callbacks: Callbacks = ()) -> History:
        """Play so many more rounds as `fit` does; return their participation, losses and accuracies."""
        return History.collect(self.fit(rounds, callbacks), len(self.federation))

    @property
    def model(self) -> torch.nn.Module:
        """A copy of the global model as it is now, ready to answer (in evaluation mode)."""
        return copy.deepcopy(self._loaded()).eval()

    def report(self, test: bool, clients: bool) -> dict[str, Any]:
        """Evaluate the model, on the server's test set and at the clients: fields of `Round`."""
        found: dict[str, Any] = {"client_scores": self.client_scores()} if clients else {}
        if test:
            found["loss"], found["accuracy"] = self.evaluate()
            found["metrics"] = self.measure()
        return found

    def evaluate(self) -> tuple[float, float | None]:
        """Mean loss and accuracy (None where there are no classes) of the global model on the server's test set."""
        losses, correct = scores(self._loaded(), self._test, self._objective)
        return float(losses.mean()), float(correct.mean()) if self._objective.classes else None

    def measure(self) -> dict[str, float]:
        """Further metrics of the global model on the server's test set, and its loss on what clients have held out.

        ``validation_loss`` is the mean over all samples of `Federation.validation`, where there are some.
        """
        found = measured(self._loaded(), self._test, self._objective.metrics) if self._objective.metrics else {}
        sizes = np.array([len(each) for each in self.federation.validation], dtype=np.int64)
        if held := np.flatnonzero(sizes).tolist():
            found["validation_loss"] = float(np.average(self.validation_losses(held), weights=sizes[held]))
        return found

    def losses(self, clients: Sequence[int] | NDArray[np.int64]) -> NDArray[np.float64]:
        """Mean training loss of the global model at each of these clients, shape (len(clients),)."""
        own = [self._local.datasets[int(client)] for client in clients]
        return client_means(self._loaded(), own, self._objective)[0]

    def validation_losses(self, clients: Sequence[int] | NDArray[np.int64]) -> NDArray[np.float64]:
        """Mean loss of the global model on what each of these clients has held out, shape (len(clients),)."""
        held = self.federation.validation
        empty = [int(client) for client in clients if not held or not len(held[int(client)])]
        if empty:
            raise ConfigError(
                f"client {empty[0]} has held no sample out of training, and is asked for its loss on them"
            )
        own = [on_device(held[int(client)], self.device) for client in clients]
        return client_means(self._loaded(), own, self._objective)[0]

    def embedding(self, weights: torch.Tensor) -> NDArray[np.float32]:
        """Average the answers to noise of the model that a client trained; noise with the validation sets' moments."""
        if self._noise is None:
            validation = np.concatenate([samples.features for samples in self.federation.validation])
            self._noise = gaussian_noise(validation, 128, generator(self.world.seed, "noise"))
        write_weights(self._model, weights)
        return embedding(self._model, self._noise).astype(np.float32)

    def state_dict(self) -> dict[str, Any]:
        """Everything the next round depends on; see `Server.state_dict`."""
        decided = self._local.decided
        return super().state_dict() | ({} if decided is None else {"batching": decided})

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state, and from what a timed round before it had decided of ``batching``."""
        super().load_state_dict(state)
        self._local.decided = state.get("batching")

    def client_scores(self) -> dict[str, NDArray[np.float64]]:
        """Mean loss, accuracy and further metrics of the global model at every client, each of shape (N,).

        On the samples that clients hold out for testing, where they do (NaN for a client without any); else on their
        training samples.
        """
        tests = self._tests if self.federation.client_tests else self._local.datasets
        holding = [client for client, data in enumerate(tests) if count(data)]
        measured = client_scores(self._loaded(), [tests[client] for client in holding], self._objective)
        found = {name: np.full(len(self.federation), np.nan) for name in measured}
        for name, values in measured.items():
            found[name][holding] = values
        return found

    def _loaded(self) -> torch.nn.Module:
        """Return the model, holding a copy of the global parameters."""
        write_weights(self._model, self._weights.clone())
        if self._buffers is not None:
            write_buffers(self._model, self._buffers)
        return self._model
