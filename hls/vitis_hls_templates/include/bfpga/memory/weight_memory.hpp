// Weights and the parameters of the output rows, resident on chip.
//
// A weight word holds rows x lanes weights and is shared by all columns (BFP R59, R60). It arrives in beats: from the
// stream into the memory, or beat by beat straight to the tiles.
#pragma once
#include "bfpga/memory/geometry.hpp"
#include "bfpga/memory/wide_words.hpp"
#include "bfpga/numeric/checks.hpp"

namespace bfpga {

// Minimum cycles between the write of a weight transfer and its first read, where one loop does both
// (processes/weights.hpp).
constexpr int fill_guard = 24;

template <class Config>
struct WeightWord {
    typename Geometry<Config>::weight_t row[Config::rows][Config::lanes];
};

// The beats of one weight word while they arrive.
template <class Config>
class WeightBeats {
    static_assert(Config::beats_per_weight_word * Config::weight_stream_bits >=
                      Config::rows * Config::lanes * Config::weight_container_bits,
                  "a weight word fits its beats");

   public:
    using beat_t = bits_t<Config::weight_stream_bits>;

    WeightBeats() {
#pragma HLS ARRAY_PARTITION variable=beat_ complete dim=0
    }

    void set(int index, const beat_t& beat) {
#pragma HLS INLINE
        beat_[index] = beat;
    }

    // The word that `last` completes, which need not have been set.
    WeightWord<Config> word(const beat_t& last) const {
#pragma HLS INLINE
        constexpr int per_beat = Config::weight_stream_bits / Config::weight_container_bits;
        WeightWord<Config> word;
    Rows_Unpack:
        for (int r = 0; r < Config::rows; ++r) {
#pragma HLS UNROLL
        Lanes_Unpack:
            for (int l = 0; l < Config::lanes; ++l) {
#pragma HLS UNROLL
                const int element = r * Config::lanes + l;
                const int place = element / per_beat;
                const beat_t& beat = place == Config::beats_per_weight_word - 1 ? last : beat_[place];
                word.row[r][l] =
                    get_signed<Config::weight_bits>(beat, element % per_beat * Config::weight_container_bits);
            }
        }
        return word;
    }

   private:
    beat_t beat_[Config::beats_per_weight_word];
};

template <class Config>
class WeightMemory {
    using address_t = typename Geometry<Config>::weight_address_t;

   public:
    WeightWord<Config> read(address_t address) const {
#pragma HLS INLINE
        simulation_check(address >= 0 && address < Config::weight_words, "the array reads",
                         "beyond the weight memory, word", static_cast<int>(address));
        WeightWord<Config> word;
        read_word(words_, static_cast<int>(address), word.row);
        return word;
    }

    void write(address_t address, const WeightWord<Config>& word) {
#pragma HLS INLINE
        simulation_check(address >= 0 && address < Config::weight_words, "a weight transfer writes",
                         "beyond the weight memory, word", static_cast<int>(address));
        write_word(words_, static_cast<int>(address), word.row);
    }

   private:
    WideWords<typename Geometry<Config>::weight_t, Config::weight_words, Config::rows, Config::lanes, fill_guard,
              Config::ultra_weights>
        words_;
};

// Bias and weight exponent of one output row; one transfer reaches all columns (BFP R70).
template <class Config>
struct Parameters {
    int_t<Config::bias_bits> bias;
    int_t<16> exponent;
};

template <class Config>
class ParameterMemory {
    using address_t = typename Geometry<Config>::parameter_address_t;

   public:
    ParameterMemory() {
        static_assert(fill_guard >= 24, "the distance that the pragma states");
#pragma HLS BIND_STORAGE variable=bias_ type=ram_s2p impl=bram
// Exponents are never in block RAM (BFP R39).
#pragma HLS BIND_STORAGE variable=exponent_ type=ram_s2p impl=lutram
// As weights.
#pragma HLS DEPENDENCE variable=bias_ type=inter direction=raw distance=24 true
        bias_waiver_.states("bias_", __FILE__, __LINE__ - 1);
#pragma HLS DEPENDENCE variable=exponent_ type=inter direction=raw distance=24 true
        exponent_waiver_.states("exponent_", __FILE__, __LINE__ - 1);
    }

    Parameters<Config> read(address_t address) const {
#pragma HLS INLINE
        simulation_check(address >= 0 && address < Config::parameter_rows, "the output stage reads",
                         "beyond the parameter memory, row", static_cast<int>(address));
        bias_waiver_.reads(static_cast<int>(address));
        exponent_waiver_.reads(static_cast<int>(address));
        Parameters<Config> parameters;
        parameters.bias = bias_[static_cast<int>(address)];
        parameters.exponent = exponent_[static_cast<int>(address)];
        return parameters;
    }

    void write(address_t address, const Parameters<Config>& parameters) {
#pragma HLS INLINE
        simulation_check(address >= 0 && address < Config::parameter_rows, "a weight transfer writes",
                         "beyond the parameter memory, row", static_cast<int>(address));
        bias_waiver_.writes(static_cast<int>(address));
        exponent_waiver_.writes(static_cast<int>(address));
        bias_[static_cast<int>(address)] = parameters.bias;
        exponent_[static_cast<int>(address)] = parameters.exponent;
    }

   private:
    int_t<Config::bias_bits> bias_[Config::parameter_rows];
    int_t<16> exponent_[Config::parameter_rows];
    Waiver<InterRawDistance<24>, Config::parameter_rows> bias_waiver_, exponent_waiver_;
};

}  // namespace bfpga
