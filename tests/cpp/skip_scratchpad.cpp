// processes/scratchpad.hpp of kernels with a skip array: the same streams, and credits for chunks of windows.
#define SKIP_PADS
#include "scratchpad.cpp"
