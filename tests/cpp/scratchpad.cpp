// processes/scratchpad.hpp: one start on scratchpads of a list, by their number, between streams that hesitate. With
// SKIP_PADS (skip_scratchpad.cpp) those of a kernel with a skip array, with SPARSE_PADS (sparse_scratchpad.cpp) of one
// that skips zeros of activations.
#include <cstdint>
#include <cstdio>
#include <random>
#include <type_traits>
#include <vector>

#include "bfpga/ports/stream.hpp"
#include "bfpga/processes/scratchpad.hpp"

namespace {

// `Doubled`: a pass of power-of-two weights has two channels a row; `Shift` columns work with two-hot weights alone.
// `Skip`: there is a skip array; `Passes`: of a run of one that skips activations, with `Queue` words of a group.
template <class Chosen, int COLUMNS, int ROWS, int LANES, int BANKS, int PIXELS, int SHIFT, int DOUBLED, int SKIP = 0,
          int PASSES = 0, int QUEUE = 4>
struct Pad {
    using Storage = Chosen;
    static constexpr int mantissa_bits = 8;
    static constexpr bool operand_weights = false;
    static constexpr bool residual_adds = false;
    static constexpr bool static_exponents = false;
    static constexpr int container_bits = 8;
    static constexpr int weight_bits = 8;
    static constexpr int weight_container_bits = 8;
    static constexpr int accumulator_bits = 32;
    static constexpr int bias_bits = 18;
    static constexpr int columns = COLUMNS;
    static constexpr int row_columns = 0;
    static constexpr int function_tables = 0;
    static constexpr int rows = ROWS;
    static constexpr int lanes = LANES;
    static constexpr int words_per_block = ROWS / LANES;
    static constexpr int accumulator_rows = DOUBLED * ROWS;
    static constexpr bool tap_reuse = false;
    static constexpr int skip_groups = SKIP;
    static constexpr int count_registers = 0;
    static constexpr int skip_halves = 2;
    static constexpr int skip_chunk = 16 * LANES;
    static constexpr bool skip_activations = PASSES > 0;
    static constexpr bool dense_beside = false;
    static constexpr bool has_cluster = false;
    static constexpr int skip_passes = PASSES > 0 ? PASSES : 1;
    static constexpr int skip_queue = QUEUE;
    static constexpr bool wide_memory = false;
    static constexpr int shift_columns = SHIFT;
    static constexpr int banks = BANKS;
    static constexpr int activation_words = 1024;
    static constexpr int weight_words = 16;
    static constexpr bool ultra_activations = false;
    static constexpr bool ultra_weights = false;
    static constexpr int parameter_rows = 16;
    static constexpr int stream_bits = 64 * LANES;
    static constexpr int words_per_beat = 8;
    static constexpr int transfer_pixels = PIXELS;
    static constexpr int weight_stream_bits = 64;
    static constexpr int beats_per_weight_word = ROWS * LANES;
};

template <class... Pads>
struct List {};

#if defined(SKIP_PADS) && defined(BFPGA_NATIVE_INTEGERS)
template <class Storage>
using All = List<Pad<Storage, 3, 16, 2, 5, 4, 0, 1, 2>, Pad<Storage, 6, 32, 4, 7, 2, 0, 1, 2>,
                 Pad<Storage, 1, 8, 1, 1, 1, 0, 1, 2>>;
using Indexed = List<>;
#elif defined(SPARSE_PADS) && defined(BFPGA_NATIVE_INTEGERS)
template <class Storage>
using All = List<Pad<Storage, 3, 8, 2, 5, 4, 0, 1, 6, 2, 16>, Pad<Storage, 6, 16, 4, 7, 2, 0, 1, 12, 4, 32>,
                 Pad<Storage, 1, 4, 1, 1, 1, 0, 1, 2, 1, 4>, Pad<Storage, 2, 6, 2, 5, 4, 0, 1, 4, 16, 8>>;
using Indexed = List<>;
#elif defined(SPARSE_PADS)
template <class Storage>
using All = List<Pad<Storage, 3, 8, 2, 5, 4, 0, 1, 6, 2, 16>>;
using Indexed = List<>;
#elif defined(SKIP_PADS)
template <class Storage>
using All = List<Pad<Storage, 3, 16, 2, 5, 4, 0, 1, 2>>;
using Indexed = List<>;
#elif defined(BFPGA_NATIVE_INTEGERS)
template <class Storage>
using All =
    List<Pad<Storage, 3, 4, 2, 5, 4, 0, 1>, Pad<Storage, 12, 8, 4, 13, 2, 0, 1>, Pad<Storage, 6, 4, 2, 7, 4, 2, 1>,
         Pad<Storage, 1, 2, 1, 1, 1, 0, 1>, Pad<Storage, 5, 4, 2, 5, 4, 0, 2>>;
using Indexed = All<bfpga::SimulationStorage>;
#else
// Other integers take a compiler long.
template <class Storage>
using All = List<Pad<Storage, 3, 4, 2, 5, 4, 0, 1>>;
using Indexed = List<>;
#endif

// Calls `action` for the pad of a number; counts the number down along the list.
template <class Action, class... Pads>
int with_pad(int number, const Action& action, const List<Pads...>*) {
    int left = number;
    const int expand[] = {0, (left-- == 0 ? (action.template apply<Pads>(), 0) : 0)...};
    static_cast<void>(expand);
    return number >= 0 && left < 0 ? 0 : 1;
}

// A number in `rarely` of 8 cases false.
class Chance {
   public:
    Chance(uint32_t seed, int rarely) : random_(seed), rarely_(static_cast<unsigned>(rarely)) {}
    bool now() { return random_() % 8 >= rarely_; }

