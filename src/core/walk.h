/* How a task goes from step to step, through recurrent blocks and out of them: the rule that every
 * world (simulated, emulated, real) keeps.
 *
 * Life: _begin when the task starts; it stands at `step`. When that step has ended, _step_done says
 * what follows: another step (_go_on moves there), the end, or that the members part. When the task
 * ends, for whatever reason but an abort, _place_of says where each member goes on: with the next
 * step, at the first of the block, or behind it.
 *
 * How long a member's input and output really are is asked of the world by `tt_walk_members`, and
 * kept from the policies. A block costs O(members) when it is entered, a step O(1). Nothing is
 * allocated. */
#ifndef TT_CORE_WALK_H
#define TT_CORE_WALK_H

#include "core/step_model.h"
#include "core/task.h"

/* Who walks. */
struct tt_walk_members {
    void *context;
    int32_t count;
    /* How many rounds the member makes in a block of `kind` in all; >= 1. */
    int32_t (*rounds)(void *context, int32_t member, enum tt_step_kind kind);
    /* And how many of those it had behind it when the task began, in the block where it did. */
    int32_t (*behind)(void *context, int32_t member);
};

/* As of a task (core/task.h). */
struct tt_walk_route {
    int32_t first_step, last_step, repeat;
    enum tt_task_walk walk;
    int32_t length; /* inputs are walked to this end; 0: to their own */
};

enum tt_walk_next { TT_WALK_GOES_ON, TT_WALK_ENDS, TT_WALK_PARTS };

struct tt_walk {
    const struct tt_step_model *model;
    struct tt_walk_route route;
    int32_t step; /* the one that runs */
    int32_t next; /* after _step_done: the one that follows */
    int32_t repeats;
    struct tt_step_block block; /* that it goes round in; first = -1: none */
    int32_t rounds;             /* ended there in this task */
    int32_t shortest, longest;  /* so many until the first, the last member is through */
    bool began_inside;          /* the members came with rounds of this block behind them */
};

/* Where a member goes on: step_count where it is through with all. */
struct tt_walk_place {
    int32_t step;
    int32_t round; /* of the block there, how many it has behind it */
};

void tt_walk_begin(struct tt_walk *self, const struct tt_step_model *model,
                   const struct tt_walk_route *route, const struct tt_walk_members *members);
enum tt_walk_next tt_walk_step_done(struct tt_walk *self);
void tt_walk_go_on(struct tt_walk *self, const struct tt_walk_members *members);
/* After the _step_done of the task's last step, and before any other _go_on. */
struct tt_walk_place tt_walk_place_of(const struct tt_walk *self,
                                      const struct tt_walk_members *members, int32_t member);

#endif
