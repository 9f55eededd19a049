"""Settings of the tests on virtual boards."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def _kernels_of_boards_are_fast() -> Iterator[None]:
    """A few kernels run for minutes here: they take half of that with what the compiler needs a second more for."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BFPGA_CXXFLAGS", "-O1")
        yield
