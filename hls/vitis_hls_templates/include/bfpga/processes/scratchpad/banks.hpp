// The banks of the scratchpad: one read vector and one write vector a cycle, all reads before all writes.
//
// Reads go through a crossbar, as every column has its own pixel. Pixels written together are consecutive, so they are
// in consecutive banks: a rotation routes every column to its bank.
#pragma once
#include "bfpga/numeric/checks.hpp"
#include "bfpga/numeric/waivers.hpp"
#include "bfpga/processes/scratchpad/places.hpp"

namespace bfpga {

// The read request of one port in a cycle.
template <class Config>
struct PortRequest {
    bool active;
    Place<Config> place;
};

// The same word of consecutive pixels; `mask`: the ports that have one.
template <class Config>
struct RunWrite {
    using T = ScratchpadTypes<Config>;

    bool enable;
    Place<Config> first;          // of the first port that writes
    typename T::word_t carried;   // word of the pixels whose bank is below that of the first
    typename T::bank_t rotation;  // bank of port 0, if it were to write
    Word<Config> word[T::ports];
    bool mask[T::ports];

    // The word in a bank.
    typename T::word_t address(typename T::bank_t bank) const {
#pragma HLS INLINE
        return bank >= first.bank ? first.word : carried;
    }
};

template <class Config>
using BankCells = typename Geometry<Config>::mantissa_t[Config::banks][Config::activation_words][Config::lanes];

// The address wires of a bank.
template <class Config>
inline int bank_index(typename Geometry<Config>::word_t address) {
#pragma HLS INLINE
    return static_cast<int>(static_cast<uint_t<bit_length(Config::activation_words - 1)>>(address));
}

template <class Config>
inline Word<Config> read_cell(const BankCells<Config>& cell, int bank, typename Geometry<Config>::word_t address) {
#pragma HLS INLINE
#ifdef BFPGA_SIMULATION
    // A row block may reach beyond the memory; its reads there reach no result.
    if (!inside_memory<Config>(address)) {
        return Word<Config>::zero();
    }
#endif
    Word<Config> word;
Lanes_Read:
    for (int l = 0; l < Config::lanes; ++l) {
#pragma HLS UNROLL
        word.lane[l] = cell[bank][bank_index<Config>(address)][l];
    }
    return word;
}

template <class Config>
inline void write_cell(BankCells<Config>& cell, int bank, typename Geometry<Config>::word_t address,
                       const Word<Config>& word) {
#pragma HLS INLINE
Lanes_Write:
    for (int l = 0; l < Config::lanes; ++l) {
#pragma HLS UNROLL
        cell[bank][bank_index<Config>(address)][l] = word.lane[l];
    }
}

// The banks, of block memories or of UltraRAM. An operation reads the results of another one at least `start_guard`
// cycles after its end (order.hpp), and never its own: no read waits for a write, of this iteration or of those in the
// pipeline.
template <class Config, bool ULTRA>
struct BankWords {
    using T = ScratchpadTypes<Config>;

    BankCells<Config> cell;
    Waiver<InterRawDistance<24>, Config::banks * Config::activation_words> inter_waiver;
    Waiver<IntraRawFalse, Config::banks * Config::activation_words> intra_waiver;

    BankWords() {
        static_assert(T::start_guard >= 24, "the distance that the pragma states");
#pragma HLS ARRAY_PARTITION variable=cell complete dim=1
#pragma HLS ARRAY_RESHAPE variable=cell complete dim=3
#pragma HLS BIND_STORAGE variable=cell type=ram_s2p impl=bram
#pragma HLS DEPENDENCE variable=cell type=inter direction=raw distance=24 true
        inter_waiver.states("cell", __FILE__, __LINE__ - 1);
#pragma HLS DEPENDENCE variable=cell intra RAW false
        intra_waiver.states("cell", __FILE__, __LINE__ - 1);
    }
};

template <class Config>
struct BankWords<Config, true> {
    using T = ScratchpadTypes<Config>;

    BankCells<Config> cell;
    Waiver<InterRawDistance<24>, Config::banks * Config::activation_words> inter_waiver;
    Waiver<IntraRawFalse, Config::banks * Config::activation_words> intra_waiver;

