"""The scripts of the vendor's tools, run in plain `tclsh` and compared with golden scripts; rules on the design."""

from bfpga.vendor.finding import Finding
from bfpga.vendor.tcl_check.check import RULES, check_scripts, format_findings

__all__ = ["RULES", "Finding", "check_scripts", "format_findings"]
