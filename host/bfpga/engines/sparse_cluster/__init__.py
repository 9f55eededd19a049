"""The sparse cluster: units that multiply non-zero activations."""
