"""HLS kernel templates and the header-only engine library; usable without the host package."""
