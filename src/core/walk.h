/* How a task moves from step to step, through recurrent blocks and out of them. Every world
 * (simulated, emulated, real) follows this rule.
 *
 * Life of a walk: _begin when the task starts; the walk stands at `step`. When that step has ended,
 * _step_done returns what follows: another step (_go_on moves there), the end, or that the members
 * diverge. When the task ends for any reason but an abort, _place_of returns where each member
 * continues: at the next step, at the first step of the block, or after it.
 *
 * The world provides the true lengths of a member's input and output through `tt_walk_members`;
 * policies never see them. Entering a block costs O(members), or O(1) if it is walked once; a step
 * costs O(1). Nothing is allocated. */
#ifndef TT_CORE_WALK_H
#define TT_CORE_WALK_H

#include "core/step_model.h"
#include "core/task.h"

/* The requests that walk together. */
struct tt_walk_members {
    void *context;
    int32_t count;
    /* Total number of rounds of the member in a block of `kind`; >= 1. */
    int32_t (*rounds)(void *context, int32_t member, enum tt_step_kind kind);
    /* Rounds that the member had done when the task began, in the block where it began. */
    int32_t (*rounds_done)(void *context, int32_t member);
};

/* The route of a task; fields as in core/task.h. */
struct tt_walk_route {
    int32_t first_step, last_step, repeat;
    enum tt_task_walk walk;
    int32_t length; /* encoder blocks run to this length; 0: to each input's own */
};

enum tt_walk_next { TT_WALK_GOES_ON, TT_WALK_ENDS, TT_WALK_DIVERGES };

struct tt_walk {
    const struct tt_step_model *model;
    struct tt_walk_route route;
    int32_t step; /* the step that runs */
    int32_t next; /* the step that follows; valid after _step_done */
    int32_t repeats;
    struct tt_step_block block; /* the block that contains `step`; first = -1: none */
    int32_t rounds;             /* of this block, ended in this task */
    int32_t shortest, longest;  /* rounds until the first and until the last member is through */
    bool began_inside;          /* the task began in this block; members may have done rounds */
};

/* Where a member continues; step = step_count: it has done all steps. */
struct tt_walk_place {
    int32_t step;
    int32_t round; /* rounds done of the block that contains `step` */
};

void tt_walk_begin(struct tt_walk *self, const struct tt_step_model *model,
                   const struct tt_walk_route *route, const struct tt_walk_members *members);
enum tt_walk_next tt_walk_step_done(struct tt_walk *self);
void tt_walk_go_on(struct tt_walk *self, const struct tt_walk_members *members);
/* Call it after the _step_done of the task's last step and before any further _go_on. */
struct tt_walk_place tt_walk_place_of(const struct tt_walk *self,
                                      const struct tt_walk_members *members, int32_t member);

#endif