   private:
    std::mt19937 random_;
    unsigned rarely_;
};

// The end of a stream that another process would be: hands out its words now and then when it is asked.
template <class Word>
class Sender : public bfpga::StreamWaits {
   public:
    Sender(const char* name, Chance& chance) : to(name), chance_(chance) { to.join(*this); }

    void wait(const std::string& stream, bool) override { throw bfpga::StreamError("blocked by " + stream); }
    void polled(const std::string& stream) override {
        if (next_ < words.size() && chance_.now()) {
            to.write(words[next_++]);
            refused_ = 0;
        } else {
            refuse(stream);
        }
    }

    std::size_t sent() const { return next_; }
    void refuse(const std::string& stream) {
        if (++refused_ > 100000) {
            throw bfpga::StreamError("asks in vain for a word of " + stream);
        }
    }

    bfpga::stream<Word> to;
    std::vector<Word> words;

   private:
    Chance& chance_;
    std::size_t next_ = 0;
    int refused_ = 0;
};

// Results some of which come only when so many operands have gone: later operations are read before.
template <class Word, class Operands>
class Results : public Sender<Word> {
   public:
    Results(Chance& chance, Operands& operands) : Sender<Word>("results", chance), operands_(operands) {}

    void polled(const std::string& stream) override {
        operands_.take();
        const bool there = this->sent() < first_held || operands_.beats.size() >= until;
        if (there) {
            Sender<Word>::polled(stream);
        } else {
            this->refuse(stream);
        }
    }

    std::size_t first_held = 0, until = 0;

   private:
    Operands& operands_;
};

// The store process: returns a credit for a group it has got, now and then.
template <class Word>
class Credits : public bfpga::StreamWaits {
   public:
    Credits(const bfpga::stream<Word>& stored, Chance& chance) : to("credits"), stored_(stored), chance_(chance) {
        to.join(*this);
    }

    void wait(const std::string& stream, bool) override { throw bfpga::StreamError("blocked by " + stream); }
    void polled(const std::string&) override {
        const std::size_t out = stored_.peak_occupancy() - given_;
        most = out > most ? out : most;
        // Groups pile up until no more of them come.
        waited_ = out == before_ ? waited_ + 1 : 0;
        before_ = out;
        flows_ = flows_ || waited_ > 50;
        if (out > 0 && flows_ && chance_.now()) {
            ++given_;
            to.write(true);
        }
    }

    bfpga::stream<bool> to;
    std::size_t most = 0;

   private:
    const bfpga::stream<Word>& stored_;
    Chance& chance_;
    std::size_t given_ = 0;
    std::size_t before_ = 0;
    int waited_ = 0;
    bool flows_ = false;
};

// The array: takes the beats and returns a credit for a chunk that it has got, when it has been asked for so long.
template <class Config>
class Windows : public bfpga::StreamWaits {
    using Operand = bfpga::OperandBeat<Config>;

   public:
    Windows(bfpga::stream<bfpga::wire_t<Operand>>& operands, Chance& chance)
        : to("windows"), operands_(operands), chance_(chance) {
        to.join(*this);
    }

    void wait(const std::string& stream, bool) override { throw bfpga::StreamError("blocked by " + stream); }
    void polled(const std::string&) override {
        take();
        asked_ = chunks_ > credit_at.size() ? asked_ + 1 : 0;
        if (asked_ > patience && chance_.now()) {
            credit_at.push_back(static_cast<int32_t>(beats.size()));
            asked_ = 0;
            to.write(true);
        }
    }

