"""Two processes of this machine for the tests of a file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bfpga.scale.choice import open_workers
from bfpga.scale.cluster import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Ended with its file: processes that idle until the last test of all cost more than their start."""
    pytest.importorskip("distributed")
    pytest.importorskip("cryptography")
    with open_workers(2) as workers:
        assert isinstance(workers, Cluster)
        yield workers
