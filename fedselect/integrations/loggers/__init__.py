"""Callbacks that write a run into other people's trackers: TensorBoard, Weights & Biases, MLflow.

Each takes `fedselect.experiments.run` and `fedselect.training.fedavg.FedAvg.fit` by the hand as a callback, and imports
its package when it is made.
"""

from fedselect.integrations.loggers.mlflow_logger import MlflowLogger
from fedselect.integrations.loggers.opening import LOGGERS, check_logger, open_logger, open_loggers
from fedselect.integrations.loggers.scalars import numbers_of
from fedselect.integrations.loggers.tensorboard_logger import TensorBoardLogger
from fedselect.integrations.loggers.wandb_logger import WandbLogger

__all__ = [
    "LOGGERS",
    "MlflowLogger",
    "TensorBoardLogger",
    "WandbLogger",
    "check_logger",
    "numbers_of",
    "open_logger",
    "open_loggers",
]
