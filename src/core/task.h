/* One batched execution of consecutive steps on one executor.
 *
 * Life of a task: a policy builds it with the mechanism's actions (policy.h). The mechanism checks
 * it, marks its requests RUNNING and hands it to the carrier. The carrier runs it and reports
 * `finished`.
 *
 * An executor owns as many tasks as its depth and reuses them. A pointer to a task is valid until
 * the policy's `finished` returns.
 *
 * D4: a task may take up the members of a task that has not ended (core/follow.h). It begins when
 * that task has ended, without another decision.
 *
 * This is the mechanism's own task. The carrier makes a device task (core/device_set.h) of it. */
#ifndef TT_CORE_TASK_H
#define TT_CORE_TASK_H

#include "core/device_set.h"
#include "core/request.h"

#include <stdbool.h>
#include <stdint.h>

enum tt_task_state { TT_TASK_FREE, TT_TASK_BUILDING, TT_TASK_QUEUED };

/* How a request left its domain. */
enum tt_ending {
    TT_ENDING_DONE,      /* computed (in time or late: compare the instant with the deadline) */
    TT_ENDING_DROPPED,   /* given up by the policy or a queue rule; see the drop reason */
    TT_ENDING_FAILED,    /* the device could not compute it */
    TT_ENDING_CANCELLED, /* its client has gone */
};

/* What happens to a request after a finished task. The carrier may set it before it reports the
 * task. TT_FATE_GOES_ON is the default: the request continues with the step after the last one
 * done, or leaves if that was the model's last. */
enum tt_fate {
    TT_FATE_GOES_ON,
    TT_FATE_LEAVES, /* early exit, end of sequence */
    TT_FATE_JUMPS,  /* to step `jump`: layer skip, the next timestep of a recurrent block */
    TT_FATE_FAILS,  /* this request alone could not be computed */
};

/* How a task goes through recurrent blocks (step_model.h) that end within it. Without such a block
 * all three are the same. */
enum tt_task_walk {
    TT_WALK_TOGETHER,  /* each block until its last member is through; the others are padding */
    TT_WALK_DIVERGING, /* each block until its first member is through; then ends as DIVERGED */
    TT_WALK_ONCE,      /* each step as written, `repeat` times; members with rounds left JUMP */
};

struct tt_cell_subgraph;

struct tt_task_item {
    struct tt_request *request;
    enum tt_fate fate;
    int32_t jump; /* TT_FATE_JUMPS: the next step */
    /* Rounds done of the recurrent block that contains its next step. If it has done all steps: the
     * elements that its decoder made; 0: there is none, or the carrier does not know. */
    int32_t round;
    enum tt_ending ending; /* how the request left, if it did; set by the mechanism */
    /* In a task of cells every item has one, and a request may have several items. TT_FATE_LEAVES
     * then means that this open-ended chain ends with this cell. */
    struct tt_cell_subgraph *subgraph;
    int32_t cell; /* in a chain the number of the repeat, from 0; else the index of its spec */
    /* Set by the mechanism: */
    bool begins; /* nothing of the request was in a task before */
    bool ends;   /* the request left because of this item */
    bool last;   /* by cells: no cell of the request is in flight after this one */
};

struct tt_task {
    int64_t number; /* number of the RUN that made it, from 0 */
    int32_t executor;
    int32_t model;
    int32_t first_step, last_step;
    int32_t repeat; /* the steps run this many times in a row; >= 1 */
    enum tt_task_walk walk;
    int32_t length; /* inputs are padded to this length; 0: they are not padded */
    int32_t rows;   /* sum over the items */
    int32_t
        padded_rows; /* size of the batch as computed, filled up with unused rows; 0: no padding */
    int32_t count, capacity;
    int32_t begin_count; /* number of items that begin */
    enum tt_task_state state;
    bool is_mixed; /* C1: its cells are of several models that share their type; `model` and the
                      steps are those of the first one */
    int64_t dispatched_at; /* when the policy decided */
    int64_t start_at;      /* earliest start */
    struct tt_task_item *items;
    void *user; /* the carrier's */
    /* D4: the task whose members it takes up, until that task has finished; and the task that takes
     * up its own members. NULL: none. */
    struct tt_task *after, *follower;
    /* Set when the task finishes: */
    enum tt_outcome outcome;
    int32_t last_step_done; /* first_step - 1: none */
    /* When the device began and ended it, as far as the carrier knows; for reports only. Policies
     * use the `now` of the call. started_at -1: it never began. */
    int64_t started_at, ended_at;
    /* How much of that time the others of the device took; set by the mechanism (core/sharing.h).
     */
    int64_t lost_ns;
    /* When the task's message was at the device (S4); -1: the carrier does not know. With
     * tt_mechanism_options.learns_delays the mechanism learns from it. */
    int64_t received_at;
};

/* Index of the first item that begins; `count`: none does. Searches from the end, since items that
 * begin usually stand behind those that continue. */
static inline int32_t tt_task_first_beginner(const struct tt_task *self) {
    int32_t at = self->count;
    for (int32_t left = self->begin_count; left > 0; left -= self->items[at].begins)
        at--;
    return at;
}
/* Rows that the device computes, padding included. */
static inline int32_t tt_task_computed_rows(const struct tt_task *self) {
    return self->padded_rows > self->rows ? self->padded_rows : self->rows;
}
/* The length of its inputs as computed: the longest one, unless the policy set another. */
static inline int32_t tt_task_computed_length(const struct tt_task *self) {
    int32_t length = self->length;
    for (int32_t i = 0; self->length == 0 && i < self->count; i++)
        if (self->items[i].request->length > length)
            length = self->items[i].request->length;
    return length;
}

#endif
