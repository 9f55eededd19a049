"""Which of two arrays computes which layer, and the zeros that this rests on."""
