#!/usr/bin/env python3
"""`bfpga deploy` of this clone: an overlay, programs and the board-side package to a board; see docs/board.md."""

import sys

from bfpga.cli import main

if __name__ == "__main__":
    sys.exit(main(["deploy", *sys.argv[1:]]))
