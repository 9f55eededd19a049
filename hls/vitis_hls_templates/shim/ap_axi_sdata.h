// Beats of AXI streams outside the vendor's tool, under the vendor's names: as much of `ap_axiu` as the kernel uses.
#pragma once
#include "bfpga/numeric/types.hpp"

// A beat of `Bits` bits with TKEEP, TSTRB and TLAST, without TUSER, TID and TDEST.
template <int Bits, int User, int Id, int Dest>
struct ap_axiu {
    static_assert(User == 0 && Id == 0 && Dest == 0, "the kernel's beats have no TUSER, TID and TDEST");
    bfpga::bits_t<Bits> data;
    bfpga::bits_t<Bits / 8> keep;
    bfpga::bits_t<Bits / 8> strb;
    bool last;
};
