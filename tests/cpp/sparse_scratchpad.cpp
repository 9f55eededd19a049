// processes/scratchpad.hpp of kernels that skip zeros of activations: the same streams, and credits for segments of
// passes.
#define SPARSE_PADS
#include "scratchpad.cpp"
