"""The emulator's fast route: runs of array layers as graphs that ONNX Runtime executes, the same bits at float speed.

Layers that cannot be proven exact stay with the numpy engines; both may alternate within one program. Counters and
status bits do not exist on this route.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import numpy as np

from bfpga.contract.program import ArrayNode, Program
from bfpga.devices.graph_translation import NotTranslatableError, Segment, static_exponents, translate
from bfpga.devices.host import onnx_session
from bfpga.devices.values import Values
from bfpga.engines.registry import depends_on_inputs
from bfpga.errors import DataError
from bfpga.program.layout import encode_tensor, to_array

#: Samples are computed in chunks whose largest tensor takes about this many bytes: they should stay in the cache.
CHUNK_BYTES = 2 << 20


def available() -> bool:
    """Whether this machine has what the route needs."""
    return find_spec("onnx") is not None and find_spec("onnxruntime") is not None


class GraphRoute:
    """Translated runs of a program's array layers. ``reasons`` says why layers were left to the numpy engines."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.exponents = static_exponents(program)
        self.reasons: list[str] = []
        self.starts: dict[int, tuple[Segment, Any]] = {}
        self.covered: set[int] = set()
        #: Results that leave a graph for nothing but their zeros.
        self.counted: set[str] = set()
        made: set[str] = set()
        for indices in list(self._runs()):
            nodes = [node for node in (program.nodes[index] for index in indices) if isinstance(node, ArrayNode)]
            segment = self._translate(nodes, indices, made)
            made.update(node.output for node in nodes)
            session = None if segment is None else self._session(segment)
            if segment is not None and session is not None:
                self.starts[indices[0]] = (segment, session)
                self.covered.update(indices)

    def _runs(self) -> Iterator[list[int]]:
        """Consecutive array nodes that can each be translated."""
        run: list[int] = []
        for index, node in enumerate(self.program.nodes):
            if isinstance(node, ArrayNode) and self._translatable(node):
                run.append(index)
            elif run:
                yield run
                run = []
        if run:
            yield run

    def _session(self, segment: Segment) -> Any:
        """A session for the graph, or None: a graph that ONNX Runtime refuses is no error, the engines compute it."""
        try:
            return onnx_session(segment.model)
        except Exception as error:
            self.reasons.append(f"ONNX Runtime refuses the graph: {error}")
            return None

    def _translatable(self, node: ArrayNode) -> bool:
        try:
            translate(self.program, [node], (), set())
        except NotTranslatableError as reason:
            self.reasons.append(str(reason))
            return False
        return True

    def _translate(self, nodes: Sequence[ArrayNode], indices: list[int], made: set[str]) -> Segment | None:
        inside = set(indices)
        read = set(self.program.outputs)
        for index, node in enumerate(self.program.nodes):
            if index not in inside:
                read.update(node.inputs)
        # The clocks of some engines follow from the zeros of what their layers read.
        counted = {node.inputs[0] for node in nodes if depends_on_inputs(node.engine)} - read
        self.counted |= counted
        read |= counted
        outputs = dict.fromkeys(node.output for node in nodes if node.output in read)
        try:
            return translate(self.program, nodes, outputs, made)
        except NotTranslatableError as reason:
            self.reasons.append(str(reason))
            return None

    def run(self, index: int, values: Values) -> None:
        """Run the layers that start at node ``index``; their results become values of the host."""
        segment, session = self.starts[index]
        inputs = {name: values.on_host(name) for name in segment.inputs}
        size = self._chunk(segment)
        results = []
        for start in range(0, values.samples, size):
            part = {name: value[start : start + size] for name, value in inputs.items()}
            for name, value in part.items():
                _check_finite(name, value)
            results.append(session.run(list(segment.outputs), part))
        for position, name in enumerate(segment.outputs):
            parts = [result[position] for result in results]
            if name in self.counted:
                spec = self.program.tensors[name]
                values.marks[name] = np.concatenate([to_array(part != 0, spec) for part in parts])
                continue
            values.host[name] = parts[0] if len(parts) == 1 else np.concatenate(parts)
            self._to_array(name, values)

    def _to_array(self, name: str, values: Values) -> None:
        """Results that numpy engines read keep the exponent they were computed with."""
        readers = (node for index, node in enumerate(self.program.nodes) if index not in self.covered)
        if any(isinstance(node, ArrayNode) and name in node.inputs for node in readers):
            spec = replace(self.program.tensors[name], input_exponent=self.exponents[name])
            values.array[name] = encode_tensor(values.host[name], spec, self.program.config.format)

    def _chunk(self, segment: Segment) -> int:
        specs = (self.program.tensors[name] for name in segment.tensors)
        return max(1, CHUNK_BYTES // (4 * max(spec.height * spec.width * spec.channels for spec in specs)))


def _check_finite(name: str, value: np.ndarray[Any, Any]) -> None:
    """``DataError`` for infinities and not-a-number, which the graph would saturate."""
    if not np.isfinite(value).all():
        raise DataError(f"{name} holds numbers that are not finite: block floating point needs finite numbers")
