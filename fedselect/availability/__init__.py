"""Who is there before selection (availability), and who comes back after it (dropout).

Every model is a pure function of (seed, round, client): client k takes the k-th draw of the generator of (seed,
purpose, round). So all selectors meet the same clients under one seed. (In FedGS's code they do not: its stream moves
on with every call, FedGS meets another trace than its baselines, and that of one seed is that of another, shifted.)
"""

from fedselect.availability.chains import Chain, TwoState
from fedselect.availability.deadline import Deadline
from fedselect.availability.dropout import DROPOUT, Dropout, IndependentDropout
from fedselect.availability.fedau import Cyclic, label_rates
from fedselect.availability.groups import GroupTrace
from fedselect.availability.independent import Independent
from fedselect.availability.labels import LabelCycle
from fedselect.availability.lognormal import SinLognormal
from fedselect.availability.population import ca_fed
from fedselect.availability.protocol import AVAILABILITY, Availability
from fedselect.availability.sizes import less_data_first, more_data_first
from fedselect.availability.success import success_classes
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
    "ca_fed",
    "label_rates",
    "less_data_first",
    "more_data_first",
    "read_trace",
    "record",
    "success_classes",
    "write_trace",
]
