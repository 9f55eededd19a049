// A layer as its kernels want it: weights in the order of the dot products, places of pixels, bounds of sums.
#pragma once

#include <array>
#include <memory>

#include "epilogue.hpp"

namespace bfpga_native {

/// How a layer's accumulators are found.
enum Way { DENSE, DEPTHWISE, COLUMNS, UNIFORM, MAXIMA, SUMS, SCALES, WHOLE_ROWS };

/// Column blocks of a tile: as many accumulators as the registers hold.
constexpr int MOST_BLOCKS = V == 16 ? 4 : 2;
constexpr int WIDE_BLOCKS = V == 16 ? 2 : 1;
/// Products of 16-bit activations with a weight's high or low byte that 32 bits hold: 2**22 each.
constexpr int WIDE_PIECE = 256;
/// Groups of a run in which half a step more does not matter.
constexpr int LONG_RUN = 9;
/// Columns of the widest depthwise kernel whose weights stay in registers.
constexpr int MOST_COLUMNS = 8;
/// Chains of groups that wait for one that fits.
constexpr size_t OPEN_CHAINS = 32;
/// Layers of so few pixels a sample are computed for all samples of a chunk at once.
constexpr int FEW_PIXELS = 32;

/// Sums of so many signed bytes are worth a copy of the activations with an offset.
constexpr int LONG_SUM = 256;

/// Groups in chains of 4, 3, 2 and 1, one kind after the other; those follow that take no offset.
typedef std::array<int, 4> Chains;

/// A column block of a layer whose activations get an offset (``centred.hpp``). weights: where its weights begin.
struct CentredBlock {
    std::vector<s32> places;
    Chains chains;
    size_t weights = 0;
};

/// A layer with long sums of signed bytes; no offset: it is none. correction: what the sums begin with.
struct Centred {
    s32 offset = 0;
    std::vector<CentredBlock> blocks;
    Array<Weight> weights;
    Array<s32> correction;
};

struct Buffer {
    s32 pitch = 0, row = 0, first = 0;
    size_t size = 0;
    Buffer() {}
    explicit Buffer(const Tensor& t) {
        // Three channels take the place of four, so that a pixel is whole groups.
        pitch = t.channels == 3 ? 4 : t.channels;
        row = (t.left + t.width + t.right) * pitch;
        first = t.top * row + t.left * pitch;
        size = (size_t)(t.top + t.height + t.bottom) * row;
    }
};

INLINE int up(int a, int b) { return (a + b - 1) / b * b; }

struct Prepared {
    Layer l;
    Way way = DENSE;
    /// wide: sums need 64 bits. nonnegative: what the layer reads never is negative.
    bool wide = false, nonnegative = false;
    int pixels = 0, slots = 0, block_slots = 0, blocks = 0, groups = 1, inner = 0;
    /// Runs of activations that one output sees, in elements from its first one, and groups in each.
    Array<s32> runs;
    int run_groups = 0, depth = 0;
    /// Where the groups of a column block lie, in the order of its weights, and how many of them are in chains of 4, 3
    /// and 2 groups whose products 16 bits hold together.
    std::vector<std::vector<s32>> steps;
    std::vector<Chains> chains;
    Array<Weight> weights, low_weights;
    /// The same where wide sums are estimated: places of steps of four activations, weights in words and in high bytes,
    /// steps of the pieces of each block, sums of the high bytes in each piece.
    std::vector<s32> estimated_places, high_sums;
    std::vector<u8> estimated_weights;
    std::vector<std::vector<s32>> estimated_pieces;
    Centred centred;
    Array<s32> pair_weights, correction, starts, places, channel, uniform;
    Array<s64> bound;
    /// Pixels of several samples, for layers of few pixels.
    Array<s32> chunk_starts, chunk_places;
    Buffer in, second, out;
    int second_width = 1;
    bool fused = false;
    std::unique_ptr<Aligned> aligned;
    Shifts<s32> shifts;
    Array<s32> initial;
    /// A table's results for every argument of its grid, from its lower limit on.
    Array<s32> looked_up;
    /// Pixels that the column kernel takes for one, whose channels fill a vector; ``pixels`` counts these.
    int join = 1;

