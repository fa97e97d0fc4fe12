#include "engine/engine_task.h"

#include "base/array.h"
#include "engine/engine_result.h"
#include "engine/gather.h"

#include <stdlib.h>

void tt_engine_valid_members_fini(struct tt_engine_valid_members *self) {
    free(self->members);
    *self = (struct tt_engine_valid_members){0};
}

void tt_engine_task_begin(struct tt_engine_task *task, const struct tt_signature *signature,
                          struct tt_engine_valid_members *valid) {
    tt_assert(task->kind == TT_ENGINE_REQUESTS);
    tt_assert(signature->batched || task->member_count == 1);
    bool room = TT_ARRAY_RESERVE(valid->members, &valid->capacity, task->member_count);
    valid->count = 0;
    valid->rows = 0;
    for (int32_t i = 0; i < task->member_count; i++) {
        struct tt_engine_member *member = &task->members[i];
        member->result = NULL;
        member->first_row = 0;
        member->next_step = -1;
        member->skips = 0;
        if (task->after && member->err) /* D4: it failed there */
            continue;
        if (!room) {
            member->err = tt_fail(TT_ERR_NO_MEMORY, member->why, "out of memory for a batch of %d",
                                  task->member_count);
            continue;
        }
        const struct tt_engine_member *first = valid->count ? valid->members[0] : member;
        member->err = tt_gather_check(signature, member, first, task->head.length, member->why);
        if (!member->err) {
            valid->members[valid->count++] = member;
            valid->rows += member->rows;
        }
    }
}

void tt_engine_task_give_up(struct tt_engine_task *task) {
    for (int32_t i = 0; i < task->member_count; i++) {
        struct tt_engine_member *member = &task->members[i];
        if (member->result)
            tt_engine_result_release(member->result);
        member->result = NULL;
        member->next_step = -1;
        member->skips = 0;
        if (!member->err)
            member->err = tt_fail(TT_ERR_CANCELLED, member->why, "the run was aborted");
    }
    task->head.outcome = TT_OUTCOME_ABORTED;
}

void tt_engine_task_give_up_cells(struct tt_engine_task *task) {
    tt_assert(task->kind != TT_ENGINE_REQUESTS);
    for (int32_t i = 0; i < task->member_count; i++)
        *(task->kind == TT_ENGINE_CELLS ? &task->cells[i].err : &task->sequences[i].err) =
            TT_ERR_CANCELLED;
    task->head.outcome = TT_OUTCOME_ABORTED;
    task->head.last_step_done = task->head.first_step - 1;
}

void tt_engine_members_fail(struct tt_engine_member *const *members, int32_t count, enum tt_err err,
                            const struct tt_error *why) {
    for (int32_t i = 0; i < count; i++)
        members[i]->err = tt_fail(err, members[i]->why, "%s", why->text);
}

void tt_engine_members_share(struct tt_engine_member *const *members, int32_t count,
                             struct tt_engine_result *take_result) {
    int32_t row = 0;
    for (int32_t i = 0; i < count; i++) {
        members[i]->result = take_result;
        members[i]->first_row = row;
        row += members[i]->rows;
    }
}
