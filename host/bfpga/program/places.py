"""Where layers of a program are computed."""

from __future__ import annotations

from bfpga.contract.configuration import ARRAY
from bfpga.contract.program import HostNode, Node

HOST = "host"
#: The array in tables and pictures, and its colour there.
ARRAY_TITLE, ARRAY_COLOUR = "array", "#0072b2"


def place_of(node: Node) -> str:
    """Where a node is computed: the name of the array, or `host`."""
    return HOST if isinstance(node, HostNode) else ARRAY
