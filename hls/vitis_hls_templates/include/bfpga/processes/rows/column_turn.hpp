// Whose turn it is of the columns: a bit for each, so that no number is compared.
#pragma once

namespace bfpga {

template <int Columns>
class ColumnTurn {
   public:
    ColumnTurn() {
#pragma HLS ARRAY_PARTITION variable=here_ complete dim=0
    }

    // The first column's.
    void start() {
#pragma HLS INLINE
    Columns_Start:
        for (int i = 0; i < Columns; ++i) {
#pragma HLS UNROLL
            here_[i] = i == 0;
        }
    }

    bool of(int column) const { return here_[column]; }
    bool last() const { return here_[Columns - 1]; }

    // The next column's; after the last one the first.
    void next() {
#pragma HLS INLINE
        const bool last = here_[Columns - 1];
    Columns_Next:
        for (int i = Columns - 1; i > 0; --i) {
#pragma HLS UNROLL
            here_[i] = here_[i - 1];
        }
        here_[0] = last;
    }

   private:
    bool here_[Columns];
};

}  // namespace bfpga
