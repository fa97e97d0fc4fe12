/* What the profile beside a model of a repository says, as an experiment needs it: how long the
 * whole runs, and each of its stages where the model is cut.
 *
 * Reads the model's configuration and the file that `tutti profile` has written; runs nothing, so
 * that experiments in virtual time can go by the same figures as those on the real model. */
#ifndef TT_PROFILE_REPOSITORY_PROFILE_H
#define TT_PROFILE_REPOSITORY_PROFILE_H

#include "core/step_model.h"

struct tt_repository_profile {
    struct tt_profile *whole;
    int32_t step_count;        /* 1, and static: the whole is one step */
    struct tt_profile **steps; /* NULL where that is so */
    char **names;              /* [step_count] */
    enum tt_step_kind *kinds;  /* [step_count]; of chains of cells: its types are recurrent steps */
    int32_t *min_rows;         /* [step_count] */
    bool is_tree;              /* of cells: step 0 is the leaf, step 1 the inner node */
};

/* For batches up to `max_batch` (0: as many as the model takes). Errors: NOT_FOUND (no such
 * repository, model or profile; the sentence says what to run), INVALID (the model has a problem,
 * is of cells that a plug-in unfolds, takes smaller batches, or was profiled otherwise than it is
 * cut now), IO, NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_repository_profile_read(const char *repository, const char *model,
                                                     int32_t max_batch,
                                                     struct tt_repository_profile *out_profile,
                                                     struct tt_error *why);
void tt_repository_profile_fini(struct tt_repository_profile *self);

#endif
