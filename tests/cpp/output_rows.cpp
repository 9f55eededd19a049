// processes/output_rows.hpp: the rows of an operation of an array that skips zeros of activations, in their order.
#include <cstdint>

#include "bfpga/contract/descriptor.hpp"
#include "bfpga/processes/output_rows.hpp"

namespace {

template <int COLUMNS, int ROWS, int LANES, int PASSES>
struct Build {
    static constexpr int skip_halves = 2;
    static constexpr int skip_groups = skip_halves * COLUMNS;
    static constexpr bool skip_activations = true;
    static constexpr bool dense_beside = false;
    static constexpr bool has_cluster = false;
    static constexpr int skip_passes = PASSES;
    static constexpr int mantissa_bits = 8;
    static constexpr bool operand_weights = false;
    static constexpr bool residual_adds = false;
    static constexpr bool static_exponents = false;
    static constexpr int container_bits = 8;
    static constexpr int accumulator_bits = 24;
    static constexpr int columns = COLUMNS;
    static constexpr int row_columns = 0;
    static constexpr int function_tables = 0;
    static constexpr int banks = COLUMNS + 1;
    static constexpr int rows = ROWS;
    static constexpr int lanes = LANES;
    static constexpr int words_per_block = ROWS / LANES;
    static constexpr int accumulator_rows = ROWS;
    static constexpr bool tap_reuse = false;
    static constexpr bool wide_memory = false;
    static constexpr int shift_columns = 0;
    static constexpr int activation_words = 64;
    static constexpr int weight_words = 16;
    static constexpr int weight_bits = 8;
    static constexpr int weight_container_bits = 8;
    static constexpr int parameter_rows = 64;
    static constexpr int stream_bits = 64;
    static constexpr int words_per_beat = 2;
    static constexpr int transfer_pixels = 2;
    static constexpr int weight_stream_bits = 64;
    static constexpr int beats_per_weight_word = 4;
};

// What is said of each row: covered columns, whether it exists, its lane, whether it ends a word that exists.
template <class Config>
int walk(const int32_t* words, int32_t* found, int capacity) {
    int32_t copy[bfpga::Descriptor::words];
    for (int k = 0; k < bfpga::Descriptor::words; ++k) {
        copy[k] = words[k];
    }
    const bfpga::Descriptor d = bfpga::decode_descriptor(copy);
    bfpga::OutputRows<Config> rows;
    const bool products = static_cast<bfpga::Operation>(d.operation) == bfpga::Operation::Gemm;
    rows.start(d, products ? bfpga::sum_blocks<Config>(d) : (d.output_rows + Config::lanes - 1) / Config::lanes,
               bfpga::sum_rows<Config>(d));
    for (int n = 0; n < capacity; ++n) {
        int covered = 0;
        for (int i = 0; i < Config::columns; ++i) {
            covered += rows.covers(i) ? 1 : 0;
        }
        found[4 * n] = covered;
        found[4 * n + 1] = rows.exists() ? 1 : 0;
        found[4 * n + 2] = rows.lane();
        found[4 * n + 3] = rows.ends_word() && rows.word_exists() ? 1 : 0;
        if (rows.last()) {
            return n + 1;
        }
        rows.next();
    }
    return 0;
}

}  // namespace

// Returns the number of rows, 0 if there are more than `capacity`.
extern "C" int unit_output_rows(int build, const int32_t* words, int32_t* found, int capacity) {
    return build == 0   ? walk<Build<3, 6, 2, 2>>(words, found, capacity)
           : build == 1 ? walk<Build<2, 4, 4, 1>>(words, found, capacity)
                        : walk<Build<4, 3, 1, 4>>(words, found, capacity);
}
