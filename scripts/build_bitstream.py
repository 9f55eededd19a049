#!/usr/bin/env python3
"""`bfpga build` of this clone: from an accelerator to an overlay with bitstream; see docs/build-bitstream.md."""

import sys

from bfpga.cli import main

if __name__ == "__main__":
    sys.exit(main(["build", *sys.argv[1:]]))