    BankWords() {
        static_assert(T::start_guard >= 24, "the distance that the pragma states");
#pragma HLS ARRAY_PARTITION variable=cell complete dim=1
#pragma HLS ARRAY_RESHAPE variable=cell complete dim=3
#pragma HLS BIND_STORAGE variable=cell type=ram_s2p impl=uram
#pragma HLS DEPENDENCE variable=cell type=inter direction=raw distance=24 true
        inter_waiver.states("cell", __FILE__, __LINE__ - 1);
#pragma HLS DEPENDENCE variable=cell intra RAW false
        intra_waiver.states("cell", __FILE__, __LINE__ - 1);
    }
};

// Hardware: every bank selects its address among the ports, and a rotator of one stage a bit writes.
struct SwitchedPorts {
    template <class Config>
    static void read(const BankCells<Config>& cell,
                     const PortRequest<Config> (&request)[ScratchpadTypes<Config>::ports],
                     Word<Config> (&word)[ScratchpadTypes<Config>::ports]) {
#pragma HLS INLINE
        Word<Config> found[Config::banks];
#pragma HLS ARRAY_PARTITION variable=found complete dim=0
    Banks_Read:
        for (int b = 0; b < Config::banks; ++b) {
#pragma HLS UNROLL
            found[b] = read_cell<Config>(cell, b, bank_address<Config>(request, b));
        }
    Ports_Select:
        for (int i = 0; i < ScratchpadTypes<Config>::ports; ++i) {
#pragma HLS UNROLL
            word[i] = request[i].active ? found[static_cast<int>(request[i].place.bank)] : Word<Config>::zero();
        }
    }

    template <class Config>
    static void write(BankCells<Config>& cell, const RunWrite<Config>& write) {
#pragma HLS INLINE
        using T = ScratchpadTypes<Config>;
        Word<Config> word[Config::banks];
#pragma HLS ARRAY_PARTITION variable=word complete dim=0
        bool mask[Config::banks];
#pragma HLS ARRAY_PARTITION variable=mask complete dim=0
    Banks_Fill:
        for (int b = 0; b < Config::banks; ++b) {
#pragma HLS UNROLL
            word[b] = b < T::ports ? write.word[b < T::ports ? b : 0] : Word<Config>::zero();
            mask[b] = b < T::ports && write.mask[b < T::ports ? b : 0];
        }
    Stages_Rotate:
        for (int stage = 0; stage < T::bank_bits; ++stage) {
#pragma HLS UNROLL
            if (((write.rotation >> stage) & 1) != 0) {
                rotate<Config>(word, mask, (1 << stage) % Config::banks);
            }
        }
    Banks_Write:
        for (int b = 0; b < Config::banks; ++b) {
#pragma HLS UNROLL
            if (write.enable && mask[b]) {
                write_cell<Config>(cell, b, write.address(static_cast<typename T::bank_t>(b)), word[b]);
            }
        }
    }

   private:
    // The word of bank b. At most one port uses a bank (or several the same word), so an OR is the selection.
    template <class Config>
    static typename Geometry<Config>::word_t bank_address(
        const PortRequest<Config> (&request)[ScratchpadTypes<Config>::ports], int b) {
#pragma HLS INLINE
        typename Geometry<Config>::word_t address = 0;
    Ports_Match:
        for (int i = 0; i < ScratchpadTypes<Config>::ports; ++i) {
#pragma HLS UNROLL
            if (request[i].active && request[i].place.bank == b) {
                address |= request[i].place.word;
            }
        }
        return address;
    }

