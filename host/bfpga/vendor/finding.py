"""What the checks of sources and scripts find."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Finding:
    """One violation: where, which rule, what is wrong and what would be right. ``line`` counts from 1."""

    file: str
    line: int
    rule: str
    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.problem}; {self.remedy} [{self.rule}]"
