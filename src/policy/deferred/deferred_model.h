/* The model half of the deferred family: one queue per model, and what batch it would run when.
 *
 * A queue is in order of deadline, then of arrival (first in, first out while all have the same
 * SLO; an arrival is filed from the back, which costs what it overtakes). `form` answers for an
 * instant t, with l the profile, d the deadline and a the arrival of the batch's first request, and
 * rows counted:
 *
 *   1. heads that cannot make it even alone are dropped (TT_DROP_DEADLINE);
 *   2. early drop: while a batch of min(floor, rows behind) could not start at t in time, the head
 * is skipped. Skipped heads are dropped (TT_DROP_EARLY) only when a batch is really dispatched. If
 * that skips everything (requests of several rows can do it), nothing is skipped;
 *   3. size = the largest prefix behind the skipped heads that ends in time: t + l(size) <= d (S1:
 * GetBatch);
 *   4. latest = d - l(size); exec by the `defer` rule:
 *        none     t
 *        timeout  max(t, a + delay)
 *        full     max(t, frontrun), frontrun = d - l(size + 1) (S2)
 *        partial  max(t, a + min(s - min(gap_factor gap, slack_limit s), beta_limit beta)),
 *                 s = max(0, frontrun - a)
 *      and t when the batch cannot grow (more wait than fit, or the model's largest batch is
 *      reached), or when there is no deadline. In real time frontrun is the setup's lateness_ns
 *      earlier: between it and latest lies l(size + 1) - l(size) alone, often next to nothing;
 *   5. key = latest - credit (or d - credit with key = deadline).
 *
 * It is formed anew at arrivals, grants, the head's deadline, and, with reform_at_latest, when
 * latest has passed. A grant re-forms it at the executor's time; with `full` and `timeout` a batch
 * that would then start before its exec is not dispatched (frontrun is kept), else the skipped
 * heads are dropped and min(size, max(floor, ceil(2 beta / alpha), ceil(rows left / idle
 * executors))) rows are taken (`split`; else size).
 *
 * S4: what a message takes, d_ctrl + d_data rows, is added to now for the start; the candidate
 * tells it to the rank half.
 *
 * Floors. Rates are integers in rows per 1000 s: the count of each 100 ms (of elapsed time, if
 * longer) enters an average of weight 95163 ppm (1 - e^-0.1: a time constant of 1 s), during the
 * first ten 1/n. From rate r, gather = (D - beta - d_ctrl) / (alpha + d_data + 1/r), in rows /
 * 1000, at least one row, is what comes while a head waits up to its frontrun. `bmax`: floor =
 * gather. `sustainable`: floor = max(1, round(min(psi, psi_cap) gather)) with psi from the rank
 * half. `staggered`: the largest b with (1 + 1/N) l(b) <= D. `fixed`: the option. Shares of devices
 * are in 1e-9, psi in ppm; products go through 128 bits. alpha and beta are the profile's line.
 *
 * Overload. `need` is the share of all executors that the models would use with batches of gather;
 * it comes from the rank half. Below 1.03 nothing changes. From there to 1.10, in proportion, the
 * sustainable floor rises to what gathers at rate / need (the rate that can be served; rounded
 * down) and partial deferral goes up to frontrun: when requests must be lost anyway, the largest
 * sustainable batches lose the fewest. `overload` off leaves this out. It may be over before the
 * rates know (a burst stays in them for seconds): while the last quarter of a model's SLO brought
 * less than half of what its rate promises (64 rows at least), the model's floor is 1 and its
 * deferral partial, and a window with so little starts the rate's average anew.
 *
 * Closed loops. With `closed_loop`, deferral ends early where nobody is left to wait for: clients
 * that ask again only when they were answered are all there once as many requests wait as were in
 * each of the last four batches, if these were all that waited and nobody came while the first half
 * of such a batch ran (whoever does so waited for something else). Requests that come as they
 * please do not look like that but where they are so rare that waiting for another gains nothing.
 *
 * Credit is in hundredths: +100 per drop, -1 per arrival, within +-1000; one whole is worth
 * credit_step in the key.
 *
 * Inputs of several lengths: a queue counts with the longest length it has seen since it was empty
 * (never late, maybe too careful). It never knows of devices, and never drops or runs itself: what
 * it gives up it hands out in a list. Of a request it sees the ticket alone, which is at the first
 * of the model's steps: the family runs whole graphs. */
#ifndef TT_POLICY_DEFERRED_DEFERRED_MODEL_H
#define TT_POLICY_DEFERRED_DEFERRED_MODEL_H

#include "base/heap.h"
#include "core/step_model.h"
#include "core/ticket.h"
#include "policy/deferred/deferred_messages.h"

enum tt_deferred_floor {
    TT_FLOOR_OFF,
    TT_FLOOR_SUSTAINABLE,
    TT_FLOOR_BMAX,
    TT_FLOOR_STAGGERED,
    TT_FLOOR_FIXED,
};
enum tt_deferred_defer { TT_DEFER_NONE, TT_DEFER_PARTIAL, TT_DEFER_FULL, TT_DEFER_TIMEOUT };
enum tt_deferred_key { TT_KEY_LATEST, TT_KEY_DEADLINE };

