/* One batched execution of consecutive steps on one executor.
 *
 * A policy builds it with the actions of policy.h; the mechanism checks it, marks its requests
 * RUNNING and hands it to the carrier, which runs it and reports `finished`. Tasks live in their
 * executor (as many as its depth) and are reused: no pointer to one is good after the policy heard
 * that it finished.
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
    TT_ENDING_DROPPED,   /* the policy gave it up; see the reason */
    TT_ENDING_FAILED,    /* the device could not compute it */
    TT_ENDING_CANCELLED, /* the client went away */
};

/* What became of a request in a finished task. The carrier may set it before reporting;
 * TT_FATE_GOES_ON is the normal course: on to the step after the last one done, or out when that
 * was the model's last. */
enum tt_fate {
    TT_FATE_GOES_ON,
    TT_FATE_LEAVES, /* early exit, end of sequence */
    TT_FATE_JUMPS,  /* to step `jump`: layer skip, the next timestep of a recurrent block */
    TT_FATE_FAILS,  /* this one alone could not be computed */
};

/* How a task goes through recurrent blocks (step_model.h) that end within it. Without such a block
 * all are the same. */
enum tt_task_walk {
    TT_WALK_TOGETHER,  /* each block until the last member is through; all stay to the end (padding)
                        */
    TT_WALK_DIVERGING, /* each block until the first member is through; there it ends (PARTED) */
    TT_WALK_ONCE,      /* every step as written, `repeat` times; who has more to do JUMPS back */
};

struct tt_cell_subgraph;

struct tt_task_item {
    struct tt_request *request;
    enum tt_fate fate;
    int32_t jump;          /* TT_FATE_JUMPS: the next step */
    int32_t round;         /* of the recurrent block of its next step, how many it has behind it */
    enum tt_ending ending; /* the mechanism's: how the request left, if it did */
    /* In a task of cells (every item then has one, and a request may have several); TT_FATE_LEAVES
     * says that this open-ended chain ends with this cell. */
    struct tt_cell_subgraph *subgraph;
    int32_t cell; /* in a chain the number of the repeat, from 0, else the number of its spec */
    /* The mechanism's: */
    bool begins; /* nothing of the request was in a task before */
    bool ends;   /* the request left because of this item, */
    bool last;   /* and nothing of it is in flight after this one */
};

struct tt_task {
    int64_t number; /* of the RUN that made it, from 0 */
    int32_t executor;
    int32_t model;
    int32_t first_step, last_step;
    int32_t repeat; /* the steps run this many times in a row, >= 1 */
    enum tt_task_walk walk;
    int32_t length;      /* inputs are padded to this; 0: as they are */
    int32_t rows;        /* sum over the items */
    int32_t padded_rows; /* computed as a batch of this size, filled up with rows of nobody; 0: as
                            many as there are */
    int32_t count, capacity;
    int32_t begin_count; /* items that begin */
    enum tt_task_state state;
    int64_t dispatched_at; /* when the policy decided */
    int64_t start_at;      /* not before this */
    struct tt_task_item *items;
    void *user; /* the carrier's */
    /* Set when it finishes: */
    enum tt_outcome outcome;
    int32_t last_step_done; /* first_step - 1: none */
    /* When the device began and ended it, as far as the carrier knows: for reports. Policies go by
     * when they are told. started_at -1: it never began. */
    int64_t started_at, ended_at;
};

/* The first item that begins; `count` where none does. Who begins mostly stands behind those who
 * go on, so that is where it looks. */
static inline int32_t tt_task_first_beginner(const struct tt_task *self) {
    int32_t at = self->count;
    for (int32_t left = self->begin_count; left > 0; left -= self->items[at].begins)
        at--;
    return at;
}
/* What the device computes. */
static inline int32_t tt_task_computed_rows(const struct tt_task *self) {
    return self->padded_rows > self->rows ? self->padded_rows : self->rows;
}

#endif
