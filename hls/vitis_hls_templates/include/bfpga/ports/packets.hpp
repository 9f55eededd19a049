// Streams over the bytes of a packet in memory, for a C simulation: beats are little-endian.
#pragma once
#include <cstdint>
#include <string>

#include "bfpga/numeric/checks.hpp"
#include "bfpga/numeric/types.hpp"

namespace bfpga {

// One beat from or to bytes, 32 bits at a time.
template <int Bits>
struct BeatBytes {
    static_assert(Bits % 32 == 0, "a beat is a whole number of 32-bit words");

    static bits_t<Bits> get(const uint8_t* bytes) {
        bits_t<Bits> beat = 0;
        for (int word = 0; word < Bits / 32; ++word) {
            uint32_t value = 0;
            for (int k = 3; k >= 0; --k) {
                value = value << 8 | bytes[4 * word + k];
            }
            set_signed<32>(beat, 32 * word, static_cast<int32_t>(value));
        }
        return beat;
    }

    static void set(uint8_t* bytes, const bits_t<Bits>& beat) {
        for (int word = 0; word < Bits / 32; ++word) {
            const uint32_t value = static_cast<uint32_t>(static_cast<int32_t>(get_signed<32>(beat, 32 * word)));
            for (int k = 0; k < 4; ++k) {
                bytes[4 * word + k] = static_cast<uint8_t>(value >> 8 * k);
            }
        }
    }
};

// The reading end of a stream that holds one packet.
template <int Bits>
class PacketReader {
   public:
    PacketReader(const char* name, const uint8_t* bytes, uint64_t size) : name_(name), next_(bytes), left_(size) {}

    // What the next reads are for: "<count> more beats of <what> <number>".
    void expect(long long count, const char* what, int number) {
        expected_ = count;
        what_ = what;
        number_ = number;
    }

    // Whether a beat is left.
    bool ready() const { return left_ >= Bits / 8; }

    // Returns if a beat is left: no more will come.
    void await() const {
        if (!ready()) {
            throw StreamError("stream `" + std::string(name_) + "` is empty: the kernel waits for " +
                              std::to_string(expected_) + " more beats of " + what_ + " " + std::to_string(number_));
        }
    }

    bits_t<Bits> read() {
        await();
        const bits_t<Bits> beat = BeatBytes<Bits>::get(next_);
        next_ += Bits / 8;
        left_ -= Bits / 8;
        --expected_;
        return beat;
    }

    uint64_t left() const { return left_; }

   private:
    const char* name_;
    const uint8_t* next_;
    uint64_t left_;
    long long expected_ = 1;
    const char* what_ = "descriptor";
    int number_ = 0;
};

// The writing end of a stream: collects the beats and counts the packets.
template <int Bits>
class PacketWriter {
   public:
    PacketWriter(const char* name, uint8_t* bytes, uint64_t capacity)
        : name_(name), begin_(bytes), capacity_(capacity) {}

    // Whether there is room for a beat.
    bool ready() const { return bytes_ + Bits / 8 <= capacity_; }

    // Returns if there is room for a beat: no more will be.
    void await() const {
        if (!ready()) {
            throw StreamError("stream `" + std::string(name_) + "` is full: its reader has taken " +
                              std::to_string(bytes_ / (Bits / 8)) + " beats and expects no more");
        }
    }

    void write(const bits_t<Bits>& beat, bool last) {
        await();
        BeatBytes<Bits>::set(begin_ + bytes_, beat);
        bytes_ += Bits / 8;
        open_beats_ = last ? 0 : open_beats_ + 1;
        packets_ += last ? 1 : 0;
    }

    uint64_t bytes() const { return bytes_; }
    uint64_t packets() const { return packets_; }
    uint64_t open_beats() const { return open_beats_; }  // beats after the last that ended a packet

   private:
    const char* name_;
    uint8_t* begin_;
    uint64_t capacity_;
    uint64_t bytes_ = 0;
    uint64_t packets_ = 0;
    uint64_t open_beats_ = 0;
};

}  // namespace bfpga
