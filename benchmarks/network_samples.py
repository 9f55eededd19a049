"""Real samples of the networks in the folder of BFPGA_MODELS, in the shape that the model takes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
from accuracy import CALIBRATION_SAMPLES, Network, input_shape, scaled

Float32Array = npt.NDArray[np.float32]


def network_samples(network: Network, folder: Path, model: Path) -> tuple[Float32Array, Float32Array]:
    """(samples, calibration samples); without a file of its own, every second sample calibrates."""
    with np.load(folder / "data" / f"{network.data}.npz", allow_pickle=False) as file:
        x = scaled(file)
    calibration = x[::2]
    if network.calibration:
        with np.load(folder / "data" / f"{network.calibration}.npz", allow_pickle=False) as file:
            calibration = scaled(file)
    shape = input_shape(model)
    return x.reshape(-1, *shape), calibration[:CALIBRATION_SAMPLES].reshape(-1, *shape)
