"""The IPs of accelerator `tiny` in Verilog: made once for the tests of all files, and kept as long as all that they
follow from stays what it is."""

from __future__ import annotations

import functools
import hashlib
import os
import pickle

from kept_synthesis import kept
from process_designs import TINY

from bfpga.accelerator.loader import load_accelerator
from bfpga.formats.cache import make_private
from bfpga.rtl.ip import IpVerilog, ip_verilog
from bfpga.rtl.kernel import made_of
from bfpga.synthesis.kept import kernel_files
from bfpga.vendor.kernel_ips import kernel_ips

ACCELERATOR = load_accelerator(TINY)
IPS = {ip.part: ip for ip in kernel_ips(ACCELERATOR.config)}


@functools.cache
def verilog(part: str) -> IpVerilog:
    path = kept() / f"tiny-{part}-{_content()}.pickle"
    if path.is_file():
        made: IpVerilog = pickle.loads(path.read_bytes())
        return made
    made = ip_verilog(ACCELERATOR, IPS[part], kernel_files(ACCELERATOR))
    make_private(path.parent)
    written = path.with_suffix(f".{os.getpid()}")
    written.write_bytes(pickle.dumps(made))
    written.replace(path)
    return made


@functools.cache
def _content() -> str:
    return hashlib.sha256("\0".join(made_of(ACCELERATOR)).encode()).hexdigest()[:32]
