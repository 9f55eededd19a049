"""A GEMM of a kernel with a systolic array and a skip array of activations: the same work on either of them.

Both have the same columns, rows and lanes and multiply by the same weight words, so memory, pixels and parameters of an
operation are the same; what differs is how its windows are cut.
"""

from __future__ import annotations

from dataclasses import replace

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Descriptor, Flag, Operation
from bfpga.contract.program import ArrayNode
from bfpga.engines.kernel.cycles import pass_steps
from bfpga.engines.skip_array.activation_engine import set_chunks

_SKIP_ARRAY = int(Flag.SKIP_ARRAY)
_OF_SKIP_ARRAY = int(Flag.SKIP_ARRAY | Flag.LANES_APART)
#: Flags of operations that stay on the systolic array: those that measure or keep, those whose weights come as often as
#: it multiplies by them.
_TIED = int(Flag.MEASURE | Flag.KEEP | Flag.KEPT | Flag.STREAM_WEIGHTS)


def may_choose(config: KernelConfig, descriptor: Descriptor) -> bool:
    """Whether either array of a kernel may compute an operation."""
    return config.array.has_both and descriptor.operation == Operation.GEMM and not descriptor.flags & _TIED


def on_skip_array(config: KernelConfig, node: ArrayNode, descriptor: Descriptor) -> Descriptor:
    """A GEMM of the systolic array as the skip array in parallel with it computes it."""
    result = replace(descriptor, flags=descriptor.flags | _SKIP_ARRAY)
    set_chunks(config, node, result)
    return result


def on_systolic_array(config: KernelConfig, descriptor: Descriptor) -> Descriptor:
    """The other way round."""
    result = replace(descriptor, flags=descriptor.flags & ~_OF_SKIP_ARRAY, chunk_steps=0, chunk_buffers=0)
    result.steps = pass_steps(config, result)
    return result


def on_other_array(config: KernelConfig, node: ArrayNode, descriptor: Descriptor) -> Descriptor:
    """A GEMM of one array as the other one computes it."""
    skips = descriptor.flags & _SKIP_ARRAY
    return on_systolic_array(config, descriptor) if skips else on_skip_array(config, node, descriptor)
