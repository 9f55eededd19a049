"""Values of one run: as float32 on the host's side and in block floating point on the array's, converted on demand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from bfpga.contract.program import BlockTensor, Program, TensorSpec
from bfpga.errors import DataError, ProgramError
from bfpga.formats.block_float import mantissa_dtype
from bfpga.program.layout import decode_tensor, encode_tensor

HostArray = npt.NDArray[Any]


def check_inputs(program: Program, inputs: Mapping[str, HostArray] | HostArray) -> dict[str, HostArray]:
    """The inputs as contiguous float32, of which a single one needs no name.

    ``DataError`` for missing or unknown names, wrong shapes or batch sizes.
    """
    if not isinstance(inputs, Mapping):
        if len(program.inputs) != 1:
            raise DataError(f"program {program.name} has the inputs {', '.join(program.inputs)}; give them by name")
        inputs = {next(iter(program.inputs)): np.asarray(inputs)}
    unknown = sorted(set(inputs) - set(program.inputs))
    missing = sorted(set(program.inputs) - set(inputs))
    if unknown or missing:
        wanted = ", ".join(sorted(program.inputs))
        what = f"input {missing[0]!r} is missing" if missing else f"input {unknown[0]!r} is unknown"
        raise DataError(f"{what}; program {program.name} takes {wanted}")
    result = {}
    sizes = set()
    for name, shape in program.inputs.items():
        value = np.asarray(inputs[name])
        if value.dtype == object or not np.issubdtype(value.dtype, np.number) or np.iscomplexobj(value):
            raise DataError(f"input {name!r} has type {value.dtype}; numbers are needed")
        if value.shape[1:] != tuple(shape) or value.ndim == 0:
            raise DataError(f"input {name!r} has shape {value.shape}; the program takes (samples, {_comma(shape)})")
        sizes.add(len(value))
        result[name] = np.ascontiguousarray(value, np.float32)
    if len(sizes) != 1 or 0 in sizes:
        raise DataError(f"inputs have {sorted(sizes)} samples; all need the same number, one at least")
    return result


def _comma(shape: tuple[int, ...]) -> str:
    return ", ".join(map(str, shape))


class Values:
    """Values by ONNX name. A value may exist on either side; asking for the other side converts it once."""

    def __init__(self, program: Program, inputs: Mapping[str, HostArray]) -> None:
        self.program = program
        self.samples = len(next(iter(inputs.values())))
        self.host: dict[str, HostArray] = dict(inputs)
        self.array: dict[str, BlockTensor] = {}

    def on_host(self, name: str) -> HostArray:
        """(samples, ...) in ONNX layout."""
        if name in self.program.joined:
            joined = self.program.joined[name]
            return np.concatenate([self.on_host(part) for part in joined.parts], axis=joined.axis + 1)
        if name not in self.host:
            if name not in self.array and self._is_constant(name):
                self.on_array(name)
            if name not in self.array:
                raise ProgramError(f"program {self.program.name} reads {name!r} before anything computes it")
            self.host[name] = decode_tensor(self.array[name], self.program.tensors[name])
        return self.host[name]

    def on_array(self, name: str) -> BlockTensor:
        """The block floating point tensor."""
        if name not in self.array and self._is_constant(name):
            self.array[name] = self._constant(self.program.tensors[name])
        if name not in self.array:
            if name not in self.host:
                raise ProgramError(f"program {self.program.name} reads {name!r} before anything computes it")
            self.array[name] = encode_tensor(self.host[name], self.program.tensors[name], self.program.config.format)
        return self.array[name]

    def has_array(self, name: str) -> bool:
        """Whether the array's tensor is there, or the program's own: nothing has to be encoded."""
        return name in self.array or self._is_constant(name)

    def _is_constant(self, name: str) -> bool:
        spec = self.program.tensors.get(name)
        return spec is not None and spec.constant is not None

    def _constant(self, spec: TensorSpec) -> BlockTensor:
        """The tensor that every sample has."""
        assert spec.constant is not None
        mantissas = np.broadcast_to(spec.constant, (self.samples, *spec.constant.shape))
        return BlockTensor(mantissas, np.full(self.samples, spec.input_exponent, np.int32))

    def allocate(self, name: str) -> BlockTensor:
        """The tensor that layers or stores fill part by part (concatenation, tiles)."""
        if name not in self.array:
            spec = self.program.tensors[name]
            kind = mantissa_dtype(self.program.config.format.mantissa_bits)
            shape = (self.samples, spec.height, spec.width, spec.channels)
            self.array[name] = BlockTensor(np.zeros(shape, kind), np.zeros(self.samples, np.int32))
        return self.array[name]

    def outputs(self) -> dict[str, HostArray]:
        """The program's outputs on the host's side."""
        return {name: self.on_host(name) for name in self.program.outputs}

    def drop(self, name: str) -> None:
        """Release a value that nothing reads any more."""
        self.host.pop(name, None)
        self.array.pop(name, None)
