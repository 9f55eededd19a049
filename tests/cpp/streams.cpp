// stream.hpp and the FIFO of shim/ behind it: each function writes what a stream has to say into `text`.
#include <cstdio>

#include "bfpga/ports/stream.hpp"

namespace {

template <class Action>
void report(char* text, int size, Action action) {
    try {
        action();
        std::snprintf(text, size, "nothing");
    } catch (const bfpga::StreamError& error) {
        std::snprintf(text, size, "%s", error.what());
    }
}

}  // namespace

extern "C" {

// Reads 4 of the 20 words of a layer that never come in full.
void unit_stream_empty(char* text, int size) {
    bfpga::stream<int> weights("weights", 8);
    for (int k = 0; k < 4; ++k) {
        weights.write(k);
    }
    weights.expect(20, "words of layer 3");
    report(text, size, [&weights] {
        for (int k = 0; k < 5; ++k) {
            weights.read();
        }
    });
}

void unit_stream_full(char* text, int size) {
    bfpga::stream<int> output("output", 2);
    report(text, size, [&output] {
        for (int k = 0; k < 3; ++k) {
            output.write(k);
        }
    });
}

// Passes `count` numbers, `burst` at a time; returns the peak occupancy, or -1 if an order or a state was wrong.
int unit_stream_pass(int count, int burst, int depth) {
    bfpga::stream<int> numbers("numbers", static_cast<std::size_t>(depth));
    int written = 0;
    for (int read = 0; read < count; ++read) {
        if (numbers.empty()) {
            for (int k = 0; k < burst && !numbers.full(); ++k) {
                numbers.write(written++);
            }
        }
        if (numbers.read() != read) {
            return -1;
        }
    }
    return static_cast<int>(numbers.peak_occupancy());
}

}  // extern "C"
