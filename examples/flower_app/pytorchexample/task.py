"""Model, data and training of the app."""

from functools import cache

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    """A small network for pictures of 8 x 8 pixels."""

    def __init__(self):
        super().__init__()
        self.hidden, self.output = nn.Linear(64, 32), nn.Linear(32, 10)

    def forward(self, x):
        """Return a number for each digit."""
        return self.output(functional.relu(self.hidden(x)))


@cache
def partitions(num_partitions):
    """Deal the digits in the order of their labels, so that each of ten partitions has one to three of them."""
    pixels, labels = load_digits(return_X_y=True)
    order = np.argsort(labels, kind="stable")
    features, labels = torch.tensor(pixels[order] / 16, dtype=torch.float32), torch.tensor(labels[order])
    return list(zip(features.chunk(num_partitions), labels.chunk(num_partitions), strict=True))


def label_shares(num_partitions):
    """Return the share of each label in each partition."""
    return np.stack([np.bincount(labels, minlength=10) / len(labels) for _, labels in partitions(num_partitions)])


def load_data(partition_id, num_partitions, batch_size):
    """Return the training and the test samples of a partition: every fifth is for testing."""
    features, labels = partitions(num_partitions)[partition_id]
    test = torch.arange(len(labels)) % 5 == 0
    train_set, test_set = TensorDataset(features[~test], labels[~test]), TensorDataset(features[test], labels[test])
    return DataLoader(train_set, batch_size=batch_size, shuffle=True), DataLoader(test_set, batch_size=batch_size)


def train(net, loader, epochs, lr):
    """Train, and return the mean loss."""
    optimizer, total, steps = torch.optim.SGD(net.parameters(), lr=lr), 0.0, 0
    for _ in range(epochs):
        for features, labels in loader:
            optimizer.zero_grad()
            loss = functional.cross_entropy(net(features), labels)
            loss.backward()
            optimizer.step()
            total, steps = total + loss.item(), steps + 1
    return total / steps


def test(net, loader):
    """Return the mean loss, and the share of right answers."""
    total, right, samples = 0.0, 0, 0
    with torch.no_grad():
        for features, labels in loader:
            answers = net(features)
            total += functional.cross_entropy(answers, labels, reduction="sum").item()
            right, samples = right + (answers.argmax(1) == labels).sum().item(), samples + len(labels)
    return total / samples, right / samples
