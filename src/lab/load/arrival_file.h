/* Arrivals read from a CSV: columns by name, `at_ns` and `model` required, the others optional
 * (docs/FORMATS.md). The whole file is read and checked before anything runs, so a wrong line is
 * reported with its number. */
#ifndef TT_LAB_LOAD_ARRIVAL_FILE_H
#define TT_LAB_LOAD_ARRIVAL_FILE_H

#include "sim/simulation.h"

struct tt_arrival_file_model {
    const char *name;
    int64_t slo_ns;                      /* TT_NEVER: none */
    int32_t rows, length, output_length; /* defaults for missing columns */
    int32_t max_batch, step_count;
    const struct tt_step_model *step_model;
    enum tt_tree tree; /* the shape of its requests if they are trees */
};

struct tt_arrival_file {
    struct tt_sim_arrival *items;
    int64_t count, capacity;
    int64_t position; /* of the next arrival */
};

/* Errors: NOT_FOUND, IO, NO_MEMORY; INVALID with file:line. */
TT_MUST_CHECK enum tt_err
tt_arrival_file_read(const char *path, const struct tt_arrival_file_model *models,
                     int32_t model_count, struct tt_arrival_file *out_file, struct tt_error *why);
void tt_arrival_file_fini(struct tt_arrival_file *self);
/* `next` of a tt_sim_source. */
bool tt_arrival_file_next(void *self, struct tt_sim_arrival *out_arrival);

#endif
