"""ONNX to a calibrated, quantized, scheduled program."""
