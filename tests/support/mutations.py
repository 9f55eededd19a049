"""Damaged copies of files, the same for the same seed: bits, bytes, pieces lost, doubled, moved, brackets turned."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

#: Bytes that formats give a meaning: brackets, quotes, separators, numbers' signs, ends of lines.
MEANINGFUL = b"()[]{}'\"<>,:;.-+*&!|#%\\/\n\t 0123456789eE\x00\xff\x80\x7f"


def mutations(data: bytes, count: int, seed: int) -> Iterator[bytes]:
    """``count`` mutants of ``data``, each with one to four changes."""
    generator = np.random.default_rng(seed)
    for _ in range(count):
        mutant = bytearray(data)
        for _ in range(int(generator.integers(1, 5))):
            _change(mutant, generator)
        yield bytes(mutant)


def _change(data: bytearray, generator: np.random.Generator) -> None:
    if not data:
        data += b"\x00"
    kind, place = int(generator.integers(7)), int(generator.integers(len(data)))
    length = int(generator.integers(1, 33))
    if kind == 0:  # a bit turns
        data[place] ^= 1 << int(generator.integers(8))
    elif kind == 1:  # a byte becomes one that the format may give a meaning
        data[place] = MEANINGFUL[int(generator.integers(len(MEANINGFUL)))]
    elif kind == 2:  # the end is lost
        del data[place:]
    elif kind == 3:  # a piece is lost
        del data[place : place + length]
    elif kind == 4:  # a piece is there twice
        data[place:place] = data[place : place + length]
    elif kind == 5:  # a piece is overwritten by another
        source = int(generator.integers(len(data)))
        data[place : place + length] = data[source : source + length]
    else:  # something foreign comes in
        data[place:place] = generator.integers(0, 256, length).astype(np.uint8).tobytes()
