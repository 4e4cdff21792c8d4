"""Who is there before selection (availability), and who comes back after it (dropout)."""

from fedselect.availability.dropout import DROPOUT, Dropout
from fedselect.availability.independent import AVAILABILITY, Availability, Independent

__all__ = ["AVAILABILITY", "DROPOUT", "Availability", "Dropout", "Independent"]