    template <class Config>
    static void rotate(Word<Config> (&word)[Config::banks], bool (&mask)[Config::banks], int by) {
#pragma HLS INLINE
        Word<Config> turned[Config::banks];
#pragma HLS ARRAY_PARTITION variable=turned complete dim=0
        bool turned_mask[Config::banks];
#pragma HLS ARRAY_PARTITION variable=turned_mask complete dim=0
    Banks_Turn:
        for (int b = 0; b < Config::banks; ++b) {
#pragma HLS UNROLL
            const int to = b + by < Config::banks ? b + by : b + by - Config::banks;
            turned[to] = word[b];
            turned_mask[to] = mask[b];
        }
    Banks_Keep:
        for (int b = 0; b < Config::banks; ++b) {
#pragma HLS UNROLL
            word[b] = turned[b];
            mask[b] = turned_mask[b];
        }
    }
};

// Simulation: the ports index the banks. Same values.
struct IndexedPorts {
    template <class Config>
    static void read(const BankCells<Config>& cell,
                     const PortRequest<Config> (&request)[ScratchpadTypes<Config>::ports],
                     Word<Config> (&word)[ScratchpadTypes<Config>::ports]) {
    Ports_Read:
        for (int i = 0; i < ScratchpadTypes<Config>::ports; ++i) {
#pragma HLS UNROLL
            word[i] = request[i].active
                          ? read_cell<Config>(cell, static_cast<int>(request[i].place.bank), request[i].place.word)
                          : Word<Config>::zero();
        }
    }

    template <class Config>
    static void write(BankCells<Config>& cell, const RunWrite<Config>& write) {
        using T = ScratchpadTypes<Config>;
        if (!write.enable) {
            return;
        }
    Ports_Write:
        for (int i = 0; i < T::ports; ++i) {
#pragma HLS UNROLL
            if (write.mask[i]) {
                const typename T::bank_t bank = write_bank<Config>(write, i);
                write_cell<Config>(cell, static_cast<int>(bank), write.address(bank), write.word[i]);
            }
        }
    }

    // The bank of a port that writes.
    template <class Config>
    static typename ScratchpadTypes<Config>::bank_t write_bank(const RunWrite<Config>& write, int port) {
#pragma HLS INLINE
        typename ScratchpadTypes<Config>::bank_t bank;
        bank_sum<Config>(write.rotation, static_cast<typename ScratchpadTypes<Config>::bank_sum_t>(port), bank);
        return bank;
    }
};

template <class Config, class Ports>
class ScratchpadBanks {
    using T = ScratchpadTypes<Config>;

   public:
    // One cycle: `word[i]` is what port i has requested, zero if it has not; then `write` is executed. `counts`: what
    // is read reaches a result.
    void step(const PortRequest<Config> (&request)[T::ports], Word<Config> (&word)[T::ports], bool counts,
              const RunWrite<Config>& write) {
#pragma HLS INLINE
        check_reads(request, counts);
        Ports::template read<Config>(words_.cell, request, word);
        check_writes(write);
        Ports::template write<Config>(words_.cell, write);
    }

   private:
    // Two ports may share a word, not a bank.
    void check_reads(const PortRequest<Config> (&request)[T::ports], bool counts) const {
#pragma HLS INLINE
#ifdef BFPGA_SIMULATION
        int used[Config::banks];
        for (int b = 0; b < Config::banks; ++b) {
            used[b] = -1;
        }
        for (int i = 0; i < T::ports; ++i) {
            if (!request[i].active) {
                continue;
            }
            const int bank = static_cast<int>(request[i].place.bank);
            const int word = static_cast<int>(request[i].place.word);
            simulation_check(used[bank] == -1 || used[bank] == word, "read",
                             "of two columns needs different words of bank", bank);
            used[bank] = word;
            if (counts && inside_memory<Config>(request[i].place.word)) {
                words_.inter_waiver.reads(bank * Config::activation_words + word);
                words_.intra_waiver.reads(bank * Config::activation_words + word);
            }
        }
#else
        (void)request;
        (void)counts;
#endif
    }

    void check_writes(const RunWrite<Config>& write) const {
#pragma HLS INLINE
#ifdef BFPGA_SIMULATION
        for (int i = 0; i < T::ports; ++i) {
            if (!write.enable || !write.mask[i]) {
                continue;
            }
            const typename T::bank_t bank = IndexedPorts::write_bank<Config>(write, i);
            const int word = static_cast<int>(write.address(bank));
            simulation_check(inside_memory<Config>(write.address(bank)), "a write",
                             "goes outside the activation memory, to word", word);
            words_.inter_waiver.writes(static_cast<int>(bank) * Config::activation_words + word);
            words_.intra_waiver.writes(static_cast<int>(bank) * Config::activation_words + word);
        }
#else
        (void)write;
#endif
    }

    BankWords<Config, Config::ultra_activations> words_;
};

}  // namespace bfpga
