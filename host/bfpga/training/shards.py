"""A batch learned in parts, by parallel threads, with the same result whatever their number (FP R4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from types import TracebackType

from threadpoolctl import threadpool_limits

from bfpga.compiler.read.importer import Graph
from bfpga.formats.arrays import FloatArray
from bfpga.scale.threads import thread_count
from bfpga.training.network import LearningNetwork

#: Samples of a part: few enough that two threads share a batch of 32.
SAMPLES = 16


class Shards:
    """A network and copies of it that read its parameters, one for each part of a batch.

    Gradients are added in the order of the parts, so that a sum does not depend on which was first. To be used in a
    ``with``: until its end products of numpy keep to one thread each.
    """

    def __init__(self, graph: Graph, path: str, threads: int | None = None) -> None:
        """path: for messages. threads: as of ``thread_count``. Errors as of ``LearningNetwork``."""
        self.network = LearningNetwork(graph, path)
        self._graph, self._path = graph, path
        self._copies = [self.network]
        self._threads = thread_count(threads)
        self._exits = ExitStack()

    def __enter__(self) -> Shards:
        self._exits.enter_context(threadpool_limits(1, "blas"))
        self._pool = self._exits.enter_context(ThreadPoolExecutor(self._threads))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exits.close()

    def learn(self, inputs: Mapping[str, FloatArray], gradient: Callable[[FloatArray, slice], FloatArray]) -> None:
        """Forward and backward: add the gradients of a batch to the parameters of ``network``.

        gradient: that of the loss by the scores (samples, classes) of the samples in a slice of the batch.
        """
        samples = len(next(iter(inputs.values())))
        parts = [slice(start, min(start + SAMPLES, samples)) for start in range(0, samples, SAMPLES)]
        while len(self._copies) < len(parts):
            self._copies.append(LearningNetwork(self._graph, self._path))
        used = self._copies[: len(parts)]
        for copy in used[1:]:
            for parameter, own in zip(self.network.parameters, copy.parameters, strict=True):
                own.value = parameter.value

        def learned(copy: LearningNetwork, part: slice) -> None:
            scores = copy.forward({name: values[part] for name, values in inputs.items()})
            copy.backward(gradient(scores, part))

        list(self._pool.map(learned, used, parts))
        for copy in used[1:]:
            for parameter, own in zip(self.network.parameters, copy.parameters, strict=True):
                parameter.gradient += own.gradient
                own.gradient[...] = 0
