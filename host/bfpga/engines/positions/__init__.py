"""Positions (exponents) found from data by a preceding operation: times, flows, samples, pipelines."""
