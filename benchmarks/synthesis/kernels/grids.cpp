// Loops over grids of integers: stencils, alignment of sequences, shortest paths. Published figures: ../published.yaml.
template <int N>
using uint_t = unsigned _BitInt(N);
template <int N>
using int_t = _BitInt(N);

namespace {
int image[8192], filtered[8192], kernel[9], box[16384], boxed[16384], weights[2];
int score[16641];
char pointer_of[16641], sequence_a[128], sequence_b[128], aligned[256];
int distance_of[3600];
char first_aligned[256], second_aligned[256];
}  // namespace

extern "C" {
void filter_image() {
    uint_t<13> at = 0;
    uint_t<6> column = 0;
filter_image:
    for (uint_t<13> step = 0; step < 7812; step++) {
#pragma HLS PIPELINE II=1
        int total = 0;
        for (int row = 0; row < 3; row++) {
#pragma HLS UNROLL
            for (int tap = 0; tap < 3; tap++) {
#pragma HLS UNROLL
                total += kernel[row * 3 + tap] * image[at + uint_t<13>(row * 64 + tap)];
            }
        }
        filtered[at] = total;
        const bool last = column == 61;
        column = last ? uint_t<6>(0) : uint_t<6>(column + 1);
        at = last ? uint_t<13>(at + 3) : uint_t<13>(at + 1);
    }
}

void filter_box() {
    uint_t<14> at = 16 * 33 + 1;
    uint_t<5> column = 1, row = 1;
filter_box:
    for (uint_t<14> step = 0; step < 12600; step++) {
#pragma HLS PIPELINE II=1
        const int around = box[at + 512] + box[at - 512] + box[at + 16] + box[at - 16] + box[at + 1] + box[at - 1];
        boxed[at] = box[at] * weights[0] + around * weights[1];
        const bool last = column == 14, end = last && row == 30;
        column = last ? uint_t<5>(1) : uint_t<5>(column + 1);
        row = end ? uint_t<5>(1) : last ? uint_t<5>(row + 1) : row;
        at = end ? uint_t<14>(at + 35) : last ? uint_t<14>(at + 3) : uint_t<14>(at + 1);
    }
}

void copy_sides() {
    uint_t<14> base = 528;
    uint_t<5> row = 1;
copy_sides:
    for (uint_t<10> step = 0; step < 900; step++) {
#pragma HLS PIPELINE II=1
        boxed[base] = box[base];
        boxed[base + 15] = box[base + 15];
        const bool last = row == 30;
        row = last ? uint_t<5>(1) : uint_t<5>(row + 1);
        base = last ? uint_t<14>(base + 48) : uint_t<14>(base + 16);
    }
}

// A row of the matrix of an alignment: each cell needs its left neighbour.
void align_row(uint_t<8> row) {
align_row:
    for (uint_t<8> column = 1; column < 129; column++) {
#pragma HLS PIPELINE II=1
        const uint_t<15> above = (uint_t<15>(row) - 1) * uint_t<15>(129);
        const uint_t<15> here = uint_t<15>(row) * uint_t<15>(129);
        const int match = sequence_a[uint_t<7>(column - 1)] == sequence_b[uint_t<7>(row - 1)] ? 1 : -1;
        const int diagonal = score[above + column - 1] + match;
        const int up = score[above + column] - 1;
        const int left = score[here + column - 1] - 1;
        const int inner = up > left ? up : left;
        const int best = diagonal > inner ? diagonal : inner;
        score[here + column] = best;
        pointer_of[here + column] = best == left ? '<' : best == up ? '^' : '\\';
    }
}

void first_row() {
first_row:
    for (uint_t<8> column = 0; column < 129; column++) {
#pragma HLS PIPELINE II=1
        score[column] = -int(column);
    }
}

void pad(uint_t<8> used) {
pad:
    for (uint_t<9> at = used; at < 256; at++) {
#pragma HLS PIPELINE II=1
        aligned[at] = '_';
    }
}

// All pairs of sixty places, over one place after another.
void shortest_paths() {
    uint_t<12> at = 0, row = 0, over = 0;
    uint_t<6> j = 0, k = 0;
shortest_paths:
    for (uint_t<18> step = 0; step < 216000; step++) {
#pragma HLS PIPELINE II=1
        const int direct = distance_of[at];
        const int around = distance_of[row + k] + distance_of[over + j];
        distance_of[at] = direct < around ? direct : around;
        const bool last = j == 59, end = at == 3599;
        j = last ? uint_t<6>(0) : uint_t<6>(j + 1);
        row = end ? uint_t<12>(0) : last ? uint_t<12>(row + 60) : row;
        over = end ? uint_t<12>(over + 60) : over;
        k = end ? uint_t<6>(k + 1) : k;
        at = end ? uint_t<12>(0) : uint_t<12>(at + 1);
    }
}

void trace_back() {
    int a = 128, b = 128;
    uint_t<8> length = 0;
trace_back:
    while (a > 0 || b > 0) {
#pragma HLS PIPELINE II=1
        const char from = pointer_of[static_cast<uint_t<15>>(b * 129 + a)];
        if (from == '\\') {
            first_aligned[length] = sequence_a[static_cast<uint_t<7>>(a - 1)];
            second_aligned[length] = sequence_b[static_cast<uint_t<7>>(b - 1)];
            a--;
            b--;
        } else if (from == '<') {
            first_aligned[length] = sequence_a[static_cast<uint_t<7>>(a - 1)];
            second_aligned[length] = '-';
            a--;
        } else {
            first_aligned[length] = '-';
            second_aligned[length] = sequence_b[static_cast<uint_t<7>>(b - 1)];
            b--;
        }
        length++;
    }
}

void copy_ends() {
copy_ends:
    for (uint_t<10> at = 0; at < 512; at++) {
#pragma HLS PIPELINE II=1
        boxed[at] = box[at];
        boxed[at + uint_t<14>(15872)] = box[at + uint_t<14>(15872)];
    }
}

void first_column() {
first_column:
    for (uint_t<8> row = 0; row < 129; row++) {
#pragma HLS PIPELINE II=1
        score[row * uint_t<15>(129)] = -int(row);
    }
}
}
