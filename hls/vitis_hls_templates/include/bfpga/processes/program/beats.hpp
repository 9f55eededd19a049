// What the program memory sends the sequencer: the beats that a host without it would have sent.
#pragma once
#include "bfpga/processes/maps/beats.hpp"

namespace bfpga {

// What the sequencer reads.
template <class Config>
class ProgramSource {
   public:
    ProgramSource(stream<wire_t<PlainBeat<Config>>>& beats, stream<int_t<32>>& reports)
        : beats_(beats), reports_(reports) {}

    // Whether there was a beat, which `data` has then.
    bool read_nb(bits_t<Config::stream_bits>& data) {
#pragma HLS INLINE
        wire_t<PlainBeat<Config>> word = {};
        if (!beats_.read_nb(word)) {
            return false;
        }
        data = from_wire<PlainBeat<Config>>(word).data;
        return true;
    }

    // The program memory reads the host's stream, and reports what it waits for.
    void expect(long long, const char*, int) {}

    stream<int_t<32>>& reports() { return reports_; }

   private:
    stream<wire_t<PlainBeat<Config>>>& beats_;
    stream<int_t<32>>& reports_;
};

// The host compares what it sent with what the program memory has read, not with what that made of it.
template <class Config>
uint32_t sent_checksum(ProgramSource<Config>& source, uint32_t, bool any) {
#pragma HLS INLINE
    return any ? static_cast<uint32_t>(static_cast<int32_t>(source.reports().read())) : 0;
}

}  // namespace bfpga
