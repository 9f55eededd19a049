// How the sequencer reads and the store process writes where compressed maps pass processes of their own.
#pragma once
#include "bfpga/processes/maps/beats.hpp"

namespace bfpga {

// The plain beats of the input.
template <class Config>
class PlainSource {
   public:
    explicit PlainSource(stream<wire_t<PlainBeat<Config>>>& beats) : beats_(beats) {}

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

    // The splitter reads the host's stream, and reports what it waits for.
    void expect(long long, const char*, int) {}

   private:
    stream<wire_t<PlainBeat<Config>>>& beats_;
};

// The plain beats of the output, with their flags.
template <class Config>
class StoredSink {
   public:
    explicit StoredSink(stream<wire_t<StoredBeat<Config>>>& beats) : beats_(beats), packed_(false), ends_(false) {}

    // Of the next beat.
    void mark(bool packed, bool ends) {
#pragma HLS INLINE
        packed_ = packed;
        ends_ = ends;
    }

    void write(const bits_t<Config::stream_bits>& data, bool last) {
#pragma HLS INLINE
        send(data, packed_, ends_, last, false);
    }

    void stop() {
#pragma HLS INLINE
        send(bits_t<Config::stream_bits>(0), false, false, false, true);
    }

   private:
    void send(const bits_t<Config::stream_bits>& data, bool packed, bool ends, bool last, bool stop) {
#pragma HLS INLINE
        StoredBeat<Config> beat;
        beat.plain.data = data;
        beat.packed = packed;
        beat.ends = ends;
        beat.last = last;
        beat.stop = stop;
        beats_.write(to_wire(beat));
    }

    stream<wire_t<StoredBeat<Config>>>& beats_;
    bool packed_, ends_;
};

// Sideband of the store process to a sink: other sinks ignore it.
template <class Sink>
inline void mark_beat(Sink&, bool, bool) {}

template <class Config>
inline void mark_beat(StoredSink<Config>& sink, bool packed, bool ends) {
#pragma HLS INLINE
    sink.mark(packed, ends);
}

template <class Sink>
inline void end_beats(Sink&) {}

template <class Config>
inline void end_beats(StoredSink<Config>& sink) {
#pragma HLS INLINE
    sink.stop();
}

}  // namespace bfpga
