/* What every engine does with a task's members, independent of the device. Called on the executor
 * that runs the task. */
#ifndef TT_ENGINE_ENGINE_TASK_H
#define TT_ENGINE_ENGINE_TASK_H

#include "engine/engine.h"

/* The valid members of a task, in order. All zero at first; its memory is reused from task to
 * task. */
struct tt_engine_valid_members {
    struct tt_engine_member **members;
    int32_t count;
    int64_t capacity;
    int32_t rows;
};

void tt_engine_valid_members_fini(struct tt_engine_valid_members *self);
/* Clears the members' results and lists the members that can run. A member gets its error here, and
 * is left out, if its inputs are invalid or do not fit those of the first valid member. If there is
 * no memory, all are left out. So is a member that failed in the task named by `after`. For tasks
 * of requests only. */
void tt_engine_task_begin(struct tt_engine_task *task, const struct tt_signature *signature,
                          struct tt_engine_valid_members *valid);
/* Records that `step` ended at `at`, if the caller asked for it. */
static inline void tt_engine_task_step_ended(struct tt_engine_task *task, int32_t step,
                                             int64_t at) {
    if (step - task->head.first_step < task->step_ends_capacity)
        task->step_ends[step - task->head.first_step] = at;
}
/* The same for sequences. `rounds`: how many rounds of its type, or steps of its block, have
 * run. */
static inline void tt_engine_task_rounds_ended(struct tt_engine_task *task, int32_t step,
                                               int64_t at, int32_t rounds) {
    tt_engine_task_step_ended(task, step, at);
    if (task->step_rounds && step - task->head.first_step < task->step_ends_capacity)
        task->step_rounds[step - task->head.first_step] = rounds;
}
/* Ends the task as aborted: drops the results; members without an error get CANCELLED. */
void tt_engine_task_give_up(struct tt_engine_task *task);
/* The same for a task of cells or sequences. None of its steps counts as done. */
void tt_engine_task_give_up_cells(struct tt_engine_task *task);
/* Gives all members the same error and message. */
void tt_engine_members_fail(struct tt_engine_member *const *members, int32_t count, enum tt_err err,
                            const struct tt_error *why);
/* Gives each member its rows of a result that has one reference per member. */
void tt_engine_members_share(struct tt_engine_member *const *members, int32_t count,
                             struct tt_engine_result *take_result);

#endif
