"""Reports of a network on an accelerator as one HTML file: what is told (typed), how it is drawn, the page."""
