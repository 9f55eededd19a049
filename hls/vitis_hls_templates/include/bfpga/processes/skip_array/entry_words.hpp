// Entries as they are stored: a word has a slot for each group of a skip array; they are resident, or come from the
// stream while a GEMM runs.
//
// An all-zero slot is no entry: lists of entries are not equally long. On the stream a word has the values and
// positions of all slots first, each in a field of a power of two of bits, then the marks of all slots: no field
// crosses a beat boundary.
#pragma once
#include "bfpga/memory/weight_memory.hpp"
#include "bfpga/processes/skip_array/entry.hpp"

namespace bfpga {

// A slot: value, position, marks, from the lowest bit on, as on the way to its group.
template <class Config>
using entry_code_t = uint_t<Entry<Config>::bits>;

template <class Config>
struct EntryWord {
    // Of one part each, as a memory has words.
    entry_code_t<Config> slot[Config::skip_groups][1];
    // Whether each is an entry: found where the word comes from, as the choice between sources takes a level of logic.
    uint_t<Config::skip_groups> there;

    void find() {
#pragma HLS INLINE
        there = 0;
    Slots_Find:
        for (int g = 0; g < Config::skip_groups; ++g) {
#pragma HLS UNROLL
            const uint_t<Config::skip_groups> one = slot[g][0] != 0 ? 1 : 0;
            there =
                static_cast<uint_t<Config::skip_groups>>(there | static_cast<uint_t<Config::skip_groups>>(one << g));
        }
    }
};

template <class Config>
inline Entry<Config> decode_entry(entry_code_t<Config> code) {
#pragma HLS INLINE
    using E = Entry<Config>;
    using code_t = entry_code_t<Config>;
    Entry<Config> entry;
    entry.value = low_bits<Config::weight_bits>(code);
    entry.position = static_cast<typename E::position_t>(static_cast<code_t>(code >> Config::weight_bits) &
                                                         static_cast<code_t>(Config::skip_chunk - 1));
    entry.last = (static_cast<code_t>(code >> E::marks_from) & 1) != 0;
    entry.ends = (static_cast<code_t>(code >> (E::marks_from + 1)) & 1) != 0;
    return entry;
}

// The beats of one word while they arrive.
template <class Config>
class EntryBeats {
    static constexpr int groups = Config::skip_groups;
    static constexpr int beats = Config::beats_per_weight_word;
    static constexpr int field_bits = Config::entry_field_bits;
    static_assert(field_bits >= Entry<Config>::marks_from && (field_bits & (field_bits - 1)) == 0,
                  "a field holds a value and a position");
    static_assert(Config::weight_stream_bits % field_bits == 0, "a beat holds whole fields");
    static_assert(beats * Config::weight_stream_bits >= groups * (field_bits + 2), "a word fits its beats");

   public:
    using beat_t = bits_t<Config::weight_stream_bits>;

    EntryBeats() {
#pragma HLS ARRAY_PARTITION variable=beat_ complete dim=0
    }

    void set(int index, const beat_t& beat) {
#pragma HLS INLINE
        beat_[index] = beat;
    }

    // The word that `last` completes, which need not have been set.
    EntryWord<Config> word(const beat_t& last) const {
#pragma HLS INLINE
        using code_t = entry_code_t<Config>;
        constexpr int64_t value_mask = (static_cast<int64_t>(1) << Entry<Config>::marks_from) - 1;
        EntryWord<Config> word;
    Slots_Unpack:
        for (int g = 0; g < groups; ++g) {
#pragma HLS UNROLL
            const int64_t field = bits_at<field_bits>(last, g * field_bits) & value_mask;
            const int64_t marks = bits_at<2>(last, groups * field_bits + 2 * g) & 3;
            word.slot[g][0] = static_cast<code_t>(field | marks << Entry<Config>::marks_from);
        }
        word.find();
        return word;
    }

   private:
    template <int W>
    int64_t bits_at(const beat_t& last, int low) const {
#pragma HLS INLINE
        const int place = low / Config::weight_stream_bits;
        return get_signed<W>(place == beats - 1 ? last : beat_[place], low % Config::weight_stream_bits);
    }

    beat_t beat_[beats];
};

template <class Config>
class EntryMemory {
    using address_t = typename Geometry<Config>::weight_address_t;
    static constexpr int groups = Config::skip_groups;

   public:
    EntryWord<Config> read(address_t address) const {
#pragma HLS INLINE
        simulation_check(address >= 0 && address < Config::weight_words, "the skip array reads",
                         "beyond the memory of entries, word", static_cast<int>(address));
        EntryWord<Config> word;
        read_word(words_, static_cast<int>(address), word.slot);
        word.find();
        return word;
    }

    void write(address_t address, const EntryWord<Config>& word) {
#pragma HLS INLINE
        simulation_check(address >= 0 && address < Config::weight_words, "a weight transfer writes",
                         "beyond the memory of entries, word", static_cast<int>(address));
        write_word(words_, static_cast<int>(address), word.slot);
    }

   private:
    WideWords<entry_code_t<Config>, Config::weight_words, groups, 1, fill_guard, Config::ultra_weights> words_;
};

}  // namespace bfpga
