"""The one family of errors a user may see: each says what is wrong, where, and what would be right."""

from __future__ import annotations

from typing import Any


class BfpgaError(Exception):
    """Base of every error that is the user's to mend; the command line prints it and exits with 2.

    It is sent between processes with all that its kind keeps, whatever the arguments of that kind are.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: type[BfpgaError], arguments: tuple[Any, ...], state: dict[str, Any]) -> BfpgaError:
    error = kind.__new__(kind, *arguments)
    error.__dict__.update(state)
    return error


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


class CacheError(BfpgaError):
    """A place in the cache that others own or can write: its content may be anybody's."""


class ScaleError(BfpgaError):
    """Processes or machines that shall share work and cannot: none there, lost for good, or of another version."""


class ClockWarning(UserWarning):
    """Hardware took more clocks than its schedule and the waits of its streams account for."""


class CoreWarning(UserWarning):
    """A core of an overlay failed and was taken out; the others got its samples."""


class RangeWarning(UserWarning):
    """Samples far outside of the range with which a program was calibrated: it runs, and loses accuracy."""
