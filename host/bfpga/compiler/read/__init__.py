"""ONNX file -> checked, simplified operator graph."""
