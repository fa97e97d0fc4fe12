#include "cmd/profile_overlap.h"

#include "base/clock.h"
#include "lab/overlap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS = 21 };
static const size_t most_bytes = (size_t)1 << 30;

static size_t batch_bytes(const struct tt_signature *signature, int32_t rows, int32_t length) {
    size_t total = 0;
    for (int32_t i = 0; i < signature->input_count; i++) {
        const struct tt_tensor_spec *spec = &signature->inputs[i];
        size_t bytes = (size_t)rows * tt_dtype_bytes(spec->dtype);
        for (int32_t d = 1; d < spec->shape.rank; d++)
            bytes *= (size_t)(spec->shape.dims[d] < 0 ? length : spec->shape.dims[d]);
        if (bytes == 0)
            return 0;
        total += bytes;
    }
    return total;
}

static int compare(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The median; `from` and `to` have been written before. */
static int64_t measure(char *to, const char *from, size_t bytes) {
    int64_t times[RUNS];
    for (int32_t i = 0; i < RUNS; i++) {
        int64_t began_at = tt_clock_now();
        memcpy(to, from, bytes);
        times[i] = tt_clock_now() - began_at;
    }
    qsort(times, RUNS, sizeof(times[0]), compare);
    return times[RUNS / 2];
}

void tt_profile_overlap_print(const struct tt_signature *signature, int32_t rows, int32_t length,
                              int64_t computation_ns) {
    size_t bytes = batch_bytes(signature, rows, length);
    if (bytes == 0 || bytes > most_bytes || computation_ns <= 0)
        return;
    char *from = malloc(bytes), *to = malloc(bytes);
    if (from && to) {
        memset(from, 1, bytes);
        memset(to, 2, bytes);
        int64_t transfer_ns = measure(to, from, bytes);
        struct tt_overlap_gain gain = tt_overlap_gain((double)transfer_ns, (double)computation_ns);
        fprintf(stderr,
                "overlap: copying a batch of %d (%zu bytes) takes %.1f us beside %.1f us of "
                "computing; hiding it saves at most %.2f %% of the time, and adds %.2f %% "
                "throughput (E2bird, eq. 1)\n",
                rows, bytes, (double)transfer_ns / 1e3, (double)computation_ns / 1e3,
                100 * gain.time_share, 100 * gain.throughput_gain);
    }
    free(from);
    free(to);
}
