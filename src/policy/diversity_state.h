/* The state of policy `diversity` (policy/diversity.h), private to its files: diversity_state.c
 * answers questions about stages, diversity.c makes and moves batches, diversity_follow.c submits
 * stages ahead (D4).
 *
 * The part that a task runs is in the `policy_word` of its requests. */
#ifndef TT_POLICY_DIVERSITY_STATE_H
#define TT_POLICY_DIVERSITY_STATE_H

#include "policy/batch_table.h"
#include "policy/fifo.h"

enum { TT_DIVERSITY_NOT_GIVEN = -1 }; /* the option follows from others */

struct tt_policy {
    struct tt_queues queues;       /* pending requests; idle executors */
    struct tt_batch_table *tables; /* [model_capacity] */
    int32_t executor_count;
    int32_t bs_max, pairs, width;
    int64_t window_ns, comp_wait_ns; /* or TT_DIVERSITY_NOT_GIVEN */
    bool stretches, asks_profile, splits, input, asks_gain, asks_room, submits_ahead;
};

static inline const struct tt_step_model *tt_diversity_model_of(const struct tt_policy *self,
                                                                int32_t model) {
    return self->queues.domain->models[model];
}

static inline int32_t tt_diversity_part_of(const struct tt_task *task) {
    return (int32_t)task->items[0].request->policy_word;
}

/* ---- diversity_state.c ---- */

/* The first step of a stage. If there are more steps than stages, they are distributed evenly. */
int32_t tt_diversity_first_step(const struct tt_policy *self, int32_t model, int32_t stage);
bool tt_diversity_serves(const struct tt_policy *self, int32_t executor, int32_t model,
                         int32_t stage);
/* The idle executor of the smallest number that serves the stage; -1: none. */
int32_t tt_diversity_idle_for(const struct tt_policy *self, int32_t model, int32_t stage);
/* The time from the first step of `stage` to the end for `rows` rows. */
int64_t tt_diversity_remaining(const struct tt_policy *self, int32_t model, int32_t stage,
                               int32_t rows, int32_t length);
/* Maximum number of rows in a batch. */
int32_t tt_diversity_max_rows(const struct tt_policy *self, int32_t model);
/* D7: the maximum age of a batch of this length that may be stretched. */
int64_t tt_diversity_comp_wait(const struct tt_policy *self, int32_t model, int32_t length);
/* D6: true if the two halves, one after the other, take no longer than the whole batch. */
bool tt_diversity_is_too_large(const struct tt_policy *self, int32_t model, int32_t stage,
                               int32_t rows, int32_t length);

/* ---- diversity_follow.c ---- */

/* Within `decide`, after all other actions: for every batch that has begun a stage, submits the
 * next one if that is certain. */
void tt_diversity_follow(struct tt_policy *self, struct tt_mechanism *actions);

#endif
