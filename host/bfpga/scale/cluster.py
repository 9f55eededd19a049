"""Work on the workers of a Dask scheduler: Dask queues, places and repeats parts, and carries data to them.

What is added here: results come in the order of the parts, and what all parts share is known by its content. It goes to
the scheduler once, as the argument of a task, so that Dask itself makes it again if all workers that had it are lost.
"""

from __future__ import annotations

import asyncio
import hashlib
import queue
import threading
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import cloudpickle

from bfpga.errors import ScaleError
from bfpga.scale.work import Part, Progress, Result, Work
from bfpga.scale.worker_side import run_part

if TYPE_CHECKING:
    from distributed import Client, Future

#: Seconds between two looks at the workers while nothing is done.
LOOK_SECONDS = 2.0
#: Seconds without any worker after which work is given up.
PATIENCE_SECONDS = 60.0
#: Seconds between two looks whether the worker of a station is still there, and for a new process of it.
STATION_SECONDS, RESTART_SECONDS = 0.5, 30.0


class Cluster:
    """Workers of a scheduler. source: digest of this source, which remote workers must have; None where it is theirs.

    The client is the caller's to close.
    """

    def __init__(self, client: Client, source: str | None = None) -> None:
        # Dask would rather have large data scattered, which is lost with the workers that have it.
        warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
        self.client = client
        self._source = source
        #: What the last work shared, by its content.
        self._held: dict[str, Future] = {}

    @property
    def count(self) -> int:
        """Workers that are there now."""
        return len(self.workers())

    @property
    def address(self) -> str:
        """Of the scheduler."""
        return str(self.client.scheduler.address)

    def workers(self) -> dict[str, Any]:
        """What the scheduler has of its workers, by address."""
        found: dict[str, Any] = self.client.scheduler_info(n_workers=-1)["workers"]
        return found

    def map(
        self,
        work: Work[Any, Part, Result],
        parts: Sequence[Part],
        *,
        shared: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
        needs: Mapping[str, int] | None = None,
    ) -> Iterator[Result]:
        """See ``Workers.map``. ScaleError if no worker has what is needed, or none is left."""
        self._check(needs or {})
        content = {name: cloudpickle.dumps(value) for name, value in (shared or {}).items()}
        task = _Task(work, content, dict(needs or {}), self._source)
        yield from _Run(self, task, parts, progress).results()

    def _check(self, needs: Mapping[str, int]) -> None:
        workers = self.workers().values()
        for name, amount in needs.items():
            if not any(worker["resources"].get(name, 0) >= amount for worker in workers):
                raise ScaleError(
                    f"no worker of {self.address} has {name!r}: start those that have it with "
                    f"`dask worker {self.address} --nthreads 1 --resources {name}=1`"
                )

    def share(self, content: Mapping[str, bytes]) -> dict[str, Future]:
        """What all parts share as data of the workers, each once under the digest of its content.

        What the last call had and this one does not is given back.
        """
        held: dict[str, Future] = {}
        result = {}
        for name, data in content.items():
            key = f"shared-{digest(data)}"
            held[key] = result[name] = self._held.get(key) or self._sent(key, data)
        self._held = held
        return result

    def stations(
        self, resource: str, count: int, work: Work[Any, Any, Any], shared: Mapping[str, Any]
    ) -> list[Station]:
        """``count`` workers that have a resource, each for itself; ScaleError if there are fewer."""
        names = [str(worker["name"]) for worker in self.workers().values() if worker["resources"].get(resource, 0) > 0]
        if len(names) < count:
            raise ScaleError(
                f"{len(names)} workers of {self.address} have {resource!r}, {count} are needed: start more with "
                f"`dask worker {self.address} --nthreads 1 --resources {resource}=1`"
            )
        content = {name: cloudpickle.dumps(value) for name, value in shared.items()}
        task = _Task(work, content, {resource: 1}, self._source)
        sent = self.share(content)
        return [Station(self, name, task, sent) for name in sorted(names)[:count]]

    def _sent(self, key: str, data: bytes) -> Future:
        return self.client.submit(bytes, data, key=key)


class _Task:
    """A piece of work as it goes to the workers."""

    def __init__(
        self, work: Work[Any, Any, Any], content: Mapping[str, bytes], needs: dict[str, int], source: str | None
    ) -> None:
        self.work, self.content, self.needs, self.source = work, content, needs, source
        named = "".join(f"{name}\0{digest(data)}\0" for name, data in content.items())
        self.key = digest(cloudpickle.dumps(work.prepare) + named.encode())