struct tt_deferred_options {
    enum tt_deferred_floor floor;
    enum tt_deferred_defer defer;
    enum tt_deferred_key key;
    bool reform_at_latest, credit, split, overload, closed_loop;
    int32_t target;         /* TT_FLOOR_FIXED */
    int64_t delay_ns;       /* TT_DEFER_TIMEOUT: a head waits so long, */
    int64_t delay_permille; /* or where this is > 0, this share of its time to the deadline */
    int64_t psi_cap_ppm;
    int64_t gap_permille, slack_permille;
    int64_t beta_permille; /* 0: no limit */
    int64_t credit_step_ns;
    int64_t d_ctrl_ns, d_data_ns, lateness_ns; /* struct tt_policy_setup */
};

enum { TT_DEFERRED_AHEAD = 8 }; /* places between a ticket and the one it points ahead to */

struct tt_deferred_queue {
    /* What every arrival touches comes first. */
    struct tt_list tickets;
    const struct tt_step_model *model; /* NULL: not there */
    int32_t count, rows;
    int64_t last_deadline_at;                    /* none in the queue is later */
    int64_t arrived_rows;                        /* so far */
    int32_t credit;                              /* hundredths */
    uint32_t recent_count;                       /* tickets in `recent`, and before */
    struct tt_ticket *recent[TT_DEFERRED_AHEAD]; /* the last ones of the queue */

    const int64_t *latency; /* l by rows */
    int32_t skipped, skipped_rows;
    int32_t skipped_for;         /* the floor that made them skipped */
    struct tt_list_node *cursor; /* the first not skipped; NULL: the first */
    int32_t floor, grain;        /* grain: ceil(2 beta / alpha) */
    int32_t hint;                /* the size found last: where the next search starts */
    int32_t lot;                 /* requests of the last batch; see `closed_loop` */
    int32_t lots;                /* batches in a row that were as many, and were all there was */
    int64_t quiet_until;         /* who comes before that did not wait for the last batch */
    int32_t length;
    uint32_t generation;       /* of the newest candidate */
    uint32_t first_generation; /* and of the last before the model came */
    int64_t beta_limit_ns;
    int64_t rate_mhz; /* rows per 1000 s */
    int64_t gather_milli;
    int64_t measured_rows; /* arrived up to the last tick, */
    int64_t looked_rows;   /* and up to when a lull was last looked for */
    int64_t looked_at;
    int32_t window_count; /* ticks in the average */
    bool lull;            /* less comes than the rate promises */
};

struct tt_deferred_model {
    struct tt_deferred_options options;
    int32_t count;
    struct tt_deferred_queue *queues;
    struct tt_heap timers;  /* model -> when it must be formed anew */
    struct tt_list dropped; /* tickets given up, with the reason; whoever runs this half empties
                               it */
    int64_t gap_ns;
    int64_t overload_ppm; /* 0: none, 1000000: fully in the other regime */
    int64_t tick_at, next_tick_at;
};

TT_MUST_CHECK enum tt_err tt_deferred_model_init(struct tt_deferred_model *self, int32_t models,
                                                 const struct tt_deferred_options *options);
void tt_deferred_model_fini(struct tt_deferred_model *self);
void tt_deferred_model_add(struct tt_deferred_model *self, int32_t model,
                           const struct tt_step_model *step_model);
void tt_deferred_model_remove(struct tt_deferred_model *self, int32_t model);

/* Into, and out of, its queue; `form` is due. Counts as an arrival unless it comes back. */
void tt_deferred_model_arrived(struct tt_deferred_model *self, struct tt_ticket *ticket,
                               bool comes_back);
void tt_deferred_model_cancelled(struct tt_deferred_model *self, struct tt_ticket *ticket);

/* The candidate as of `now` (always with the next generation), and the model's timer. */
void tt_deferred_model_form(struct tt_deferred_model *self, int32_t model, int64_t now,
                            struct tt_deferred_candidate *out_candidate);
/* Takes the batch of a grant: its tickets, in order, go to the end of `batch`. `form` is due. */
void tt_deferred_model_granted(struct tt_deferred_model *self, int64_t now,
                               const struct tt_deferred_grant *grant, struct tt_list *batch,
                               struct tt_deferred_dispatched *out_dispatched);

/* The next model whose timer is due; -1. `form` sets it anew. */
static inline int32_t tt_deferred_model_due(const struct tt_deferred_model *self, int64_t now) {
    const struct tt_heap_entry *top = tt_heap_top(&self->timers);
    return top && top->key <= now ? top->id : -1;
}
/* TT_NEVER: none. Rates need no timer: they are caught up with at the next event. */
int64_t tt_deferred_model_next_at(const struct tt_deferred_model *self);

/* Is it time for `measure`? The instants are the multiples of 100 ms (of 100 ms more for every
 * thousand models, so that measuring stays below 10,000 models a second); the first call only
 * starts the clock. */
bool tt_deferred_model_tick(struct tt_deferred_model *self, int64_t now, int64_t *out_elapsed_ns);
/* Closes the model's window of `elapsed_ns` and says what it asks of the devices. */
void tt_deferred_model_measure(struct tt_deferred_model *self, int32_t model, int64_t elapsed_ns,
                               struct tt_deferred_load *out_load);
/* The answer to everybody's load: new floors, new gap. */
void tt_deferred_model_fleet(struct tt_deferred_model *self, const struct tt_deferred_fleet *fleet);

void tt_deferred_model_check(const struct tt_deferred_model *self);

#endif
