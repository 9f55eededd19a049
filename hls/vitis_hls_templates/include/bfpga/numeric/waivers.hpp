// Checked dependence waivers: a `DEPENDENCE` pragma asserts what a synthesis tool cannot see, and no hardware detects
// when it is false. With BFPGA_WAIVER_CHECKS a simulation does.
//
// A memory with a waiver has a `Waiver` member that records every access; the loop that uses such a memory is a
// `PipelinedLoop`. An access that the waiver excludes stops the simulation with the memory, the word, the loop, the
// iterations and the line of the pragma. Otherwise, and in hardware, all of this is empty.
//
//     for a memory:   Memory() {
//                     #pragma HLS DEPENDENCE variable=cell_ inter false
//                         cell_waiver_.states("cell_", __FILE__, __LINE__ - 1);
//                     }
//                     mutable Waiver<InterFalse, words> cell_waiver_;
#pragma once
#include "bfpga/numeric/pipelined_loop.hpp"

#ifdef BFPGA_WAIVERS_CHECKED
#include <cstring>
#endif

namespace bfpga {

// What pragmas claim of one execution of a loop. `DEPENDENCE inter false`: no iteration reads or writes a word that an
// earlier one has written, or writes one that an earlier one has read.
struct InterFalse;
// `DEPENDENCE intra false` for reads after writes: no iteration reads a word that it has written.
struct IntraRawFalse;
// `DEPENDENCE inter RAW distance=N true`: a word is read N iterations after it was written, or later. A tool has to end
// the write by then: `inter false` would let it write as late as it likes, so it is for memories that no execution of a
// loop both writes and reads.
template <int Distance>
struct InterRawDistance;

#ifdef BFPGA_WAIVERS_CHECKED

// When a word was last written and read.
struct WordAccess {
    int64_t written = 0;
    int64_t read = 0;
};

template <class Claim>
struct WaiverRule;

template <>
struct WaiverRule<InterFalse> {
    // The moment whose access a read or a write contradicts; 0: none.
    static int64_t broken_by(const WordAccess& word, const PipelinedLoop& loop, bool writes) {
        return loop.since(word.written) > 0          ? word.written
               : writes && loop.since(word.read) > 0 ? word.read
                                                     : static_cast<int64_t>(0);
    }
};

template <>
struct WaiverRule<IntraRawFalse> {
    static int64_t broken_by(const WordAccess& word, const PipelinedLoop& loop, bool writes) {
        return !writes && loop.since(word.written) == 0 ? word.written : static_cast<int64_t>(0);
    }
};

template <int Distance>
struct WaiverRule<InterRawDistance<Distance>> {
    static int64_t broken_by(const WordAccess& word, const PipelinedLoop& loop, bool writes) {
        const int64_t since = loop.since(word.written);
        return !writes && since > 0 && since < Distance ? word.written : static_cast<int64_t>(0);
    }
};

// The check of one waiver of a memory of `Words` words; words of partitioned dimensions count one by one.
template <class Claim, int Words>
class Waiver {
   public:
    // The memory, and where its pragma is.
    void states(const char* variable, const char* file, int line) {
        variable_ = variable;
        file_ = file;
        line_ = line;
    }

    void reads(int word) const {
        const PipelinedLoop& loop = check(word, false);
        word_[word].read = loop.now();
    }

    void writes(int word) const {
        const PipelinedLoop& loop = check(word, true);
        word_[word].written = loop.now();
    }

   private:
    const PipelinedLoop& check(int word, bool writes) const {
        const PipelinedLoop* loop = PipelinedLoop::running();
        if (loop == nullptr) {
            throw ScheduleError(memory(word) + " is used outside the loops that a PipelinedLoop counts");
        }
        const int64_t moment = WaiverRule<Claim>::broken_by(word_[word], *loop, writes);
        if (moment != 0) {
            throw ScheduleError("iteration " + std::to_string(PipelinedLoop::number(loop->now())) + " of loop `" +
                                loop->name() + "` " + (writes ? "writes " : "reads ") + memory(word) +
                                ", which iteration " + std::to_string(PipelinedLoop::number(moment)) +
                                (moment == word_[word].written ? " has written" : " has read"));
        }
        return *loop;
    }

    std::string memory(int word) const {
        const char* file = std::strstr(file_, "include/bfpga/");
        return "word " + std::to_string(word) + " of memory `" + variable_ + "` against its waiver (" +
               (file == nullptr ? file_ : file + std::strlen("include/")) + ":" + std::to_string(line_) + ")";
    }

    mutable WordAccess word_[Words];
    const char* variable_ = "";
    const char* file_ = "";
    int line_ = 0;
};

#else

template <class Claim, int Words>
class Waiver {
   public:
    void states(const char*, const char*, int) {
#pragma HLS INLINE
    }

    void reads(int) const {
#pragma HLS INLINE
    }

    void writes(int) const {
#pragma HLS INLINE
    }
};

#endif

}  // namespace bfpga
