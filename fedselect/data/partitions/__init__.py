"""Ways to split a labelled data set over clients; each returns one index array per client."""

from fedselect.data.partitions.alike import iid, iid_draws
from fedselect.data.partitions.by_dirichlet import dirichlet, dirichlet_per_class, dirichlet_unequal
from fedselect.data.partitions.by_label import primary_label, sorted_blocks, two_label
from fedselect.data.partitions.registry import PARTITIONS

__all__ = [
    "PARTITIONS",
    "dirichlet",
    "dirichlet_per_class",
    "dirichlet_unequal",
    "iid",
    "iid_draws",
    "primary_label",
    "sorted_blocks",
    "two_label",
]
