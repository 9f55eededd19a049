// processes/skip_array/skip_array.hpp: skip arrays of a list, by their number, fed with operands and entries that come
// when they like; a chunk of operands comes only when the array has room for it.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "bfpga/kernel/storage.hpp"
#include "bfpga/processes/skip_array/skip_array.hpp"
#include "build_list.hpp"
#include "process_ends.hpp"
#include "skip_config.hpp"

namespace {

// The build of a PYNQ-Z2; others whose numbers all differ.
using All = List<SkipArray<16, 2, 12, 4, 256, 8, 8, 24, 128>, SkipArray<4, 2, 4, 2, 16, 8, 8, 24, 12>,
                 SkipArray<1, 1, 2, 1, 4, 6, 5, 32, 3>, SkipArray<5, 3, 6, 4, 32, 8, 8, 20, 28>>;

struct Numbers {
    int32_t* value;

    template <class Config>
    int apply() const {
        const int32_t numbers[] = {Config::skip_groups, Config::skip_halves,   Config::columns,    Config::lanes,
                                   Config::skip_chunk,  Config::mantissa_bits, Config::weight_bits};
        std::memcpy(value, numbers, sizeof numbers);
        return 0;
    }
};

struct Layer {
    int32_t beats;
    const int32_t* operand;  // (beats, columns, lanes)
    const uint8_t* mine;     // (beats, columns)
    const uint8_t* control;  // (beats, 9): fires, first, last, opens, closes, single, a chunk begins, slides,
                             // apart
    const int32_t* entry;    // (entries of all groups, 4): value, position, last, ends
    const int32_t* entries;  // (groups): how many
    int32_t chunks;          // that have room
    int32_t rarely;
    int32_t room;      // of the stream of sums, in words
    int32_t late;      // credits that come before sums are taken
    int32_t starts;    // that do all of this; entries of all are there when the first one begins
    int32_t capacity;  // of `sum`, in rows
    int64_t* sum;      // (rows, columns)
    int32_t rows;      // that came
    int32_t credits;   // that came
    int64_t clocks;    // of the loop; 0 where nobody counts them
    char* message;     // (256)
};

// Hands out entries, and hears of the clock in which it is asked.
template <class Config>
class EntrySender : public BeatSender<bfpga::Entry<Config>> {
    using Base = BeatSender<bfpga::Entry<Config>>;

   public:
    EntrySender(uint32_t seed, unsigned rarely) : Base("entries", seed, rarely) {}

    void polled(const std::string& stream) override {
#ifdef BFPGA_WAIVERS_CHECKED
        clocks = bfpga::PipelinedLoop::number(bfpga::PipelinedLoop::running()->now());
#endif
        if (++polls_ > 1000000) {
            throw bfpga::StreamError("the array goes on for ever; it asks for entries");
        }
        Base::polled(stream);
    }

    int64_t clocks = 0;

   private:
    int32_t polls_ = 0;
};

// Hands out the operands of a chunk when the array has given room for it.
template <class Config>
class OperandSender : public bfpga::StreamWaits {
    using Beat = bfpga::OperandBeat<Config>;
    static constexpr int controls = 9;

   public:
    OperandSender(const Layer& layer, bfpga::stream<bool>& windows)
        : to("operands"), layer_(layer), windows_(windows), random_(7), room_(layer.chunks) {
        to.join(*this);
    }

    void wait(const std::string& stream, bool) override {
        throw bfpga::StreamError("stream `" + stream + "` must not be waited for");
    }

    void polled(const std::string&) override {
        if (++polls_ > 1000000) {
            throw bfpga::StreamError("the array goes on for ever; operands so far: " + std::to_string(next_));
        }
        while (!windows_.empty()) {
            windows_.read();
            ++credits;
        }
        const bool begins = next_ < layer_.beats && layer_.control[controls * next_ + 6] != 0;
        if (next_ > layer_.beats || (begins && room_ + credits <= 0) ||
            random_() % 8 < static_cast<unsigned>(layer_.rarely)) {
            return;
        }
        room_ -= begins ? 1 : 0;
        to.write(bfpga::to_wire(beat(next_++)));
    }

    // The operands of another start come.
    void again() {
        next_ = 0;
        polls_ = 0;
    }

    bfpga::stream<bfpga::wire_t<Beat>> to;
    int32_t credits = 0;

   private:
    Beat beat(int n) const {
        Beat beat = {};
        beat.stop = n == layer_.beats;
        for (int i = 0; i < Config::columns && !beat.stop; ++i) {
            beat.mine[i] = layer_.mine[n * Config::columns + i] != 0;
            for (int l = 0; l < Config::lanes; ++l) {
                beat.word[i].lane[l] = static_cast<typename bfpga::Geometry<Config>::mantissa_t>(
                    layer_.operand[(n * Config::columns + i) * Config::lanes + l]);
            }
        }
        if (!beat.stop) {
            const uint8_t* control = layer_.control + controls * n;
            beat.fires = control[0] != 0;
            beat.first = control[1] != 0;
            beat.last = control[2] != 0;
            beat.opens = control[3] != 0;
            beat.closes = control[4] != 0;
            beat.single = control[5] != 0;
            beat.slides = control[7] != 0;
            beat.apart = control[8] != 0;
        }
        return beat;
    }

