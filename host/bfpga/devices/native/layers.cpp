// Runs of layers for a batch: a few samples pass all layers before the next ones begin, so that activations stay in the
// cache; threads share the samples. `host/bfpga/devices/native` describes the layers and calls; results and counts are
// those of the engines in numpy.
#include <atomic>
#include <limits>
#include <map>
#include <mutex>
#include <thread>

#include "adding.hpp"
#include "kernels.hpp"
#include "ports.hpp"
#include "records.hpp"
#include "rows.hpp"
#include "stage.hpp"
#include "tables.hpp"

namespace bfpga_native {

/// Below the leading position of any value.
constexpr s32 NO_LEAD = -(1 << 20);
/// Constants that are kept for a layer's exponents, pairs of them.
constexpr size_t KEPT_SHIFTS = 32;

/// Constants of a layer's requantizer by the exponents of its accumulators and of its results.
template <class T>
class KeptShifts {
   public:
    const Shifts<T>& of(const Aligned& a, s32 e_acc, s32 e4, int slots, const Format& f) {
        if (kept.size() >= KEPT_SHIFTS && !kept.count({e_acc, e4}))
            kept.clear();
        Shifts<T>& found = kept[{e_acc, e4}];
        if (!found.right.size())
            found.make(a.exponents.data(), e4, slots, f);
        return found;
    }

   private:
    std::map<std::pair<s32, s32>, Shifts<T>> kept;
};

/// Routes of layers by the exponent of their accumulators.
template <class T>
using KeptRoutes = std::vector<std::map<s32, std::unique_ptr<TableRoute<T>>>>;

/// What a layer's sums take for one exponent, and the tensor that is added to them.
struct Sums {
    std::unique_ptr<Added> added;
    std::unique_ptr<Aligned> aligned;
};

/// What one thread needs for a chunk of samples.
struct Workspace {
    std::vector<Array<Element>> buffers;
    std::vector<std::vector<s32>> exponents;
    /// Tensors without negative mantissas in the samples at hand.
    std::vector<u8> positive;
    /// How far after the activations of a tensor their magnitudes are; 0 where they are not read.
    std::vector<size_t> magnitudes;
    /// By the exponents of the accumulators and of a tensor that is added to them.
    std::vector<std::map<std::pair<s32, s32>, std::unique_ptr<Sums>>> sums_by_exponents;
    std::vector<KeptShifts<s32>> shifts32;
    std::vector<KeptShifts<s64>> shifts64;
    KeptRoutes<s32> tables32;
    KeptRoutes<s64> tables64;
    /// Results of functions with tables, of one sample.
    Array<u8> table_results;
    std::vector<std::unique_ptr<Stage>> stages;
    Array<u8> raw;
    /// Sums of one sample with what is added to them, where these need 64 bits and the sums alone do not.
    Array<s64> exact_sums;
    Array<s32> column, largest_values;
    Array<Element> scratch;
    /// The tensor that a layer reads once more: high bytes of its activations, or activations with an offset.
    Array<u8> copy;
    Array<Weight> product_weights, product_low;
    Array<s32> product_correction;
    std::vector<s64> overflows, drained;
    std::vector<Counters> counters;
};

/// Samples of a batch that no thread has taken yet.
class Samples {
   public:
    /// most: that pass all layers together. Threads share the last ones in smaller pieces, to end at the same time.
    Samples(s32 count, s32 most, s32 threads)
        : count(count), most(most), least(threads > 1 ? std::max(1, most / SMALLER) : most), threads(threads) {}
    /// The next samples for a thread: how many, from ``first`` on; 0 if none is left.
    s32 take(s32& first) {
        first = next;
        s32 size;
        do {
            const s32 left = count - first;
            size = std::min(left, std::max(least, std::min(most, left / (2 * threads))));
        } while (size > 0 && !next.compare_exchange_weak(first, first + size));
        return size;
    }

   private:
    static constexpr s32 SMALLER = 8;
    const s32 count, most, least, threads;
    std::atomic<s32> next{0};
};

struct Call {
    const Port* ports;
    s32 samples;
    Choose choose;
    Learn learn;
};

class Plan {
   public:
    explicit Plan(const Segment& segment);
    s32 run(const Call& call, s32 threads, Counters* counters);

   private:
    Segment g;
    std::vector<Tensor> tensors;
    std::vector<std::unique_ptr<Prepared>> layers;
    std::vector<Buffer> places;
    std::vector<std::unique_ptr<Workspace>> spaces;
    std::mutex busy;

