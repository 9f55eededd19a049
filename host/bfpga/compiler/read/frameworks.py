"""Networks of PyTorch and Keras, exported to ONNX by their own exporters and read as any file is.

Neither package is imported before a network of it is given.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import logging
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from bfpga.compiler.options import CompileOptions
from bfpga.compiler.read.network import Network, read_network
from bfpga.errors import ModelError, ToolError

#: What a module has that was prepared for fine-tuning: the options that its numbers were trained with, and the module
#: that is exported in its place.
OPTIONS, DEPLOYED = "bfpga_options", "bfpga_deployed"
#: Of the older exporter; the newest operators that all readers of its files know.
LEGACY_OPSET = 17
#: Samples of an example: with one, `torch.export` would take the batch for a constant.
EXAMPLE_SAMPLES = 2


def framework_of(model: object) -> str:
    """`torch` or `keras` for a network of these packages, else empty; imports neither."""
    modules = {kind.__module__.split(".")[0]: kind for kind in reversed(type(model).__mro__)}
    if "torch" in modules and hasattr(model, "forward"):
        return "torch"
    return "keras" if {"keras", "tf_keras"} & set(modules) and hasattr(model, "export") else ""


def framework_network(model: Any, example_inputs: Any = None) -> Network:
    """The network of a ``torch.nn.Module`` or a Keras model; see ``export_network``."""
    with tempfile.TemporaryDirectory(prefix="bfpga-") as folder:
        path = Path(folder) / f"{type(model).__name__.lower()}.onnx"
        return read_network(export_network(model, path, example_inputs))


def trained_options(model: Any, options: CompileOptions | None) -> CompileOptions | None:
    """The options given, or those that a prepared module was trained with."""
    return options if options is not None else getattr(model, OPTIONS, None)


def export_network(model: Any, path: str | Path, example_inputs: Any = None) -> Path:
    """Write a ``torch.nn.Module`` or a Keras model to an ONNX file in evaluation mode, the batch open.

    example_inputs: of PyTorch one array or tensor (samples, ...), several in a sequence, or by name; Keras needs none.
    Raises ToolError if the exporter is missing, ModelError if it fails or if no example is given.
    """
    target = Path(path)
    framework = framework_of(model)
    if framework == "torch":
        _export_torch(model, target, example_inputs)
    elif framework == "keras":
        _export_keras(model, target)
    else:
        kind = type(model).__name__
        raise ModelError(f"a network is an ONNX file, a torch.nn.Module or a Keras model; this is a {kind}")
    return target


# PyTorch


def _export_torch(module: Any, path: Path, example_inputs: Any) -> None:
    torch: Any = import_module("torch")
    example = _example(module, example_inputs, torch)
    deployed = module.bfpga_deployed() if hasattr(module, DEPLOYED) else module
    ways = [_by_script] if deployed is not module or find_spec("onnxscript") is None else [_by_graph, _by_script]
    failures = []
    with _evaluating(deployed), torch.no_grad():
        for way in ways:
            try:
                with _quiet():
                    way(deployed, example, path, torch)
                return
            except ModuleNotFoundError as error:
                raise ToolError(
                    f"PyTorch's exporter needs {error.name}, which is not installed: pip install 'bfpga[torch]'"
                ) from None
            except Exception as error:
                path.unlink(missing_ok=True)
                failures.append(f"{way.__doc__}: {_first_line(error)}")
    raise ModelError(f"{type(module).__name__} cannot be exported to ONNX. " + "; ".join(failures))


def _by_graph(module: Any, example: dict[str, Any], path: Path, torch: Any) -> None:
    """torch.onnx.export(dynamo=True)"""
    batch = torch.export.Dim("batch", min=1)
    torch.onnx.export(
        module, tuple(example.values()), str(path), dynamo=True, external_data=False, verbose=False,
        input_names=list(example), dynamic_shapes=tuple({0: batch} for _ in example),
    )  # fmt: skip


def _by_script(module: Any, example: dict[str, Any], path: Path, torch: Any) -> None:
    """torch.onnx.export(dynamo=False)"""
    torch.onnx.export(
        module, tuple(example.values()), str(path), dynamo=False, opset_version=LEGACY_OPSET,
        input_names=list(example), output_names=["y"], dynamic_axes={name: {0: "N"} for name in (*example, "y")},
    )  # fmt: skip


def _example(module: Any, given: Any, torch: Any) -> dict[str, Any]:
    """A tensor of a few samples for each argument, by the name that the input gets."""
    if given is None:
        raise ModelError(
            "PyTorch's exporter runs the module: give calibration samples, or example_inputs=numpy.zeros((1, ...))"
        )
    signature = inspect.signature(module.forward).parameters.values()
    names = [item.name for item in signature if item.kind in (item.POSITIONAL_ONLY, item.POSITIONAL_OR_KEYWORD)]
    if isinstance(given, Mapping):
        missing = [name for name in given if name not in names]
        if missing:
            raise ModelError(f"the module has no argument {missing[0]!r}; it has {', '.join(names)}")
        arrays = {name: given[name] for name in names if name in given}
    else:
        several = list(given) if isinstance(given, Sequence) and not np.isscalar(given[0]) else [given]
        arrays = dict(zip(names, several, strict=False)) if len(several) > 1 else {"x": several[0]}
    like = next((item for item in module.parameters() if item.is_floating_point()), None)
    return {name: _samples(value, torch, like) for name, value in arrays.items()}


def _samples(value: Any, torch: Any, like: Any) -> Any:
    tensor = torch.as_tensor(value)
    if tensor.ndim == 0 or len(tensor) == 0:
        raise ModelError("an example input has no samples: its first axis is the batch")
    tensor = tensor[torch.arange(EXAMPLE_SAMPLES) % len(tensor)]
    return tensor.to(like) if tensor.is_floating_point() and like is not None else tensor


@contextlib.contextmanager
def _evaluating(module: Any) -> Iterator[None]:
    """The module in evaluation mode; every part has its own mode again afterwards."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


# Keras


def _export_keras(model: Any, path: Path) -> None:
    inputs = getattr(model, "inputs", None)
    if not inputs:
        raise ModelError(f"the Keras model {model.name} has no input shape yet: call it, or give it an Input")
    try:
        with _quiet():
            zeros = [np.zeros([size or 1 for size in item.shape], item.dtype) for item in inputs]
            model(zeros if len(zeros) > 1 else zeros[0])  # models that never ran are not exported
            model.export(str(path), format="onnx", verbose=False)
    except ModuleNotFoundError as error:
        raise ToolError(_keras_needs(error.name)) from None
    except Exception as error:
        path.unlink(missing_ok=True)
        missing = next((name for name in ("tf2onnx", "onnxscript") if name in str(error)), "")
        if missing and find_spec(missing) is None:
            raise ToolError(_keras_needs(missing)) from None
        raise ModelError(f"{model.name} cannot be exported to ONNX. Keras: {_first_line(error)}") from None


def _keras_needs(name: str | None) -> str:
    return f"Keras' exporter needs {name}, which is not installed: pip install 'bfpga[keras]'"


# Both


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without what exporters print: steps that succeeded, and warnings about their own future."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
