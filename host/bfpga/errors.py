"""The one family of errors a user may see: each says what is wrong, where, and what would be right."""

from __future__ import annotations


class BfpgaError(Exception):
    """Base of every error that is the user's to mend; the command line prints it and exits with 2."""


class ConfigurationError(BfpgaError):
    """An accelerator, board or recipe file that does not validate (file, key path and line in the message)."""


class ModelError(BfpgaError):
    """A network file that cannot be read or is not a network this toolkit can run."""


class DataError(BfpgaError):
    """A data file (NPZ) with a missing key, a wrong shape or a wrong type."""


class ProgramError(BfpgaError):
    """A compiled program that does not belong to the accelerator, or a file that is not a program."""


class DeviceError(BfpgaError):
    """A device that cannot be opened or that stopped with a reason."""


class ToolError(BfpgaError):
    """A tool of this machine (compiler, headers) that is missing or failed."""


class ClockWarning(UserWarning):
    """Hardware took more clocks than its schedule and the waits of its streams account for."""
