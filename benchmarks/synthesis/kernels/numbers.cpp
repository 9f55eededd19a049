// Loops of floating-point numbers: sums, dot products, stencils. Published figures: ../published.yaml.
template <int N>
using uint_t = unsigned _BitInt(N);

namespace {
double values[1666], vector_x[494], first[40], second[40], third[40], matrix[1600], right[40];
int columns[1666];
double line_in[120], line_out[120], plane_in[8100], plane_out[8100];
double field_x[4800], field_y[4800], field_z[4800];
float row_a[64], row_b[64], row_c[64];
float table_a[4096], table_b[4096];
double samples[8000], means[80];
float sorted[16384], runs[20], joined[20];
double start_cost[64], emission[4096], cost[8960];
}  // namespace

extern "C" {
double sparse_row(int begin, int end) {
    double total = 0;
sparse_row:
    for (int j = begin; j < end; j++) {
#pragma HLS PIPELINE II=1
        total += values[j] * vector_x[static_cast<uint_t<9>>(columns[j])];
    }
    return total;
}

double dot_reversed(int k) {
    double total = 0;
dot_reversed:
    for (int i = 0; i < k; i++) {
#pragma HLS PIPELINE II=1
        total += first[k - i - 1] * second[i];
    }
    return total;
}

void add_reversed(int k, double factor) {
add_reversed:
    for (int i = 0; i < k; i++) {
#pragma HLS PIPELINE II=1
        third[i] = second[i] + factor * second[k - i - 1];
    }
}

double row_by_column(int i, int j) {
    double rest = matrix[i * 40 + j];
row_by_column:
    for (int k = 0; k < j; k++) {
#pragma HLS PIPELINE II=1
        rest -= matrix[i * 40 + k] * matrix[k * 40 + j];
    }
    return rest;
}

double row_by_vector(int i) {
    double rest = right[i];
row_by_vector:
    for (int j = 0; j < i; j++) {
#pragma HLS PIPELINE II=1
        rest -= matrix[i * 40 + j] * second[j];
    }
    return rest;
}

void smooth_line() {
smooth_line:
    for (uint_t<7> i = 1; i < 119; i++) {
#pragma HLS PIPELINE II=1
        line_out[i] = 0.33333 * (line_in[i - 1] + line_in[i] + line_in[i + 1]);
    }
}

void smooth_plane() {
    uint_t<13> at = 91;
    uint_t<7> column = 1;
smooth_plane:
    for (uint_t<13> step = 0; step < 7744; step++) {
#pragma HLS PIPELINE II=1
        plane_out[at] = 0.2 * (plane_in[at] + plane_in[at - 1] + plane_in[at + 1] + plane_in[at + 90] + plane_in[at - 90]);
        const bool last = column == 88;
        column = last ? uint_t<7>(1) : uint_t<7>(column + 1);
        at = last ? uint_t<13>(at + 3) : uint_t<13>(at + 1);
    }
}

void update_y() {
update_y:
    for (uint_t<13> at = 80; at < 4800; at++) {
#pragma HLS PIPELINE II=1
        field_y[at] = field_y[at] - 0.5 * (field_z[at] - field_z[at - 80]);
    }
}

void update_z() {
    uint_t<13> at = 0;
    uint_t<7> column = 0;
update_z:
    for (uint_t<13> step = 0; step < 4661; step++) {
#pragma HLS PIPELINE II=1
        field_z[at] = field_z[at] - 0.7 * (field_x[at + 1] - field_x[at] + field_y[at + 80] - field_y[at]);
        const bool last = column == 78;
        column = last ? uint_t<7>(0) : uint_t<7>(column + 1);
        at = last ? uint_t<13>(at + 2) : uint_t<13>(at + 1);
    }
}

void add_floats() {
add_floats:
    for (uint_t<7> i = 0; i < 64; i++) {
#pragma HLS PIPELINE II=1
        row_c[i] = row_a[i] + row_b[i];
    }
}

void scale_and_add(float factor) {
scale_and_add:
    for (uint_t<13> at = 0; at < 4096; at++) {
#pragma HLS PIPELINE II=1
        table_a[at] += factor * table_b[at];
    }
}

void load_row() {
load_row:
    for (uint_t<7> row = 0; row < 64; row++) {
#pragma HLS PIPELINE II=1
        for (int column = 0; column < 64; column++) {
#pragma HLS UNROLL
            table_a[(uint_t<12>(row) << 6) + uint_t<12>(column)] = table_b[(uint_t<12>(row) << 6) + uint_t<12>(column)];
        }
    }
}

void start_costs(int observed) {
start_costs:
    for (uint_t<7> state = 0; state < 64; state++) {
#pragma HLS PIPELINE II=1
        cost[state] = start_cost[state] + emission[(uint_t<12>(state) << 6) + static_cast<uint_t<12>>(observed)];
    }
}

int make_room(int j, float item) {
make_room:
    while (j > 0 && sorted[static_cast<uint_t<14>>(j - 1)] > item) {
#pragma HLS PIPELINE II=1
        sorted[static_cast<uint_t<14>>(j)] = sorted[static_cast<uint_t<14>>(j - 1)];
        j--;
    }
    return j;
}

void join_runs(int begin, int middle, int end) {
    int one = begin, other = middle;
join_runs:
    for (int at = begin; at < end; at++) {
#pragma HLS PIPELINE II=1
        if (one < middle && (other >= end || runs[one] <= runs[other])) {
            joined[at] = runs[one];
            one++;
        } else {
            joined[at] = runs[other];
            other++;
        }
    }
}

void update_x() {
    uint_t<13> at = 1;
    uint_t<7> column = 1;
update_x:
    for (uint_t<13> step = 0; step < 4740; step++) {
#pragma HLS PIPELINE II=1
        field_x[at] = field_x[at] - 0.5 * (field_z[at] - field_z[at - 1]);
        const bool last = column == 79;
        column = last ? uint_t<7>(1) : uint_t<7>(column + 1);
        at = last ? uint_t<13>(at + 2) : uint_t<13>(at + 1);
    }
}

void subtract_means() {
    uint_t<7> column = 0;
subtract_means:
    for (uint_t<13> at = 0; at < 8000; at++) {
#pragma HLS PIPELINE II=1
        samples[at] -= means[column];
        column = column == 79 ? uint_t<7>(0) : uint_t<7>(column + 1);
    }
}

int cheapest_end() {
    double least = cost[8896];
    int found = 0;
cheapest_end:
    for (uint_t<7> state = 1; state < 64; state++) {
#pragma HLS PIPELINE II=1
        const double here = cost[uint_t<14>(8896) + state];
        if (here < least) {
            least = here;
            found = int(state);
        }
    }
    return found;
}
}
