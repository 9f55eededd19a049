"""YAML to a validated description, rendering, estimates."""
