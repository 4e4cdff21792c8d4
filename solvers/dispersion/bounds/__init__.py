"""What no selection can beat: relaxations, and how their answers become bounds valid in floating point."""
