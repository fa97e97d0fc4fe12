/* Placement problems and placements on disk (proto/placement.proto in text form).
 *
 * A problem names its models, their rates, memory and costs, and the limits. A placement says which
 * model lies in which sub-cluster; what a search writes is what the next one reads as the previous
 * placement. Implemented in place_file.c. */
#ifndef TT_PLACE_PLACE_FILE_H
#define TT_PLACE_PLACE_FILE_H

#include "base/text.h"
#include "place/place_problem.h"
#include "placement.pb-c.h"

struct tt_place_file {
    Tutti__PlacementProblem *message; /* owned; has the names */
    struct tt_place_model *models;    /* owned */
    struct tt_place_problem problem;
    bool has_cost;      /* the file states max_cost; it counts once a placement is read */
    int64_t max_cost;   /* then this, in millionths */
    int32_t gone;       /* entries of the previous placement whose model is not in the problem */
    int32_t unassigned; /* models that lay in a sub-cluster that the problem does not have */
};

/* Reads the memory that a profile states; 0: it does not. */
typedef enum tt_err tt_place_memory_fn(const char *path, int64_t *out_static_bytes,
                                       int64_t *out_dynamic_bytes, struct tt_error *why);

/* Reads a problem; no model lies anywhere, and costs do not count. Errors: NOT_FOUND, IO, INVALID
 * with file:line, NO_MEMORY, and those of `memory`. */
TT_MUST_CHECK enum tt_err tt_place_file_open(const char *path, tt_place_memory_fn *memory,
                                             struct tt_place_file **out_file, struct tt_error *why);
/* Reads the previous placement: sets `now` of the models, and lets costs count if the problem
 * limits them. Models that it does not name lie nowhere. Errors as above. */
TT_MUST_CHECK enum tt_err tt_place_file_previous(struct tt_place_file *self, const char *path,
                                                 struct tt_error *why);
void tt_place_file_close(struct tt_place_file *take_file);

/* Appends `at` as a placement file. */
void tt_place_file_put(const struct tt_place_problem *problem, const int32_t *at,
                       struct tt_text *out_text);

#endif
