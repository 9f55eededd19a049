"""Which tensors cross the streams without their zeros: those that are shorter so, on calibration samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Flag, Operation
from bfpga.contract.program import KernelOperation, TensorSpec
from bfpga.engines.kernel.map_streams import map_form
from bfpga.engines.kernel.streams import pack_rows
from bfpga.formats.arrays import IntArray
from bfpga.formats.map_beats import packed_beats
from bfpga.program.layout import fold_columns

#: Samples of a tensor that are compressed to find how short it becomes.
COMPARED_SAMPLES = 4


def measured_shares(
    inputs: Mapping[str, IntArray], tensors: Mapping[str, TensorSpec], config: KernelConfig
) -> dict[str, float]:
    """Beats of tensors without their zeros, by those with them, on samples; nothing for a kernel that cannot.

    inputs: mantissas (samples, height, width, channels) by tensor name, columns adjacent.
    """
    if not config.compressed_maps:
        return {}
    shares = {}
    for name, mantissas in inputs.items():
        spec = tensors.get(name)
        if spec is None:
            continue
        samples = mantissas[:COMPARED_SAMPLES]
        if spec.folded is not None:
            samples = fold_columns(samples, spec)
        if samples.shape[1:] == (spec.height, spec.width, spec.channels):
            shares[name] = _share(samples, config)
    return shares


def _share(samples: IntArray, config: KernelConfig) -> float:
    form, plain, packed = map_form(config), 0, 0
    for sample in samples:
        data = np.frombuffer(pack_rows(sample, config), np.uint8)
        plain += len(data) // form.octets
        packed += packed_beats(data, form)
    return packed / plain if plain else 1.0


def compress(operations: Iterable[KernelOperation], shares: Mapping[str, float]) -> None:
    """Mark loads and stores of tensors that are shorter without their zeros."""
    for operation in operations:
        if operation.transfer is None or operation.descriptor.operation not in (Operation.LOAD, Operation.STORE):
            continue
        share = shares.get(operation.transfer.tensor, 1.0)
        if share < 1:
            operation.descriptor.flags |= int(Flag.COMPRESSED)
            operation.transfer.share = share
