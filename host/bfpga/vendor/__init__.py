"""What talks to AMD's tools: render, block design, handoff, Tcl check, lint, bitstream build."""
