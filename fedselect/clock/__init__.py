"""Virtual clock: how long rounds last on which devices, without waiting; which clients are late, and what that costs.

A client's durations are a pure function of (seed, round, client). Devices are chosen by name (`CLOCKS`) and give every
client a speed and two links; a `Clock` adds what there is to compute and to send, and `ClockSettings` how the server
ends a round. `Clock.play` then gives the `RoundTimes` of a selection. A client whose update does not arrive is
*missing*.
"""

from fedselect.clock.clock import Clock, ClockSettings, RoundTimes, asked, build_clock, check_clock
from fedselect.clock.devices import CLOCKS, Devices, constant, device_ids, flash, lognormal, read_devices, table, tiers

__all__ = [
    "CLOCKS",
    "Clock",
    "ClockSettings",
    "Devices",
    "RoundTimes",
    "asked",
    "build_clock",
    "check_clock",
    "constant",
    "device_ids",
    "flash",
    "lognormal",
    "read_devices",
    "table",
    "tiers",
]
