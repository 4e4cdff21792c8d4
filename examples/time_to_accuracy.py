r"""
Seconds: time to accuracy of six rules on one clock
===================================================

A selection rule is judged by its accuracy *over time*. Client :math:`i` downloads :math:`M` bytes, passes
:math:`n_i e` samples through the model, and uploads as many bytes,

.. math:: T_i = \frac{8M}{d_i} + n_i\, e\, s_i + \frac{8M}{u_i} ,

where uploads wait for each other if there is one uplink. A round ends with the last of them, or at a deadline; a late
client has worked in vain. The clock is virtual: nothing sleeps, and every rule meets the same devices under one seed.
"""

import matplotlib.pyplot as plt
import numpy as np

from fedselect.availability import ideal
from fedselect.clock import build_clock
from fedselect.data import digits
from fedselect.experiments.comparison import time_table
from fedselect.experiments.figures import seconds_figure, timeline_figure
from fedselect.measures import round_table
from fedselect.rounds import Scenario
from fedselect.rounds.engine import round_record
from fedselect.selectors import SELECTORS
from fedselect.training.fedavg import FedAvg
from fedselect.training.settings import TrainingSettings, samples_trained

# %%
# One clock
# ---------
# Phones on slow links: between the 1st and the 99th percentile speeds differ by a factor of 26, links by a hundred. A
# round has a deadline of 6 s, and one uplink carries the updates, the earliest ready first.

federation = digits(n_clients=60, partition="two-label")
settings = TrainingSettings(local_epochs=2, learning_rate=0.1)
options = {
    "policy": "deadline",
    "deadline": 6.0,
    "links": "shared-uplink",
    "seconds_per_sample": 0.02,
    "up_kbps": 60.0,
    "down_kbps": 240.0,
    "jitter": 0.2,
}


def scenario(seed):
    """Sixty clients on the devices of a seed, ten of them a round."""
    work = samples_trained(federation.sizes, settings, seed)
    clock, ask = build_clock("lognormal", work, 10, seed, options)
    return Scenario(
        federation.sizes, ideal(federation, seed), None, seed, None, clock, size=ask, rounds=60, data=federation
    )


# %%
# Six rules
# ---------
# FedCS fits as many clients as it can into the deadline, by the rule that was published or exactly; Oort prefers high
# loss on fast devices; TiFL draws clients of similar latency; over-selection asks 1.3 times as many and takes the
# first.

rules = {
    "uniform": ("uniform", {}),
    "over-selection": ("uniform", {"over": 1.3}),
    "TiFL": ("tifl", {}),
    "Oort": ("oort", {}),
    "FedCS as published": ("fedcs", {}),
    "FedCS exactly": ("fedcs", {"method": "auto"}),
}
played = {label: [] for label in rules}
for label, (name, chosen) in rules.items():
    for seed in range(3):
        world = scenario(seed)
        loop = FedAvg.within(world, SELECTORS.build(name, world, **chosen), settings=settings)
        records = []
        while loop.seconds < 240:
            records.append(round_record(loop.step(evaluate=True)))
        played[label].append(records)
tables = {label: [round_table(records) for records in each] for label, each in played.items()}

# %%
# How long until 70 % and 85 %? Medians of three seeds, with their range.

for label, (near, far) in time_table(tables, [0.70, 0.85]).items():
    rounds = np.mean([len(table) for table in tables[label]])
    wasted = np.mean([table["wasted_seconds"].sum() / table["busy_seconds"].sum() for table in tables[label]])
    print(f"{label:19} {rounds:3.0f} rounds, {wasted:4.0%} of the work wasted; 70 %: {near}; 85 %: {far}")

figure = seconds_figure(tables)
figure.suptitle("Loss and accuracy of six rules over the seconds of one clock")

# %%
# One round
# ---------
# Under the uniform rule most uploads wait, and the slow ones hold the uplink until the deadline.

timeline_figure(played["uniform"][0][0])
plt.show()

# %%
# **What to conclude.** A rule that wastes less work is not the first at the target. Within these ranges of three
# seeds no order of the six is certain; what is certain is how much work each throws away. State targets and ranges
# before the run, and count runs that never arrive.
