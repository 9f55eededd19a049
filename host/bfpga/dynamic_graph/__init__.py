"""Define by run: operations that a Python program calls one by one, each computed on a device at once (docs/eager.md).

Nothing is known before the run: no network file, no calibration samples, no history. Every operation becomes a layer
of its own, and the exponent of its result is found by the operation that precedes it, from the data of the same pass
(FP 4.1). What the program does next may depend on the values it reads.
"""
