/* What every engine does with a task's members, whatever the device. */
#ifndef TT_ENGINE_ENGINE_TASK_H
#define TT_ENGINE_ENGINE_TASK_H

#include "engine/engine.h"

/* The members that can run, in order; memory kept from task to task. All zero in the beginning. */
struct tt_engine_valid_members {
    struct tt_engine_member **members;
    int32_t count, capacity;
    int32_t rows;
};

void tt_engine_valid_members_fini(struct tt_engine_valid_members *self);
/* Clears the members' answers and calls the roll: those whose inputs do not make sense, or do not
 * go with the first that do, get their error now and are left out; so do all when memory is out. */
void tt_engine_task_begin(struct tt_engine_task *task, const struct tt_signature *signature,
                          struct tt_engine_valid_members *valid);
/* Step `step` ended at `at`: for who asked. */
static inline void tt_engine_task_step_ended(struct tt_engine_task *task, int32_t step,
                                             int64_t at) {
    if (step - task->first_step < task->step_ends_capacity)
        task->step_ends[step - task->first_step] = at;
}
/* The same of sequences: with the last of so many rounds of its type, or steps of its block. */
static inline void tt_engine_task_rounds_ended(struct tt_engine_task *task, int32_t step,
                                               int64_t at, int32_t rounds) {
    tt_engine_task_step_ended(task, step, at);
    if (task->step_rounds && step - task->first_step < task->step_ends_capacity)
        task->step_rounds[step - task->first_step] = rounds;
}
/* The task ends as aborted: results are dropped, and who has no error of its own says CANCELLED. */
void tt_engine_task_give_up(struct tt_engine_task *task);
/* The same error and sentence for these members. */
void tt_engine_members_fail(struct tt_engine_member *const *members, int32_t count, enum tt_err err,
                            const struct tt_error *why);
/* Gives the members their rows of one result, which has a reference for each. */
void tt_engine_members_share(struct tt_engine_member *const *members, int32_t count,
                             struct tt_engine_result *take_result);

#endif
