// Behind the units of a sparse cluster: ReLU, pooling, counts of what is not zero (SC R121-R126, R131).
//
// The kernel that is built sends its sums through the output stage that all engines share; these blocks are for units
// that stand alone, whose sums pass here before they are requantized.
#pragma once
#include "bfpga/sparse_cluster/units/types.hpp"

namespace bfpga {

enum class Pooling { Max, Average, Sum };

// The numbers of a pooling unit: windows and strides are wired, rows and columns of a map are run-time numbers.
struct PoolDefaults {
    static constexpr int pool_rows = 2;
    static constexpr int pool_columns = 2;
    static constexpr int stride_rows = 2;
    static constexpr int stride_columns = 2;
    static constexpr int map_columns = 256;
    static constexpr int pool_units = 4;  // channels side by side (SC R124)
    static constexpr int accumulator_bits = 32;
};

// max(0, x), or x where it is bypassed (SC R121).
template <class Value>
inline Value relu(Value value, bool active) {
#pragma HLS INLINE
    return active && value < 0 ? static_cast<Value>(0) : value;
}

// One channel, a value a clock in raster order. A window is pooled along its row first, then down the columns: a row of
// memory holds what the rows above gave. Windows that are not whole give nothing (SC R123).
template <class Config>
class PoolUnit {
    static constexpr int cells = Config::pool_rows * Config::pool_columns;
    static constexpr int sum_bits = Config::accumulator_bits + bits_for(cells);
    static_assert(Config::pool_rows >= 1 && Config::pool_columns >= 1, "a pooling window has a cell at least");
    static_assert(Config::stride_rows >= 1 && Config::stride_columns >= 1, "a pooling stride is 1 at least");
    static_assert(sum_bits <= 60, "sums of a pooling window have 60 bits at most");
    static constexpr int rows_kept = Config::pool_rows > 1 ? Config::pool_rows - 1 : 1;
    static constexpr int columns_kept = Config::pool_columns > 1 ? Config::pool_columns - 1 : 1;

   public:
    using value_t = int_t<Config::accumulator_bits>;
    using sum_t = int_t<sum_bits>;

    PoolUnit() {
#pragma HLS ARRAY_PARTITION variable=above_ complete dim=1
#pragma HLS BIND_STORAGE variable=above_ type=ram_s2p impl=lutram
#pragma HLS ARRAY_PARTITION variable=before_ complete dim=0
    }

    // A map begins.
    void start(Pooling kind, int columns) {
#pragma HLS INLINE
        simulation_check(columns >= 1 && columns <= Config::map_columns, "a pooled map", "has columns:", columns);
        kind_ = kind;
        columns_ = columns;
        column_ = 0;
        output_ = 0;
        next_row_ = Config::pool_rows - 1;
        next_column_ = Config::pool_columns - 1;
        row_ = 0;
    }

    // The next value; true if a window ends with it, which is `result` then.
    bool push(value_t value, sum_t& result) {
#pragma HLS INLINE
        sum_t pooled = value;
    Columns_Pool:
        for (int n = 0; n < Config::pool_columns - 1; ++n) {
#pragma HLS UNROLL
            pooled = combine(pooled, before_[n]);
        }
    Columns_Move:
        for (int n = columns_kept - 1; n > 0; --n) {
#pragma HLS UNROLL
            before_[n] = before_[n - 1];
        }
        before_[0] = value;
        const bool ends = column_ == next_column_;
        bool whole = false;
        if (ends) {
            whole = down(pooled, result);
            next_column_ += Config::stride_columns;
            ++output_;
        }
        advance();
        return whole;
    }

   private:
    // A window's row was pooled; true if it is the window's last one.
    bool down(sum_t pooled, sum_t& result) {
#pragma HLS INLINE
        sum_t total = pooled;
    Rows_Pool:
        for (int n = 0; n < Config::pool_rows - 1; ++n) {
#pragma HLS UNROLL
            total = combine(total, above_[n][output_]);
        }
    Rows_Move:
        for (int n = rows_kept - 1; n > 0; --n) {
#pragma HLS UNROLL
            above_[n][output_] = above_[n - 1][output_];
        }
        above_[0][output_] = pooled;
        result = kind_ == Pooling::Average ? mean(total) : total;
        return row_ == next_row_;
    }

