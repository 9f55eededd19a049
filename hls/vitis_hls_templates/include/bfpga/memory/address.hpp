// Addresses of pixels in banked memory and the walk over the pixels of a tensor: additions only, no division.
#pragma once
#include "bfpga/contract/descriptor.hpp"
#include "bfpga/memory/geometry.hpp"

namespace bfpga {

// Pixel a of a tensor lies in bank `a mod banks`, word `base + (a div banks) * pixel_words`.
template <class Config>
struct Address {
    using word_t = typename Geometry<Config>::word_t;
    using bank_t = typename Geometry<Config>::bank_t;

    word_t word;
    bank_t bank;

    static Address of(int32_t word, int32_t bank) {
#pragma HLS INLINE
        Address address = {static_cast<word_t>(word), static_cast<bank_t>(bank)};
        return address;
    }

    // The address one step further; a bank beyond the last is the same distance from the first, one pixel deeper.
    Address plus(Address step, word_t pixel_words) const {
#pragma HLS INLINE
        const bank_t sum = bank + step.bank;
        const word_t near = word + step.word;
        const bool carry = sum >= Config::banks;
        Address result;
        result.bank = carry ? static_cast<bank_t>(sum - Config::banks) : sum;
        result.word = carry ? static_cast<word_t>(near + pixel_words) : near;
        return result;
    }
};

// A move of a walk: in memory, over the output image, and of the window over the input image.
template <class Config>
struct Move {
    using coordinate_t = typename Geometry<Config>::coordinate_t;

    Address<Config> address;
    coordinate_t row;
    coordinate_t column;
    coordinate_t y;
    coordinate_t x;

    static Move of(Address<Config> address, int32_t row, int32_t column, int32_t y, int32_t x) {
#pragma HLS INLINE
        Move move = {address, static_cast<coordinate_t>(row), static_cast<coordinate_t>(column),
                     static_cast<coordinate_t>(y), static_cast<coordinate_t>(x)};
        return move;
    }
};

// The moves of one tensor's walk over output pixels.
template <class Config>
struct PixelWalk {
    using coordinate_t = typename Geometry<Config>::coordinate_t;

    Move<Config> start;  // output pixel 0
    Move<Config> step;   // next output pixel of the row
    Move<Config> wrap;   // added when the walk enters the next row
    Move<Config> group;  // `columns` output pixels further, without the wrap
    typename Geometry<Config>::word_t pixel_words;
    coordinate_t width;  // output pixels in a row
};

// A product of descriptor fields: once for each operation, in logic, so that DSPs are left to the tiles.
inline int32_t field_product(int32_t a, int32_t b) {
#pragma HLS INLINE off
    const int32_t product = a * b;
#pragma HLS BIND_OP variable=product op=mul impl=fabric
    return product;
}

// The walk that reads windows of the input.
template <class Config>
PixelWalk<Config> input_walk(const Descriptor& d) {
    using A = Address<Config>;
    using M = Move<Config>;
    const int32_t row_span = field_product(d.output_width, d.stride_x);
    const int32_t group_y = field_product(d.group_rows, d.stride_y);
    const int32_t group_x = field_product(d.group_columns, d.stride_x);
    PixelWalk<Config> walk;
    walk.start = M::of(A::of(d.input_word, d.input_bank), 0, 0, -d.pad_top, -d.pad_left);
    walk.step = M::of(A::of(d.input_step_word, d.input_step_bank), 0, 1, 0, d.stride_x);
    walk.wrap = M::of(A::of(d.input_wrap_word, d.input_wrap_bank), 1, -d.output_width, d.stride_y, -row_span);
    walk.group = M::of(A::of(d.input_group_word, d.input_group_bank), d.group_rows, d.group_columns, group_y, group_x);
    walk.pixel_words = d.input_pixel_words;
    walk.width = d.output_width;
    return walk;
}

// The walk that writes output pixels.
template <class Config>
PixelWalk<Config> output_walk(const Descriptor& d) {
    using A = Address<Config>;
    using M = Move<Config>;
    PixelWalk<Config> walk;
    walk.start = M::of(A::of(d.output_word, d.output_bank), 0, 0, 0, 0);
    walk.step = M::of(A::of(d.output_step_word, d.output_step_bank), 0, 1, 0, 0);
    walk.wrap = M::of(A::of(d.output_wrap_word, d.output_wrap_bank), 1, -d.output_width, 0, 0);
    walk.group = M::of(A::of(d.output_group_word, d.output_group_bank), d.group_rows, d.group_columns, 0, 0);
    walk.pixel_words = d.output_pixel_words;
    walk.width = d.output_width;
    return walk;
}

// One output pixel: where its words lie, its place in the output image, and the first tap of its window.
template <class Config>
struct Pixel {
    using coordinate_t = typename Geometry<Config>::coordinate_t;

    Address<Config> address;
    coordinate_t row;
    coordinate_t column;
    coordinate_t y;
    coordinate_t x;

    static Pixel first(const PixelWalk<Config>& walk) {
#pragma HLS INLINE
        const Move<Config>& start = walk.start;
        Pixel pixel = {start.address, start.row, start.column, start.y, start.x};
        return pixel;
    }

    // The pixel after a step or a group; either is shorter than a row in its column, so one wrap is enough.
    Pixel after(const Move<Config>& move, const PixelWalk<Config>& walk) const {
#pragma HLS INLINE
        const Pixel near = plus(move, walk.pixel_words);
        return near.column >= walk.width ? near.plus(walk.wrap, walk.pixel_words) : near;
    }

   private:
    Pixel plus(const Move<Config>& move, typename Geometry<Config>::word_t pixel_words) const {
#pragma HLS INLINE
        Pixel result;
        result.address = address.plus(move.address, pixel_words);
        result.row = row + move.row;
        result.column = column + move.column;
        result.y = y + move.y;
        result.x = x + move.x;
        return result;
    }
};

}  // namespace bfpga