    void take() {
        while (!operands_.empty()) {
            const bfpga::wire_t<Operand> word = operands_.read();
            beats.push_back(bfpga::from_wire<Operand>(word));
            const Operand& beat = beats.back();
            if (beat.fires && !beat.stop) {
                const bool step = second_ || beat.single;
                second_ = !step;
                steps_ += step ? 1 : 0;
                const bool segment = Config::skip_activations && steps_ == Config::skip_queue / 4;
                const bool ends = step && (beat.last || segment);
                chunks_ += ends ? 1 : 0;
                steps_ = ends ? 0 : steps_;
            }
        }
    }

    bfpga::stream<bool> to;
    std::vector<Operand> beats;
    std::vector<int32_t> credit_at;  // beats that had come when each was returned
    int patience = 0;

   private:
    bfpga::stream<bfpga::wire_t<Operand>>& operands_;
    Chance& chance_;
    bool second_ = false;
    std::size_t chunks_ = 0;  // or segments
    int steps_ = 0;           // of one
    int asked_ = 0;
};

struct Finished {
    std::vector<int32_t> log;
    void finished(int index, uint32_t work) {
        log.push_back(index);
        log.push_back(static_cast<int32_t>(work));
    }
};

}  // namespace

extern "C" {

// What a start is given and gives; words are mantissas, one after the other.
struct Start {
    int32_t operations;
    const int32_t* descriptor;  // (operations, Descriptor::words)
    int32_t loads;
    const int32_t* load;  // (loads, transfer_pixels, lanes)
    int32_t results;
    const int32_t* result;  // (results, columns, lanes)
    int32_t rarely, seed, capacity;
    int32_t first_held, operands_before;  // results from this one on come when so many operands have gone
    int32_t patience;                     // of the array: how often it is asked for a credit until there is one
    int32_t* operand;                     // each: fires, first, last, mine of the columns, words; then all of a chunk
    int32_t* vector;                      // each: fires, mine and present of the columns, words
    int32_t* stored;                      // each: words
    int32_t* finished;                    // each: index, work
    int32_t* credit;                      // operands that had gone when each came
    int32_t counts[5];                    // of operands, vectors, stored groups, finished operations, credits
    int32_t most_stored, work;
    char error[256];
};

}  // extern "C"

namespace {

template <class Config>
class Bench {
    using Operand = bfpga::OperandBeat<Config>;
    using Vector = bfpga::VectorBeat<Config>;
    using Group = bfpga::GroupBeat<Config>;
    using Result = bfpga::ResultBeat<Config>;

   public:
    explicit Bench(Start& start)
        : start_(start),
          chance_(static_cast<uint32_t>(start.seed), start.rarely),
          always_(0, 0),
          commands_("commands", always_),
          loads_("loads", chance_),
          operands_("operands"),
          windows_(operands_, chance_),
          results_(chance_, windows_),
          stored_("stored"),
          vectors_("vectors"),
          reports_("reports"),
          credits_(stored_, chance_) {}

    void run() {
        give_commands();
        give<Group, Config::transfer_pixels>(start_.load, start_.loads, loads_.words);
        give<Result, Config::columns>(start_.result, start_.results, results_.words);
        results_.first_held = static_cast<std::size_t>(start_.first_held);
        results_.until = static_cast<std::size_t>(start_.operands_before);
        static bfpga::ScratchpadProcess<Config, typename Config::Storage> process;
        windows_.patience = start_.patience;
        run(process, std::integral_constant<bool, (Config::skip_groups > 0)>());
        start_.work = static_cast<int32_t>(reports_.read());
        start_.most_stored = static_cast<int32_t>(credits_.most);
        take();
    }

   private:
    template <class Process>
    void run(Process& process, std::false_type) {
        process.run(commands_.to, loads_.to, operands_, vectors_, results_.to, stored_, credits_.to, reports_, trace_);
    }

    template <class Process>
    void run(Process& process, std::true_type) {
        process.run(commands_.to, loads_.to, operands_, vectors_, results_.to, stored_, credits_.to, windows_.to,
                    reports_, trace_);
    }

    void give_commands() {
        for (int n = 0; n < start_.operations; ++n) {
            for (int k = 0; k < bfpga::Descriptor::words; ++k) {
                if (bfpga::ScratchpadCommand::has(k)) {
                    commands_.words.push_back(start_.descriptor[n * bfpga::Descriptor::words + k]);
                }
            }
        }
        for (int k = 0; k < bfpga::ScratchpadCommand::words; ++k) {
            commands_.words.push_back(0);
        }
    }

