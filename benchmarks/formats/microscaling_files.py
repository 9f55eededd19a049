"""A small network in formats of blocks as AMD Quark exports it, and numbers in blocks by Microsoft's emulation library.

    python -m benchmarks.formats.microscaling_files [-o FOLDER]

Needs `amd-quark` (0.13 here), PyTorch, a C++ compiler, and the repository github.com/microsoft/microxcaling on
PYTHONPATH, none of which anything else needs. It made tests/data/microscaling: results of the exported networks are
those of Quark's own operators in ONNX Runtime.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.common.command import ROOT

FOLDER = ROOT / "tests" / "data" / "microscaling"
#: Presets of Quark.
PRESETS = ("BFP16", "MXINT8", "MXFP8E4M3", "MXFP6E3M2", "MXFP4E2M1")
ELEMENTS = ("int8", "int4", "fp8_e5m2", "fp8_e4m3", "fp6_e3m2", "fp6_e2m3", "fp4_e2m1")
BLOCKS = (8, 16, 32)


def network() -> onnx.ModelProto:
    """Two convolutions and a dense layer; 36 channels are more than a block and less than two."""
    generator = np.random.default_rng(5)

    def constant(name: str, *shape: int) -> TensorProto:
        return numpy_helper.from_array(generator.normal(scale=0.3, size=shape).astype(np.float32), name)

    constants = [constant("w1", 36, 3, 3, 3), constant("b1", 36), constant("w2", 12, 36, 1, 1), constant("b2", 12),
                 constant("w3", 12, 10), constant("b3", 10)]  # fmt: skip
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["a"], "conv1", pads=[1] * 4),
        helper.make_node("Relu", ["a"], ["b"], "relu1"),
        helper.make_node("Conv", ["b", "w2", "b2"], ["c"], "conv2"),
        helper.make_node("Relu", ["c"], ["d"], "relu2"),
        helper.make_node("GlobalAveragePool", ["d"], ["e"], "average"),
        helper.make_node("Flatten", ["e"], ["f"], "flatten"),
        helper.make_node("Gemm", ["f", "w3", "b3"], ["y"], "dense"),
    ]
    ends = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, 8, 8]),
            helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 10])]  # fmt: skip
    graph = helper.make_graph(nodes, "blocks", ends[:1], ends[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class Samples:
    """What Quark calibrates with."""

    def __init__(self, x: Any) -> None:
        self.left: Iterator[dict[str, Any]] = iter([{"x": sample[None]} for sample in x])

    def get_next(self) -> dict[str, Any] | None:
        return next(self.left, None)


def exported(folder: Path) -> dict[str, Any]:
    """Write the network in every preset; samples and results by name."""
    import onnxruntime
    from quark.onnx import Config, ModelQuantizer
    from quark.onnx.operators.custom_ops import get_library_path
    from quark.onnx.quantization.config import get_default_config

    x = np.random.default_rng(9).normal(size=(4, 3, 8, 8)).astype(np.float32)
    results = {"x": x}
    source = folder / "float.onnx"
    onnx.save(network(), source)
    for preset in PRESETS:
        path = folder / f"quark_{preset.lower()}.onnx"
        configuration = Config(global_quant_config=get_default_config(preset))
        ModelQuantizer(configuration).quantize_model(str(source), str(path), Samples(x[:2]))
        options = onnxruntime.SessionOptions()
        options.register_custom_ops_library(get_library_path())
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        (results[preset.lower()],) = session.run(None, {"x": x})
    source.unlink()
    return results


def rounded() -> dict[str, Any]:
    """Numbers of all sizes, ties among them, and what blocks along their second axis keep."""
    import torch
    from mx.mx_ops import _quantize_mx

    generator = np.random.default_rng(3)
    numbers = generator.normal(size=(4, 72, 2)) * 2.0 ** generator.integers(-12, 12, size=(4, 72, 2))
    numbers[0, :, 0] = 0
    numbers[1] = generator.integers(-130, 130, size=(72, 2)) / 2
    numbers[2, ::3] = np.round(numbers[2, ::3] * 4) / 4
    numbers[3, :, 1] = generator.normal(size=72)
    results = {"numbers": numbers.astype(np.float32)}
    for element in ELEMENTS:
        for block in BLOCKS:
            found = _quantize_mx(
                torch.tensor(results["numbers"]), 8, element, shared_exp_method="max", axes=[1], block_size=block,
                round="even", flush_fp32_subnorms=False,
            )  # fmt: skip
            results[f"{element}_{block}"] = found.numpy()
    return results


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, default=FOLDER, help="folder that gets the files")
    folder: Path = parser.parse_args(given).output
    folder.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(folder / "answers.npz", **exported(folder), **rounded())
    return 0


if __name__ == "__main__":
    sys.exit(main())
