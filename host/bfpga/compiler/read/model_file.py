"""An ONNX file and its external weights, read within bounds and from the model's own directory only."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from pathlib import Path

import onnx
from onnx import AttributeProto, GraphProto, ModelProto, TensorProto, external_data_helper, helper, numpy_helper

from bfpga.compiler.read.named import model_path
from bfpga.errors import ModelError
from bfpga.formats.files import first_line, printable, regular_file

#: Protocol Buffers hold no larger message, and every library below takes a model as one.
LARGEST_MODEL = (1 << 31) - 1


def read_model(path: Path) -> ModelProto:
    """The model with all its weights; ModelError for what is no whole ONNX file, and for weights outside its folder."""
    model = _parsed(path)
    if not model.graph.node:
        raise ModelError(f"{path}: the graph is empty: it has no operator (a truncated file, or not an ONNX network)")
    _load_external(model, path)
    for tensor in tensors(model):
        _check_tensor(tensor, path)
    return model


def external_files(path: Path) -> list[Path]:
    """The files next to a model (a path or a name) that hold its weights; ModelError for what is no ONNX file."""
    path = model_path(path)
    locations = {
        item.value for tensor in tensors(_parsed(path)) for item in tensor.external_data if item.key == "location"
    }
    return [path.parent / location for location in sorted(locations)]


def _parsed(path: Path) -> ModelProto:
    reason = regular_file(path)
    if reason:
        raise ModelError(f"{path}: cannot read the network file: {reason}")
    if path.stat().st_size > LARGEST_MODEL:
        raise ModelError(f"{path}: has {path.stat().st_size:,} bytes; an ONNX file has {LARGEST_MODEL:,} at most")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ModelError(f"{path}: cannot read the network file: {error.strerror or error}") from None
    try:
        return onnx.load_model_from_string(data)
    except Exception:
        raise ModelError(f"{path}: not an ONNX file, or a truncated one ({len(data)} bytes)") from None


def tensors(model: ModelProto) -> Iterator[TensorProto]:
    """All tensors of a model: initializers and attributes of its graph, its subgraphs and its functions."""
    yield from _graph_tensors(model.graph)
    for function in model.functions:
        for node in function.node:
            yield from _attribute_tensors(node)


def _graph_tensors(graph: GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        yield from _attribute_tensors(node)


def _attribute_tensors(node: onnx.NodeProto) -> Iterator[TensorProto]:
    for item in node.attribute:
        if item.type == AttributeProto.TENSOR:
            yield item.t
        elif item.type == AttributeProto.TENSORS:
            yield from item.tensors
        for graph in [item.g] if item.type == AttributeProto.GRAPH else item.graphs:
            yield from _graph_tensors(graph)


def _load_external(model: ModelProto, path: Path) -> None:
    external = [tensor for tensor in tensors(model) if external_data_helper.uses_external_data(tensor)]
    sizes = [_check_external(tensor, path) for tensor in external]
    total = model.ByteSize() + sum(sizes)
    if total > LARGEST_MODEL:
        raise ModelError(f"{path}: has {total:,} bytes with its weights; {LARGEST_MODEL:,} at most are possible")
    for tensor in external:
        try:
            external_data_helper.load_external_data_for_tensor(tensor, str(path.parent.resolve()))
        except Exception as error:
            raise _damaged(path, tensor, first_line(error)) from None
        tensor.data_location = TensorProto.DEFAULT
        del tensor.external_data[:]


def _check_external(tensor: TensorProto, path: Path) -> int:
    """Bytes of external weights; ModelError unless they are in a regular file of the model's folder, all of them."""
    entries = {item.key: item.value for item in tensor.external_data}
    location = entries.get("location", "")
    folder = path.parent.resolve()
    if not location or "\0" in location:
        raise _damaged(path, tensor, "no file is named")
    file = (folder / location).resolve()
    if not file.is_relative_to(folder):
        raise _damaged(path, tensor, f"{location!r} leads out of the model's folder")
    reason = regular_file(file)
    if reason:
        raise _damaged(path, tensor, f"{location!r}: {reason}")
    try:
        offset, length = int(entries.get("offset") or 0), int(entries.get("length") or 0)
    except ValueError:
        raise _damaged(path, tensor, "offset and length must be numbers") from None
    size = _bytes_of(tensor, path)
    if offset < 0 or length not in (0, size) or offset + size > file.stat().st_size:
        have = file.stat().st_size
        raise _damaged(path, tensor, f"bytes {offset} to {offset + size} are wanted of {location!r}, which has {have}")
    entries = {"location": location, "offset": str(offset), "length": str(size)}
    del tensor.external_data[:]
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    return size


def _bytes_of(tensor: TensorProto, path: Path) -> int:
    if any(size < 0 for size in tensor.dims):
        raise _damaged(path, tensor, f"the shape is {tuple(tensor.dims)}")
    try:
        kind = helper.tensor_dtype_to_np_dtype(tensor.data_type)
    except (KeyError, ValueError, TypeError):
        raise _damaged(path, tensor, f"type {tensor.data_type} is unknown") from None
    size: int = prod(tensor.dims) * kind.itemsize
    return size


def _check_tensor(tensor: TensorProto, path: Path) -> None:
    """Elements of a tensor are as many as its shape says."""
    _bytes_of(tensor, path)
    try:
        numpy_helper.to_array(tensor)
    except Exception as error:
        raise _damaged(path, tensor, first_line(error)) from None


def _damaged(path: Path, tensor: TensorProto, reason: str) -> ModelError:
    where = "external weight data is" if tensor.external_data else "weights are"
    return ModelError(f"{path}: {where} missing or damaged: {printable(tensor.name) or 'a constant'}: {reason}")