    template <class Beat, int N>
    static void give(const int32_t* from, int count, std::vector<bfpga::wire_t<Beat>>& to) {
        for (int n = 0; n < count; ++n) {
            Beat beat;
            for (int i = 0; i < N; ++i) {
                for (int l = 0; l < Config::lanes; ++l) {
                    beat.word[i].lane[l] = static_cast<typename bfpga::Geometry<Config>::mantissa_t>(*from++);
                }
            }
            to.push_back(bfpga::to_wire(beat));
        }
    }

    template <int N>
    static void put(const bfpga::Word<Config> (&word)[N], int32_t*& to) {
        for (int i = 0; i < N; ++i) {
            for (int l = 0; l < Config::lanes; ++l) {
                *to++ = static_cast<int32_t>(word[i].lane[l]);
            }
        }
    }

    static void put(const bool (&flag)[Config::columns], int32_t*& to) {
        for (int i = 0; i < Config::columns; ++i) {
            *to++ = flag[i] ? 1 : 0;
        }
    }

    template <class Beat, class Each>
    int32_t drain(bfpga::stream<bfpga::wire_t<Beat>>& from, const Each& each) {
        int32_t count = 0;
        for (; !from.empty() && count < start_.capacity; ++count) {
            const bfpga::wire_t<Beat> word = from.read();
            each(bfpga::from_wire<Beat>(word));
        }
        return count;
    }

    void take() {
        int32_t* operand = start_.operand;
        windows_.take();
        if (windows_.beats.size() > static_cast<std::size_t>(start_.capacity)) {
            throw bfpga::StreamError("more operands than the test has room for");
        }
        for (const Operand& beat : windows_.beats) {
            if (beat.stop) {
                *operand = -1;  // nothing comes behind it
                break;
            }
            *operand++ = beat.fires ? 1 : 0;
            *operand++ = beat.first ? 1 : 0;
            *operand++ = beat.last ? 1 : 0;
            put(beat.mine, operand);
            put(beat.word, operand);
            *operand++ = beat.opens ? 1 : 0;
            *operand++ = beat.closes ? 1 : 0;
            *operand++ = beat.single ? 1 : 0;
            *operand++ = Config::skip_activations && beat.leaves ? 1 : 0;
            *operand++ = beat.apart ? 1 : 0;
        }
        start_.counts[0] = static_cast<int32_t>(windows_.beats.size());
        start_.counts[4] = static_cast<int32_t>(windows_.credit_at.size());
        for (std::size_t k = 0; k < windows_.credit_at.size(); ++k) {
            start_.credit[k] = windows_.credit_at[k];
        }
        int32_t* vector = start_.vector;
        start_.counts[1] = drain<Vector>(vectors_, [&](const Vector& beat) {
            *vector++ = beat.fires ? 1 : 0;
            put(beat.mine, vector);
            put(beat.present, vector);
            put(beat.word, vector);
        });
        int32_t* stored = start_.stored;
        start_.counts[2] = drain<Group>(stored_, [&](const Group& beat) { put(beat.word, stored); });
        start_.counts[3] = static_cast<int32_t>(trace_.log.size() / 2);
        for (std::size_t k = 0; k < trace_.log.size(); ++k) {
            start_.finished[k] = trace_.log[k];
        }
    }

    Start& start_;
    Chance chance_, always_;
    Sender<bfpga::command_t> commands_;
    Sender<bfpga::wire_t<Group>> loads_;
    bfpga::stream<bfpga::wire_t<Operand>> operands_;
    Windows<Config> windows_;
    Results<bfpga::wire_t<Result>, Windows<Config>> results_;
    bfpga::stream<bfpga::wire_t<Group>> stored_;
    bfpga::stream<bfpga::wire_t<Vector>> vectors_;
    bfpga::stream<bfpga::command_t> reports_;
    Credits<bfpga::wire_t<Group>> credits_;
    Finished trace_;
};

struct Run {
    Start* start;

    template <class Config>
    void apply() const {
        start->error[0] = 0;
        try {
            Bench<Config> bench(*start);
            bench.run();
        } catch (const std::runtime_error& error) {
            std::snprintf(start->error, sizeof start->error, "%s", error.what());
        }
    }
};

}  // namespace

extern "C" {

// 0, or 1 if there is no pad of that number. `hardware`: the form that is synthesised.
int unit_scratchpad(int number, int hardware, Start* start) {
    return hardware != 0 ? with_pad(number, Run{start}, static_cast<const All<bfpga::VitisStorage>*>(nullptr))
                         : with_pad(number, Run{start}, static_cast<const Indexed*>(nullptr));
}

}  // extern "C"
