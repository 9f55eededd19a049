"""A small kernel with a systolic array and a skip array of activations, which several tests compile once."""

from __future__ import annotations

from dataclasses import replace

from activation_arrays import ACTIVATIONS

from bfpga.accelerator.variants import accelerator_around
from bfpga.contract.arrays.skip_array import TwoArrays

#: Both arrays have the numbers of one of them.
TWO_ARRAYS = replace(ACTIVATIONS, array=TwoArrays(chunk=16, queue=16, passes=2))
#: Around it, as random verification names its arrays.
WITH_TWO_ARRAYS = accelerator_around(TWO_ARRAYS, "random", "0" * 64)
