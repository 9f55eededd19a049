"""One piece of work in many parts: in this process, on the processes of a machine, or on machines (docs/scale.md)."""
