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
    with open_workers(2) as workers:
        assert isinstance(workers, Cluster)
        yield workers
