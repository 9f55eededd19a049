// processes/skip_array/sparse_array.hpp: arrays of a list, by their number, fed with operands and weights that come
// when they like; a segment of operands comes only when the array has room for it.
#include <cstdint>
#include <cstring>
#include <memory>

#include "bfpga/kernel/storage.hpp"
#include "bfpga/processes/skip_array/sparse_array.hpp"
#include "build_list.hpp"
#include "process_ends.hpp"
#include "sparse_config.hpp"

namespace {

// The build of a PYNQ-Z2; others whose numbers all differ.
using All = List<SparseArray<12, 4, 16, 256, 32, 16, 8, 8, 24>, SparseArray<3, 2, 4, 16, 16, 2, 8, 8, 24>,
                 SparseArray<1, 1, 2, 64, 16, 1, 6, 5, 32>, SparseArray<5, 4, 12, 64, 64, 4, 8, 8, 20>>;

struct Numbers {
    int32_t* value;

    template <class Config>
    int apply() const {
        const int32_t numbers[] = {Config::columns,     Config::lanes,         Config::rows,
                                   Config::skip_chunk,  Config::skip_queue,    Config::skip_passes,
                                   Config::weight_bits, Config::mantissa_bits, bfpga::SparseTypes<Config>::segments};
        std::memcpy(value, numbers, sizeof numbers);
        return 0;
    }
};

struct Layer {
    int32_t beats;
    const int32_t* operand;  // (beats, columns, lanes)
    const uint8_t* mine;     // (beats, columns)
    const uint8_t* control;  // (beats, 9): fires, first, last, opens, closes, single, leaves, apart, a segment begins
    int32_t words;
    const int32_t* weight;  // (words, rows, lanes)
    const uint8_t* ends;    // (words): the last one of a chunk
    const uint8_t* apart;   // (words): each group needs one lane
    int32_t segments;       // that have room
    int32_t rarely, late;   // eighths of the clocks without an operand or sum taken; without a weight
    int32_t room;           // of the stream of sums, in words
    int32_t held;           // credits that come before sums are taken
    int32_t starts;         // that do all of this; weights of all are there when the first one begins
    int32_t capacity;       // of `sum`, in rows
    int64_t* sum;           // (rows, columns)
    int32_t rows;           // that came
    int32_t credits;        // that came
    int64_t clocks;         // until the last sum; 0 where nobody counts them
    char* message;          // (256)
};

int64_t now() {
#ifdef BFPGA_WAIVERS_CHECKED
    return bfpga::PipelinedLoop::number(bfpga::PipelinedLoop::running()->now());
#else
    return 0;
#endif
}

// Hands out the operands of a segment when the array has given room for it.
template <class Config>
class OperandSender : public bfpga::StreamWaits {
    using Beat = bfpga::OperandBeat<Config>;
    static constexpr int controls = 9;

   public:
    OperandSender(const Layer& layer, bfpga::stream<bool>& windows)
        : to("operands"), layer_(layer), windows_(windows), random_(7), room_(layer.segments) {
        to.join(*this);
    }

    void wait(const std::string& stream, bool) override {
        throw bfpga::StreamError("stream `" + stream + "` must not be waited for");
    }

    void polled(const std::string&) override {
        if (++polls_ > 2000000) {
            throw bfpga::StreamError("the array goes on for ever; operands so far: " + std::to_string(next_));
        }
        count();
        const bool begins = next_ < layer_.beats && layer_.control[controls * next_ + 8] != 0;
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

    // Credits that have come.
    int32_t count() {
        while (!windows_.empty()) {
            windows_.read();
            ++credits;
        }
        return credits;
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
            beat.leaves = control[6] != 0;
            beat.apart = control[7] != 0;
        }
        return beat;
    }

    const Layer& layer_;
    bfpga::stream<bool>& windows_;
    std::mt19937 random_;
    int32_t next_ = 0, room_, polls_ = 0;
};

// Takes sums now and then.
template <class Config>
class SumReceiver : public bfpga::StreamWaits {
   public:
    SumReceiver(const Layer& layer, OperandSender<Config>& operands)
        : from("sums", static_cast<std::size_t>(layer.room)), layer_(layer), operands_(operands), random_(9) {
        from.join(*this);
    }

    void wait(const std::string& stream, bool) override {
        throw bfpga::StreamError("stream `" + stream + "` must not be waited for");
    }

    void polled(const std::string&) override {
        clocks = now();
        if (operands_.count() >= layer_.held && random_() % 8 >= static_cast<unsigned>(layer_.rarely)) {
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
    int64_t clocks = 0;  // until one was offered last

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
    OperandSender<Config>& operands_;
    std::mt19937 random_;
};

struct Run {
    Layer* layer;

    template <class Config>
    int apply() const {
        return caught(layer->message, [this] { this->template run<Config>(); });
    }

    template <class Config>
    void run() const {
        using Weights = bfpga::WeightBeat<Config>;
        bfpga::stream<bool> windows("windows");
        OperandSender<Config> operands(*layer, windows);
        SumReceiver<Config> sums(*layer, operands);
        BeatSender<Weights> weights("weight_words", 3, static_cast<unsigned>(layer->late));
        const int32_t* next = layer->weight;
        for (int n = 0; n < layer->words; ++n) {
            Weights beat = {};
            for (int r = 0; r < Config::rows; ++r) {
                for (int l = 0; l < Config::lanes; ++l) {
                    beat.weight.row[r][l] = static_cast<typename bfpga::Geometry<Config>::weight_t>(*next++);
                }
            }
            beat.two_hot = layer->ends[n] != 0;
            beat.power_of_two = layer->apart[n] != 0;
            weights.words.push_back(bfpga::to_wire(beat));
        }
        repeat(weights.words, layer->starts);
        using Process = bfpga::SparseArrayProcess<Config, bfpga::SimulationStorage>;
        const std::unique_ptr<Process> process(new Process());
        for (int start = 0; start < layer->starts; ++start) {
            operands.again();
            process->run(operands.to, weights.to, sums.from, windows);
        }
        layer->clocks = sums.clocks;
        sums.take_all();
        layer->rows = sums.rows;
        layer->credits = operands.count();
        if (!weights.empty()) {
            throw bfpga::StreamError("weights are left");
        }
    }
};

}  // namespace

extern "C" {

// 0, or 1 if there is no array of that number, or 2 and a message if the array stops with an error.
int unit_sparse_numbers(int number, int32_t* numbers) {
    return with_build(number, Numbers{numbers}, static_cast<const All*>(nullptr));
}

int unit_sparse_run(int number, Layer* layer) {
    return with_build(number, Run{layer}, static_cast<const All*>(nullptr));
}

}  // extern "C"
