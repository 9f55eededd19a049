// The activation memory: one word of every bank may be read and one written in a clock (BFP R66).
//
// Requests come in arrays of N ports: the columns of the array, or the pixels that a transfer moves together. Two forms
// behind one interface. `Crossbar` is the hardware: every bank selects its address among the ports, so each bank has
// one read and one write port whatever they ask for. `Direct` indexes the banks port by port; a simulation is faster
// with it. Both refuse two ports that need different words of one bank in one clock: the schedule has to prevent that
// (docs/systolic-array.md, section 2).
#pragma once
#include "bfpga/memory/address.hpp"
#include "bfpga/numeric/checks.hpp"
#include "bfpga/numeric/waivers.hpp"

namespace bfpga {

// `lanes` consecutive channels of one pixel.
template <class Config>
struct Word {
    typename Geometry<Config>::mantissa_t lane[Config::lanes];

    // All lanes zero. (An ap_int that is only default-initialised has no value.)
    static Word zero() {
#pragma HLS INLINE
        Word word;
    Lanes_Zero:
        for (int l = 0; l < Config::lanes; ++l) {
#pragma HLS UNROLL
            word.lane[l] = 0;
        }
        return word;
    }
};

// What one port wants from the memory in one clock.
template <class Config>
struct Request {
    bool active;
    Address<Config> address;
};

template <class Config>
struct Banks {
    // The lanes of a word lie side by side in one memory of each bank; mantissas are in block RAM (BFP R39).
    typename Geometry<Config>::mantissa_t cell[Config::banks][Config::activation_words][Config::lanes];
    Waiver<InterFalse, Config::banks * Config::activation_words> cell_waiver;

    // An operation never reads a word that it writes, so no loop waits for a write: no dependence between iterations.
    Banks() {
#pragma HLS ARRAY_PARTITION variable=cell complete dim=1
#pragma HLS ARRAY_RESHAPE variable=cell complete dim=3
#pragma HLS BIND_STORAGE variable=cell type=ram_s2p impl=bram
#pragma HLS DEPENDENCE variable=cell inter false
        cell_waiver.states("cell", __FILE__, __LINE__ - 1);
    }

    Word<Config> read(int bank, typename Geometry<Config>::word_t address) const {
#pragma HLS INLINE
        Word<Config> word;
    Lanes_Read:
        for (int l = 0; l < Config::lanes; ++l) {
#pragma HLS UNROLL
            word.lane[l] = cell[bank][static_cast<int>(address)][l];
        }
        return word;
    }

    void write(int bank, typename Geometry<Config>::word_t address, const Word<Config>& word) {
#pragma HLS INLINE
    Lanes_Write:
        for (int l = 0; l < Config::lanes; ++l) {
#pragma HLS UNROLL
            cell[bank][static_cast<int>(address)][l] = word.lane[l];
        }
    }
};

// Row blocks may read words beyond a tensor's last: their weights are zero, so in a simulation the value is too.
template <class Config>
bool inside_memory(typename Geometry<Config>::word_t word) {
#pragma HLS INLINE
    return word >= 0 && word < Config::activation_words;
}

struct Direct {
    template <class Config, int N>
    static void read(const Banks<Config>& banks, const Request<Config> (&request)[N], Word<Config> (&word)[N]) {
    Ports_Read:
        for (int i = 0; i < N; ++i) {
#pragma HLS UNROLL
            if (request[i].active) {
                const Address<Config> from = request[i].address;
                word[i] = inside_memory<Config>(from.word) ? banks.read(static_cast<int>(from.bank), from.word)
                                                           : Word<Config>::zero();
            }
        }
    }

    template <class Config, int N>
    static void write(Banks<Config>& banks, const Request<Config> (&request)[N], const Word<Config> (&word)[N]) {
    Ports_Write:
        for (int i = 0; i < N; ++i) {
#pragma HLS UNROLL
            if (request[i].active) {
                banks.write(static_cast<int>(request[i].address.bank), request[i].address.word, word[i]);
            }
        }
    }
};

struct Crossbar {
    template <class Config, int N>
    static void read(const Banks<Config>& banks, const Request<Config> (&request)[N], Word<Config> (&word)[N]) {
#pragma HLS INLINE
        Word<Config> found[Config::banks];
#pragma HLS ARRAY_PARTITION variable=found complete dim=0
    Banks_Read:
        for (int b = 0; b < Config::banks; ++b) {
#pragma HLS UNROLL
            const typename Geometry<Config>::word_t address = bank_address<Config>(request, b);
            found[b] = inside_memory<Config>(address) ? banks.read(b, address) : Word<Config>::zero();
        }
    Ports_Select:
        for (int i = 0; i < N; ++i) {
#pragma HLS UNROLL
        Banks_Select:
            for (int b = 0; b < Config::banks; ++b) {
#pragma HLS UNROLL
                if (request[i].active && request[i].address.bank == b) {
                    word[i] = found[b];
                }
            }
        }
    }

