"""Which clients are there before selection (availability), and which return after it (dropout).

Every model is a function of one shape: ``lognormal(federation, beta=0.5, seed=0)`` for availability,
``success_classes(n_clients, seed=0)`` for dropout. The registries `AVAILABILITY` and `DROPOUT` hold them by the names
of configuration files; their options are the functions' keywords.

What a model builds is a pure function of (seed, round, client): client k takes the k-th draw of the generator of (seed,
purpose, round). So all selectors meet the same clients under one seed. (In FedGS's code they do not: its stream moves
on with every call, FedGS meets another trace than its baselines, and that of one seed is that of another, shifted.)
"""

from fedselect.availability.chains import Chain, TwoState, ca_fed, markov
from fedselect.availability.dropout import (
    DROPOUT,
    Deadline,
    Dropout,
    IndependentDropout,
    bernoulli_dropout,
    deadline,
    no_dropout,
    success_classes,
)
from fedselect.availability.fedau import Cyclic, fedau_bernoulli, fedau_cyclic, fedau_markov, label_rates
from fedselect.availability.fedgs_modes import (
    LabelCycle,
    SinLognormal,
    label_cycle,
    less_data_first,
    lognormal,
    max_label_first,
    more_data_first,
    sin_lognormal,
)
from fedselect.availability.fedss_groups import GroupTrace, group_trace
from fedselect.availability.independent import Independent, bernoulli, ideal
from fedselect.availability.protocol import AVAILABILITY, Availability
from fedselect.availability.trace import Trace, read_trace, record, write_trace

__all__ = [
    "AVAILABILITY",
    "DROPOUT",
    "Availability",
    "Chain",
    "Cyclic",
    "Deadline",
    "Dropout",
    "GroupTrace",
    "Independent",
    "IndependentDropout",
    "LabelCycle",
    "SinLognormal",
    "Trace",
    "TwoState",
    "bernoulli",
    "bernoulli_dropout",
    "ca_fed",
    "deadline",
    "fedau_bernoulli",
    "fedau_cyclic",
    "fedau_markov",
    "group_trace",
    "ideal",
    "label_cycle",
    "label_rates",
    "less_data_first",
    "lognormal",
    "markov",
    "max_label_first",
    "more_data_first",
    "no_dropout",
    "read_trace",
    "record",
    "sin_lognormal",
    "success_classes",
    "write_trace",
]
