/* How a task goes from step to step, through recurrent blocks and out of them: the rule that every
 * world (simulated, emulated, real) keeps.
 *
 * Life: _begin when the task starts; it stands at `step`. When that step has ended, _step_done says
 * what follows: another step (_go_on moves there), the end, or that the members part. When the task
 * ends, for whatever reason but an abort, _settle tells every member its fate: on to the next step,
 * back to the first of the block, or behind it.
 *
 * How long a member's input and output really are is asked of the world by `tt_walk_lengths`, and
 * kept from the policies. A block costs O(members) when it is entered, a step O(1). Nothing is
 * allocated. */
#ifndef TT_CORE_WALK_H
#define TT_CORE_WALK_H

#include "core/step_model.h"
#include "core/task.h"

struct tt_walk_lengths {
    void *context;
    /* How many rounds the request makes in a block of `kind` in all; >= 1. */
    int32_t (*rounds)(void *context, const struct tt_request *request, enum tt_step_kind kind);
};

enum tt_walk_next { TT_WALK_GOES_ON, TT_WALK_ENDS, TT_WALK_PARTS };

struct tt_walk {
    const struct tt_step_model *model;
    const struct tt_task *task;
    int32_t step; /* the one that runs */
    int32_t next; /* after _step_done: the one that follows */
    int32_t repeats;
    struct tt_step_block block; /* that it goes round in; first = -1: none */
    int32_t rounds;             /* ended there in this task */
    int32_t shortest, longest;  /* so many until the first, the last member is through */
    bool began_inside;          /* the members came with rounds of this block behind them */
};

void tt_walk_begin(struct tt_walk *self, const struct tt_step_model *model,
                   const struct tt_task *task, const struct tt_walk_lengths *lengths);
enum tt_walk_next tt_walk_step_done(struct tt_walk *self);
void tt_walk_go_on(struct tt_walk *self, const struct tt_walk_lengths *lengths);
/* Sets fate, jump and round of the items; the last _step_done was for task->last_step_done. Not for
 * a task of which no step has ended. */
void tt_walk_settle(const struct tt_walk *self, struct tt_task *task,
                    const struct tt_walk_lengths *lengths);

#endif
