"""The output stage after every engine: functions, exponents, the collector of positions."""
