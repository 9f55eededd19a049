// Loops over one or two memories: copies, histograms, running sums, filters. Published figures: ../published.yaml.
template <int N>
using uint_t = unsigned _BitInt(N);
template <int N>
using int_t = _BitInt(N);

namespace {
int samples[10240], bins[256], zeroed[256];
int line[20], taps[20], ordered[20], merged[20];
int keys[2048], places[2048], buckets[2048], prefix[128], scratch[2048];
int_t<7> window[128];
int_t<8> moving[128];
int_t<8> few[10];
int_t<5> digits[20];
unsigned char bytes_in[100], bytes_out[100], bytes_copy[100], bytes_sum[100];
unsigned char state[16], round_key[32], kept_key[32], box[256], given_key[32], first_key[32], last_key[32];
double wide_weights[1000], wide_bins[1000];
short wide_places[1000];
double left_row[64], right_row[64], row_sum[64], ramp[40], mirror[40];
}  // namespace

extern "C" {
// One bin a clock: the same bin may follow at once.
void histogram() {
histogram:
    for (uint_t<14> i = 0; i < 10240; i++) {
#pragma HLS PIPELINE II=1
        const uint_t<8> bin = static_cast<uint_t<8>>(samples[i]);
        bins[bin] = bins[bin] + 1;
    }
}

// As above, and neighbouring equal bins are counted before they are written.
void histogram_runs(int first) {
    uint_t<8> old = static_cast<uint_t<8>>(first);
    int count = 0;
histogram_runs:
    for (uint_t<14> i = 0; i < 10240; i++) {
#pragma HLS PIPELINE II=1
        const uint_t<8> bin = static_cast<uint_t<8>>(samples[i]);
        if (bin == old) {
            count = count + 1;
        } else {
            bins[old] = count;
            count = bins[bin] + 1;
        }
        old = bin;
    }
    bins[old] = count;
}

// The waiver says that what is written is not read in the following iteration, nor in the same.
void histogram_runs_waived(int first) {
    uint_t<8> old = static_cast<uint_t<8>>(first);
    int count = 0;
histogram_runs_waived:
    for (uint_t<14> i = 0; i < 10240; i++) {
#pragma HLS PIPELINE II=1
#pragma HLS DEPENDENCE variable=zeroed type=intra direction=RAW dependent=false
#pragma HLS DEPENDENCE variable=zeroed type=inter direction=RAW dependent=false
        const uint_t<8> bin = static_cast<uint_t<8>>(samples[i]);
        if (bin == old) {
            count = count + 1;
        } else {
            zeroed[old] = count;
            count = zeroed[bin] + 1;
        }
        old = bin;
    }
    zeroed[old] = count;
}

void clear_bins() {
clear_bins:
    for (uint_t<9> i = 0; i < 256; i++) {
#pragma HLS PIPELINE II=1
        bins[i] = 0;
    }
}

void fir_shift() {
fir_shift:
    for (uint_t<5> i = 19; i > 0; i--) {
#pragma HLS PIPELINE II=1
        line[i] = line[i - 1];
    }
}

int fir_sum() {
    int total = 0;
fir_sum:
    for (uint_t<5> i = 0; i < 20; i++) {
#pragma HLS PIPELINE II=1
        total += line[i] * taps[i];
    }
    return total;
}

void copy_small() {
copy_small:
    for (uint_t<5> i = 0; i < 20; i++) {
#pragma HLS PIPELINE II=1
        ordered[i] = merged[i];
    }
}

void copy_double() {
copy_double:
    for (uint_t<6> i = 0; i < 40; i++) {
#pragma HLS PIPELINE II=1
        ramp[i] = mirror[i];
    }
}

void clear_buckets() {
clear_buckets:
    for (uint_t<12> i = 0; i < 2048; i++) {
#pragma HLS PIPELINE II=1
        buckets[i] = 0;
    }
}

// Digits of four keys a block, each block counts for itself.
void count_digits(uint_t<5> shift) {
    uint_t<10> block = 0;
    uint_t<3> i = 0;
count_digits:
    for (uint_t<12> step = 0; step < 2048; step++) {
#pragma HLS PIPELINE II=1
        const uint_t<2> digit = static_cast<uint_t<2>>(keys[block * uint_t<12>(4) + i] >> shift);
        const uint_t<11> bucket = (uint_t<11>(digit) << 9) + uint_t<11>(block) + uint_t<11>(1);
        buckets[bucket] = buckets[bucket] + 1;
        const bool last = i == 3;
        i = last ? uint_t<3>(0) : uint_t<3>(i + 1);
        block = last ? uint_t<10>(block + 1) : block;
    }
}

void place_digits(uint_t<5> shift) {
    uint_t<10> block = 0;
    uint_t<3> i = 0;
place_digits:
    for (uint_t<12> step = 0; step < 2048; step++) {
#pragma HLS PIPELINE II=1
        const int key = keys[block * uint_t<12>(4) + i];
        const uint_t<2> digit = static_cast<uint_t<2>>(key >> shift);
        const uint_t<11> bucket = (uint_t<11>(digit) << 9) + uint_t<11>(block);
        places[static_cast<uint_t<11>>(buckets[bucket])] = key;
        buckets[bucket] = buckets[bucket] + 1;
        const bool last = i == 3;
        i = last ? uint_t<3>(0) : uint_t<3>(i + 1);
        block = last ? uint_t<10>(block + 1) : block;
    }
}

// Sixteen neighbours become running sums.
void scan_blocks() {
scan_blocks:
    for (uint_t<8> block = 0; block < 128; block++) {
#pragma HLS PIPELINE II=1
        for (int i = 1; i < 16; i++) {
#pragma HLS UNROLL
            const uint_t<11> first = uint_t<11>(block) << 4;
            buckets[first + uint_t<11>(i)] += buckets[first + uint_t<11>(i - 1)];
        }
    }
}

void add_prefixes() {
add_prefixes:
    for (uint_t<8> block = 0; block < 128; block++) {
#pragma HLS PIPELINE II=1
        const int start = prefix[block];
        for (int i = 0; i < 16; i++) {
#pragma HLS UNROLL
            const uint_t<11> at = (uint_t<11>(block) << 4) + uint_t<11>(i);
            buckets[at] = buckets[at] + start;
        }
    }
}

void copy_keys(int start, int middle) {
copy_keys:
    for (int i = start; i <= middle; i++) {
#pragma HLS PIPELINE II=1
        scratch[i] = keys[i];
    }
}

void copy_reversed(int middle, int stop) {
copy_reversed:
    for (int j = middle + 1; j <= stop; j++) {
#pragma HLS PIPELINE II=1
        scratch[middle + 1 + stop - j] = keys[j];
    }
}

void merge_both_ends(int start, int stop) {
    int i = start;
    int j = stop;
merge_both_ends:
    for (int k = start; k <= stop; k++) {
#pragma HLS PIPELINE II=1
        const int high = scratch[j];
        const int low = scratch[i];
        if (high < low) {
            keys[k] = high;
            j--;
        } else {
            keys[k] = low;
            i++;
        }
    }
}

int three_of_one_memory() {
    int_t<10> total = 0;
three_of_one_memory:
    for (uint_t<8> i = 2; i < 128; i++) {
#pragma HLS PIPELINE II=1
        total += int_t<10>(window[i]) + int_t<10>(window[i - 1]) + int_t<10>(window[i - 2]);
    }
    return total;
}

int three_in_registers() {
    int_t<16> total = 0;
    int_t<8> before = moving[0], last = moving[1];
three_in_registers:
    for (uint_t<8> i = 2; i < 128; i++) {
#pragma HLS PIPELINE II=1
        const int_t<8> value = moving[i];
        total += int_t<16>(value) + int_t<16>(last) + int_t<16>(before);
        before = last;
        last = value;
    }
    return total;
}

int sum_few() {
    int_t<13> total = 0;
sum_few:
    for (uint_t<5> i = 0; i < 10; i++) {
#pragma HLS PIPELINE II=1
        total += few[i];
    }
    return total;
}

int multiply_accumulate(int start) {
    int_t<20> total = start;
    uint_t<5> i = 0, j = 0;
multiply_accumulate:
    for (uint_t<9> step = 0; step < 400; step++) {
#pragma HLS PIPELINE II=1
        total += int_t<20>(digits[j]) * int_t<20>(i);
        const bool last = j == 19;
        j = last ? uint_t<5>(0) : uint_t<5>(j + 1);
        i = last ? uint_t<5>(i + 1) : i;
    }
    return total;
}

void triple_bytes() {
triple_bytes:
    for (uint_t<7> i = 0; i < 100; i++) {
#pragma HLS PIPELINE II=1
        const unsigned char value = static_cast<unsigned char>(bytes_in[i] * 3);
        bytes_out[i] = value;
        bytes_copy[i] = value;
    }
}

void offset_bytes() {
offset_bytes:
    for (uint_t<7> i = 0; i < 100; i++) {
#pragma HLS PIPELINE II=1
        bytes_out[i] = static_cast<unsigned char>(bytes_in[i] + 25);
    }
}

void add_bytes() {
add_bytes:
    for (uint_t<7> i = 0; i < 100; i++) {
#pragma HLS PIPELINE II=1
        bytes_sum[i] = static_cast<unsigned char>(bytes_out[i] + bytes_copy[i] * 2);
    }
}

void add_key() {
add_key:
    for (uint_t<5> i = 16; i-- > 0;) {
#pragma HLS PIPELINE II=1
        state[i] ^= round_key[i];
    }
}

void substitute() {
substitute:
    for (uint_t<5> i = 16; i-- > 0;) {
#pragma HLS PIPELINE II=1
        state[i] = box[state[i]];
    }
}

void wide_histogram() {
wide_histogram:
    for (uint_t<10> i = 0; i < 1000; i++) {
#pragma HLS PIPELINE II=1
        const uint_t<10> place = static_cast<uint_t<10>>(wide_places[i]);
        wide_bins[place] += wide_weights[i];
    }
}

void clear_wide_bins() {
clear_wide_bins:
    for (uint_t<10> i = 0; i < 1000; i++) {
#pragma HLS PIPELINE II=1
        wide_bins[i] = 0;
        wide_places[i] = static_cast<short>(i);
    }
}

void add_rows() {
add_rows:
    for (uint_t<7> i = 0; i < 64; i++) {
#pragma HLS PIPELINE II=1
        row_sum[i] = left_row[i] + right_row[i];
    }
}

void add_and_keep_key() {
add_and_keep_key:
    for (uint_t<5> i = 16; i-- > 0;) {
#pragma HLS PIPELINE II=1
        const unsigned char word = round_key[i];
        kept_key[i] = word;
        state[i] ^= word;
        kept_key[i + uint_t<5>(16)] = round_key[i + uint_t<5>(16)];
    }
}

void copy_key_twice() {
copy_key_twice:
    for (uint_t<6> i = 0; i < 32; i++) {
#pragma HLS PIPELINE II=1
        const unsigned char word = given_key[i];
        first_key[i] = word;
        last_key[i] = word;
    }
}

// Each prefix needs the one before, which was written an iteration ago.
void sum_prefixes() {
sum_prefixes:
    for (uint_t<8> block = 1; block < 128; block++) {
#pragma HLS PIPELINE II=1
        prefix[block] = prefix[block - 1] + buckets[(uint_t<11>(block) << 4) - uint_t<11>(1)];
    }
}
}
