"""An app as Flower makes it for PyTorch."""
