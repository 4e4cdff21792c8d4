"""Local training and the FedAvg loop; the only part of ``fedselect`` that imports PyTorch."""
