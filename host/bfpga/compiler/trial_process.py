"""The process that reads networks on trial: a request a line on standard input, an answer a line (`read/trial.py`)."""

from __future__ import annotations

import json
import os
import resource
import sys
from typing import Any

from bfpga.compiler.lower.operations import count_operations
from bfpga.compiler.read.graphs import nested
from bfpga.compiler.read.importer import BATCH_PROBES, checked_model, simplified_graph
from bfpga.compiler.read.simplify import probe_inputs, session
from bfpga.errors import BfpgaError

#: Operators that may run for ever on the values of a sample.
TURNING = ("Loop", "Scan", "If", "SequenceMap")


def problem(request: dict[str, Any]) -> str:
    """What is wrong with a network, empty if nothing is: it is read, simplified, counted, and run if it has loops."""
    try:
        form = checked_model(request["path"], request["shapes"], tried=True)
        graph = simplified_graph(form.model, request["path"])
        count_operations(graph.model)
        if any(node.op_type in TURNING for node in nested(graph.model.graph.node)):
            session(graph.model).run(None, probe_inputs(graph.model, BATCH_PROBES[0]))
    except BfpgaError as error:
        return str(error).replace(request["path"], request["name"])
    except Exception as error:
        lines = str(error).splitlines() or [type(error).__name__]
        return f"{request['name']}: ONNX Runtime cannot run this network: {lines[0]}"
    return ""


def main() -> None:
    """Answer until the input ends."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    print("{}", file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        used = resource.getrusage(resource.RUSAGE_SELF)
        seconds = int(used.ru_utime + used.ru_stime + request["cpu"]) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.RLIM_INFINITY))
        print(json.dumps({"problem": problem(request)}), file=answers, flush=True)


if __name__ == "__main__":
    main()
