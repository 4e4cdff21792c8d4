"""Selection without training, by the name that scripts call; it lives in `fedselect.rounds`."""

from fedselect.rounds import Round, simulate

__all__ = ["Round", "simulate"]
