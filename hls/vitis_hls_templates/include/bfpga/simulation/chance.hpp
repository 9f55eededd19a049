// What a seed draws for a name in a simulation: independent of other names, and the same on every machine.
#pragma once
#include <cstdint>
#include <string>

namespace bfpga {

// FNV-1a (Fowler, Noll and Vo) and the finalizer of MurmurHash3 (Appleby).
inline uint64_t drawn_for(const std::string& name, uint64_t seed) {
    uint64_t hash = 0xcbf29ce484222325u ^ seed;
    for (const char letter : name) {
        hash = (hash ^ static_cast<uint8_t>(letter)) * 0x100000001b3u;
    }
    hash = (hash ^ hash >> 33) * 0xff51afd7ed558ccdu;
    hash = (hash ^ hash >> 33) * 0xc4ceb9fe1a85ec53u;
    return hash ^ hash >> 33;
}

// Numbers below a limit, one after the other (xorshift, Marsaglia 2003).
class Chance {
   public:
    // From seed 0 nothing but zeros comes.
    explicit Chance(uint64_t seed) : state_(seed) {}

    uint64_t below(uint64_t limit) {
        state_ ^= state_ << 13;
        state_ ^= state_ >> 7;
        state_ ^= state_ << 17;
        return (state_ >> 11) % limit;
    }

   private:
    uint64_t state_;
};

}  // namespace bfpga
