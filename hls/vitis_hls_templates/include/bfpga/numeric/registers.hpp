// Sets of registers that a whole loop body reads and writes in one cycle.
//
// `Registers` takes its form from a storage policy. `ArrayRegisters` is a completely partitioned array, the form of
// Vitis and of a fast simulation; `ScalarRegisters` is one scalar for each register, for compilers that ignore
// ARRAY_PARTITION. Indices are constants once the loops around them are unrolled.
#pragma once

namespace bfpga {

struct ArrayRegisters {
    template <class T, int N>
    struct Set {
        T cell[N];

        Set() {
#pragma HLS ARRAY_PARTITION variable=cell complete dim=0
        }

        T get(int index) const {
#pragma HLS INLINE
            return cell[index];
        }

        void set(int index, const T& value) {
#pragma HLS INLINE
            cell[index] = value;
        }
    };
};

struct ScalarRegisters {
    template <class T, int N>
    struct Set {
        T cell;
        Set<T, N - 1> others;

        T get(int index) const {
#pragma HLS INLINE
            return index == N - 1 ? cell : others.get(index);
        }

        void set(int index, const T& value) {
#pragma HLS INLINE
            if (index == N - 1) {
                cell = value;
            } else {
                others.set(index, value);
            }
        }
    };

    template <class T>
    struct Set<T, 1> {
        T cell;

        T get(int) const {
#pragma HLS INLINE
            return cell;
        }

        void set(int, const T& value) {
#pragma HLS INLINE
            cell = value;
        }
    };
};

}  // namespace bfpga
