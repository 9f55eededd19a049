"""What is used of PyTorch; ToolError where it is not installed."""

from __future__ import annotations

from bfpga.errors import ToolError

try:
    import torch
    from torch import Tensor, fx, nn
    from torch.fx.passes.shape_prop import ShapeProp
    from torch.nn import functional
    from torch.nn.utils import fusion
except ModuleNotFoundError:
    raise ToolError("fine-tuning needs PyTorch, which is not installed: pip install 'bfpga[torch]'") from None

__all__ = ["ShapeProp", "Tensor", "functional", "fusion", "fx", "nn", "torch"]
