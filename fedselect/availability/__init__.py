"""Availability of clients before selection, and dropout of selected ones after it.

A model is built by a function: ``lognormal(federation, seed=0, beta=0.5)`` for availability, of the clients of a
federation, ``success_classes(n_clients, seed=0)`` for dropout, both under the seed of a run. The registries
`AVAILABILITY` and `DROPOUT` hold them by the names of configuration files; their options are the functions' keywords,
and `fedselect.errors.ConfigError` is raised where one is out of range (`fedselect.errors.DataError` for files and data
that cannot be used).

What a model of this package builds is a pure function of (seed, round, client), so that selectors meet the same clients
under one seed. (In FedGS's code they do not: its stream moves on with every call.)
"""

from fedselect.availability.chains import Chain, GroupTrace, TwoState, ca_fed, group_trace, markov
from fedselect.availability.dropout import (
    Deadline,
    IndependentDropout,
    bernoulli_dropout,
    deadline,
    no_dropout,
    success_classes,
)
from fedselect.availability.fedau import Cyclic, fedau_bernoulli, fedau_cyclic, fedau_markov, label_rates
from fedselect.availability.independent import (
    Independent,
    LabelCycle,
    NonStationary,
    SinLognormal,
    bernoulli,
    fedawe,
    ideal,
    label_cycle,
    less_data_first,
    lognormal,
    max_label_first,
    more_data_first,
    sin_lognormal,
)
from fedselect.availability.intervals import Intervals, TimedAvailability, phones
from fedselect.availability.protocol import AVAILABILITY, DROPOUT, Availability, Dropout
from fedselect.availability.times import read_intervals, read_pings, read_power, read_transitions, recorded
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
    "Intervals",
    "LabelCycle",
    "NonStationary",
    "SinLognormal",
    "TimedAvailability",
    "Trace",
    "TwoState",
    "bernoulli",
    "bernoulli_dropout",
    "ca_fed",
    "deadline",
    "fedau_bernoulli",
    "fedau_cyclic",
    "fedau_markov",
    "fedawe",
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
    "phones",
    "read_intervals",
    "read_pings",
    "read_power",
    "read_trace",
    "read_transitions",
    "record",
    "recorded",
    "sin_lognormal",
    "success_classes",
    "write_trace",
]
