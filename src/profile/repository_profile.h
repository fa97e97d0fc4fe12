/* The profile beside a model of a repository, for experiments: how long the whole runs, and each of
 * its stages if the model is cut.
 *
 * The types of chains of cells are recurrent steps; a model that is not cut is one static step.
 *
 * Reads the model's configuration and the file that `tutti profile` wrote. It runs nothing, so
 * experiments in virtual time use the same figures as those on the real model. */
#ifndef TT_PROFILE_REPOSITORY_PROFILE_H
#define TT_PROFILE_REPOSITORY_PROFILE_H

#include "core/step_model.h"

struct tt_repository_profile {
    struct tt_profile *whole; /* NULL: of cells; the caller derives it */
    int32_t step_count;
    struct tt_step *steps;        /* [step_count]; their names are owned */
    struct tt_profile **profiles; /* [step_count], owned; a single one may be `whole` */
    bool is_tree;                 /* of cells: step 0 is the leaf, step 1 the internal node */
};

/* For batches up to `max_batch` (0: as many as the model takes). Errors: NOT_FOUND (no such
 * repository, model or profile; the message says what to run), INVALID (the model cannot serve, a
 * plug-in unfolds its cells, it takes smaller batches, or its cut differs from the profiled one),
 * IO, NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_repository_profile_read(const char *repository, const char *model,
                                                     int32_t max_batch,
                                                     struct tt_repository_profile *out_profile,
                                                     struct tt_error *why);
/* A caller that keeps everything does not call _fini. */
void tt_repository_profile_fini(struct tt_repository_profile *self);

#endif
