// Cells that the outputs of a piece need beyond its own limits: those of a halo, along one axis (SC R29).
//
// Limits of pieces are lines of the map in both forms. With overlap-add a piece has the cells between its limits, and
// all sums of these are taken. With halo it owns outputs: cell l of the map maps to line l + `below` of the full grid,
// the sum of the cells from `above` lines before l to `below` lines after it. So pieces at the border of the map have
// half of a halo, others a kernel's lines but one.
#pragma once
#include "bfpga/processes/sparse_cluster/work_table.hpp"

namespace bfpga {

// `Kernel`: lines of the largest kernel.
template <class Config, int Kernel>
class Halo {
    static constexpr int halo_bits = bit_length(Kernel);
    using halo_t = uint_t<halo_bits>;

   public:
    Halo() : lines_(0), above_(0), below_(0) {}

    // Lines of the map, and of the kernel that it meets: a kernel of one line needs no halo (SC R31).
    void set(line_t lines, line_t kernel) {
#pragma HLS INLINE
        lines_ = lines;
        below_ = static_cast<halo_t>((kernel - 1) >> 1);
        above_ = static_cast<halo_t>(kernel >> 1);
    }

    // The first cell that outputs after a limit need, and the end of those that outputs before it need.
    line_t first(line_t limit) const {
#pragma HLS INLINE
        return !Config::halo ? limit : limit > above_ ? static_cast<line_t>(limit - above_) : static_cast<line_t>(0);
    }

    line_t end(line_t limit) const {
#pragma HLS INLINE
        const line_t behind = static_cast<line_t>(limit + below_);
        return !Config::halo ? limit : behind < lines_ ? behind : lines_;
    }

    // The cells of a piece.
    Lines cells(const Lines& piece) const {
#pragma HLS INLINE
        const Lines lines = {first(piece.first), end(piece.end)};
        return lines;
    }

    // The lines of the full grid that are taken from a piece: the first piece and the last one have what is outside.
    Lines taken(const Lines& piece) const {
#pragma HLS INLINE
        const line_t behind = static_cast<line_t>(piece.end + Kernel - 1);
        const bool first = !Config::halo || piece.first == 0;
        const bool last = !Config::halo || piece.end == lines_;
        const Lines lines = {first ? piece.first : static_cast<line_t>(piece.first + below_),
                             last ? behind : static_cast<line_t>(piece.end + below_)};
        return lines;
    }

   private:
    line_t lines_;
    halo_t above_, below_;
};

}  // namespace bfpga
