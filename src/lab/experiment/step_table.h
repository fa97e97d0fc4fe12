/* A model's steps from a CSV: columns `step`, `kind` (static, encoder, decoder), `batch`,
 * `latency_ns` and optionally `length` and `demand` (share of the device that is kept busy, 0 <
 * demand
 * <= 1; absent: all of it); a row per profiled point, the rows of a step together.
 *
 * It reads and checks; who builds a model takes names, kinds and profiles out of it. */
#ifndef TT_LAB_EXPERIMENT_STEP_TABLE_H
#define TT_LAB_EXPERIMENT_STEP_TABLE_H

#include "core/step_model.h"

struct tt_step_table {
    int32_t count;
    char **names;
    enum tt_step_kind *kinds;
    struct tt_profile **profiles; /* NULL: taken */
};

/* `max_batch` of the profiles; 0: the largest in the table. NOT_FOUND, IO, NO_MEMORY; INVALID with
 * file:line. */
TT_MUST_CHECK enum tt_err tt_step_table_read(const char *path, int32_t max_batch,
                                             struct tt_step_table *out_table, struct tt_error *why);
void tt_step_table_fini(struct tt_step_table *self);

#endif
