"""The scripts of the vendor's tools, executed in plain `tclsh` against a model of the commands."""

from bfpga.vendor.finding import Finding
from bfpga.vendor.tcl_check.check import built_design, check_scripts
from bfpga.vendor.tcl_check.rules import RULES, format_findings

__all__ = ["RULES", "Finding", "built_design", "check_scripts", "format_findings"]
