// output_stage.hpp, activation_unit.hpp and exponent_selector.hpp: layers on one policy slot.
#include <cstdint>

#include "bfpga/output/output_stage.hpp"
#include "unit_config.hpp"

namespace {

using bfpga::LogMode;
using bfpga::Rounding;
using bfpga::Saturation;

// One layer; values are (rows, columns).
struct Layer {
    const int32_t* words;
    int32_t accumulator_exponent;
    int32_t rows;
    int32_t columns;
    const int64_t* accumulator;
    const int32_t* bias;
    const int32_t* row_exponent;
    // Results
    int64_t* value;
    int32_t* exponent;
    int32_t* mantissa;
    int32_t output_exponent;
    uint32_t overflows;
    uint32_t underflows;
    int32_t bits;
};

struct Bench {
    virtual ~Bench() {}
    virtual void run(Layer& layer) = 0;
};

template <class Config>
class ConfiguredBench : public Bench {
    static constexpr int ACC = Config::accumulator_bits;

   public:
    void run(Layer& layer) override {
        bfpga::Descriptor d = decode(layer.words);
        const int32_t measure = d.flags & bfpga::Flag::Measure;
        layer.overflows = layer.underflows = 0;
        layer.bits = 0;
        if (measure != 0) {
            slot_.begin(true);
            pass(d, layer);
            d.flags &= ~bfpga::Flag::Measure;
        }
        slot_.begin(false);
        layer.output_exponent = slot_.choose(d, layer.accumulator_exponent, layer.bits);
        pass(d, layer);
        slot_.learn(d, layer.output_exponent, layer.bits);
    }

   private:
    static bfpga::Descriptor decode(const int32_t* words) {
        int32_t copy[bfpga::Descriptor::words];
        for (int k = 0; k < bfpga::Descriptor::words; ++k) {
            copy[k] = words[k];
        }
        return bfpga::decode_descriptor(copy);
    }

    void pass(const bfpga::Descriptor& d, Layer& layer) {
        const int32_t unit = layer.accumulator_exponent;
        stage_.start(d, bfpga::LayerExponents{unit, unit, unit, layer.output_exponent});
        for (int r = 0; r < layer.rows; ++r) {
            stage_.row(static_cast<bfpga::int_t<Config::bias_bits>>(layer.bias[r]), layer.row_exponent[r]);
            bfpga::int_t<ACC> accumulator[Config::columns];
            bool shown[Config::columns];
            bfpga::int_t<Config::mantissa_bits> mantissa[Config::columns];
            const bfpga::int_t<Config::mantissa_bits> none[Config::columns] = {};
            for (int i = 0; i < Config::columns; ++i) {
                const int k = r * layer.columns + i;
                shown[i] = i < layer.columns;
                accumulator[i] = static_cast<bfpga::int_t<ACC>>(shown[i] ? layer.accumulator[k] : -1);
            }
            stage_.values(accumulator, none, shown, slot_, mantissa);
            for (int i = 0; i < layer.columns; ++i) {
                const int k = r * layer.columns + i;
                const bfpga::StageValue<ACC> result = stage_.evaluate(accumulator[i]);
                layer.value[k] = static_cast<int64_t>(result.value);
                layer.exponent[k] = static_cast<int32_t>(result.exponent);
                layer.mantissa[k] = static_cast<int32_t>(mantissa[i]);
            }
        }
        stage_.finish(slot_, layer);
    }

    bfpga::PolicySlot<Config> slot_;
    bfpga::OutputStage<Config> stage_;
};

}  // namespace

extern "C" {

void* unit_bench(int configuration) {
    switch (configuration) {
        case 0:
            return new ConfiguredBench<UnitConfig<8, Rounding::Rne, Saturation::Sym, LogMode::Floor, 32, 18>>();
        case 1:
            return new ConfiguredBench<UnitConfig<16, Rounding::Rne, Saturation::Sym, LogMode::Floor, 48, 32>>();
#ifdef BFPGA_NATIVE_INTEGERS  // the same code for other formats: ap_int takes long to compile
        case 2:
            return new ConfiguredBench<UnitConfig<16, Rounding::Trunc, Saturation::Sym, LogMode::Floor, 48, 18>>();
        case 3:
            return new ConfiguredBench<UnitConfig<16, Rounding::HalfUp, Saturation::Sym, LogMode::Floor, 48, 18>>();
        case 4:
            return new ConfiguredBench<UnitConfig<4, Rounding::HalfAway, Saturation::Wrap, LogMode::Ceil, 16, 16>>();
        case 5:
            return new ConfiguredBench<UnitConfig<18, Rounding::Tozero, Saturation::Full, LogMode::Ceil, 58, 32>>();
        case 6:
            return new ConfiguredBench<UnitConfig<16, Rounding::Rne, Saturation::Sym, LogMode::Floor, 48, 32, 5>>();
#endif
        default:
            return nullptr;
    }
}

void unit_run(void* bench, Layer* layer) { static_cast<Bench*>(bench)->run(*layer); }

void unit_free(void* bench) { delete static_cast<Bench*>(bench); }

}  // extern "C"
