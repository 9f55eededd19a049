"""Two processes of this machine for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bfpga.scale.choice import open_workers
from bfpga.scale.cluster import Cluster


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    pytest.importorskip("distributed")
    pytest.importorskip("cryptography")
    with pytest.MonkeyPatch.context() as patch:
        # Their virtual boards run for minutes without optimization. Processes have the settings of when they start.
        patch.setenv("BFPGA_CXXFLAGS", "-O2")
        with open_workers(2) as workers:
            patch.undo()
            assert isinstance(workers, Cluster)
            yield workers
