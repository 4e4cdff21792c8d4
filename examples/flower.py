r"""
The same selector in a Flower federation
========================================

Flower carries messages between a server and real machines; its own selection is a uniform sample. A `SelectorStrategy`
puts any selector in its place, and the server applies what the selector decided,

.. math:: w \leftarrow w + \sum_{i \in S} a_i \Delta_i ,

in the order of client ids. Where all machines compute alike and clients are trained one by one, the result has the same
bits as in the plain loop. `LocalGrid` plays Flower's grid in this process; on Ray or over the network the strategy is
the same.
"""

import logging
import tempfile

import matplotlib.pyplot as plt
import numpy as np

from fedselect.experiments import Choice, Experiment, read_records, run
from fedselect.integrations.flower import LocalGrid, experiment_client_app, run_on
from fedselect.measures import round_table
from fedselect.training.settings import TrainingSettings

# %%
# One experiment, two engines
# ---------------------------
# ``batching="never"`` trains clients one by one in the plain loop, as they are on machines of their own.

experiment = Experiment(
    name="flower",
    rounds=20,
    clients_per_round=5,
    data=Choice("digits", {"n_clients": 20, "partition": "two-label"}),
    selector=Choice("fedgs", {"method": "branch-and-bound"}),
    availability=Choice("lognormal", {"beta": 0.5}),
    training=TrainingSettings(batching="never"),
)
logging.getLogger("flwr").setLevel(logging.WARNING)
with tempfile.TemporaryDirectory() as out:
    plain = list(read_records(run(experiment, f"{out}/plain")))
    grid = LocalGrid(experiment_client_app(experiment), partitions=20)
    flower = list(read_records(run_on(grid, experiment, f"{out}/flower")))

# %%
# Decisions and losses are equal, to the bit.

print("same clients:", all(a["selected"] == b["selected"] for a, b in zip(plain, flower, strict=True)))
print("same losses: ", all(a["loss"] == b["loss"] for a, b in zip(plain, flower, strict=True)))
print("largest gap of a decision:", round_table(flower)["gap"].max())

figure, axes = plt.subplots(figsize=(6.5, 3.2), layout="constrained")
axes.plot([record["loss"] for record in plain], linewidth=4, alpha=0.4, label="plain loop")
axes.plot([record["loss"] for record in flower], "k--", label="Flower")
axes.set(xlabel="round", ylabel="test loss", title="One selector, two engines")
axes.legend(frameon=False)
print("turns of each client:", np.bincount(np.concatenate([record["selected"] for record in flower]), minlength=20))
plt.show()

# %%
# **What to conclude.** The selection and the training are the same code in both engines, so a rule that was developed
# in the plain loop can be used in a Flower federation as it is. Flower is for real machines.