    template <class Config, int N>
    static void write(Banks<Config>& banks, const Request<Config> (&request)[N], const Word<Config> (&word)[N]) {
#pragma HLS INLINE
    Banks_Write:
        for (int b = 0; b < Config::banks; ++b) {
#pragma HLS UNROLL
            Word<Config> selected = Word<Config>::zero();
            bool enable = false;
        Ports_Match:
            for (int i = 0; i < N; ++i) {
#pragma HLS UNROLL
                if (request[i].active && request[i].address.bank == b) {
                    selected = word[i];
                    enable = true;
                }
            }
            if (enable) {
                banks.write(b, bank_address<Config>(request, b), selected);
            }
        }
    }

   private:
    // The address of bank b. At most one port uses a bank (or several the same word), so an OR is the selection.
    template <class Config, int N>
    static typename Geometry<Config>::word_t bank_address(const Request<Config> (&request)[N], int b) {
#pragma HLS INLINE
        typename Geometry<Config>::word_t address = 0;
    Ports_Match:
        for (int i = 0; i < N; ++i) {
#pragma HLS UNROLL
            if (request[i].active && request[i].address.bank == b) {
                address |= request[i].address.word;
            }
        }
        return address;
    }
};

template <class Config, class Ports>
class ActivationMemory {
   public:
    using word_t = Word<Config>;

    // The words of all ports that are active; the others keep what they have. `counts`: what is read reaches a result.
    template <int N>
    void read(const Request<Config> (&request)[N], word_t (&word)[N], bool counts = true) const {
#pragma HLS INLINE
        check(request, "read");
        if (counts) {
            check_waiver(request, false);
        }
        Ports::template read<Config, N>(banks_, request, word);
    }

    template <int N>
    void write(const Request<Config> (&request)[N], const word_t (&word)[N]) {
#pragma HLS INLINE
        check(request, "write");
        check_range(request, "a write");
        check_waiver(request, true);
        Ports::template write<Config, N>(banks_, request, word);
    }

    // Every request lies in the memory. (A row block may read beyond it.)
    template <int N>
    static void check_range(const Request<Config> (&request)[N], const char* access) {
#pragma HLS INLINE
#ifdef BFPGA_SIMULATION
    Ports_Range:
        for (int i = 0; i < N; ++i) {
            simulation_check(!request[i].active || inside_memory<Config>(request[i].address.word), access,
                             "goes outside the activation memory, to word", static_cast<int>(request[i].address.word));
        }
#endif
    }

   private:
    // Two ports may share a word, not a bank.
    template <int N>
    static void check(const Request<Config> (&request)[N], const char* access) {
#pragma HLS INLINE
#ifdef BFPGA_SIMULATION
        int used[Config::banks];
    Banks_Clear:
        for (int b = 0; b < Config::banks; ++b) {
            used[b] = -1;
        }
    Ports_Check:
        for (int i = 0; i < N; ++i) {
            if (request[i].active) {
                const int bank = static_cast<int>(request[i].address.bank);
                const int word = static_cast<int>(request[i].address.word);
                simulation_check(used[bank] < 0 || used[bank] == word, access,
                                 "of two columns needs different words of bank", bank);
                used[bank] = word;
            }
        }
#endif
    }

    // What ports ask for: a bank that no port asks reads a word that nobody takes.
    template <int N>
    void check_waiver(const Request<Config> (&request)[N], bool writes) const {
#pragma HLS INLINE
#ifdef BFPGA_WAIVERS_CHECKED
        for (int i = 0; i < N; ++i) {
            const Address<Config> at = request[i].address;
            if (request[i].active && inside_memory<Config>(at.word)) {
                const int word = static_cast<int>(at.bank) * Config::activation_words + static_cast<int>(at.word);
                if (writes) {
                    banks_.cell_waiver.writes(word);
                } else {
                    banks_.cell_waiver.reads(word);
                }
            }
        }
#else
        (void)request;
        (void)writes;
#endif
    }

    Banks<Config> banks_;
};

}  // namespace bfpga
