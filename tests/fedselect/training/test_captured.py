"""Steps in fixed memory are the same steps: every shape, to the bit; and what cannot be captured runs as without."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

from fedselect.data import Federation, Samples
from fedselect.training.settings import TrainingSettings

pytest.importorskip("torch")
import torch
from torch import nn

from fedselect.training import captured
from fedselect.training.captured import Captured, cuda_graph
from fedselect.training.client import LocalTraining

MODELS = {
    "linear": lambda: nn.Sequential(nn.Flatten(), nn.Linear(6, 3)),
    "mlp": lambda: nn.Sequential(nn.Flatten(), nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)),
    "tanh": lambda: nn.Sequential(nn.Flatten(), nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)),
}


@pytest.fixture(scope="module")
def federation():
    """Clients of several widths, who take different numbers of steps by epochs."""
    rng = np.random.default_rng(3)
    parts = tuple(Samples(rng.normal(size=(n, 6)), rng.integers(3, size=n)) for n in (1, 3, 4, 5, 8, 9, 13, 21, 30))
    return Federation("random", parts, parts[-1], 3)


def trained(federation, name, batching, prepare=None, device="cpu", **options):
    """What three rounds of changing companies end with, and what took the steps."""
    torch.manual_seed(1)
    options = {"local_epochs": 2, "batch_size": 4, "momentum": 0.5} | options
    settings = TrainingSettings(batching=batching, **options)
    model = MODELS[name]().to(device)
    local = LocalTraining(model, federation, settings, 11, torch.device(device))
    if prepare is not None:
        local._stacks.gradients = Captured(local._stacks.gradients, prepare)
    weights, found = nn.utils.parameters_to_vector(model.parameters()).detach(), []
    for t, clients in enumerate(([0, 1, 2, 4, 5, 7, 8], [1, 3, 4, 6, 8], [0, 2, 3, 5, 7])):
        updates, losses, _ = local.train(clients, weights, t)
        weights = weights + updates.mean(dim=0)
        found += [weights.cpu().numpy(), losses]
    return found, local._stacks.gradients


def same(first, second):
    return all(np.array_equal(*pair) for pair in zip(first, second, strict=True))


@pytest.mark.parametrize("name", list(MODELS))
def test_steps_in_fixed_memory_are_the_same_to_the_bit(federation, monkeypatch, name):
    """Each shape has a memory; the steps of all come in turns, and each is filled anew."""
    monkeypatch.setattr(captured, "_AFTER", 1)
    plain, _ = trained(federation, name, "always")
    calls = []

    def prepare(step):
        step()  # as warm steps do: what they leave must not matter
        return lambda: (calls.append(step), step())[1]

    fixed, gradients = trained(federation, name, "always", prepare)
    assert same(fixed, plain)
    assert len(set(calls)) == len(gradients.steps) > 2
    assert len(calls) > 2 * len(gradients.steps)


def test_a_setting_asks_for_it(federation, monkeypatch):
    """On a CPU steps go through the memory, too, and none of the other settings makes one."""
    monkeypatch.setattr(captured, "_AFTER", 0)
    fixed, gradients = trained(federation, "mlp", "captured")
    plain, other = trained(federation, "mlp", "auto")
    assert same(fixed, plain)
    assert gradients.steps
    assert not isinstance(other, Captured)


@pytest.mark.parametrize(("limit", "value", "left"), [("_SMALL", 10, 0), ("_SHAPES", 2, 2), ("_AFTER", 10**6, 0)])
def test_what_does_not_pay_is_not_captured(federation, monkeypatch, limit, value, left):
    monkeypatch.setattr(captured, "_AFTER", 0)
    monkeypatch.setattr(captured, limit, value)
    fixed, gradients = trained(federation, "mlp", "captured")
    assert len(gradients.steps) == left
    assert same(fixed, trained(federation, "mlp", "auto")[0])


def test_what_cannot_be_captured_is_one_sentence_and_runs_as_without(federation, monkeypatch, caplog):
    monkeypatch.setattr(captured, "_AFTER", 0)
    tried = []

    def refuse(step):
        tried.append(step)
        raise RuntimeError("operation not permitted when stream is capturing\nCompile with ...")

    fixed, gradients = trained(federation, "tanh", "always", refuse)
    assert same(fixed, trained(federation, "tanh", "always")[0])
    assert len(tried) == 1
    assert not gradients.steps
    assert [record.getMessage() for record in caplog.records] == [
        "batching: steps of this model cannot be captured and run as without: "
        "operation not permitted when stream is capturing"
    ]


class Stream:
    """A stream that says what it waits for."""

    def __init__(self, name="side"):
        self.name = name

    def wait_stream(self, other):
        DID.append(f"{self.name} waits for {other.name}")


DID: list = []


@pytest.mark.parametrize("fails", [False, True])
def test_a_graph_is_captured_after_warm_steps_and_replayed(monkeypatch, fails):
    """With stand-ins for CUDA: the order of what is asked of it."""
    DID.clear()

    class Graph:
        def replay(self):
            DID.append("replay")

    @contextlib.contextmanager
    def using(name):
        DID.append(name)
        yield

    @contextlib.contextmanager
    def graph(graph, stream):
        DID.append(f"capture on {stream.name}")
        yield
        if fails:
            raise RuntimeError("invalidated")

    fakes = {"device": lambda device: using(f"device {device}"), "current_stream": lambda: Stream("main")}
    fakes |= {"Stream": Stream, "stream": lambda stream: using(f"on {stream.name}"), "CUDAGraph": Graph, "graph": graph}
    fakes["set_stream"] = lambda stream: DID.append(f"back on {stream.name}")
    for name, fake in fakes.items():
        monkeypatch.setattr(torch.cuda, name, fake)
    answers = iter(range(9))
    with pytest.raises(RuntimeError, match="invalidated") if fails else contextlib.nullcontext():
        replay = cuda_graph(lambda: (DID.append("step"), next(answers))[1], "cuda:1")
    prepared = ["device cuda:1", "side waits for main", "on side", *["step"] * 3, "main waits for side"]
    prepared += ["capture on side", "step", "back on main"]
    assert prepared == DID
    if not fails:
        assert [replay(), replay()] == [3, 3]  # the captured step's answers, which each replay writes anew
        assert DID[-2:] == ["replay", "replay"]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", list(MODELS))
def test_graphs_on_a_gpu_agree(federation, monkeypatch, name):
    monkeypatch.setattr(captured, "_AFTER", 0)
    fixed, gradients = trained(federation, name, "captured", device="cuda")
    assert len(gradients.steps) > 2
    for first, second in zip(fixed, trained(federation, name, "auto", device="cuda")[0], strict=True):
        np.testing.assert_allclose(first, second, rtol=1e-4, atol=1e-6)
