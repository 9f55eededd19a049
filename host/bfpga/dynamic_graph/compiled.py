"""One operation compiled: an integer node and the kernel operations that compute it.

The compiler of whole networks does all of it, for a network of one layer (`network.quantize`, `network.schedule`).
"""

from __future__ import annotations

from dataclasses import dataclass

from bfpga.dynamic_graph.calls import RESULT, ArrayCall, operand_names
from bfpga.engines.configuration import SystolicConfig
from bfpga.errors import BfpgaError, ModelError
from bfpga.network.measuring import histogram_base
from bfpga.network.options import CompileOptions
from bfpga.network.policies import PolicyChoice
from bfpga.network.program import ArrayNode, KernelOperation, TensorSpec
from bfpga.network.quantize import quantize_layer
from bfpga.network.schedule import Scheduler
from bfpga.network.weight_formats import choose_format
from bfpga.network.weight_plan import plan_weights, setup_launch


@dataclass(eq=False)
class CompiledCall:
    """An operation ready to run; two objects are the same only if they are one.

    setup: loads the resident weights; starts: the kernel starts that follow, in order.
    """

    node: ArrayNode
    tensors: dict[str, TensorSpec]
    setup: list[KernelOperation]
    starts: list[list[KernelOperation]]


def compile_call(call: ArrayCall, config: SystolicConfig, options: CompileOptions) -> CompiledCall:
    """Quantize and schedule one operation; its exponent is found by what precedes it (FP R16, R17).

    ModelError with the operation and its shapes if the array's memories cannot hold even a part of it.
    """
    tensors = {
        name: TensorSpec(name, *block.mantissa.shape)
        for name, block in zip(operand_names(len(call.operands)), call.operands, strict=True)
    }
    tensors[RESULT] = TensorSpec(RESULT, *call.inner)
    try:
        node = _node(call, config, options)
        plans = plan_weights([node], config)
        steps = Scheduler(config, tensors, [node], plans, {RESULT}).run()
        setup = setup_launch([node], plans, config)
    except BfpgaError as error:
        shapes = " and ".join(str(block.mantissa.shape) for block in call.operands)
        raise ModelError(
            f"{call.layer.name}: cannot be computed on this accelerator, operands (height, width, channels) {shapes}, "
            f"result {call.inner}: {error}"
        ) from None
    return CompiledCall(node, tensors, setup.operations, [step.operations for step in steps])


def _node(call: ArrayCall, config: SystolicConfig, options: CompileOptions) -> ArrayNode:
    layer = call.layer
    policy = PolicyChoice(config, options, {}, [layer]).of(layer)
    choice = choose_format(layer, config, options, options.weights)
    node, _ = quantize_layer(layer, config, policy, None, options.weights, choice.weight_format)
    node.policy.base = histogram_base(node, config)
    return node