class Station:
    """One worker that is asked for by its name, because of what it has; a process that ends is started again."""

    def __init__(self, cluster: Cluster, name: str, task: _Task, shared: dict[str, Future]) -> None:
        self.name = name
        self._cluster, self._task, self._shared = cluster, task, shared

    def call(self, part: Any, seconds: float) -> Any:
        """The result of a part; its own error, if it fails.

        ScaleError if the worker is not there or ends; TimeoutError if there is no answer within ``seconds``: its
        process is then ended and started again. Safe for threads, one for each station.
        """
        from distributed import KilledWorker

        end = time.monotonic() + seconds
        address = self._address(end)
        task, client = self._task, self._cluster.client
        future = client.submit(
            run_part, task.work, part, self._shared, task.key, task.source, 1,
            key=f"call-{self.name}-{time.monotonic_ns()}", pure=False, resources=task.needs, workers=[address],
            allow_other_workers=False,
        )  # fmt: skip
        ended = threading.Event()
        future.add_done_callback(lambda _: ended.set())
        try:
            while not ended.wait(min(STATION_SECONDS, max(0.0, end - time.monotonic()))):
                if address not in self._cluster.workers():
                    raise ScaleError(f"the process of worker {self.name} has ended")
                if time.monotonic() >= end:
                    self._restart(address)
                    raise TimeoutError(f"no answer within {seconds:g} s")
            return future.result(timeout=RESTART_SECONDS)  # a worker that ends now takes its answer with it
        except (CancelledError, KilledWorker):
            raise ScaleError(f"the process of worker {self.name} has ended") from None
        except asyncio.TimeoutError as error:  # Python 3.10 has two kinds
            raise TimeoutError(str(error)) from None
        finally:
            if not future.done():
                with suppress(Exception):  # the cluster may be closed
                    client.cancel([future], force=True)

    def _address(self, end: float) -> str:
        """Where the worker is now; a process that is started again is waited for."""
        while True:
            for address, worker in self._cluster.workers().items():
                if str(worker["name"]) == self.name:
                    return address
            if time.monotonic() >= end:
                raise ScaleError(f"worker {self.name} is not there")
            time.sleep(STATION_SECONDS / 2)

    def _restart(self, address: str) -> None:
        with suppress(Exception):  # a worker without a nanny cannot be; it stays out
            self._cluster.client.restart_workers([address], timeout=RESTART_SECONDS, raise_for_error=False)


class _Run:
    """One call of ``map``: its futures, and the results that wait for their turn."""

    def __init__(self, cluster: Cluster, task: _Task, parts: Sequence[Any], progress: Progress | None) -> None:
        self._cluster, self._task, self._parts, self._progress = cluster, task, parts, progress
        self._client = cluster.client
        self._sizes = [task.work.size(part) for part in parts]
        self._done = 0
        self._waiting: dict[Future, int] = {}
        self._ended: queue.SimpleQueue[Future] = queue.SimpleQueue()

    def results(self) -> Iterator[Any]:
        ready: dict[int, Any] = {}
        following = 0
        try:
            self._submit()
            while self._waiting:
                number, result = self._next()
                ready[number] = result
                while following in ready:
                    yield ready.pop(following)
                    following += 1
        finally:
            if self._waiting:
                self._client.cancel(list(self._waiting), force=True)

    def _submit(self) -> None:
        task = self._task
        shared = self._cluster.share(task.content)
        threads = max((worker["nthreads"] for worker in self._cluster.workers().values()), default=1)
        begun = time.monotonic_ns()
        for number, part in enumerate(self._parts):
            future = self._client.submit(
                run_part, task.work, part, shared, task.key, task.source, threads,
                key=f"part-{begun}-{number}", pure=False, resources=task.needs or None,
            )  # fmt: skip
            self._waiting[future] = number
            future.add_done_callback(self._ended.put)

    def _next(self) -> tuple[int, Any]:
        """Number and result of a part that has ended; the error of one that failed."""
        from distributed import KilledWorker

        future = self._wait()
        number = self._waiting.pop(future)
        try:
            result = future.result()
        except CancelledError:
            raise ScaleError(f"the scheduler {self._cluster.address} has given up the work, or ended") from None
        except KilledWorker:
            raise ScaleError(
                f"part {number + 1} of {len(self._parts)} ended the process of every worker that took it; what the "
                "workers printed says why, too little memory for example"
            ) from None
        self._done += self._sizes[number]
        if self._progress is not None:
            self._progress(self._done, sum(self._sizes))
        return number, result

    def _wait(self) -> Future:
        """The next future that has ended; ScaleError if there is no worker for long."""
        idle_since: float | None = None
        while True:
            try:
                return self._ended.get(timeout=LOOK_SECONDS)
            except queue.Empty:
                if self._client.status != "running":
                    raise ScaleError(f"the scheduler {self._cluster.address} does not answer any more") from None
                idle_since = None if self._cluster.count else idle_since or time.monotonic()
                if idle_since is not None and time.monotonic() - idle_since > PATIENCE_SECONDS:
                    raise ScaleError(f"no worker is left, and none came back in {PATIENCE_SECONDS:g} s") from None


def digest(content: bytes) -> str:
    """What data is known by."""
    return hashlib.sha256(content).hexdigest()