    const Layer& layer_;
    bfpga::stream<bool>& windows_;
    std::mt19937 random_;
    int32_t next_ = 0, room_, polls_ = 0;
};

// Takes sums only when their stream has no room for another one, and then rarely.
template <class Config>
class SumReceiver : public bfpga::StreamWaits {
   public:
    SumReceiver(const Layer& layer, const int32_t& credits)
        : from("sums", static_cast<std::size_t>(layer.room)), layer_(layer), credits_(credits), random_(9) {
        from.join(*this);
    }

    void wait(const std::string& stream, bool) override {
        throw bfpga::StreamError("stream `" + stream + "` must not be waited for");
    }

    void polled(const std::string&) override {
        if (credits_ >= layer_.late && random_() % 8 >= static_cast<unsigned>(layer_.rarely)) {
            take();
        }
    }

    void take_all() {
        while (!from.empty()) {
            take();
        }
    }

    bfpga::stream<bfpga::wire_t<bfpga::SumBeat<Config>>> from;
    int32_t rows = 0;

   private:
    void take() {
        const bfpga::wire_t<bfpga::SumBeat<Config>> word = from.read();
        const bfpga::SumBeat<Config> beat = bfpga::from_wire<bfpga::SumBeat<Config>>(word);
        for (int i = 0; i < Config::columns && rows < layer_.capacity; ++i) {
            layer_.sum[rows * Config::columns + i] = static_cast<int64_t>(beat.sum[i]);
        }
        ++rows;
    }

    const Layer& layer_;
    const int32_t& credits_;
    std::mt19937 random_;
};

struct Run {
    Layer* layer;

    template <class Config>
    int apply() const {
        return caught(layer->message,
                      [this] { this->template run<Config>(std::make_index_sequence<Config::skip_groups>()); });
    }

    template <class Config, std::size_t... G>
    void run(std::index_sequence<G...>) const {
        using Entries = EntrySender<Config>;
        bfpga::stream<bool> windows("windows");
        OperandSender<Config> operands(*layer, windows);
        SumReceiver<Config> sums(*layer, operands.credits);
        const unsigned rarely = static_cast<unsigned>(layer->rarely);
        const std::unique_ptr<Entries> entries[] = {
            std::unique_ptr<Entries>(new Entries(static_cast<uint32_t>(G), rarely))...};
        const int32_t* next = layer->entry;
        for (int g = 0; g < Config::skip_groups; ++g) {
            for (int n = 0; n < layer->entries[g]; ++n, next += 4) {
                bfpga::Entry<Config> entry;
                entry.value = static_cast<typename bfpga::Entry<Config>::value_t>(next[0]);
                entry.position = static_cast<typename bfpga::Entry<Config>::position_t>(next[1]);
                entry.last = next[2] != 0;
                entry.ends = next[3] != 0;
                entries[g]->words.push_back(bfpga::to_wire(entry));
            }
            repeat(entries[g]->words, layer->starts);
        }
        const auto process = std::unique_ptr<bfpga::SkipArrayProcess<Config, bfpga::SimulationStorage>>(
            new bfpga::SkipArrayProcess<Config, bfpga::SimulationStorage>());
        for (int start = 0; start < layer->starts; ++start) {
            operands.again();
            process->run(operands.to, sums.from, windows, entries[G]->to...);
        }
        sums.take_all();
        layer->rows = sums.rows;
        layer->credits = operands.credits;
        while (!windows.empty()) {
            windows.read();
            ++layer->credits;
        }
        layer->clocks = 0;
        for (const auto& group : entries) {
            layer->clocks = std::max(layer->clocks, group->clocks);
            if (!group->empty()) {
                throw bfpga::StreamError("a group has entries left");
            }
        }
    }
};

}  // namespace

extern "C" {

// 0, or 1 if there is no array of that number, or 2 and a message if the array stops with an error.
int unit_skip_numbers(int number, int32_t* numbers) {
    return with_build(number, Numbers{numbers}, static_cast<const All*>(nullptr));
}

int unit_skip_run(int number, Layer* layer) { return with_build(number, Run{layer}, static_cast<const All*>(nullptr)); }

// Sums (kernels, 2) of `terms` products each: of the low pixels and of the high ones; the first product begins them.
void unit_pair_sums(int kernels, int terms, const int8_t* value, const int8_t* low, const int8_t* high, int64_t* sums) {
    bfpga::PairSums<24, 256> pair;
    int n = 0;
    for (int k = 0; k < kernels; ++k) {
        for (int t = 0; t < terms; ++t, ++n) {
            const bfpga::int_t<8> one = static_cast<bfpga::int_t<8>>(low[n]);
            const bfpga::int_t<8> other = static_cast<bfpga::int_t<8>>(high[n]);
            pair.accumulate(bfpga::PixelPairs::hold(other, one), static_cast<bfpga::int_t<8>>(value[n]), t == 0);
        }
        bfpga::int_t<24> both[2];
        bfpga::PairSums<24, 256>::read(pair.kept(), both[0], both[1]);
        sums[2 * k] = static_cast<int64_t>(both[0]);
        sums[2 * k + 1] = static_cast<int64_t>(both[1]);
    }
}

}  // extern "C"
