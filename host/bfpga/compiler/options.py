"""What a recipe may choose about formats, exponents and engines (BFP R36, SC R10-R13)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, get_args

from bfpga.compiler.policy_names import PolicyName
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.flows import Flow, bears_samples
from bfpga.contract.limits import RING_LEADS, STATISTICS_WINDOW_BITS, WORD_MAX
from bfpga.errors import ConfigurationError

#: Formats of weights; ``auto`` chooses for each layer by the error of its weights and by its cycles.
FormatChoice = Literal["auto", "linear", "two_hot", "power_of_two"]
#: Of two arrays the one that a layer may ask for; ``auto`` leaves it to the rule ``dispatch``.
EngineChoice = Literal["auto", "systolic_array"]
#: How ``auto`` chooses: by predicted cycles, by the majority of an input's zeros, or by two limits with cycles between.
DispatchRule = Literal["cost", "majority", "band"]
#: How statistics of results become an exponent, for ``dynamic`` and ``delayed`` (FP 2.3).
RuleName = Literal["rate", "max", "lsb", "window", "lead"]

#: Parts that results and weights may have.
RESULT_PARTS, WEIGHT_PARTS = (1, 2, 4), (1, 2)

#: Values of the largest window that the kernel's statistics unit counts.
LARGEST_WINDOW = 1 << STATISTICS_WINDOW_BITS
#: Policies that fix every exponent before the run.
STATIC_POLICIES = ("auto", "static", "known_range", "lookup")


@dataclass(frozen=True)
class LayerOptions:
    """How the output exponent, the weights' format and the engine of a layer are chosen.

    policy: ``auto`` is ``static`` with calibration samples and ``max`` without.
    k: factor of the standard deviation for ``stats``, in quarters; window: values (a power of two) for ``stats``, or
    1 to 8 results for ``rolling_max``; limit: overflows that ``feedback`` tolerates; range: the largest magnitude for
    ``known_range``; exponent: the entry of ``lookup``.
    formats: how the weights are held, where the array offers a choice; with ``auto`` a faster format is taken if the
    layer's sums keep ``weight_snr_db`` of signal to noise (without samples: its weights).
    margin: head room of exponents that are found or predicted while the network runs, by any policy and rule.
    flow, sample, rule, rate: of ``dynamic``, whose exponent is found by an operation that precedes the layer:
    what that measures (every ``sample``-th row) and keeps, how its statistics become an exponent, log2 of the values of
    which one may saturate. ``delayed`` applies the rule to the results of the run before. A rule of None
    is ``rate``, and ``lead`` on an accelerator without ``position_bins``; a flow of None is ``two_pass_sampled`` for
    rule ``rate``, else ``two_pass``: a sample may miss the largest value, and only a rule that lets a few values
    saturate in any case can live with that.
    engine: where the layer is computed, on accelerators with two arrays. dispatch: how ``auto`` chooses it; for
    ``band`` inputs with ``band_sparse`` percent of zeros or more are sparse, up to ``band_dense`` they are dense.
    result_parts, weight_parts: mantissas that hold each result, or each weight, together (docs/mixed-precision.md).
    """

    policy: PolicyName = "auto"
    k: float = 3.0
    window: int = 1024
    history: int = 4
    limit: int = 0
    range: float | None = None
    exponent: int | None = None
    formats: FormatChoice = "auto"
    weight_snr_db: float = 25.0
    flow: Flow | None = None
    sample: int = 8
    rule: RuleName | None = None
    rate: int = 12
    margin: int = 0
    engine: EngineChoice = "auto"
    dispatch: DispatchRule = "cost"
    band_dense: float = 40.0
    band_sparse: float = 80.0
    result_parts: int = 1
    weight_parts: int = 1

    def __post_init__(self) -> None:
        named = {"formats": FormatChoice, "engine": EngineChoice, "dispatch": DispatchRule}
        for key, choices in (named | {"flow": Flow, "rule": RuleName}).items():
            value = getattr(self, key)
            if value not in get_args(choices) and not (value is None and key in ("flow", "rule")):
                known = ", ".join(get_args(choices))
                raise ConfigurationError(f"{key} {value!r} is unknown; known are {known}")
        if not 0 <= self.weight_snr_db <= 100:
            raise ConfigurationError(f"weight_snr_db = {self.weight_snr_db} is not between 0 and 100")
        if self.policy not in get_args(PolicyName):
            raise ConfigurationError(f"policy {self.policy!r} is unknown; known are {', '.join(get_args(PolicyName))}")
        if not (0 < self.k <= 16 and float(self.k * 4).is_integer()):
            raise ConfigurationError(f"k = {self.k} is not a quarter between 0.25 and 16")
        if self.window < 1 or self.window & (self.window - 1) or self.window > LARGEST_WINDOW:
            raise ConfigurationError(f"window = {self.window} is not a power of two up to {LARGEST_WINDOW}")
        if not 1 <= self.history <= RING_LEADS:
            raise ConfigurationError(f"history = {self.history} is not between 1 and {RING_LEADS} results")
        for key, low, high in (("sample", 1, 64), ("rate", 0, 16), ("margin", 0, 15)):
            if not low <= getattr(self, key) <= high:
                raise ConfigurationError(f"{key} = {getattr(self, key)} is not between {low} and {high}")
        for key, counts in (("result_parts", RESULT_PARTS), ("weight_parts", WEIGHT_PARTS)):
            if getattr(self, key) not in counts:
                known = " or ".join(map(str, counts))
                raise ConfigurationError(f"{key} = {getattr(self, key)!r} is not a number of parts: {known}")
        if not 0 <= self.limit <= WORD_MAX:
            raise ConfigurationError(f"limit = {self.limit} is not a number of overflows between 0 and {WORD_MAX}")
        if self.range is not None and not self.range > 0:
            raise ConfigurationError(f"range = {self.range} is not a positive magnitude")
        if not 0 <= self.band_dense <= 100:
            raise ConfigurationError(f"band_dense = {self.band_dense} is not a percentage")
        if not self.band_dense < self.band_sparse <= 100:
            raise ConfigurationError(
                f"band_sparse = {self.band_sparse} is not a percentage above band_dense = {self.band_dense}"
            )


def position_rule(given: RuleName | None, config: KernelConfig) -> RuleName:
    """The rule of ``dynamic`` that an accelerator follows where none or this one is asked for."""
    return given or ("rate" if config.position_bins else "lead")


def position_flow(given: Flow | None, rule: RuleName) -> Flow:
    """The flow of ``dynamic`` that fits a rule, or the one asked for."""
    return given or ("two_pass_sampled" if bears_samples(rule) else "two_pass")


@dataclass(frozen=True)
class CompileOptions(LayerOptions):
    """Options of a whole network; ``layers`` overrides them by layer name or output name.

    exponents: static exponents with the least mean squared error (``mse``) or without any overflow (``max``).
    weights: the same choice for weight rows. bias_correction: the mean error that quantized weights cause on the
    calibration samples is taken out of the biases. compensation: weights compensate each other's errors,
    as the calibration samples show how. equalize: channels of one tensor may be scaled by powers of two.
    fill_mantissas: tensors may be scaled by a factor that is no power of two, where only layers read them.
    remainders: what rounding takes from images that enter the network is kept in channels of its own, or the images are
    in parts where weights have few bits; ``auto``: as far as lanes of their words are idle.
    cheap_parts: results of one pixel are held in several parts where that takes few cycles.
    side_by_side: samples that one kernel start computes together, one a column (networks of fully connected and
    recurrent layers).
    recurrent: products and gates of RNN, GRU and LSTM are layers of the array step by step, or the host computes them;
    auto: the latter where steps would leave it more work.
    count_zeros: zeros of activations are counted on the calibration samples, for arrays that skip them.
    """

    exponents: Literal["mse", "max"] = "mse"
    weights: Literal["mse", "max"] = "mse"
    bias_correction: bool = True
    compensation: bool = True
    equalize: bool = True
    fill_mantissas: bool = True
    remainders: Literal["auto", "always", "never"] = "auto"
    cheap_parts: bool = False
    side_by_side: int = 1
    recurrent: Literal["auto", "array", "host"] = "auto"
    count_zeros: bool = True
    layers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        for key in ("exponents", "weights"):
            if getattr(self, key) not in ("mse", "max"):
                raise ConfigurationError(f"{key} = {getattr(self, key)!r} is unknown; known are mse and max")
        if self.remainders not in ("auto", "always", "never"):
            raise ConfigurationError(f"remainders = {self.remainders!r} is unknown; known are auto, always and never")
        if self.recurrent not in ("auto", "array", "host"):
            raise ConfigurationError(f"recurrent = {self.recurrent!r} is unknown; known are auto, array and host")
        if self.side_by_side < 1:
            raise ConfigurationError(f"side_by_side = {self.side_by_side}; it is a number of samples, 1 at least")
        if self.side_by_side > 1 and self.policy not in STATIC_POLICIES:
            raise ConfigurationError(
                f"samples side by side share one exponent, so it must not depend on them: policy {self.policy!r} does; "
                f"choose one of {', '.join(STATIC_POLICIES)}"
            )
        for name in self.layers:
            self.layer(name)

    def layer(self, *names: str) -> LayerOptions:
        """Options of the layer known by any of the names.

        Raises ConfigurationError for options that layers do not have.
        """
        known = {item.name for item in fields(LayerOptions)}
        options = LayerOptions(**{name: getattr(self, name) for name in known})
        for name in names:
            values = dict(self.layers.get(name, {}))
            unknown = sorted(set(values) - known)
            if unknown:
                raise ConfigurationError(
                    f"layer {name}: option {unknown[0]!r} is unknown; known are {', '.join(sorted(known))}"
                )
            options = replace(options, **values)
        return options
