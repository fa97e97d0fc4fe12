/* A model's steps from a CSV with the columns `step`, `kind` (static, encoder, decoder), `batch`,
 * `latency_ns`, and optionally `length` and `demand`. A row is a profiled point; the rows of a step
 * are adjacent. `demand` is the share of the device that the step occupies, 0 < demand <= 1; its
 * default is 1.
 *
 * Life: _read reads and checks; the caller may take names and profiles out and set them to NULL;
 * _fini frees the rest. */
#ifndef TT_PROFILE_STEP_TABLE_H
#define TT_PROFILE_STEP_TABLE_H

#include "core/step_model.h"

struct tt_step_table {
    int32_t count;
    char **names;
    enum tt_step_kind *kinds;
    struct tt_profile **profiles; /* NULL: taken out */
};

/* `max_batch` of the profiles; 0: the largest in the table. NOT_FOUND, IO, NO_MEMORY; INVALID with
 * file:line. */
TT_MUST_CHECK enum tt_err tt_step_table_read(const char *path, int32_t max_batch,
                                             struct tt_step_table *out_table, struct tt_error *why);
void tt_step_table_fini(struct tt_step_table *self);

#endif