    Prepared(const Segment& g, const Layer& layer);
    void prepare_chunk(int samples);
    bool estimated() const { return !estimated_places.empty(); }
    /// Blocks of a tile: wide sums take two registers each.
    int most_blocks() const { return wide ? WIDE_BLOCKS : MOST_BLOCKS; }
    /// Channels among the V slots from ``slot`` on.
    int left(int slot) const {
        const int per_group = way == COLUMNS ? l.channels * join : l.channels / groups;
        return std::min(V, per_group - slot % block_slots);
    }
    /// Distance of the raw accumulators of two pixels. Were it whole pages, those of all pixels would compete for the
    /// same few places of the cache.
    size_t raw_pitch() const { return slots % 256 ? slots : slots + V; }
    /// Where raw accumulators have a pixel of the layer and a channel of it.
    size_t raw_index(int pixel, int c) const {
        if (join > 1)
            return (size_t)(pixel / join) * raw_pitch() + pixel % join * l.channels + c;
        const int per_group = l.channels / groups;
        return (size_t)pixel * raw_pitch() + c / per_group * block_slots + c % per_group;
    }
    void pack_products(const Element* operand, Weight* to, Weight* low_to, s32* correct) const;
    int operand_place(int m, int term) const;
    int place(int y, int x) const;

