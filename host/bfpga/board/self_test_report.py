"""What a self-test prints and writes: a line for each stage, and all of it as JSON."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from time import perf_counter
from typing import Any

from bfpga.errors import BfpgaError

PASS, FAIL, SKIP = "PASS", "FAIL", "SKIP"


class StageError(Exception):
    """A stage found something wrong."""


class NotReachedError(Exception):
    """A stage needs what an earlier one did not provide; the text names it."""


@dataclass(frozen=True)
class Passed:
    """A stage that passed: what it found in a sentence, and its numbers for the report."""

    text: str
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class StageResult:
    """status: PASS, FAIL or SKIP. program: name of the program file, empty for stages of the overlay."""

    name: str
    program: str
    status: str
    text: str
    seconds: float
    data: dict[str, Any] = field(default_factory=dict)


class Report:
    """Runs stages and collects their results. ``debug``: tracebacks of failures go to standard error."""

    def __init__(self, overlay: str, target: str, show: Callable[[str], None], debug: bool = False) -> None:
        self.overlay, self.target = overlay, target
        self.results: list[StageResult] = []
        self._show, self._debug = show, debug
        self._program = ""

    @property
    def passed(self) -> bool:
        """All stages ran and none failed."""
        return bool(self.results) and all(result.status == PASS for result in self.results)

    def begin_program(self, name: str) -> None:
        """Stages from here on are about this program."""
        self._program = name
        self._show(f"program {name}")

    def stage(self, name: str, stage: Callable[[], Passed]) -> None:
        """Run a stage. Whatever it raises is a failure of the board to be reported, not one of this program."""
        start = perf_counter()
        data: dict[str, Any] = {}
        try:
            finding = stage()
            status, text, data = PASS, finding.text, finding.data
        except NotReachedError as missing:
            status, text = SKIP, f"needs stage `{missing}`"
        except (StageError, BfpgaError) as error:
            status, text = FAIL, str(error)
            self._trace()
        except Exception as error:
            status, text = FAIL, f"{type(error).__name__}: {error}"
            self._trace()
        self.results.append(StageResult(name, self._program, status, text, perf_counter() - start, data))
        first, *rest = text.splitlines() or [""]
        self._show("\n".join([f"{status}  {name}: {first}", *(f"      {line}" for line in rest)]))

    def _trace(self) -> None:
        if self._debug:
            traceback.print_exc(file=sys.stderr)

    def summary(self) -> str:
        """One line: what the exit code says."""
        counts = {status: sum(result.status == status for result in self.results) for status in (PASS, FAIL, SKIP)}
        verdict = "self-test passed" if self.passed else "self-test FAILED"
        return f"{verdict}: {counts[PASS]} stages passed, {counts[FAIL]} failed, {counts[SKIP]} not reached"

    def to_json(self) -> str:
        """The whole report as JSON."""
        content = {
            "passed": self.passed,
            "overlay": self.overlay,
            "target": self.target,
            "stages": [asdict(result) for result in self.results],
        }
        return json.dumps(content, indent=2, default=float) + "\n"
