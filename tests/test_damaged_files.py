"""Damaged files of every kind: each is read rightly or refused with one message; benchmarks/robustness has more."""

from __future__ import annotations

from pathlib import Path

import pytest
from damaged_files import KINDS, damage, outcome, prepared
from effort import drawn

COUNT = drawn(180)


@pytest.mark.parametrize("name", KINDS)
def test_damaged_files_give_a_message_or_a_right_result(name: str, tmp_path: Path) -> None:
    kind = KINDS[name]
    files = prepared(kind, tmp_path)
    assert outcome(kind, tmp_path) == "right"
    found = set()
    for index in range(COUNT):
        damage(files, index, seed=12)
        try:
            found.add(outcome(kind, tmp_path))
        except Exception as error:
            raise AssertionError(f"mutant {index} of {name}: {error!r}") from error
    assert found >= ({"right"} if name == "cached kernel" else {"refused"})
