#include "cmd/overlap_report.h"

#include "base/clock.h"
#include "base/sort.h"
#include "lab/closed_form/overlap.h"

#include <stdlib.h>
#include <string.h>

enum { COPIES = 31, STRING_BYTES = 16 };

static int64_t bytes_of(const struct tt_tensor_spec *spec, bool batched, int32_t rows,
                        int32_t length) {
    int64_t bytes =
        spec->dtype == TT_DTYPE_BYTES ? STRING_BYTES : (int64_t)tt_dtype_bytes(spec->dtype);
    for (int32_t d = 0; d < spec->shape.rank; d++) {
        int64_t size = spec->shape.dims[d];
        if (d == 0 && batched)
            size = rows;
        bytes *= size < 0 ? length : size;
    }
    return bytes;
}

int64_t tt_overlap_report_bytes(const struct tt_overlap_report *self, int32_t rows) {
    const struct tt_signature *signature = self->signature;
    int64_t bytes = 0;
    for (int32_t i = 0; i < signature->input_count; i++)
        bytes += bytes_of(&signature->inputs[i], signature->batched, rows, self->length);
    for (int32_t i = 0; i < signature->output_count; i++)
        bytes += bytes_of(&signature->outputs[i], signature->batched, rows, self->length);
    return bytes;
}

/* The median time of COPIES copies in memory, in ns; -1: no memory. */
static int64_t copy_time(int64_t bytes) {
    int64_t times[COPIES];
    char *from = malloc((size_t)bytes + 1), *to = malloc((size_t)bytes + 1);
    for (int i = 0; from && to && i < COPIES; i++) {
        memset(from, i, (size_t)bytes);
        int64_t began_at = tt_clock_now();
        memcpy(to, from, (size_t)bytes);
        times[i] = tt_clock_now() - began_at;
        from[0] = to[bytes / 2]; /* a read, so that the compiler keeps the copy */
    }
    bool copied = from && to;
    free(from);
    free(to);
    if (!copied)
        return -1;
    tt_sort_int64(times, COPIES);
    return times[COPIES / 2];
}

void tt_overlap_report_print(const struct tt_overlap_report *self, int32_t rows,
                             int64_t computation_ns, FILE *to) {
    int64_t bytes = tt_overlap_report_bytes(self, rows);
    int64_t transfer_ns =
        self->link_gb_per_s > 0 ? (int64_t)((double)bytes / self->link_gb_per_s) : copy_time(bytes);
    if (transfer_ns < 0 || computation_ns <= 0)
        return;
    struct tt_overlap_gain gain = tt_overlap_gain((double)transfer_ns, (double)computation_ns);
    fprintf(to,
            "overlap at batch %d: %lld bytes take %.1f us %s, computing takes %.1f us: moving the "
            "next batch meanwhile saves %.1f %% of the time and adds %.1f %% of throughput\n",
            rows, (long long)bytes, (double)transfer_ns / 1e3,
            self->link_gb_per_s > 0 ? "over the link" : "from memory to memory",
            (double)computation_ns / 1e3, 100 * gain.time_share, 100 * gain.throughput_gain);
}