    sum_t combine(sum_t a, sum_t b) const {
#pragma HLS INLINE
        if (kind_ == Pooling::Max) {
            return a > b ? a : b;
        }
        return static_cast<sum_t>(a + b);
    }

    // floor((2 sum + n) / (2 n)): the divisor is wired, and division of a negative number rounds up.
    static sum_t mean(sum_t total) {
#pragma HLS INLINE
        const int_t<sum_bits + 2> doubled = static_cast<int_t<sum_bits + 2>>(2 * total + cells);
        const int_t<sum_bits + 2> quotient = static_cast<int_t<sum_bits + 2>>(doubled / (2 * cells));
        const bool rest = quotient * (2 * cells) != doubled;
        return static_cast<sum_t>(quotient - (rest && doubled < 0 ? 1 : 0));
    }

    void advance() {
#pragma HLS INLINE
        ++column_;
        if (column_ == columns_) {
            next_row_ += row_ == next_row_ ? Config::stride_rows : 0;
            column_ = 0;
            output_ = 0;
            next_column_ = Config::pool_columns - 1;
            ++row_;
        }
    }

    sum_t above_[rows_kept][Config::map_columns] = {};  // of the window rows above, the nearest first
    sum_t before_[columns_kept] = {};
    Pooling kind_ = Pooling::Max;
    int32_t columns_ = 1, row_ = 0, column_ = 0, output_ = 0, next_row_ = 0, next_column_ = 0;
};

// ReLU and pooling of `pool_units` channels side by side: a value of each in a clock, a result of each when a window
// ends.
template <class Config>
class PoolArray {
   public:
    using value_t = typename PoolUnit<Config>::value_t;
    using sum_t = typename PoolUnit<Config>::sum_t;

    PoolArray() {
#pragma HLS ARRAY_PARTITION variable=unit_ complete dim=0
    }

    void start(bool active, Pooling kind, int columns) {
#pragma HLS INLINE
        active_ = active;
    Units_Start:
        for (int u = 0; u < Config::pool_units; ++u) {
#pragma HLS UNROLL
            unit_[u].start(kind, columns);
        }
    }

    // All channels of a pixel; true if their windows end with it.
    bool push(const value_t (&value)[Config::pool_units], sum_t (&result)[Config::pool_units]) {
#pragma HLS INLINE
        bool whole = false;
    Units_Push:
        for (int u = 0; u < Config::pool_units; ++u) {
#pragma HLS UNROLL
            whole = unit_[u].push(relu(value[u], active_), result[u]);
        }
        return whole;
    }

   private:
    PoolUnit<Config> unit_[Config::pool_units];
    bool active_ = false;
};

// Values of an output piece that are not zero: of each row, of each column, in all (SC R131). What the next layer's
// partition needs to know.
template <int Rows, int Columns>
class OutputCounts {
   public:
    OutputCounts() {
#pragma HLS ARRAY_PARTITION variable=rows_ complete dim=0
#pragma HLS ARRAY_PARTITION variable=columns_ complete dim=0
    }

    void clear() {
#pragma HLS INLINE
        total_ = 0;
    Rows_Clear:
        for (int n = 0; n < Rows; ++n) {
#pragma HLS UNROLL
            rows_[n] = 0;
        }
    Columns_Clear:
        for (int n = 0; n < Columns; ++n) {
#pragma HLS UNROLL
            columns_[n] = 0;
        }
    }

    void count(int row, int column, bool present) {
#pragma HLS INLINE
        if (present) {
            ++total_;
            ++rows_[row];
            ++columns_[column];
        }
    }

    int total() const { return total_; }
    int of_row(int row) const { return rows_[row]; }
    int of_column(int column) const { return columns_[column]; }

   private:
    int32_t rows_[Rows] = {};
    int32_t columns_[Columns] = {};
    int32_t total_ = 0;
};

}  // namespace bfpga
