/* The state of policy `diversity` (policy/diversity.h), private to its files: diversity_state.c
 * answers questions about stages, diversity.c makes and moves batches, diversity_follow.c submits
 * stages ahead (D4), diversity_executors.c has the states of executors (D3).
 *
 * The part that a task runs is in the `policy_word` of its requests. */
#ifndef TT_POLICY_DIVERSITY_STATE_H
#define TT_POLICY_DIVERSITY_STATE_H

#include "core/stage_states.h"
#include "policy/batch_table.h"
#include "policy/fifo.h"

enum { TT_DIVERSITY_NOT_GIVEN = -1 }; /* the option follows from others */

/* Whose table reports the moves of a table's buffers. */
struct tt_diversity_model {
    struct tt_policy *policy;
    int32_t model;
};

struct tt_policy {
    struct tt_queues queues;                 /* pending requests; idle executors */
    struct tt_batch_table *tables;           /* [model_capacity] */
    struct tt_diversity_model *models;       /* [model_capacity] */
    enum tt_stage_executor_state *executors; /* [executor_count] */
    int32_t inactive_count;                  /* of them */
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

/* ---- diversity_executors.c ----
 *
 * D3: executor states, with the moves of core/stage_states.h. An executor that serves several
 * stages, or stages of several models, has a legitimate pair if one of them has a free buffer. Its
 * events:
 * - it begins a task of `stage`: active -> checking -> working; one that works already goes on;
 * - it refuses the front part, since no buffer behind the stage is free: active -> checking ->
 *   inactive;
 * - it has ended its last task: working -> active, or inactive without a legitimate pair;
 * - a decision begins, and a stage has a free buffer again: inactive -> active. */

void tt_diversity_executor_begins(struct tt_policy *self, int32_t executor, int32_t model,
                                  int32_t stage);
void tt_diversity_executor_refuses(struct tt_policy *self, int32_t executor, int32_t model,
                                   int32_t stage);
void tt_diversity_executor_ended(struct tt_policy *self, int32_t executor, int32_t model,
                                 int32_t stage);
void tt_diversity_executors_wake(struct tt_policy *self);
/* Asserts that exactly the executors with a task work. */
void tt_diversity_executors_check(const struct tt_policy *self);
/* tt_batch_table.moved; the context is a tt_diversity_model. */
void tt_diversity_buffers_moved(void *context, int32_t stage, int32_t count,
                                enum tt_stage_buffer_state from, enum tt_stage_buffer_state to);

/* ---- diversity_follow.c ---- */

/* Within `decide`, after all other actions: for every batch that has begun a stage, submits the
 * next one if that is certain. */
void tt_diversity_follow(struct tt_policy *self, struct tt_mechanism *actions);

#endif
