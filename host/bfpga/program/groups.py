"""Groups of samples that go through a program together: they share starts, and calls of the host's operators."""

from __future__ import annotations

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import DESCRIPTOR_WORDS, Descriptor, Flag, Operation
from bfpga.contract.program import HostNode, Program
from bfpga.engines.kernel.cycles import tensor_beats, weight_reads
from bfpga.program.choices import RunTimeChoices
from bfpga.program.cycles import ProgramCycles, SampleStart
from bfpga.program.host import CALL_BYTES, keeps_apart
from bfpga.program.turns import starts_stand_alone

#: Bytes of a descriptor on the input stream.
DESCRIPTOR_BYTES = 4 * DESCRIPTOR_WORDS
_MOVING = (Operation.LOAD, Operation.STORE)
#: A start takes as many samples as its longest stream fits into this, so that two starts fit a small pool.
START_BYTES = 1 << 21
#: Most samples of a start: a long one delays the first result. One whose descriptors are in the program memory has as
#: many as its bytes allow.
START_SAMPLES = 512


def stream_bytes(config: KernelConfig, descriptor: Descriptor) -> int:
    """Bytes an operation moves over the streams, its descriptor included."""
    operation = Operation(descriptor.operation)
    size = DESCRIPTOR_BYTES
    if operation in (Operation.LOAD, Operation.STORE):
        return size + config.stream_bits // 8 * (1 + tensor_beats(config, descriptor))
    beat = config.weight_stream_bits // 8
    word = config.beats_per_weight_word * beat
    if operation is Operation.WEIGHTS:
        return size + descriptor.parameter_rows * beat + descriptor.weight_words * word
    if operation is Operation.GEMM and descriptor.flags & Flag.STREAM_WEIGHTS:
        return size + weight_reads(config, descriptor) * word
    return size


def sent_bytes(program: Program, start: SampleStart) -> int:
    """Bytes of a sample that the host packs and unpacks; weights stay in a buffer of their own."""
    return sum(
        stream_bytes(program.config, one.descriptor) if one.descriptor.operation in _MOVING else DESCRIPTOR_BYTES
        for one in start.operations
    )


def group_samples(program: Program, cycles: ProgramCycles) -> int:
    """Samples of a long run that go through a program together, as the device groups them
    (``devices/streaming_device.py``); at most some less, since both directions of a stream count together here."""
    if not cycles.starts or not starts_stand_alone(program, bool(RunTimeChoices(program))):
        return 1
    longest = max((sent_bytes(program, start) for start in cycles.starts if start.shared), default=1)
    return max(1, min(START_SAMPLES, START_BYTES // longest))


def samples_a_call(program: Program, node: HostNode, group: int) -> int:
    """Samples of a group that share a call of a node's operators (``devices/host_batches.py``)."""
    if not keeps_apart(node):
        return 1
    specs = [program.tensors[name] for name in node.inputs if name in program.tensors]
    each = sum(4 * spec.height * spec.width * spec.channels for spec in specs)
    return max(1, min(group, CALL_BYTES // max(1, each)))
