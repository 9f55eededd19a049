"""The pragmas of Vitis HLS 2020.2 to 2025.x (AMD UG1399, chapter HLS pragmas), as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """What may stand behind an option's equals sign."""

    FLAG = "no value"
    NUMBER = "a number or a constant expression"
    VARIABLE = "variables that are visible here"
    PORT = "an argument of the function, or `return`"
    NAME = "a name"
    BOOLEAN = "true or false"


class Place(Enum):
    """Where a pragma may stand."""

    FUNCTION = "a function"
    LOOP = "a loop"


#: What an option takes: a kind of value, or one of these words.
Option = Kind | frozenset[str]


@dataclass(frozen=True)
class Specification:
    """A pragma: its options, those it needs (any one of each group), and the option a bare word belongs to."""

    options: Mapping[str, Option]
    needs: tuple[tuple[str, ...], ...] = ()
    bare: tuple[str, ...] = ()
    place: Place = Place.FUNCTION


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NUMBER, _FLAG, _VARIABLE, _PORT = Kind.NUMBER, Kind.FLAG, Kind.VARIABLE, Kind.PORT
_VARIABLE_NEEDED = (("variable",),)
_ARRAY_OPTIONS: dict[str, Option] = {
    "variable": _VARIABLE,
    "type": _words("cyclic block complete"),
    "factor": _NUMBER,
    "dim": _NUMBER,
    "off": Kind.BOOLEAN,
}
_OPERATIONS = _words(
    "add sub mul fadd fsub fmul fdiv fexp flog frecip frsqrt fsqrt dadd dsub dmul ddiv dexp dlog drecip drsqrt dsqrt "
    "hadd hsub hmul hdiv hsqrt facc fmacc fmadd srem urem sdiv udiv"
)
_STORAGE = _words("fifo ram_1p ram_1wnr ram_2p ram_s2p ram_t2p rom_1p rom_2p rom_np")
_STORAGE_IMPLEMENTATIONS = _words("auto autosrl bram bram_ecc lutram uram uram_ecc srl memory")
BLOCK_MODES = _words("ap_ctrl_none ap_ctrl_hs ap_ctrl_chain")
_PORT_MODES = _words(
    "ap_none ap_stable ap_vld ap_ack ap_hs ap_ovld ap_memory bram ap_fifo ap_auto s_axilite m_axi axis"
)