   private:
    void geometry(const Segment& g);
    void slots_of(int per_group, int group_count);
    void bounds(const Segment& g);
    void pack_dense(const Format& f);
    void pack_estimated(int slot, int width);
    std::vector<int> order_groups(int slot, int width, s32 offset, s32 most, Chains& chained) const;
    void pack_centred(const Format& f);
    void pack_beginnings(int slot, int width, const int* chain, int count, Weight*& to);
    s32 group_weight(int slot, int group, int element) const;
    void pack_depthwise();
    bool pack_columns();
    s32 weight(int channel, int y, int x, int c) const {
        return l.weights[(((size_t)channel * l.kernel_height + y) * l.kernel_width + x) * inner + c];
    }
};

Prepared::Prepared(const Segment& g, const Layer& layer) : l(layer) {
    geometry(g);
    if (l.kind != GEMM && l.kind != PRODUCT) {
        way = l.kind == SUM ? SUMS : l.kind == SCALE ? SCALES : l.kind == ROWS ? WHOLE_ROWS : MAXIMA;
        slots_of(l.channels, 1);
        bounds(g);
        return;
    }
    const Tensor& t = g.tensors[l.first];
    inner = l.kind == PRODUCT ? l.terms : t.channels / l.groups;
    nonnegative = t.nonnegative;
    const bool depthwise = l.kind == GEMM && l.groups > 1 && l.groups == l.channels && inner == 1;
    slots_of(depthwise ? l.channels : l.channels / l.groups, depthwise ? 1 : l.groups);
    bounds(g);
    if (!depthwise) {
        pack_dense(g.format);
        return;
    }
    bool same = true;
    for (int c = 0; c < l.channels; c++)
        for (int i = 0; i < l.kernel_height * l.kernel_width; i++)
            same &= l.weights[(size_t)c * l.kernel_height * l.kernel_width + i] == weight(c, 0, 0, 0);
    way = same && !wide ? UNIFORM : DEPTHWISE;
    if (way == UNIFORM) {
        uniform.reset(slots);
        for (int c = 0; c < l.channels; c++)
            uniform[c] = weight(c, 0, 0, 0);
    } else if (wide || !pack_columns()) {
        pack_depthwise();
    }
}

/// The place of an output pixel: layers may write theirs between those of others.
int Prepared::place(int y, int x) const {
    const int row = l.first_y + y * l.spread_y, column = l.first_x + x;
    return out.first + row * out.row + column * out.pitch + l.channel_offset;
}

/// Where pixels of one sample begin in the input and in the output.
void Prepared::geometry(const Segment& g) {
    const Tensor &t = g.tensors[l.first], &o = g.tensors[l.output];
    in = Buffer(t);
    out = Buffer(o);
    if (l.second >= 0) {
        second = Buffer(g.tensors[l.second]);
        second_width = g.tensors[l.second].width;
    }
    pixels = l.output_height * l.output_width;
    starts.reset(pixels);
    places.reset(pixels);
    for (int y = 0; y < l.output_height; y++)
        for (int x = 0; x < l.output_width; x++) {
            const int i = y * l.output_width + x;
            starts[i] = in.first + (y * l.stride_y - l.pad_top) * in.row + (x * l.stride_x - l.pad_left) * in.pitch;
            starts[i] += l.first_input;
            places[i] = place(y, x);
        }
}

void Prepared::slots_of(int per_group, int group_count) {
    groups = group_count;
    block_slots = up(per_group, V);
    blocks = block_slots / V;
    slots = block_slots * groups;
    channel.reset(slots);
    for (int i = 0; i < slots; i++) {
        const int c = i % block_slots;
        channel[i] = c < per_group ? i / block_slots * per_group + c : -1;
    }
}

/// Largest magnitude of each accumulator; whether 32 bits hold all.
void Prepared::bounds(const Segment& g) {
    const Format& f = g.format;
    const s64 most = -(s64)f.mantissa_min > f.mantissa_max ? -(s64)f.mantissa_min : f.mantissa_max;
    bound.reset(slots);
    s64 top = 0;
    for (int i = 0; i < slots; i++) {
        if (channel[i] < 0)
            continue;
        s64 sum = l.kind == SUM && l.second >= 0 ? 2 : 1;
        if (l.kind == PRODUCT || l.kind == SCALE)
            sum = (s64)(l.kind == SCALE ? 1 : inner) * f.mantissa_max;
        if (l.kind == GEMM) {
            sum = 0;
            const size_t size = (size_t)l.kernel_height * l.kernel_width * inner;
            for (size_t k = 0; k < size; k++)
                sum += std::abs(l.weights[channel[i] * size + k]);
        }
        // A maximum over nothing is one below the symmetric range.
        bound[i] = sum * (l.kind == GEMM || l.kind == PRODUCT ? most : (s64)f.mantissa_max + 1);
        if (l.kind == ROWS)
            bound[i] = (s64)1 << (g.rows.result_bits - 1);
        top = std::max(top, bound[i]);
    }
    wide = top > SMALL;
}

/// The weight of a slot for an element of a group of activations; zero outside the kernel.
s32 Prepared::group_weight(int slot, int group, int element) const {
    const bool joined = l.dilation_x == 1 && groups == 1;
    const int r = group / run_groups, at = group % run_groups * G + element, m = channel[slot];
    const int x = joined ? at / in.pitch : r % l.kernel_width, c = joined ? at % in.pitch : at;
    if (m < 0 || c >= inner || x >= l.kernel_width)
        return 0;
    return weight(m, joined ? r : r / l.kernel_width, x, c);
}

#if defined(BFPGA_AVX2)
/// Products of a group in each lane of 16 bits: the sums of the weights above and below zero, or of all magnitudes.
struct Lane {
    int positive, negative;
};

/// A chain that grows, and what its lanes hold so far.
struct Chain {
    std::vector<int> groups;
    std::vector<Lane> lanes;
};

/// Whether 16 bits hold a chain with one more group, whose activations are ``most`` at most. shared: what they hold is
/// for both signs.
static bool fits(const Chain& chain, const Lane* group, s32 most, bool shared) {
    bool all = true;
    for (size_t i = 0; i < chain.lanes.size(); i++) {
        const int positive = chain.lanes[i].positive + group[i].positive;
        const int negative = chain.lanes[i].negative + group[i].negative;
        all &= shared ? (positive + negative) * most <= UINT16_MAX : std::max(positive, negative) * most <= INT16_MAX;
    }
    return all;
}
#endif

/// The groups of a column block in the order in which they are multiplied. most: largest magnitude of an activation.
///
/// Two products of bytes take 16 bits. Where weights are small, those of several groups fit together, and one widening
/// multiplication serves them all. The largest groups look for room first, each in the first chain that has some.
/// Activations that are never negative reach the sum of the weights of one sign at most. With an offset they are not,
/// and both signs share what 16 bits hold; groups come last whose pairs of products alone are too large for that.
std::vector<int> Prepared::order_groups(int slot, int width, s32 offset, s32 most, Chains& chained) const {
    const int count = depth / G;
    std::vector<int> order(count);
    for (int i = 0; i < count; i++)
        order[i] = i;
    chained = {};
#if defined(BFPGA_AVX2)
    const size_t lane_count = (size_t)width * 2;
    std::vector<Lane> lanes(count * lane_count);
    std::vector<int> top(count, 0);
    for (int i = 0; i < count; i++)
        for (size_t c = 0; c < lane_count; c++) {
            Lane& lane = lanes[i * lane_count + c];
            for (int e = 0; e < 2; e++) {
                const s32 w = group_weight(slot + (int)c / 2, i, (int)c % 2 * 2 + e);
                ((nonnegative || offset) && w < 0 ? lane.negative : lane.positive) += std::abs(w);
            }
            top[i] = std::max({top[i], lane.positive, lane.negative});
        }
    std::sort(order.begin(), order.end(), [&](int a, int b) { return top[a] > top[b]; });
    std::vector<Chain> open;
    std::vector<int> found[MOST_CHAIN], alone;
    const auto close = [&](size_t i) {
        std::vector<int>& same = found[open[i].groups.size() - 1];
        same.insert(same.end(), open[i].groups.begin(), open[i].groups.end());
        open.erase(open.begin() + i);
    };
    for (int group : order) {
        if (offset && top[group] * most > INT16_MAX) {
            alone.push_back(group);
            continue;
        }
        const Lane* lane = &lanes[group * lane_count];
        size_t i = 0;
        while (i < open.size() && !fits(open[i], lane, most, offset != 0))
            i++;
        if (i == open.size()) {
            open.push_back({{group}, {lane, lane + lane_count}});
            if (open.size() > OPEN_CHAINS)
                close(0);
            continue;
        }
        open[i].groups.push_back(group);
        for (size_t c = 0; c < lane_count; c++)
            open[i].lanes[c].positive += lane[c].positive, open[i].lanes[c].negative += lane[c].negative;
        if (open[i].groups.size() == MOST_CHAIN)
            close(i);
    }
    while (!open.empty())
        close(0);
    order.clear();
    for (int n = MOST_CHAIN; n-- > 0;) {
        order.insert(order.end(), found[n].begin(), found[n].end());
        chained[MOST_CHAIN - 1 - n] = (int)found[n].size();
    }
    order.insert(order.end(), alone.begin(), alone.end());
#else
    (void)slot, (void)width, (void)offset, (void)most;
#endif
    return order;
}

/// Weights of column blocks, four (two) blocks of V channels after the other, group by group of activations.
void Prepared::pack_dense(const Format& f) {
    way = DENSE;
    const bool joined = l.dilation_x == 1 && groups == 1;
    const int run = joined ? (l.kernel_width - 1) * in.pitch + inner : inner;
    const int count = joined ? l.kernel_height : l.kernel_height * l.kernel_width;
    run_groups = (run + G - 1) / G;
    depth = count * run_groups * G;
    runs.reset(count);
    for (int r = 0; r < count; r++) {
        const int y = joined ? r : r / l.kernel_width, x = joined ? 0 : r % l.kernel_width;
        runs[r] = y * l.dilation_y * in.row + x * l.dilation_x * in.pitch;
    }
    correction.reset(slots);
    if (ESTIMATES && wide && l.kind == GEMM && (run_groups % 2 == 0 || run_groups >= LONG_RUN)) {
        for (int n = 0; n < groups; n++)
            for (int b = 0; b < blocks; b += most_blocks())
                pack_estimated(n * block_slots + b * V, std::min(most_blocks(), blocks - b) * V);
        return;
    }
    weights.reset((size_t)depth * slots);
    if (wide)
        low_weights.reset((size_t)depth * slots);
    Weight* to = weights.data();
    Weight* low = low_weights.data();
    for (int n = 0; n < groups; n++)
        for (int b = 0; b < blocks; b += most_blocks()) {
            const int width = std::min(most_blocks(), blocks - b) * V, slot = n * block_slots + b * V;
            Chains chained = {};
            std::vector<int> order(depth / G);
            for (int i = 0; i < depth / G; i++)
                order[i] = i;
            if (l.kind != PRODUCT)
                order = order_groups(slot, width, 0, std::max(f.mantissa_max, -f.mantissa_min), chained);
            std::vector<s32> places_of;
            for (int i : order) {
                places_of.push_back(runs[i / run_groups] + i % run_groups * G);
                for (int c = 0; l.kind != PRODUCT && c < width; c++)
                    for (int e = 0; e < G; e++, to++) {
                        const s32 w = group_weight(slot + c, i, e);
                        correction[slot + c] -= ZERO * w;
                        *to = (Weight)w;
                        if (wide) {
                            *low = (Weight)(s8)(w & 255);
                            *to = (Weight)((w - *low++) >> 8);
                        }
                    }
            }
            steps.push_back(places_of);
            chains.push_back(chained);
        }
    if (MOST_CHAIN > 1 && l.kind == GEMM && !nonnegative && pixels == 1 && groups == 1 && depth >= LONG_SUM)
        pack_centred(f);
}

/// Where the second operand of a product has the weight of an output channel for a term.
int Prepared::operand_place(int m, int term) const {
    const int pixel = l.first_pixel + (l.by_pixels ? m : term), y = pixel / second_width;
    return second.first + y * second.row + (pixel - y * second_width) * second.pitch + l.first_weight +
           (l.by_pixels ? term : m);
}

/// The second operand of a product, of one sample, in place of weights.
void Prepared::pack_products(const Element* operand, Weight* to, Weight* low, s32* correct) const {
    memset(correct, 0, sizeof(s32) * slots);
    for (int block = 0; block < blocks;) {
        const int q = std::min(most_blocks(), blocks - block);
        for (int k = 0; k < run_groups; k++)
            for (int c = 0; c < q * V; c++) {
                const int slot = block * V + c;
                for (int e = 0; e < G; e++, to++) {
                    const int at = k * G + e;
                    const bool some = channel[slot] >= 0 && at < inner;
                    const s32 w = some ? (s32)operand[operand_place(slot, at)] - ZERO : 0;
                    correct[slot] -= ZERO * w;
                    *to = (Weight)w;
                    if (wide) {
                        *low++ = (Weight)(s8)(w & 255);
                        *to = (Weight)((w - (s8)(w & 255)) >> 8);
                    }
                }
            }
        block += q;
    }
}

/// Pairs of taps for products of 16 bits; one tap after the other if sums are wide.
void Prepared::pack_depthwise() {
    way = DEPTHWISE;
    const int taps = l.kernel_height * l.kernel_width, words = wide ? taps : (taps + 1) / 2;
    runs.reset(taps);
    correction.reset(slots);
    pair_weights.reset((size_t)words * slots);
    for (int t = 0; t < taps; t++) {
        const int y = t / l.kernel_width, x = t % l.kernel_width;
        runs[t] = y * l.dilation_y * in.row + x * l.dilation_x * in.pitch;
        for (int c = 0; c < l.channels; c++) {
            const s32 w = weight(c, y, x, 0);
            correction[c] -= ZERO * w;
            if (wide)
                pair_weights[(size_t)t * slots + c] = w;
            else
                pair_weights[(size_t)(t / 2) * slots + c] |= t % 2 ? w << 16 : w & 0xffff;
        }
    }
}

/// Up to four rows of a column side by side in a dot product: [column of the kernel][channel][row].
///
/// With less than V channels, several pixels of a row are taken for channels.
bool Prepared::pack_columns() {
#if defined(BFPGA_BYTES)
    if (l.kernel_height > 4 || l.kernel_width > MOST_COLUMNS || l.dilation_y != 1 || l.dilation_x != 1)
        return false;
    if (l.channels < V && l.channels * 2 <= V) {
        const int count = V / l.channels;
        const bool whole = V % l.channels == 0 && l.output_width % count == 0 && l.stride_x == 1;
        if (!whole || out.pitch != l.channels || in.pitch != l.channels)
            return false;
        join = count;
    }
    way = COLUMNS;
    for (int i = 0; i < pixels / join; i++)
        starts[i] = starts[i * join], places[i] = places[i * join];
    pixels /= join;
    for (int c = l.channels; c < l.channels * join; c++)
        channel[c] = c % l.channels, bound[c] = bound[c % l.channels];
    correction.reset(slots);
    weights.reset((size_t)l.kernel_width * slots * 4);
    for (int x = 0; x < l.kernel_width; x++)
        for (int c = 0; c < l.channels * join; c++)
            for (int y = 0; y < l.kernel_height; y++) {
                const s32 w = weight(channel[c], y, x, 0);
                weights[((size_t)x * slots + c) * 4 + y] = (Weight)w;
                correction[c] -= ZERO * w;
            }
    return true;
#else
    return false;
#endif
}

void Prepared::prepare_chunk(int samples) {
    if (pixels >= FEW_PIXELS)
        return;
    const int count = samples * pixels;
    chunk_starts.reset(count);
    chunk_places.reset(count);
    for (int i = 0; i < count; i++) {
        const int s = i / pixels, p = i % pixels;
        chunk_starts[i] = starts[p] + (s32)(s * in.size);
        chunk_places[i] = places[p] + (s32)(s * out.size);
    }
}

}  // namespace bfpga_native
