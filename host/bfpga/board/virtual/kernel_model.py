"""What a kernel is to the virtual board: something that is started, moves stream data and finishes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

from bfpga.board.virtual.stream import Stream
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Descriptor


class OperationTime(NamedTuple):
    """One operation of a run: clocks of its schedule, and the beats it moved on each input, then on each output."""

    cycles: int
    beats: tuple[int, ...]


class Kernel(Protocol):
    """What all kernels have."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of its stream inputs."""
        ...

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of its stream outputs."""
        ...

    def step(self, streams: Mapping[str, Stream]) -> bool:
        """Run until it cannot go on; True if anything moved or the run finished. ``streams`` by port name."""
        ...

    @property
    def waiting(self) -> str | None:
        """Why the run cannot go on, for a reader: ``stream `input_stream`: 16 more beats``."""
        ...

    def reset(self) -> None:
        """ap_rst_n: forget a run under way."""
        ...

    def close(self) -> None:
        """Release memory and files."""
        ...


class KernelModel(Kernel, Protocol):
    """A kernel whose ap_ctrl_hs register slave is a model of its own."""

    def start(self, arguments: Mapping[str, int]) -> None:
        """Begin a run with the argument registers by name."""
        ...

    @property
    def finished(self) -> bool:
        """Whether the run begun last has finished."""
        ...

    def results(self) -> Mapping[str, int]:
        """Output registers by name, after a run finished."""
        ...

    def operations(self) -> Sequence[OperationTime]:
        """Operations of the run that finished last, in order; none if the model has no time."""
        ...


@runtime_checkable
class KernelWithRegisters(Kernel, Protocol):
    """A kernel that has its registers itself, and a clock counter."""

    def step(self, streams: Mapping[str, Stream], *, patient: bool = False) -> bool:
        """As of every kernel; patient: it has time, as while a program waits for its end."""
        ...

    def read_register(self, offset: int, *, of_counter: bool = False) -> int:
        """A word of its registers, or of the clock counter's; reading may change them."""
        ...

    def write_register(self, offset: int, value: int, mask: int, *, of_counter: bool = False) -> None:
        """Write the bytes of ``mask``."""
        ...

    @property
    def idle(self) -> bool:
        """Whether no start is under way."""
        ...

    @property
    def interrupt(self) -> bool:
        """Level of its interrupt."""
        ...


@runtime_checkable
class OverlappingKernel(Protocol):
    """A kernel model that reports which operations it was sent, where they overlap."""

    config: KernelConfig

    def received(self) -> Sequence[Descriptor]:
        """Operations of the start that finished last, in order."""
        ...


@runtime_checkable
class RepeatingKernel(OverlappingKernel, Protocol):
    """One that may repeat operations which a program memory holds."""

    @property
    def repeated_samples(self) -> int:
        """Samples for which the start that finished last did so; 0: none."""
        ...

    @property
    def opening_beats(self) -> int:
        """Beats of its input before its first operation."""
        ...

    def received(self, samples: int | None = None) -> Sequence[Descriptor]:
        """As above. samples: of a start that repeats operations, at most."""
        ...


@runtime_checkable
class TellingKernel(Protocol):
    """A kernel that may tell another one exponents."""

    @property
    def words(self) -> tuple[str, ...]:
        """Names of its ports to other kernels."""
        ...


@runtime_checkable
class ThreadBoundKernel(Protocol):
    """A kernel whose start cannot begin in one thread and go on in another."""

    def stay_in_one_thread(self) -> None:
        """Run in one thread from now on, whichever thread lets the board run."""
        ...


AnyKernel: TypeAlias = KernelModel | KernelWithRegisters
#: Makes a kernel from its description in an emulation bitstream.
KernelFactory = Callable[[Mapping[str, Any]], AnyKernel]
