#!/usr/bin/env bash
# The main job from a fresh clone: LeNet on real MNIST digits, compiled for a PYNQ-Z2 accelerator, run in the bit-exact
# emulator and in the C simulation of the rendered kernels, both compared bit by bit.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/environment.sh

prepare_environment
bfpga run examples/models/lenet_mnist.onnx --accelerator pynq_z2_dense --data examples/models/mnist_test.npz \
    --calibration examples/models/mnist_calibration.npz --device csim --compare

cat <<'END'

That was: ONNX -> program -> C simulation of the kernels, equal to the emulator bit by bit.
Next (. .venv/bin/activate first):
  bfpga evaluate examples/models/lenet_mnist.onnx -a pynq_z2_dense -d examples/models/mnist_test.npz \
      -c examples/models/mnist_calibration.npz
  bfpga estimate pynq_z2_dense examples/models/lenet_mnist.onnx
  bfpga --help
END
