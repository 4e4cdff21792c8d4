"""Local training and the FedAvg loop."""
