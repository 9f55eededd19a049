"""What a kernel with a program memory is sent before the descriptors and tensors of a start.

One table for the packer and for C++ (`contract/program_header.hpp`, which is rendered from it). Places in the memory
are in beats of the input stream. Only the standard library is imported.
"""

from __future__ import annotations

#: Fields of the header, a word of 32 bits each, in their order.
HEADER_FIELDS = {
    "sent": "beats of descriptors behind the header, which go to the memory",
    "base": "first beat of the program in the memory",
    "previous": "of a row: first beat of the operations of the sample before",
    "rest": "the beat after these",
    "end": "the beat after the program",
    "rows": "rows of descriptors, of which the first one lacks those of `previous` and the last one has these alone",
    "streamed": "1: a row that the host sends itself, each descriptor before its tensor; nothing is kept",
}
#: What operations wait for, each kind of operations: how much a row adds.
PERIODS = ("loads", "results", "stores", "fills", "reads")
#: All words.
HEADER_WORDS = (*HEADER_FIELDS, *PERIODS)
#: Words of a header on the stream: whole beats of every width.
HEADER_LENGTH = 16
assert len(HEADER_WORDS) <= HEADER_LENGTH
#: Bits of a place in the memory, or in the descriptors of a start that the host sends itself.
ADDRESS_BITS = 24
#: Bits of the first word of a descriptor, above its operation: beats that follow it, header and elements of a LOAD.
TENSOR_FIRST, TENSOR_BITS = 8, 24
