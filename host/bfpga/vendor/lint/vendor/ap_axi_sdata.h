// Declarations of the AXI-Stream beats, for parsing only.
#pragma once
#include <ap_int.h>

template <class T, int User, int Id, int Dest>
struct lint_axis {
    T data;
    ap_uint<8> keep;
    ap_uint<8> strb;
    ap_uint<1> last;
    ap_uint<8> user;
    ap_uint<8> id;
    ap_uint<8> dest;
};

template <int W, int User, int Id, int Dest>
using ap_axiu = lint_axis<ap_uint<W>, User, Id, Dest>;
template <int W, int User, int Id, int Dest>
using ap_axis = lint_axis<ap_int<W>, User, Id, Dest>;

namespace hls {
template <class T, int User = 0, int Id = 0, int Dest = 0>
using axis = lint_axis<T, User, Id, Dest>;
}  // namespace hls
