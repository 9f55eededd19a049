"""Arrays that behave like numpy's and whose operations run on a device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from numpy.lib.mixins import NDArrayOperatorsMixin

from bfpga.dynamic_graph.blocks import ArrayBlock
from bfpga.dynamic_graph.windows import Pair
from bfpga.formats.arrays import IntArray


class Operations(Protocol):
    """What computes for arrays: the operations that arrays, numpy and modules of PyTorch ask a session for.

    ``EagerRun`` has them all and says what each of them does. Operands are arrays of the session, or of numpy.
    """

    @property
    def device(self) -> str: ...
    def wrap(self, block: ArrayBlock) -> EagerArray: ...
    def rearranged(self, x: EagerArray, rearrange: Callable[[IntArray], IntArray]) -> EagerArray: ...

    def add(self, x: Any, y: Any) -> EagerArray: ...
    def subtract(self, x: Any, y: Any) -> EagerArray: ...
    def multiply(self, x: Any, y: Any) -> EagerArray: ...
    def scale(self, x: Any, factor: float) -> EagerArray: ...
    def matmul(self, x: Any, weights: Any) -> EagerArray: ...
    def linear(self, x: Any, weights: Any, bias: Any = None) -> EagerArray: ...
    def conv2d(
        self, x: Any, weights: Any, bias: Any = None, stride: Pair = 1, padding: Pair = 0, dilation: Pair = 1,
        groups: int = 1, function: Any = None,
    ) -> EagerArray: ...  # fmt: skip

    def relu(self, x: Any) -> EagerArray: ...
    def leaky_relu(self, x: Any, slope: float = 0.125) -> EagerArray: ...
    def sigmoid(self, x: Any) -> EagerArray: ...
    def tanh(self, x: Any) -> EagerArray: ...
    def clip(self, x: Any, low: float = 0.0, high: float = np.inf) -> EagerArray: ...
    def max_pool2d(self, x: Any, kernel: Pair, stride: Pair | None = None, padding: Pair = 0) -> EagerArray: ...
    def average_pool2d(self, x: Any, kernel: Pair, stride: Pair | None = None, padding: Pair = 0) -> EagerArray: ...

    def numpy_ufunc(self, function: np.ufunc, kind: str, inputs: Sequence[Any], options: Mapping[str, Any]) -> Any: ...
    def numpy_function(
        self, function: Callable[..., Any], inputs: Sequence[Any], options: Mapping[str, Any]
    ) -> Any: ...
    def on_host(self, name: str, compute: Callable[[], Any], operands: Sequence[EagerArray], reason: str) -> Any: ...


class EagerArray(NDArrayOperatorsMixin):
    """Values in block floating point, one exponent for all; never changed in place.

    run: the session it belongs to. Operators, methods and numpy's functions compute on the session's device;
    ``numpy.asarray`` reads the values as float32. numpy has a part in what the array cannot do (docs/eager.md).
    """

    def __init__(self, run: Operations, block: ArrayBlock) -> None:
        self.run = run
        self.block = block

    # What it is

    @property
    def mantissa(self) -> IntArray:
        """Integers of the array's shape."""
        return self.block.mantissa

    @property
    def exponent(self) -> int:
        """The exponent of all values."""
        return self.block.exponent

    @property
    def position(self) -> int:
        """Number of fraction bits, FP 2.1: the exponent with the sign turned."""
        return -self.block.exponent

    @property
    def shape(self) -> tuple[int, ...]:
        return self.mantissa.shape

    @property
    def ndim(self) -> int:
        return self.mantissa.ndim

    @property
    def size(self) -> int:
        return self.mantissa.size

    @property
    def dtype(self) -> np.dtype[np.float32]:
        """Type of the values as numpy reads them."""
        return np.dtype(np.float32)

    def numpy(self) -> npt.NDArray[np.float32]:
        """The values."""
        return self.block.decoded()

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("the values of an array in block floating point have to be computed: a copy is needed")
        return self.numpy().astype(dtype or np.float32, copy=False)

    def __len__(self) -> int:
        return len(self.mantissa)

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self)))

    def __float__(self) -> float:
        return float(self.item())

    def __bool__(self) -> bool:
        return bool(self.numpy())

    def item(self) -> float:
        """The value of an array of one element."""
        return float(self.numpy().item())

    def __repr__(self) -> str:
        return f"EagerArray({self.numpy()}, exponent={self.exponent}, device={self.run.device!r})"

    # Rearrangements

    def __getitem__(self, index: Any) -> Any:
        """Some of the values, at the same exponent; a single one as a float."""
        place = np.asarray(index) if isinstance(index, EagerArray) else index
        taken = self.mantissa[place]
        return (
            self.run.wrap(ArrayBlock(taken, self.exponent)) if np.ndim(taken) else float(np.ldexp(taken, self.exponent))
        )

    def reshape(self, *shape: int | tuple[int, ...]) -> EagerArray:
        """The values in order in another shape."""
        return self.run.rearranged(self, lambda mantissa: mantissa.reshape(*shape))

    def transpose(self, *axes: int | tuple[int, ...]) -> EagerArray:
        """Axes in another order, reversed without ``axes``."""
        return self.run.rearranged(self, lambda mantissa: mantissa.transpose(*axes))

    @property
    def T(self) -> EagerArray:  # noqa: N802  numpy's name
        return self.transpose()

    def flatten(self, first: int = 0) -> EagerArray:
        """Axes from ``first`` on as one."""
        return self.reshape(*self.shape[:first], -1)

    # Operations

    def relu(self) -> EagerArray:
        """See ``EagerRun.relu``."""
        return self.run.relu(self)

    def leaky_relu(self, slope: float = 0.125) -> EagerArray:
        """See ``EagerRun.leaky_relu``."""
        return self.run.leaky_relu(self, slope)

    def sigmoid(self) -> EagerArray:
        """See ``EagerRun.sigmoid``."""
        return self.run.sigmoid(self)

    def tanh(self) -> EagerArray:
        """See ``EagerRun.tanh``."""
        return self.run.tanh(self)

    def clip(self, low: float = 0.0, high: float = np.inf) -> EagerArray:
        """See ``EagerRun.clip``."""
        return self.run.clip(self, low, high)

    def conv2d(self, weights: Any, bias: Any = None, **options: Any) -> EagerArray:
        """See ``EagerRun.conv2d``."""
        return self.run.conv2d(self, weights, bias, **options)

    def max_pool2d(self, kernel: Pair, stride: Pair | None = None, padding: Pair = 0) -> EagerArray:
        """See ``EagerRun.max_pool2d``."""
        return self.run.max_pool2d(self, kernel, stride, padding)

    def average_pool2d(self, kernel: Pair, stride: Pair | None = None, padding: Pair = 0) -> EagerArray:
        """See ``EagerRun.average_pool2d``."""
        return self.run.average_pool2d(self, kernel, stride, padding)

    # numpy's protocol

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return self.run.numpy_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(
        self, function: Callable[..., Any], types: Any, inputs: Sequence[Any], options: Mapping[str, Any]
    ) -> Any:
        return self.run.numpy_function(function, inputs, options)

    def __iadd__(self, other: Any) -> Any:
        return self + other

    def __isub__(self, other: Any) -> Any:
        return self - other

    def __imul__(self, other: Any) -> Any:
        return self * other

    def __itruediv__(self, other: Any) -> Any:
        return self / other

    def __imatmul__(self, other: Any) -> Any:
        return self @ other

    def sum(self, axis: Any = None, keepdims: bool = False) -> Any:
        """Sum over axes, by numpy."""
        return np.sum(self, axis=axis, keepdims=keepdims)

    def mean(self, axis: Any = None, keepdims: bool = False) -> Any:
        """Mean over axes, by numpy."""
        return np.mean(self, axis=axis, keepdims=keepdims)

    def max(self, axis: Any = None, keepdims: bool = False) -> Any:
        """Largest value over axes, by numpy."""
        return np.max(self, axis=axis, keepdims=keepdims)

    def min(self, axis: Any = None, keepdims: bool = False) -> Any:
        """Smallest value over axes, by numpy."""
        return np.min(self, axis=axis, keepdims=keepdims)

    def argmax(self, axis: Any = None) -> Any:
        """Index of the largest value over an axis, by numpy."""
        return np.argmax(self, axis=axis)
