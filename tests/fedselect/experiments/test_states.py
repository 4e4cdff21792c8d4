"""States as PyTorch has them, in checkpoints: tensors, nested dictionaries, numbers as keys; a run that is killed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from fedselect.availability import AVAILABILITY  # noqa: E402
from fedselect.data import digits  # noqa: E402
from fedselect.errors import RunError  # noqa: E402
from fedselect.experiments import Choice, Experiment, run  # noqa: E402
from fedselect.experiments.folder import load_checkpoint, save_checkpoint  # noqa: E402
from fedselect.selectors import SELECTORS, Uniform  # noqa: E402
from fedselect.training.fedavg import FedAvg  # noqa: E402
from fedselect.training.server_rules import FedAvgRule  # noqa: E402

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "learned_selector.py"


def stepped():
    """A network and its optimizer after a step."""
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
    net(torch.randn(4, 2)).sum().backward()
    optimizer.step()
    return net, optimizer


def test_states_of_modules_and_optimizers_come_back(tmp_path):
    net, optimizer = stepped()
    state = {"net": net.state_dict(), "optimizer": optimizer.state_dict(), "pairs": [(1, np.arange(2)), None]}
    save_checkpoint(tmp_path / "c.npz", state)
    found = load_checkpoint(tmp_path / "c.npz")
    other, again = stepped()
    other.load_state_dict(found["net"])
    again.load_state_dict(found["optimizer"])
    for one, two in ((net, other), (optimizer, again)):
        assert str(one.state_dict()) == str(two.state_dict())
    assert set(found["optimizer"]["state"]) == {0, 1, 2, 3}
    assert found["optimizer"]["param_groups"][0]["betas"] == (0.9, 0.999)
    assert found["net"]["1.num_batches_tracked"].dtype == torch.int64
    assert isinstance(found["pairs"][0], tuple)
    np.testing.assert_array_equal(found["pairs"][0][1], [0, 1])
    strange = {"__array__": 3, "x": {np.int64(2): np.float32(0.5)}}
    save_checkpoint(tmp_path / "s.npz", strange)
    assert load_checkpoint(tmp_path / "s.npz") == {"__array__": 3, "x": {2: 0.5}}


class Keeping(Uniform):
    """Uniform, with something in its state."""

    def __init__(self, size, *, kept):
        super().__init__(size)
        self.kept = kept

    def state_dict(self):
        return {"deep": {"er": [1, self.kept]}}


@pytest.fixture
def registered():
    before = SELECTORS.snapshot()
    yield SELECTORS
    SELECTORS.restore(before)


@pytest.mark.parametrize(
    ("kept", "named"), [({3}, "a set"), (np.array([{}]), "a ndarray"), (torch.zeros(1).bfloat16(), "a Tensor")]
)
def test_what_cannot_be_saved_is_said_before_the_first_round(registered, tmp_path, kept, named):
    registered.register("keeping")(lambda scenario: Keeping(scenario.size, kept=kept))
    experiment = Experiment(rounds=2, data=Choice("digits", {"n_clients": 12}), selector=Choice("keeping"))
    with pytest.raises(RunError, match=rf"cannot be saved: selector.deep.er\[1\] is {named}; state_dict returns"):
        run(experiment, tmp_path)
    assert [path.read_text() for path in tmp_path.rglob("rounds.jsonl")] in ([], [""])


class Momentum(FedAvgRule):
    """A rule whose state is a live tensor."""

    def __init__(self):
        self.total = torch.zeros(1)

    def keep(self, clients, updates, rate, weights):
        self.total += 1

    def state_dict(self):
        return {"total": self.total}


def test_a_state_does_not_change_with_the_tensors_it_is_of():
    federation = digits(n_clients=12)
    loop = FedAvg(federation, Uniform(3), AVAILABILITY.build("ideal", federation, 0), server_rule=Momentum())
    loop.step()
    state = loop.state_dict()
    loop.step()
    assert state["server"]["total"].item() == 1
    assert loop.state_dict()["server"]["total"].item() == 2


CONFIG = """
[experiment]
rounds = 12
clients_per_round = 4
[data]
name = "digits"
n_clients = 20
[availability]
name = "lognormal"
[selector]
name = "learned"
"""

SCRIPT = """
import os, sys
from fedselect.experiments import read_config, run
experiment, _ = read_config("c.toml", load=[sys.argv[1]])
killed = lambda record: os._exit(9) if record["round"] == int(sys.argv[2]) else None
run(experiment, "killed", callbacks=killed, plots=False)
run(experiment, "whole", plots=False)
"""


@pytest.mark.thorough
def test_a_learned_selector_is_killed_and_ends_with_the_same_bits(tmp_path):
    (tmp_path / "c.toml").write_text(CONFIG)
    environment = os.environ | {"PYTHONPATH": str(ROOT), "MPLBACKEND": "agg"}

    codes = []
    for round in ("5", "-1"):
        command = [sys.executable, "-c", SCRIPT, str(EXAMPLE), round]
        codes.append(subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True).returncode)
    assert codes == [9, 0]
    folders = [next((tmp_path / out).rglob("model.pt")).parent for out in ("killed", "whole")]
    models = [torch.load(folder / "model.pt", weights_only=True) for folder in folders]
    assert all(torch.equal(models[0][name], models[1][name]) for name in models[0])
    states = [load_checkpoint(folder / "checkpoint.npz")["selector"] for folder in folders]
    assert str(states[0]) == str(states[1])
    assert states[0]["optimizer"]["state"][0]["step"].item() > 5
