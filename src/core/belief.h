/* What policies believe about the latencies of a model: its profile, corrected by what its batches
 * took.
 *
 * A belief holds a step model of its own, `model`, which policies read in place of the one that was
 * added (the prior, which stays as it is). Both have the same shape; only the latencies, alpha and
 * beta differ. All values are integers. Latencies never decrease with the batch size.
 *
 *     centre = prior x speed x shape        tail = prior x tail speed x shape
 *     alpha, beta = prior x speed
 *
 * - speed, of the model: the median of took / (prior x shape) over its last 32 batches. The tail
 *   speed is a high quantile of the same values (the option, 95 % by default), at least the speed
 *   and at most twice the speed. So two executors that stall at once cannot make all look lost.
 * - shape, of a step (or of the whole graph), a class of input lengths (1, 2, 3-4, 5-8, ...) and
 *   one of batch sizes (1, 2-3, 4-7, ...): the median of took / (prior x speed) over the last 32
 *   batches there. A class that 512 batches of its model passed by returns to 1. When the speed
 *   moves, shapes of frequent classes start again from the value that they have.
 *
 * The model's tables are written only when a value has left its last written one by more than 5 %,
 * and at most once per 8 batches. In between, policies see constants. A table that took exactly as
 * long as its profile says stays equal to it.
 *
 * Starvation. A policy that believes nothing can be in time runs nothing, and nothing is learnt. So
 * after requests were dropped for one SLO without a batch in between, the belief returns to the
 * prior where it is slower. Its windows keep their newer half: the next batch decides which is
 * true.
 *
 * Lengths of outputs are learnt on request (_learn_outputs), of models with decoder steps whose
 * lengths are not pinned: `model.output_quantiles` are then those of core/output_lengths.h.
 *
 * What a task teaches: its duration from start to end on the device, at its rows (padding included)
 * and longest input. One of the whole graph or of one step teaches speed and shape; one of several
 * steps only the speed. Nothing is learnt from tasks that failed or were aborted. Nor from a model
 * with recurrent blocks, unless the task is of cells: its rounds are not known. Nor where the
 * profile says less than 100 ns: the model was not profiled.
 *
 * Life: made with its model, and allocates only then: 200 bytes for each step and pair of classes,
 * and two tables per profile. Pure; no clock, no thread. */
#ifndef TT_CORE_BELIEF_H
#define TT_CORE_BELIEF_H

#include "core/output_lengths.h"
#include "core/quantile_window.h"
#include "core/step_model.h"
#include "core/task.h"

enum {
    TT_BELIEF_LEAST_NS = 100,   /* a profile that says less is unknown */
    TT_BELIEF_ONE = 1 << 16,    /* of a ratio: as the profile says */
    TT_BELIEF_MOVE_PERCENT = 5, /* smaller moves are not written */
    TT_BELIEF_PAUSE = 8,        /* batches from one move to the next */
    TT_BELIEF_FORGET = 512,     /* batches of the model without one of a class */
    TT_BELIEF_PERCENT = 95,     /* the default quantile of the tail */
    TT_BELIEF_MIN_PERCENT = 1,
    TT_BELIEF_MAX_PERCENT = 100,
};

/* Of one step, class of lengths and class of batch sizes. */
struct tt_belief_cell {
    struct tt_quantile_window ratios; /* took / (prior x speed) */
    struct tt_quantile_watch watch;   /* of the median, around the shape */
    uint32_t shape;                   /* as written */
    uint32_t epoch;                   /* of the speed that `ratios` are relative to */
    uint64_t inverse;                 /* 1 / shape, in 1 / 2^32 */
    int64_t last_batch;               /* number of the model's batch that was the last one here */
    int64_t half_at, next_half_at;    /* the same of the one 16 to 31 before, and 0 to 15 before */
};

/* A profile and its cells: of a step, or of the whole graph. */
struct tt_belief_unit {
    const struct tt_profile *prior;
    struct tt_profile believed;   /* its own latency_ns and tail_ns; the rest is the prior's */
    struct tt_belief_cell *cells; /* [length classes][class_count] */
    int32_t class_count;
};

struct tt_belief {
    struct tt_step_model model; /* what policies read */
    const struct tt_step_model *prior;
    struct tt_step *steps;
    struct tt_belief_unit *units; /* [unit_count]; the last one is the whole graph */
    int32_t unit_count;
    int32_t tail_percent;
    struct tt_belief_cell *cells;     /* [cell_count], of all units */
    int32_t cell_count, visited;      /* visited: the next cell that may be forgotten */
    struct tt_quantile_window ratios; /* took / (prior x shape) */
    struct tt_quantile_watch watch;   /* of the median, around the speed */
    struct tt_quantile_watch tail;    /* of the tail, around the tail speed */
    uint32_t speed, tail_speed;       /* as written */
    uint64_t inverse;                 /* 1 / speed, in 1 / 2^32 */
    uint32_t epoch;                   /* counts moves of the speed */
    int64_t batches, moved_at;        /* number of batches seen; the same at the last move */
    int64_t moves;
    int64_t dropped_at;                /* the first drop since the last batch; TT_NEVER: none */
    bool has_blocks;                   /* the model has recurrent blocks */
    struct tt_output_lengths *outputs; /* NULL: lengths are not learnt */
    bool starving, probing;
};

/* `prior` is borrowed for life. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_belief_new(const struct tt_step_model *prior, int32_t tail_percent,
                                        struct tt_belief **out_belief);
/* From now on lengths of outputs are learnt, if the model has any and does not pin them. Errors:
 * NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_belief_learn_outputs(struct tt_belief *self);
void tt_belief_free(struct tt_belief *take_belief);

/* The task has finished; its outcome, last_step_done, started_at and ended_at are set, and its
 * items' requests are still in it. True: the tables have moved. O(items where lengths count); a
 * move is O(tables). */
bool tt_belief_finished(struct tt_belief *self, const struct tt_task *task);
/* A request has ended whose decoder made so many elements. True: the quantiles have moved. Call it
 * only if `outputs` is set. O(1). */
bool tt_belief_output(struct tt_belief *self, int32_t length);
/* A request was dropped because it could not be in time. O(1). */
void tt_belief_dropped(struct tt_belief *self, int64_t now);
/* Where `starving` is set, before the next arrival. True: the tables have moved. */
bool tt_belief_starved(struct tt_belief *self);

/* Checks that tables agree with ratios. */
void tt_belief_check(const struct tt_belief *self);

#endif
