"""What tests of the compiler share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bfpga.verify.virtual_boards import VirtualBoards


@pytest.fixture(scope="module")
def boards() -> Iterator[VirtualBoards]:
    pytest.importorskip("pynq")
    result = VirtualBoards()
    yield result
    result.close()
