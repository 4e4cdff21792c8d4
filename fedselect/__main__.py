"""``python -m fedselect``, and the command ``fedselect``."""

from __future__ import annotations

from fedselect.signals import end_as_by_ctrl_c, ended_before_it_began


def main() -> None:
    """Run the command line; a signal while that is being imported is a line, and no traceback of imports."""
    end_as_by_ctrl_c()
    try:
        from fedselect.cli import main as run

        run()
    except KeyboardInterrupt:
        raise ended_before_it_began() from None


if __name__ == "__main__":
    main()
