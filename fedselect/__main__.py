"""``python -m fedselect``."""

from fedselect.cli import main

main()