SPECIFICATIONS: dict[str, Specification] = {
    "AGGREGATE": Specification({"variable": _VARIABLE, "compact": _words("bit byte none auto")}, _VARIABLE_NEEDED),
    "ALIAS": Specification(
        {"ports": _PORT, "distance": _NUMBER, "offset": Kind.NAME}, (("ports",), ("distance", "offset"))
    ),
    "ALLOCATION": Specification(
        {"type": _words("function operation"), "instances": Kind.NAME, "limit": _NUMBER},
        (("type",), ("instances",), ("limit",)),
        ("type",),
    ),
    "ARRAY_PARTITION": Specification(_ARRAY_OPTIONS, _VARIABLE_NEEDED, ("type", "off")),
    "ARRAY_RESHAPE": Specification({**_ARRAY_OPTIONS, "object": _FLAG}, _VARIABLE_NEEDED, ("type", "off")),
    "ARRAY_STENCIL": Specification({"variable": _VARIABLE, "off": Kind.BOOLEAN}, _VARIABLE_NEEDED),
    "BIND_OP": Specification(
        {
            "variable": _VARIABLE,
            "op": _OPERATIONS,
            "impl": _words("auto none dsp fabric meddsp fulldsp maxdsp primitivedsp qadder"),
            "latency": _NUMBER,
        },
        (("variable",), ("op",)),
    ),
    "BIND_STORAGE": Specification(
        {"variable": _VARIABLE, "type": _STORAGE, "impl": _STORAGE_IMPLEMENTATIONS, "latency": _NUMBER},
        (("variable",), ("type",)),
    ),
    "CACHE": Specification(
        {"port": _PORT, "lines": _NUMBER, "depth": _NUMBER, "ports": _NUMBER, "l2_lines": _NUMBER}, (("port",),)
    ),
    "DATAFLOW": Specification({"disable_start_propagation": _FLAG}),
    "DEPENDENCE": Specification(
        {
            "variable": _VARIABLE,
            "class": _words("array pointer"),
            "type": _words("intra inter"),
            "direction": _words("raw war waw"),
            "distance": _NUMBER,
            "dependent": Kind.BOOLEAN,
        },
        (("variable", "class"), ("dependent",)),
        ("class", "type", "direction", "dependent"),
    ),
    "DISAGGREGATE": Specification({"variable": _VARIABLE}, _VARIABLE_NEEDED),
    "EXPRESSION_BALANCE": Specification({"off": _FLAG}),
    "FUNCTION_INSTANTIATE": Specification({"variable": _VARIABLE}, _VARIABLE_NEEDED),
    "INLINE": Specification({"off": _FLAG, "recursive": _FLAG}),
    "INTERFACE": Specification(
        {
            "mode": BLOCK_MODES | _PORT_MODES,
            "port": _PORT,
            "bundle": Kind.NAME,
            "register": _FLAG,
            "register_mode": _words("both forward reverse off"),
            "depth": _NUMBER,
            "offset": Kind.NAME,
            "clock": Kind.NAME,
            "name": Kind.NAME,
            "latency": _NUMBER,
            "direct_io": Kind.BOOLEAN,
            "interrupt": _NUMBER,
            "num_read_outstanding": _NUMBER,
            "num_write_outstanding": _NUMBER,
            "max_read_burst_length": _NUMBER,
            "max_write_burst_length": _NUMBER,
            "max_widen_bitwidth": _NUMBER,
            "channel": Kind.NAME,
            "storage_type": _STORAGE,
            "storage_impl": _STORAGE_IMPLEMENTATIONS,
        },
        (("mode",), ("port",)),
        ("mode",),
    ),
    "LATENCY": Specification({"min": _NUMBER, "max": _NUMBER}, (("min", "max"),)),
    "LOOP_FLATTEN": Specification({"off": _FLAG}, place=Place.LOOP),
    "LOOP_MERGE": Specification({"force": _FLAG}),
    "LOOP_TRIPCOUNT": Specification({"min": _NUMBER, "max": _NUMBER, "avg": _NUMBER}, (("max",),), place=Place.LOOP),
    "OCCURRENCE": Specification({"cycle": _NUMBER, "off": Kind.BOOLEAN}, (("cycle", "off"),)),
    "PERFORMANCE": Specification(
        {
            "target_ti": _NUMBER,
            "target_tl": _NUMBER,
            "assume_ti": _NUMBER,
            "assume_tl": _NUMBER,
            "unit": _words("sec cycle"),
        },
        (("target_ti", "target_tl", "assume_ti", "assume_tl"),),
    ),
    "PIPELINE": Specification(
        {"II": _NUMBER, "off": _FLAG, "rewind": _FLAG, "style": _words("stp frp flp")}, (("II", "off"),)
    ),
    "PROTOCOL": Specification({"mode": _words("fixed floating")}, (("mode",),), ("mode",)),
    "RESET": Specification({"variable": _VARIABLE, "off": _FLAG}, _VARIABLE_NEEDED),
    "STABLE": Specification({"variable": _VARIABLE}, _VARIABLE_NEEDED),
    "STREAM": Specification(
        {"variable": _VARIABLE, "depth": _NUMBER, "type": _words("fifo pipo shared unsync"), "off": Kind.BOOLEAN},
        _VARIABLE_NEEDED,
    ),
    "TOP": Specification({"name": Kind.NAME}, (("name",),)),
    "UNROLL": Specification({"factor": _NUMBER, "skip_exit_check": _FLAG, "off": Kind.BOOLEAN}, place=Place.LOOP),
}

#: Pragmas of Vivado HLS that Vitis HLS dropped -> what took their place.
REPLACED = {
    "ARRAY_MAP": "ARRAY_RESHAPE or one array",
    "DATA_PACK": "AGGREGATE",
    "RESOURCE": "BIND_STORAGE or BIND_OP",
    "CLOCK": "a clock of the project",
}

#: Pragmas that say what becomes of a loop in hardware.
SHAPING = _words("PIPELINE UNROLL DATAFLOW LOOP_FLATTEN LOOP_MERGE PERFORMANCE LATENCY")

#: Pragmas whose variable is an array; Vitis HLS ignores them on anything else.
OF_ARRAYS = _words("ARRAY_PARTITION ARRAY_RESHAPE BIND_STORAGE DEPENDENCE")
