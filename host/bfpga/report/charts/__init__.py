"""Charts of a report as Vega-Lite, each from the typed figures that it shows."""
