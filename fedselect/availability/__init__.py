"""Who is there before selection (availability), and who comes back after it (dropout)."""

from fedselect.availability.ca_fed import ca_fed
from fedselect.availability.chains import Chain, TwoState
from fedselect.availability.deadline import Deadline
from fedselect.availability.dropout import DROPOUT, Dropout, IndependentDropout
from fedselect.availability.fedau import Cyclic, label_rates
from fedselect.availability.groups import GroupTrace
from fedselect.availability.independent import Independent
from fedselect.availability.labels import LabelCycle
from fedselect.availability.lognormal import SinLognormal
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
