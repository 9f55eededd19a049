"""Parts of a kernel whose layers the memories do not hold: the network is compiled again without them."""

from __future__ import annotations

from typing import Literal

from bfpga.errors import ModelError

#: Parts of a kernel by their keys that it may be used without.
Part = Literal["operand_weights", "row_columns", "residual_adds"]


class UnfitPartError(ModelError):
    """Layers of a part of the kernel that the memories do not hold as they are scheduled: without it they would do.

    part: the key of the part. The text says what does not fit.
    """

    def __init__(self, part: Part, text: str) -> None:
        super().__init__(text)
        self.part = part
