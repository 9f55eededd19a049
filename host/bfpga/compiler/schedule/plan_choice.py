"""Which weights stay on a skip array: the plan with which the starts take fewest cycles."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bfpga.compiler.schedule.weight_plan import NodeWeights, PlanKind, plan_weights
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.program import ArrayNode, LaunchStep
from bfpga.program.schedule import schedule

#: Plans of layers whose entries do not all fit the memory: these stay in many networks for a strip or a sample alone.
KINDS = (PlanKind(), PlanKind(small=False), PlanKind(residents=False))
#: Samples of a start by which plans are compared.
COMPARED_SAMPLES = 2

Plans = dict[str, NodeWeights]


def choose_plan(
    nodes: list[ArrayNode],
    config: KernelConfig,
    reserved: tuple[int, int],
    starts: Callable[[Plans], Sequence[LaunchStep]],
) -> Plans:
    """The plan of a network's nodes with the fastest starts; of an array with plain weights ``plan_weights``.

    reserved: as for ``plan_weights``. starts: those of copies of the nodes with a plan.
    """
    plans = plan_weights(nodes, config, reserved)
    if not config.array.stores_entries or all(plan.mode == "resident" for plan in plans.values()):
        return plans
    choices = [plans, *(plan_weights(nodes, config, reserved, kind) for kind in KINDS[1:])]
    return min(choices, key=lambda choice: _clocks(config, starts(choice)))


def _clocks(config: KernelConfig, starts: Sequence[LaunchStep]) -> int:
    return sum(schedule(config, start.operations, COMPARED_SAMPLES).clocks for start in starts)
