"""Federated client selection: selectors, availability, data, the FedAvg loop, experiments."""
