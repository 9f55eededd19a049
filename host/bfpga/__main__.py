"""`python -m bfpga`: the command line."""

import sys

from bfpga.cli import main

if __name__ == "__main__":
    sys.exit(main())
