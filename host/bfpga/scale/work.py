"""The interface of work that is spread: a function over parts, in order; and its plainest implementation.

Only the standard library is imported: this is what every room above may use, on a board too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

State = TypeVar("State")
Part = TypeVar("Part")
Result = TypeVar("Result")
#: Called with what is done and what there is, in the units of ``Work.size``.
Progress = Callable[[int, int], None]


def _one(part: Any) -> int:
    return 1


@dataclass(frozen=True)
class Work(Generic[State, Part, Result]):
    """What is done to each part. The result may depend on nothing but what is shared and the part.

    prepare: makes the state of a process of what all parts share, given by keyword; called once in each process. A
    state with a method ``close`` is closed when its process takes up other work. compute: the result of a part. size:
    how much a part is, for the progress. Functions of modules are sent by name, so that the other side has them too.
    """

    prepare: Callable[..., State]
    compute: Callable[[State, Part], Result]
    size: Callable[[Part], int] = field(default=_one)


class Workers(Protocol):
    """What does the work."""

    @property
    def count(self) -> int:
        """How many parts are done at the same time."""
        ...

    def map(
        self,
        work: Work[Any, Part, Result],
        parts: Sequence[Part],
        *,
        shared: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
        needs: Mapping[str, int] | None = None,
    ) -> Iterator[Result]:
        """Results in the order of their parts, not of completion; closing the iterator gives up the rest.

        shared: what goes to ``Work.prepare``; it is sent once to each worker, and not again while it is used. needs:
        what a part takes of its worker (`{"vivado": 1}`). An error of a part is raised in its place.
        """
        ...


class InProcess:
    """One part after the other in this process."""

    count = 1

    def map(
        self,
        work: Work[Any, Part, Result],
        parts: Sequence[Part],
        *,
        shared: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
        needs: Mapping[str, int] | None = None,
    ) -> Iterator[Result]:
        """See ``Workers.map``."""
        whole, done = sum(map(work.size, parts)), 0
        state = work.prepare(**(shared or {}))
        try:
            for part in parts:
                result = work.compute(state, part)
                done += work.size(part)
                if progress is not None:
                    progress(done, whole)
                yield result
        finally:
            release(state)


#: The default of everything that can be spread.
IN_PROCESS = InProcess()


def release(state: Any) -> None:
    """Close the state of a process, if it is of a kind that can be closed."""
    close = getattr(state, "close", None)
    if close is not None:
        close()
