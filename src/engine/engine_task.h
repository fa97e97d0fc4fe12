/* What every engine does with a task's members, whatever the device. Engines call it from the
 * executor that runs the task. */
#ifndef TT_ENGINE_ENGINE_TASK_H
#define TT_ENGINE_ENGINE_TASK_H

#include "engine/engine.h"

/* The members that can run, in order; memory is kept from task to task. All zero at first. */
struct tt_engine_valid_members {
    struct tt_engine_member **members;
    int32_t count, capacity;
    int32_t rows;
};

void tt_engine_valid_members_fini(struct tt_engine_valid_members *self);
/* Clears the members' answers and lists the members that can run. A member with invalid inputs, or
 * with inputs that do not fit those of the first valid one, gets its error here and is left out.
 * Without memory all are. A task of requests only. */
void tt_engine_task_begin(struct tt_engine_task *task, const struct tt_signature *signature,
                          struct tt_engine_valid_members *valid);
/* Step `step` ended at `at`; noted where the caller wants it. */
static inline void tt_engine_task_step_ended(struct tt_engine_task *task, int32_t step,
                                             int64_t at) {
    if (step - task->head.first_step < task->step_ends_capacity)
        task->step_ends[step - task->head.first_step] = at;
}
/* The same for sequences: it was the last of `rounds` rounds of its type, or steps of its block. */
static inline void tt_engine_task_rounds_ended(struct tt_engine_task *task, int32_t step,
                                               int64_t at, int32_t rounds) {
    tt_engine_task_step_ended(task, step, at);
    if (task->step_rounds && step - task->head.first_step < task->step_ends_capacity)
        task->step_rounds[step - task->head.first_step] = rounds;
}
/* The task ends as aborted: results are dropped, and members without an error of their own say
 * CANCELLED. */
void tt_engine_task_give_up(struct tt_engine_task *task);
/* The same for a task of cells or sequences; none of its steps is done. */
void tt_engine_task_give_up_cells(struct tt_engine_task *task);
/* The same error and sentence for these members. */
void tt_engine_members_fail(struct tt_engine_member *const *members, int32_t count, enum tt_err err,
                            const struct tt_error *why);
/* Gives the members their rows of one result, which has one reference per member. */
void tt_engine_members_share(struct tt_engine_member *const *members, int32_t count,
                             struct tt_engine_result *take_result);

#endif