    Workspace& space(int number);
    Aligned* align(const Prepared& p, s32 e_acc, const Array<s64>& bound) const;
    const Sums& sums_of(Workspace& w, int k, int s) const;
    s32 prescan(const Call& call) const;
    s32 busy_threads(s32 samples) const;
    s32 chunk(Workspace& w, const Call& call, s32 first, s32 count) const;
    s32 enter(Workspace& w, const Call& call, s32 first, s32 count) const;
    void leave(Workspace& w, const Call& call, s32 first, s32 count) const;
    void layer(Workspace& w, const Call& call, int k, s32 count) const;
    void accumulate(Workspace& w, const Prepared& p, int s, const s32* starts, int pixels, Sink sink) const;
    void finish_sample(Workspace& w, const Call& call, int k, int s, void* raw, Counts& counts) const;
    template <class A>
    void finish_sums(Workspace& w, const Call& call, int k, int s, A* raw, Counts& counts) const;
    template <class A>
    void finish_raw(Workspace& w, const Call& call, int k, int s, const A* raw, const Aligned& a, Counts& counts) const;
    template <class T, class A>
    void finish_fast(Workspace& w, const Call& call, int k, int s, const A* raw, const Aligned& a, KeptShifts<T>& kept,
                     Counts& counts, bool bias = true) const;
    template <class T, class A>
    void finish_table(Workspace& w, const Call& call, int k, int s, const A* raw, const Aligned& a,
                      KeptRoutes<T>& routes, KeptShifts<T>& kept, Counts& counts) const;
    template <class A>
    void finish_slow(Workspace& w, const Call& call, int k, int s, const A* raw, const Aligned& a,
                     Counts& counts) const;
    template <class T, class A>
    bool lead_fast(const Prepared& p, const A* raw, const Finish<T>& f, const Aligned& a, s32& lead) const;
    bool stays(const Prepared& p, const Aligned& a, const s32* raw) const;
    s32 accumulator_exponent(const Workspace& w, const Layer& l, int s) const;
    s32 output_exponent(Workspace& w, const Call& call, int k, s32 e_acc, s32 lead, bool nonzero) const;
    template <class T>
    Finish<T> epilogue(const Prepared& p, const Aligned& a, const Shifts<T>& shifts, bool bias) const;
};

Plan::Plan(const Segment& segment) : g(segment), tensors(segment.tensors, segment.tensors + segment.tensor_count) {
    g.tensors = tensors.data();
    for (const Tensor& t : tensors)
        places.emplace_back(t);
    for (int k = 0; k < g.layer_count; k++) {
        layers.emplace_back(new Prepared(g, segment.layers[k]));
        Prepared& p = *layers.back();
        p.prepare_chunk(g.chunk);
        const Layer& l = p.l;
        if (l.unit != ACCUMULATOR) {
            const s64 limit = (s64)l.limit << g.grid_bits;
            p.looked_up.reset(2 * limit + 1);
            for (s64 argument = -limit; argument <= limit; argument++)
                p.looked_up[argument + limit] = (s32)interpolate(g, l, argument, -g.grid_bits);
        }
        const Tensor& first = tensors[l.first];
        const bool known = first.known && (l.second < 0 || tensors[l.second].known);
        if (!known || p.wide || l.adds_second || l.kind == PRODUCT || l.kind == SCALE || l.kind == ROWS ||
            (l.policy != STATIC && l.policy != INHERIT))
            continue;
        const s32 e_acc = l.second < 0 ? first.exponent : std::max(first.exponent, tensors[l.second].exponent);
        p.aligned.reset(align(p, e_acc, p.bound));
        if (!p.aligned->small)
            continue;
        p.fused = true;
        p.shifts.make(p.aligned->exponents.data(), l.policy == STATIC ? l.exponent : e_acc, p.slots, g.format);
        // A bias after the function has to wait for it.
        const bool waits = l.function_first && l.function != NONE;
        p.initial.reset(p.slots);
        for (int i = 0; i < p.slots; i++)
            p.initial[i] = (p.correction.size() ? p.correction[i] : 0) + (waits ? 0 : p.aligned->bias32[i]);
    }
    g.layers = nullptr;
}

/// A layer's bias, bounds of its function and exponents for one exponent of its accumulators; bound: the largest of
/// these.
Aligned* Plan::align(const Prepared& p, s32 e_acc, const Array<s64>& bound) const {
    const Layer& l = p.l;
    const Format& f = g.format;
    const s64 most = largest_accumulator(f);
    std::unique_ptr<Aligned> a(new Aligned);
    for (Array<s32>* x : {&a->exponents, &a->bias32, &a->ceiling32})
        x->reset(p.slots);
    for (Array<s64>* x : {&a->bias64, &a->ceiling64})
        x->reset(p.slots);
    a->outside.reset(p.slots);
    s64 top = 0;
    bool plain = in_vectors(l.function) && l.unit == ACCUMULATOR && !f.wrap;
    for (int i = 0; i < p.slots; i++) {
        const int c = p.channel[i];
        if (c < 0) {
            a->exponents[i] = e_acc + (l.row_exponents ? l.row_exponents[0] : 0);
            continue;
        }
        s32 e3 = e_acc + (l.row_exponents ? l.row_exponents[c] : 0);
        bool outside = false;
        if (l.bias) {
            const s32 unit = l.function_first ? result_exponent(g, l, e3) : e3;
            a->bias64[i] = shift_saturate(l.bias[c], unit - l.bias_exponent, f.rounding, -most - 1, most, outside);
        }
        a->outside[i] = outside;
        if (outside && bound[i] == 0 && plain) {  // nothing but the bias, in its own unit
            a->bias64[i] = l.bias[c];
            e3 = l.bias_exponent;
        } else if (outside) {
            plain = false;
        }
        a->exponents[i] = e3;
        const s64 reach = bound[i] + std::abs(a->bias64[i]);
        top = std::max(top, reach);
        a->holds &= !l.bias || reach <= most;
        if (l.function == CLIP)
            a->ceiling64[i] =
                shift_saturate(l.argument, e3 - l.function_exponent, f.rounding, -most - 1, most, outside);
        a->bias32[i] = (s32)a->bias64[i];
        a->ceiling32[i] = (s32)std::max<s64>(std::min<s64>(a->ceiling64[i], SMALL), -SMALL);
    }
    a->top = top;
    a->likely = plain && !p.wide && top <= SMALL && (l.function != CLIP || l.argument >= 0);
    a->small = a->likely && a->holds;
    a->wide = plain && a->holds && top <= WIDE;
    return a.release();
}

template <class T>
static const T* bias_of(const Aligned& a);
template <>
const s32* bias_of<s32>(const Aligned& a) {
    return a.bias32.data();
}
template <>
const s64* bias_of<s64>(const Aligned& a) {
    return a.bias64.data();
}
template <class T>
static const T* ceiling_of(const Aligned& a);
template <>
const s32* ceiling_of<s32>(const Aligned& a) {
    return a.ceiling32.data();
}
template <>
const s64* ceiling_of<s64>(const Aligned& a) {
    return a.ceiling64.data();
}

/// bias: whether the accumulators are still without it.
template <class T>
Finish<T> Plan::epilogue(const Prepared& p, const Aligned& a, const Shifts<T>& shifts, bool bias) const {
    const Layer& l = p.l;
    Finish<T> f;
    f.right = shifts.right.data(), f.c1 = shifts.c1.data(), f.c2 = shifts.c2.data(), f.c3 = shifts.c3.data();
    f.left = shifts.left.data(), f.lefts = shifts.lefts;
    f.bias = bias_of<T>(a), f.ceiling = ceiling_of<T>(a);
    f.low = g.format.mantissa_min, f.high = g.format.mantissa_max, f.rounding = g.format.rounding;
    f.relu = l.function == RELU || l.function == CLIP, f.clip = l.function == CLIP;
    f.leaky = l.function == LEAKY_RELU ? l.argument : 0;
    f.first = l.function_first && l.function != NONE;
    f.add = (bias || f.first) && l.bias;
    f.simple = f.rounding == HALF_EVEN && !f.lefts && !f.clip && !f.leaky && !f.first;
    return f;
}

Workspace& Plan::space(int number) {
    while ((int)spaces.size() <= number) {
        std::unique_ptr<Workspace> w(new Workspace);
        size_t raw = 0, sums = 0, tabled = 0, column = 0, scratch = 0, slots = 0, weights = 0, copy = 0;
        w->buffers.resize(tensors.size());
        w->exponents.resize(tensors.size());
        w->positive.resize(tensors.size());
        w->magnitudes.resize(tensors.size());
        for (auto& p : layers)
            if (POSITIVE_DIFFERS && p->way == DENSE && !p->nonnegative && !p->centred.offset)
                w->magnitudes[p->l.first] = up((int)(places[p->l.first].size * g.chunk) + 256, 64);
        for (size_t i = 0; i < tensors.size(); i++) {
            Array<Element>& buffer = w->buffers[i];
            buffer.reset(places[i].size * g.chunk + 256 + w->magnitudes[i]);
            for (size_t j = 0; j < buffer.size(); j++)
                buffer[j] = (Element)ZERO;
            w->exponents[i].assign(g.chunk, tensors[i].exponent);
            w->positive[i] = (u8)tensors[i].nonnegative;
            scratch = std::max(scratch, (size_t)tensors[i].height * tensors[i].width * tensors[i].channels);
        }
        for (auto& p : layers) {
            const size_t samples = p->pixels < FEW_PIXELS ? g.chunk : 1;
            if (!p->fused)
                raw = std::max(raw, samples * p->pixels * p->raw_pitch() * (p->wide ? 8 : 4));
            if (p->l.adds_second)
                sums = std::max(sums, p->pixels * p->raw_pitch());
            if (p->l.unit != ACCUMULATOR)
                tabled = std::max(tabled, p->pixels * p->raw_pitch() * sizeof(s64));
            column = std::max(column, ((size_t)p->l.output_width * p->l.stride_x + MOST_COLUMNS) * V);
            slots = std::max(slots, (size_t)p->slots);
            if (p->estimated() || p->centred.offset)
                copy = std::max(copy, places[p->l.first].size * g.chunk + 256);
            if (p->l.kind == PRODUCT)
                weights = std::max(weights, (size_t)p->depth * p->slots);
            w->stages.emplace_back(new Stage(g, *p));
        }
        w->sums_by_exponents.resize(layers.size());
        w->shifts32.resize(layers.size());
        w->shifts64.resize(layers.size());
        w->tables32.resize(layers.size());
        w->tables64.resize(layers.size());
        w->table_results.reset(tabled + 64);
        w->raw.reset(raw + 64);
        w->exact_sums.reset(sums);
        w->copy.reset(copy);
        w->column.reset(column);
        w->scratch.reset(scratch + 64);
        w->largest_values.reset(slots);
        w->product_weights.reset(weights);
        w->product_low.reset(weights);
        w->product_correction.reset(slots);
        w->overflows.resize(g.chunk);
        w->counters.resize(layers.size());
        spaces.push_back(std::move(w));
    }
    return *spaces[number];
}

/// Whether all values that enter can be encoded; policies must not learn from a batch that is refused.
s32 Plan::prescan(const Call& call) const {
    for (size_t i = 0; i < tensors.size(); i++) {
        const Port& port = call.ports[2 * i];
        for (s32 s = 0; port.values && s < call.samples; s++) {
            s32 exponent = tensors[i].exponent, scale = 0;
            const size_t count = (size_t)tensors[i].height * tensors[i].width * tensors[i].channels;
            const float* x = port.values + s * port.sample_stride;
            const s32 found = sample_exponent(g.format, port, x, count, exponent, scale);
            if (found)
                return found;
        }
    }
    return ENTERED;
}

/// Threads that a batch keeps busy: starting one takes as long as some ten million products.
s32 Plan::busy_threads(s32 samples) const {
    constexpr s64 WORTH = 1 << 24;
    s64 products = 0;
    for (const auto& p : layers)
        products += (s64)p->pixels * p->slots * std::max(p->depth, p->l.kernel_height * p->l.kernel_width);
    return (s32)std::max<s64>((samples + g.chunk - 1) / g.chunk, std::min<s64>(samples, samples * products / WORTH));
}

s32 Plan::run(const Call& call, s32 threads, Counters* counters) {
    std::lock_guard<std::mutex> lock(busy);
    if (g.learns) {
        const s32 found = prescan(call);
        if (found)
            return found;
        threads = 1;
    }
    threads = std::max(1, std::min(threads, busy_threads(call.samples)));
    space(threads - 1);
    Samples samples(call.samples, g.chunk, threads);
    std::atomic<s32> error(0);
    auto work = [&](int number) {
        Workspace& w = *spaces[number];
        for (Counters& c : w.counters)
            c = Counters();
        for (s32 first, count; !error && (count = samples.take(first)) > 0;) {
            const s32 found = chunk(w, call, first, count);
            if (found)
                error = found;
        }
    };
    std::vector<std::thread> pool;
    for (int i = 1; i < threads; i++)
        pool.emplace_back(work, i);
    work(0);
    for (std::thread& t : pool)
        t.join();
    for (size_t k = 0; k < layers.size(); k++) {
        Counters& sum = counters[k];
        sum = Counters();
        for (int i = 0; i < threads; i++) {
            const Counters& c = spaces[i]->counters[k];
            sum.overflows += c.overflows, sum.underflows += c.underflows;
            sum.saturated_samples += c.saturated_samples, sum.status |= c.status;
            sum.most_saturated = std::max(sum.most_saturated, c.most_saturated);
        }
        sum.status |= (sum.overflows ? OVERFLOW : 0) | (sum.underflows ? UNDERFLOW : 0);
    }
    return error;
}

s32 Plan::chunk(Workspace& w, const Call& call, s32 first, s32 count) const {
    const s32 found = enter(w, call, first, count);
    if (found)
        return found;
    for (int k = 0; k < (int)layers.size(); k++)
        layer(w, call, k, count);
    leave(w, call, first, count);
    return ENTERED;
}

s32 Plan::enter(Workspace& w, const Call& call, s32 first, s32 count) const {
    for (size_t i = 0; i < tensors.size(); i++) {
        const Port& port = call.ports[2 * i];
        const Tensor& t = tensors[i];
        const size_t size = (size_t)t.height * t.width * t.channels;
        for (s32 s = 0; s < count && (port.values || port.mantissas); s++) {
            Element* to = w.buffers[i].data() + s * places[i].size;
            s32& exponent = w.exponents[i][s];
            if (port.mantissas) {
                w.positive[i] = (u8)t.nonnegative;
                exponent = port.exponents[first + s];
                if (g.format.mantissa_bits <= 8)
                    enter_mantissas(t, places[i], (const s8*)port.mantissas + (first + s) * size, to);
                else
                    enter_mantissas(t, places[i], (const s16*)port.mantissas + (first + s) * size, to);
                continue;
            }
            const float* x = port.values + (first + s) * port.sample_stride;
            s32 scale = exponent;
            if (port.find || exponent < SMALLEST_SCALE || exponent > LARGEST_SCALE) {
                const Entry found = sample_exponent(g.format, port, x, size, exponent, scale);
                if (found)
                    return found;
            }
            const Seen seen = enter_values(g.format, t, places[i], port, x, scale, to, w.scratch.data());
            if (!seen.finite())
                return NOT_FINITE;
            w.positive[i] = (u8)((s == 0 || w.positive[i]) && !seen.negative());
        }
    }
    return ENTERED;
}

void Plan::leave(Workspace& w, const Call& call, s32 first, s32 count) const {
    for (size_t i = 0; i < tensors.size(); i++) {
        const Port& port = call.ports[2 * i + 1];
        const Tensor& t = tensors[i];
        const size_t size = (size_t)t.height * t.width * t.channels;
        for (s32 s = 0; s < count; s++) {
            const Element* from = w.buffers[i].data() + s * places[i].size;
            const s32 exponent = w.exponents[i][s];
            if (port.exponents)
                port.exponents[first + s] = exponent;
            if (port.values)
                leave_values(t, places[i], port, from, exponent, port.values + (first + s) * port.sample_stride);
            if (port.mantissas && g.format.mantissa_bits <= 8)
                leave_mantissas(t, places[i], from, (s8*)port.mantissas + (first + s) * size);
            else if (port.mantissas)
                leave_mantissas(t, places[i], from, (s16*)port.mantissas + (first + s) * size);
        }
    }
}

s32 Plan::accumulator_exponent(const Workspace& w, const Layer& l, int s) const {
    const s32 first = w.exponents[l.first][s];
    if (l.kind == ROWS && l.second < 0)
        return l.row_exponent;
    if (l.second < 0 || l.adds_second)
        return first;
    const s32 second = w.exponents[l.second][s];
    if (l.kind == ROWS)
        return first + second + l.row_exponent;
    return l.kind == PRODUCT || l.kind == SCALE ? first + second : std::max(first, second);
}

/// The accumulators of sample s (of the whole chunk with ``starts`` of several) into the sink.
void Plan::accumulate(Workspace& w, const Prepared& p, int s, const s32* starts, int pixels, Sink sink) const {
    const Layer& l = p.l;
    const Element* in = w.buffers[l.first].data() + s * p.in.size;
    const Weight *weights = p.weights.data(), *low = p.low_weights.data();
    if (l.kind == PRODUCT) {
        p.pack_products(w.buffers[l.second].data() + s * p.second.size, w.product_weights.data(), w.product_low.data(),
                        w.product_correction.data());
        weights = w.product_weights.data(), low = w.product_low.data();
        sink.initial = w.product_correction.data();
    }
    switch (p.way) {
        case DENSE:
            if (p.estimated())
                return dense_estimated(p, in, w.copy.data() + s * p.in.size, starts, pixels, sink.raw_wide);
            if (p.wide)
                return dense_wide(p, in, starts, pixels, weights, low, sink.raw_wide);
            if (w.positive[l.first])
                return dense<POSITIVE_DIFFERS>(p, in, 0, starts, pixels, weights, sink);
#if defined(BFPGA_AVX2)
            if (p.centred.offset)
                return dense_centred(p, in, w.copy.data() + s * p.in.size, starts, pixels, sink);
#endif
            return dense<false>(p, in, (s32)w.magnitudes[l.first], starts, pixels, weights, sink);
        case DEPTHWISE:
            if (p.wide)
                return depthwise_wide(p, in, starts, pixels, sink.raw_wide);
            if (p.runs.size() == 9)
                return depthwise<9>(p, in, starts, pixels, sink);
            return depthwise<0>(p, in, starts, pixels, sink);
        case COLUMNS:
#if defined(BFPGA_BYTES)
            if (l.kernel_width == 3 && w.positive[l.first])
                return columns<3, POSITIVE_DIFFERS>(p, in, sink, w.column.data());
            if (l.kernel_width == 3)
                return columns<3, false>(p, in, sink, w.column.data());
            return columns<0, false>(p, in, sink, w.column.data());
#endif
            return;
        case UNIFORM:
            return uniform(p, in, starts, pixels, sink);
        case MAXIMA:
            return maxima(p, tensors[l.first], in, -(1 << (g.format.mantissa_bits - 1)), sink);
        case SCALES:
            return scales(p, in, w.buffers[l.second].data() + s * p.second.size, -g.format.mantissa_max, sink);
        case WHOLE_ROWS:
            return rows(p, g.rows, in, l.second < 0 ? nullptr : w.buffers[l.second].data() + s * p.second.size,
                        w.exponents[l.first][s], sink.raw);
        case SUMS:
            const s32 e = accumulator_exponent(w, l, s), one = e - w.exponents[l.first][s];
            const Element* other = l.second < 0 ? nullptr : w.buffers[l.second].data() + s * p.second.size;
            const s32 two = l.second < 0 ? 0 : e - w.exponents[l.second][s];
            return sums(p, in, other, one, two, g.format.rounding, sink);
    }
}

void Plan::layer(Workspace& w, const Call& call, int k, s32 count) const {
    const Prepared& p = *layers[k];
    const Layer& l = p.l;
    Counts counts;
    std::fill(w.overflows.begin(), w.overflows.begin() + count, 0);
    const bool together = p.way == DENSE && p.chunk_starts.size() && l.kind != PRODUCT;
#if defined(BFPGA_AVX2)
    if (p.centred.offset && !w.positive[l.first])
        save_offset_copy(w.buffers[l.first].data(), places[l.first].size * count, p.centred.offset, w.copy.data());
#endif
    if (p.way == DENSE && !p.centred.offset && !w.positive[l.first] && w.magnitudes[l.first])
        save_magnitudes(w.buffers[l.first].data(), places[l.first].size * count, w.magnitudes[l.first]);
    if (p.estimated())
        save_high_bytes(w.buffers[l.first].data(), places[l.first].size * count, w.copy.data());
    Sink sink;
    sink.p = &p, sink.counts = &counts;
    static const Array<s32> nothing(1 << 16);
    if (p.fused) {
        const Finish<s32> f = epilogue<s32>(p, *p.aligned, p.shifts, false);
        sink.epilogue = &f, sink.initial = p.initial.data();
        // Sums and maxima start from nothing: they still need their bias.
        Finish<s32> late = f;
        if (p.way == SUMS || p.way == MAXIMA) {
            late = epilogue<s32>(p, *p.aligned, p.shifts, true);
            sink.epilogue = &late;
        }
        const s32 exponent = l.policy == STATIC ? l.exponent : accumulator_exponent(w, l, 0);
        for (s32 s = 0; s < count; s++)
            w.exponents[l.output][s] = exponent;
        if (together) {
            counts.overflows = w.overflows.data();
            sink.out = w.buffers[l.output].data(), sink.places = p.chunk_places.data();
            accumulate(w, p, 0, p.chunk_starts.data(), count * p.pixels, sink);
        }
        for (s32 s = 0; s < count && !together; s++) {
            counts.overflows = w.overflows.data() + s;
            sink.out = w.buffers[l.output].data() + s * p.out.size, sink.places = p.places.data();
            accumulate(w, p, s, p.starts.data(), p.pixels, sink);
        }
    } else {
        sink.raw = (s32*)w.raw.data(), sink.raw_wide = (s64*)w.raw.data();
        sink.initial = p.correction.size() ? p.correction.data() : nothing.data();
        if (together)
            accumulate(w, p, 0, p.chunk_starts.data(), count * p.pixels, sink);
        for (s32 s = 0; s < count; s++) {
            if (!together)
                accumulate(w, p, s, p.starts.data(), p.pixels, sink);
            const size_t at = together ? (size_t)s * p.pixels * p.raw_pitch() * (p.wide ? 8 : 4) : 0;
            finish_sample(w, call, k, s, w.raw.data() + at, counts);
        }
    }
    counts.flush();
    Counters& c = w.counters[k];
    c.underflows += counts.lost;
    for (s32 s = 0; s < count; s++) {
        c.overflows += w.overflows[s];
        c.saturated_samples += w.overflows[s] > 0;
        c.most_saturated = std::max(c.most_saturated, w.overflows[s]);
    }
}

/// Exponent of a sample's results by the layer's policy.
s32 Plan::output_exponent(Workspace& w, const Call& call, int k, s32 e_acc, s32 lead, bool nonzero) const {
    const Layer& l = layers[k]->l;
    s32& status = w.counters[k].status;
    s32 exponent = l.exponent;
    if (l.policy == INHERIT)
        return e_acc;
    if (l.policy == MAX)
        return exponent_from_lead(g.format, lead, nonzero, status);
    if (l.policy != STATIC)
        status |= call.choose(k, lead, nonzero, &exponent);
    return exponent;
}

void Plan::finish_sample(Workspace& w, const Call& call, int k, int s, void* raw, Counts& counts) const {
    if (layers[k]->wide)
        finish_sums(w, call, k, s, (s64*)raw, counts);
    else
        finish_sums(w, call, k, s, (s32*)raw, counts);
}

/// A sample's accumulators with the tensor that is added to them, if there is one, to mantissas.
template <class A>
void Plan::finish_sums(Workspace& w, const Call& call, int k, int s, A* raw, Counts& counts) const {
    const Prepared& p = *layers[k];
    const Sums& sums = sums_of(w, k, s);
    if (!sums.added)
        return finish_raw(w, call, k, s, raw, *sums.aligned, counts);
    const Element* second = w.buffers[p.l.second].data() + s * p.second.size;
    const bool vectors = sums.added->vectors;
    const bool clamped = vectors ? add_second(g.format, p, *sums.added, second, raw)
                                 : add_second_exactly(g.format, p, *sums.added, second, raw, w.exact_sums.data());
    w.counters[k].status |= clamped ? ACCUMULATOR_SATURATED : 0;
    if (vectors)
        finish_raw(w, call, k, s, raw, *sums.aligned, counts);
    else
        finish_raw(w, call, k, s, w.exact_sums.data(), *sums.aligned, counts);
}

/// What the sums of sample s take.
const Sums& Plan::sums_of(Workspace& w, int k, int s) const {
    const Prepared& p = *layers[k];
    const Layer& l = p.l;
    const s32 e_acc = accumulator_exponent(w, l, s), e_second = l.adds_second ? w.exponents[l.second][s] : 0;
    std::unique_ptr<Sums>& found = w.sums_by_exponents[k][{e_acc, e_second}];
    if (!found) {
        found.reset(new Sums);
        if (l.adds_second)
            found->added.reset(new Added(g.format, p, e_acc, e_second));
        found->aligned.reset(align(p, e_acc, found->added ? found->added->bound : p.bound));
    }
    return *found;
}

template <class A>
void Plan::finish_raw(Workspace& w, const Call& call, int k, int s, const A* raw, const Aligned& a,
                      Counts& counts) const {
    const Prepared& p = *layers[k];
    const Layer& l = p.l;
    constexpr bool wide = sizeof(A) == 8;
    counts.overflows = w.overflows.data() + s;
    const bool everything = l.row_step == 1 && l.block_count == 1 && l.blocks[0] == 0 && l.blocks[1] == l.channels;
    const bool measures = l.policy != STATIC && l.policy != INHERIT;
    const bool quick = l.policy != STATISTICS && (!measures || (l.rule == LEAD && everything));
    bool holds = a.holds;
    if constexpr (!wide) {
        holds = holds || (quick && a.top <= SMALL && stays(p, a, raw));
        if (quick && holds && a.top <= SMALL && largest_accumulator(g.format) <= SMALL && takes_table(g, l, a))
            return finish_table<s32>(w, call, k, s, raw, a, w.tables32, w.shifts32[k], counts);
    }
    if (quick && holds && takes_table(g, l, a))
        return finish_table<s64>(w, call, k, s, raw, a, w.tables64, w.shifts64[k], counts);
    if constexpr (!wide) {
        if (quick && holds && a.likely)
            return finish_fast<s32>(w, call, k, s, raw, a, w.shifts32[k], counts);
    }
    if (quick && a.wide)
        finish_fast<s64>(w, call, k, s, raw, a, w.shifts64[k], counts);
    else
        finish_slow(w, call, k, s, raw, a, counts);
}

/// Whether no accumulator of a sample saturates with its bias.
bool Plan::stays(const Prepared& p, const Aligned& a, const s32* raw) const {
    const s64 most = largest_accumulator(g.format);
    const s32 high = (s32)std::min(most, SMALL), low = (s32)std::max(-most - 1, -SMALL);
    const s32* bias = a.bias32.data();
    s32 beyond = 0;
    for (int i = 0; i < p.pixels; i++) {
        const s32* v = raw + (size_t)i * p.raw_pitch();
        for (int s = 0; s < p.slots; s++)
            beyond |= v[s] + bias[s] > high || v[s] + bias[s] < low;
    }
    return !beyond;
}

/// Largest leading position of a sample, from the extremes of each slot: functions here never decrease.
template <class T, class A>
bool Plan::lead_fast(const Prepared& p, const A* raw, const Finish<T>& f, const Aligned& a, s32& lead) const {
    typedef typename Lanes<T>::type VT;
    typedef typename Lanes<A>::type VA;
    bool some = false;
    lead = NO_LEAD;
    alignas(64) T magnitudes[V];
    const size_t pitch = p.raw_pitch();
    for (int slot = 0; slot < p.slots; slot += V) {
        VA most = load<VA>(raw + slot), least = most;
        for (int i = 1; i < p.pixels; i++) {
            const VA v = load<VA>(raw + (size_t)i * pitch + slot);
            most = largest(most, v), least = smallest(least, v);
        }
        const SlotConstants<T> c(f, slot);
        const VT one = value_of<T, false>(f, c, __builtin_convertvector(most, VT), VT{});
        VT magnitude = largest(one, -one);
        if (p.pixels > 1) {
            const VT two = value_of<T, false>(f, c, __builtin_convertvector(least, VT), VT{});
            magnitude = largest(magnitude, largest(two, -two));
        }
        // Few slots raise the maximum: those that may are found all at once.
        const VT distance =
            all<T>(lead + !g.format.ceil) - __builtin_convertvector(load<vi>(a.exponents.data() + slot), VT);
        const VT shift = largest(smallest(distance, all<T>(8 * sizeof(T) - 2)), VT{});
        if (!any_lane(magnitude >> shift))
            continue;
        save(magnitudes, magnitude);
        const int left = p.left(slot);
        for (int i = 0; i < left; i++) {
            if (magnitudes[i] == 0)
                continue;
            const s32 position = integer_lead(g.format, magnitudes[i]) + a.exponents[slot + i];
            lead = some ? std::max(lead, position) : position;
            some = true;
        }
    }
    lead += p.l.margin;
    return some;
}

template <class T, class A>
void Plan::finish_fast(Workspace& w, const Call& call, int k, int s, const A* raw, const Aligned& a,
                       KeptShifts<T>& kept, Counts& counts, bool bias) const {
    const Prepared& p = *layers[k];
    const Layer& l = p.l;
    const s32 e_acc = accumulator_exponent(w, l, s);
    s32 lead = 0;
    const bool measures = l.policy != STATIC && l.policy != INHERIT;
    // A measurement needs no shifts: any will do.
    const bool nonzero =
        measures && lead_fast<T>(p, raw, epilogue<T>(p, a, kept.of(a, e_acc, 0, p.slots, g.format), bias), a, lead);
    const s32 exponent = output_exponent(w, call, k, e_acc, lead, nonzero);
    const Finish<T> f = epilogue<T>(p, a, kept.of(a, e_acc, exponent, p.slots, g.format), bias);
    Element* out = w.buffers[l.output].data() + s * p.out.size;
    const int pitch = (int)p.raw_pitch();
    const bool row = p.pixels == 1 && p.groups == 1 && f.simple;
    if (row && f.add)
        finish_row<T, true>(f, raw, l.channels, out + p.places[0], counts);
    else if (row)
        finish_row<T, false>(f, raw, l.channels, out + p.places[0], counts);
    for (int slot = 0; slot < p.slots && !row; slot += V) {
        const Place place = {out + p.channel[slot], p.places.data(), 0};
        const int two = slot % p.block_slots + V < p.block_slots ? p.left(slot) + p.left(slot + V) : 0;
        if (finish_both(f, raw + slot, pitch, p.pixels, place, slot, two, counts, 0, p.pixels))
            slot += V;
        else
            finish(f, raw + slot, pitch, p.pixels, place, slot, p.left(slot), counts, 0, p.pixels);
    }
    w.exponents[l.output][s] = exponent;
    if (l.policy == ROLLING_MAX || l.policy == FEEDBACK)
        w.counters[k].status |= call.learn(k, exponent, lead, nonzero, w.overflows[s], nullptr, 0);
}

/// A function's results by its table, then the requantizer, which finds no function and no bias left.
template <class T, class A>
void Plan::finish_table(Workspace& w, const Call& call, int k, int s, const A* raw, const Aligned& a,
                        KeptRoutes<T>& routes, KeptShifts<T>& kept, Counts& counts) const {
    const Prepared& p = *layers[k];
    std::unique_ptr<TableRoute<T>>& route = routes[k][accumulator_exponent(w, p.l, s)];
    if (!route)
        route.reset(new TableRoute<T>(g, p, a));
    T* results = (T*)w.table_results.data();
    route->apply(g, p, bias_of<T>(a), raw, results);
    finish_fast<T>(w, call, k, s, (const T*)results, route->results, kept, counts, false);
}

template <class A>
void Plan::finish_slow(Workspace& w, const Call& call, int k, int s, const A* raw, const Aligned& a,
                       Counts& counts) const {
    const Prepared& p = *layers[k];
    const Layer& l = p.l;
    Stage& stage = *w.stages[k];
    const s32 e_acc = accumulator_exponent(w, l, s);
    w.counters[k].status |= stage.evaluate(a, raw, e_acc);
    const bool measures = l.policy != STATIC && l.policy != INHERIT;
    s32 lead = 0;
    const bool nonzero = measures && stage.lead(e_acc, lead);
    const s32 exponent = output_exponent(w, call, k, e_acc, lead, nonzero);
    s64 underflows = 0;
    stage.requantize(exponent, w.buffers[l.output].data() + s * p.out.size, w.overflows[s], underflows);
    counts.lost += underflows;
    w.exponents[l.output][s] = exponent;
    if (l.policy == STATISTICS)
        stage.drain(exponent, w.drained);
    if (measures && l.policy != MAX)
        w.counters[k].status |=
            call.learn(k, exponent, lead, nonzero, w.overflows[s], w.drained.data(), (s64)w.drained.size());
}

}  // namespace bfpga_native

// What Python calls

using namespace bfpga_native;

extern "C" {

/// Sizes of the structures, for a check against Python's.
void bfpga_native_sizes(int32_t* sizes) {
    const size_t all_sizes[] = {sizeof(Format),  sizeof(Tensor), sizeof(Layer),   sizeof(RowNumbers),
                                sizeof(Segment), sizeof(Port),   sizeof(Counters)};
    for (size_t size : all_sizes)
        *sizes++ = (int32_t)size;
}

/// A plan for a segment; null without memory for it. What the segment points to is read until the plan is closed.
void* bfpga_native_open(const Segment* segment) {
    try {
        return new Plan(*segment);
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
}

/// ports: two for each tensor, where it enters and where it leaves. Returns 0, or why values cannot enter; -1 without
/// memory.
int32_t bfpga_native_run(void* plan, const Port* ports, int32_t samples, int32_t threads, Choose choose, Learn learn,
                         Counters* counters) {
    try {
        return ((Plan*)plan)->run({ports, samples, choose, learn}, threads, counters);
    } catch (const std::bad_alloc&) {
        return -1;
    }
}

void bfpga_native_close(void* plan) { delete (Plan*)plan; }
}
