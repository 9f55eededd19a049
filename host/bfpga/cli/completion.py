"""What the shell offers after a Tab: names of what the package has. Files are offered where none of them fits."""

from __future__ import annotations

from collections.abc import Iterable


def _beginning(names: Iterable[str], typed: str) -> list[str]:
    return [name for name in names if name.startswith(typed)]


def complete_accelerator(incomplete: str) -> list[str]:
    """Ready accelerators, and what they are at the clock of the first light."""
    from bfpga.accelerator.loader import FIRST_LIGHT, accelerator_names

    names = accelerator_names()
    return _beginning([*names, *(name + FIRST_LIGHT for name in names if incomplete.startswith(name))], incomplete)


def complete_board(incomplete: str) -> list[str]:
    """Boards that are known."""
    from bfpga.accelerator.boards import names

    return _beginning(names("boards"), incomplete)


def complete_device(incomplete: str) -> list[str]:
    """Devices; of those in the network the word that precedes the address."""
    from bfpga.runtime import SIMULATIONS

    return _beginning(["emulator", *SIMULATIONS, "rtl", "virtual", "virtual:rtl", "board", "remote:"], incomplete)


def complete_model(incomplete: str) -> list[str]:
    """Networks that have a name."""
    from bfpga.compiler.read.named import network_names

    return _beginning(network_names(), incomplete)


def complete_trained(incomplete: str) -> list[str]:
    """Networks that are trained on this machine."""
    from bfpga.compiler.read.named import NAMED

    return _beginning([network.name for network in NAMED if network.trained], incomplete)


def complete_recipe(incomplete: str) -> list[str]:
    """Ready recipes."""
    from bfpga.accelerator.boards import names

    return _beginning(names("networks"), incomplete)
