// stream.hpp and the FIFO of shim/ behind it: each function writes what a stream has to say into `text`.
#include <cstdio>

#include "bfpga/ports/stream.hpp"
#include "bfpga/simulation/process_scheduler.hpp"

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

// Passes `count` numbers from one process to another and their doubles back, by streams of `depth` words; `seed`: in an
// order drawn by chance. Returns the sum of what came back. `lost`: words that the second process swallows first;
// `fails`: the word at which it throws. After an error, which `text` has then, both run again without it, and the sum
// is returned with the other sign.
long long unit_stream_processes(int count, int depth, long long seed, int lost, int fails, char* text, int size) {
    bfpga::ProcessScheduler scheduler;
    bfpga::stream<int> there("there", static_cast<std::size_t>(depth)), back("back", static_cast<std::size_t>(depth));
    scheduler.disturb(static_cast<uint64_t>(seed));
    scheduler.pauses().draw(static_cast<uint64_t>(seed));
    there.join(scheduler);
    back.join(scheduler);
    scheduler.add("first");
    scheduler.add("second");
    long long sum = 0;
    const auto first = [&] {
        int sent = 0;
        for (int received = 0; received < count;) {
            if (sent < count && sent - received < depth) {
                there.write(sent++);
            }
            int number = 0;
            if (back.read_nb(number)) {
                sum += number;
                ++received;
            }
        }
    };
    const auto second = [&] {
        for (int k = 0; k < count; ++k) {
            const int number = there.read();
            if (k == fails) {
                throw bfpga::StreamError("the second process fails");
            }
            if (k >= lost) {
                back.write(2 * number);
            }
        }
    };
    std::snprintf(text, size, "nothing");
    try {
        scheduler.run({first, second});
        return sum;
    } catch (const bfpga::StreamError& error) {
        std::snprintf(text, size, "%s", error.what());
    }
    there.clear(static_cast<std::size_t>(depth));
    back.clear(static_cast<std::size_t>(depth));
    lost = 0;
    fails = -1;
    sum = 0;
    scheduler.run({first, second});
    return -sum;
}

// A process asks another one `count` times; from the question `distance` on each question waits for the answer to the
// one so long before. `asks`, `answers`: stages of their loops. Returns the sum of the answers; an error is in `text`.
long long unit_stream_stages(int count, int distance, int asks, int answers, char* text, int size) {
    bfpga::ProcessScheduler scheduler;
    bfpga::stream<int> there("there", 100), back("back", 100);
    there.join(scheduler);
    back.join(scheduler);
    scheduler.add("first");
    scheduler.add("second");
    scheduler.stages().set("", asks);
    scheduler.stages().set("second.Answer", answers);
    long long sum = 0;
    const auto first = [&] {
        bfpga::PipelinedLoop loop("Ask");
        for (int k = 0; k < count; ++k) {
            loop.iteration();
            if (k >= distance) {
                sum += back.read();
            }
            there.write(k);
        }
        loop.ended();
        for (int k = 0; k < distance; ++k) {
            sum += back.read();
        }
    };
    const auto second = [&] {
        bfpga::PipelinedLoop loop("Answer");
        for (int k = 0; k < count; ++k) {
            loop.iteration();
            back.write(2 * there.read());
        }
    };
    report(text, size, [&] { scheduler.run({first, second}); });
    return sum;
}

// How many of `count` numbers find room in a stream of `depth` words while nobody reads, in a loop of `stages` stages;
// -1 if what was refused came, or came in another order. `asks`: the stream is asked whether it is full before.
int unit_stream_room(int count, int depth, int stages, bool asks) {
    bfpga::ProcessScheduler scheduler;
    bfpga::stream<int> numbers("numbers", static_cast<std::size_t>(depth)), sent("sent", 1);
    numbers.join(scheduler);
    sent.join(scheduler);
    scheduler.add("sender");
    scheduler.add("receiver");
    scheduler.stages().set("Send", stages);
    int accepted = 0;
    bool ordered = true;
    const auto sender = [&] {
        bfpga::PipelinedLoop loop("Send");
        for (int k = 0; k < count; ++k) {
            loop.iteration();
            if (asks && !numbers.full()) {
                numbers.write(accepted++);
            } else if (!asks && numbers.write_nb(accepted)) {
                ++accepted;
            }
        }
        loop.ended();
        sent.write(accepted);
    };
    const auto receiver = [&] {
        const int words = sent.read();
        for (int k = 0; k < words; ++k) {
            ordered = numbers.read() == k && ordered;
        }
        ordered = ordered && numbers.empty();
    };
    scheduler.run({sender, receiver});
    return ordered ? accepted : -1;
}

// How often accesses that do not wait found nothing though `count` words, or room for them, were there, in streams that
// pause as `seed` draws; `writes`: of the writer, else of the reader; `asks`: the stream is asked whether it is empty
// or full before. -1 if words came in another order, or if an access failed that the stream had promised.
int unit_stream_pauses(int count, long long seed, bool writes, bool asks) {
    bfpga::ProcessScheduler scheduler;
    bfpga::stream<int> numbers("numbers", static_cast<std::size_t>(count)), sent("sent", 1);
    scheduler.pauses().draw(static_cast<uint64_t>(seed));
    numbers.join(scheduler);
    sent.join(scheduler);
    scheduler.add("sender");
    scheduler.add("receiver");
    int refused[2] = {0, 0};
    bool kept = true;
    const auto sender = [&] {
        for (int k = 0; k < count;) {
            const bool promised = asks && !numbers.full();
            const bool done = (promised || !asks) && numbers.write_nb(k);
            kept = kept && (done || !promised);
            k += done ? 1 : 0;
            refused[1] += done ? 0 : 1;
        }
        sent.write(count);
    };
    const auto receiver = [&] {
        const int words = sent.read();
        for (int k = 0; k < words;) {
            const bool promised = asks && !numbers.empty();
            int number = k;
            const bool done = (promised || !asks) && numbers.read_nb(number);
            kept = kept && (done || !promised) && number == k;
            k += done ? 1 : 0;
            refused[0] += done ? 0 : 1;
        }
    };
    scheduler.run({sender, receiver});
    return kept ? refused[writes ? 1 : 0] : -1;
}

// The stages that a seed draws for a loop.
int unit_stages_drawn(long long seed, const char* process, const char* loop) {
    bfpga::StagesOfLoops stages;
    stages.draw(static_cast<uint64_t>(seed));
    return stages.of(process, loop);
}

}  // extern "C"
