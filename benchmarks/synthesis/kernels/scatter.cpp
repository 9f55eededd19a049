// Read, change and write back at addresses that come from a memory. Published figures: ../published.yaml.
template <int N>
using uint_t = unsigned _BitInt(N);

namespace {
int table[1024], data[10000];
uint_t<10> target[1024];
uint_t<14> address_in[10000], address_out[10000];
uint_t<1> signs[10000], inputs[10000], means[10000];
uint_t<10> spots[1000];
double weights[1000], sums[1000];
volatile unsigned char pixels;
int tones[256];
}  // namespace

extern "C" {
// A polynomial of eighth degree by Horner's rule, written to any place.
void horner() {
horner:
    for (uint_t<10> i = 0; i < 1000; i++) {
#pragma HLS PIPELINE II=1
        const int d = table[i];
        table[target[i]] = (((((((d + 112) * d + 23) * d + 36) * d + 82) * d + 127) * d + 2) * d + 20) * d + 100;
    }
}

void add_signs(uint_t<7> row) {
add_signs:
    for (uint_t<7> j = 0; j < 100; j++) {
#pragma HLS PIPELINE II=1
        const uint_t<14> x = uint_t<14>(row) * uint_t<14>(100) + uint_t<14>(j);
        data[address_in[x]] += inputs[x] != signs[x] ? 2 : 0;
    }
}

void move_from_zero(uint_t<7> row) {
move_from_zero:
    for (uint_t<7> j = 0; j < 100; j++) {
#pragma HLS PIPELINE II=1
        const uint_t<14> x = uint_t<14>(row) * uint_t<14>(100) + uint_t<14>(j);
        const int old = data[address_out[x]];
        const int mean = means[x];
        data[address_out[x]] = old > 0 ? old - mean : old + mean;
    }
}

void add_signs_in_order(uint_t<14> first) {
add_signs_in_order:
    for (uint_t<7> j = 0; j < 100; j++) {
#pragma HLS PIPELINE II=1
        const uint_t<14> x = first + uint_t<14>(j);
        data[x] += inputs[x] != signs[x] ? 2 : 0;
    }
}

void move_in_order(uint_t<14> first) {
move_in_order:
    for (uint_t<7> j = 0; j < 100; j++) {
#pragma HLS PIPELINE II=1
        const uint_t<14> x = first + uint_t<14>(j);
        const int old = data[x];
        const int mean = means[x];
        data[x] = old > 0 ? old - mean : old + mean;
    }
}

void add_weights() {
add_weights:
    for (uint_t<10> i = 0; i < 1000; i++) {
#pragma HLS PIPELINE II=1
        const double weight = weights[i];
        if (weight >= 0) {
            sums[spots[i]] += weight;
        }
    }
}

void clear_sums() {
clear_sums:
    for (uint_t<10> i = 0; i < 1000; i++) {
#pragma HLS PIPELINE II=1
        sums[i] = 0;
    }
}

// Pixels of a stream, tones counted.
void count_tones() {
count_tones:
    for (uint_t<17> i = 0; i < 76800; i++) {
#pragma HLS PIPELINE II=1
        const unsigned char tone = pixels;
        tones[tone] = tones[tone] + 1;
    }
}

void clear_tones() {
clear_tones:
    for (uint_t<9> i = 0; i < 256; i++) {
#pragma HLS PIPELINE II=1
        tones[i] = 0;
    }
}
}
