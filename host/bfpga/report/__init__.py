"""Reports of a network on an accelerator as one HTML file: its content (typed), how it is drawn, the page."""
