// Pauses of a kernel's streams in its simulation: for some turns a stream with words looks empty to its reader, or one
// with room full to its writer, as in hardware whose other end is slow.
//
// Blocking accesses wait that long, others find nothing. No pause may stop a kernel or change a bit.
#pragma once
#include <cstdint>
#include <string>

#include "bfpga/simulation/chance.hpp"

namespace bfpga {

// One side of a stream, its reader's or its writer's.
class SidePauses {
   public:
    // The longest pause.
    static constexpr int most_turns = 64;

    // Never pauses.
    SidePauses() : chance_(0) {}
    // Pauses in a manner drawn from `seed`.
    explicit SidePauses(uint64_t seed) : chance_(seed) {
        const Manner manners[] = {{0, 1}, {8, 1}, {32, 4}, {56, 2}, {16, 16}, {2, most_turns}};
        manner_ = manners[chance_.below(sizeof manners / sizeof manners[0])];
    }

    // Whether the side pauses in this turn, in which a word could move. Once it does not, it is ready until one has
    // moved: what a process has been offered stays.
    bool pauses() { return manner_.share != 0 && waits(); }

    // A word has.
    void moved() { turns_ = -1; }

   private:
    // Of 64 words so many come after a pause, of 1 to `longest` turns.
    struct Manner {
        uint64_t share, longest;
    };

    // Apart from the code of the accesses, which a simulation without pauses runs too.
    __attribute__((noinline)) bool waits() {
        if (turns_ < 0) {
            turns_ = chance_.below(64) < manner_.share ? 1 + static_cast<int>(chance_.below(manner_.longest)) : 0;
        }
        if (turns_ == 0) {
            return false;
        }
        --turns_;
        return true;
    }

    Chance chance_;
    Manner manner_ = {0, 1};
    int turns_ = -1;  // left of a pause; negative: not drawn yet
};

// All sides of a kernel's streams.
class PausesOfStreams {
   public:
    // Each side pauses in its own manner, another one in every start, drawn from `seed`. 0: none pauses.
    void draw(uint64_t seed) {
        seed_ = seed;
        starts_ = 0;
    }

    bool any() const { return seed_ != 0; }

    // The sides of the next start differ.
    void next_start() { ++starts_; }

    SidePauses of(const std::string& stream, bool reads) const {
        if (seed_ == 0) {
            return SidePauses();
        }
        return SidePauses(drawn_for(stream + (reads ? " reads " : " writes ") + std::to_string(starts_), seed_) | 1);
    }

   private:
    uint64_t seed_ = 0;
    int starts_ = 0;
};

}  // namespace bfpga
