// Five loops that do not reach the interval that they state; the comment FOUND marks the line that a report must name.
template <int N>
using uint_t = unsigned _BitInt(N);

namespace {
unsigned char samples[1024];
int bins[256], table[256], banks[4][256];
uint_t<10> places[1024];
float values[1024];
int sums[1024];
}  // namespace

extern "C" {
void histogram() {
histogram:
    for (uint_t<11> i = 0; i < 1024; i++) {
#pragma HLS PIPELINE II=1
        bins[samples[i]] += 1;  // FOUND histogram
    }
}

int two_reads() {
#pragma HLS BIND_STORAGE variable=table type=ram_1p
    int total = 0;
two_reads:
    for (uint_t<8> i = 0; i < 200; i++) {
#pragma HLS PIPELINE II=1
        total ^= table[i] +
                 table[i + 7];  // FOUND two_reads
    }
    return total;
}

int chained_accumulators(int step) {
    int one = 0, other = 0;
chained_accumulators:
    for (uint_t<11> i = 0; i < 1024; i++) {
#pragma HLS PIPELINE II=1
        const int grown = one + other * step;  // FOUND chained_accumulators
        other = grown > 1000 ? grown - 1000 : grown;
        one = other + sums[i];
    }
    return one;
}

void variable_bank() {
#pragma HLS ARRAY_PARTITION variable=banks complete dim=1
variable_bank:
    for (uint_t<10> i = 0; i < 1023; i++) {
#pragma HLS PIPELINE II=1
        const uint_t<10> from = places[i], to = places[i + 1];
        sums[i] = banks[from & 3][from >> 2] + banks[to & 3][to >> 2] + banks[i & 3][i >> 2];  // FOUND variable_bank
    }
}

float float_sum() {
    float total = 0;
float_sum:
    for (uint_t<11> i = 0; i < 1024; i++) {
#pragma HLS PIPELINE II=1
        total += values[i];  // FOUND float_sum
    }
    return total;
}
}
