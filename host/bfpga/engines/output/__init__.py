"""The output stage behind every engine: functions, exponents, what collects positions."""
