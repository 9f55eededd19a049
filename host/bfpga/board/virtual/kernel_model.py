"""What a kernel is to the virtual board: something that is started, moves stream data and finishes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from bfpga.board.virtual.stream import Stream
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Descriptor


class OperationTime(NamedTuple):
    """One operation of a run: clocks of its schedule, and the beats it moved on each input, then on each output."""

    cycles: int
    beats: tuple[int, ...]


class KernelModel(Protocol):
    """A kernel with an ap_ctrl_hs register slave."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of its stream inputs."""
        ...

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of its stream outputs."""
        ...

    def start(self, arguments: Mapping[str, int]) -> None:
        """Begin a run with the argument registers by name."""
        ...

    def step(self, streams: Mapping[str, Stream]) -> bool:
        """Run until it cannot go on; True if anything moved or the run finished. ``streams`` by port name."""
        ...

    @property
    def finished(self) -> bool:
        """Whether the run begun last has finished."""
        ...

    @property
    def waiting(self) -> str | None:
        """Why the run cannot go on, for a reader: ``stream `input_stream`: 16 more beats``."""
        ...

    def results(self) -> Mapping[str, int]:
        """Output registers by name, after a run finished."""
        ...

    def operations(self) -> Sequence[OperationTime]:
        """Operations of the run that finished last, in order; none if the model has no time."""
        ...

    def reset(self) -> None:
        """ap_rst_n: forget a run under way."""
        ...

    def close(self) -> None:
        """Release memory and files."""
        ...


@runtime_checkable
class OverlappingKernel(Protocol):
    """A kernel model that reports which operations it was sent, where they overlap."""

    config: KernelConfig

    def received(self) -> Sequence[Descriptor]:
        """Operations of the start that finished last, in order."""
        ...


#: Makes a kernel from its description in an emulation bitstream.
KernelFactory = Callable[[Mapping[str, Any]], KernelModel]
