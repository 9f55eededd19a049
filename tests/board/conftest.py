"""Settings of the tests on virtual boards."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def _kernels_of_boards_are_fast(request: pytest.FixtureRequest) -> Iterator[None]:
    """A few kernels run for minutes here, and are worth seconds of the compiler; not that of other rooms."""
    with pytest.MonkeyPatch.context() as patch:
        if not hasattr(request.module, "SMALL"):
            patch.setenv("BFPGA_CXXFLAGS", "-O1")
        yield
