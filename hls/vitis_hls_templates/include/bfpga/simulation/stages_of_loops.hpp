// Pipeline stages of a kernel's loops in its simulation: none, a fixed number, or a random one.
//
// The stages of a synthesized loop are not known in advance; no number of them may stop a kernel or change a bit.
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "bfpga/simulation/chance.hpp"

namespace bfpga {

class StagesOfLoops {
   public:
    // The most that is drawn; chains of DSP blocks and wide adders come to about twenty.
    static constexpr int most_drawn = 40;

    // Clears what was set before; each loop of each process has its own number, drawn from `seed`. 0: no stages.
    void draw(uint64_t seed) {
        seed_ = seed;
        said_.clear();
    }

    // Of a loop: `loop`, `process.loop`, or of all others: an empty name.
    void set(const std::string& loop, int stages) { said_[loop] = stages; }

    int of(const std::string& process, const std::string& loop) const {
        const std::string names[] = {process + "." + loop, loop, ""};
        for (const std::string& name : names) {
            const std::map<std::string, int>::const_iterator found = said_.find(name);
            if (found != said_.end()) {
                return found->second;
            }
        }
        return seed_ == 0 ? 0 : static_cast<int>(drawn_for(names[0], seed_) % (most_drawn + 1));
    }

    // No loop has more.
    int most() const {
        int found = seed_ == 0 ? 0 : most_drawn;
        for (const std::pair<const std::string, int>& loop : said_) {
            found = loop.second > found ? loop.second : found;
        }
        return found;
    }

   private:
    uint64_t seed_ = 0;
    std::map<std::string, int> said_;
};

}  // namespace bfpga
