/* The model half of the deferred family: one queue per model, and the candidate batch of each
 * model.
 *
 * A queue is in order of deadline, then of arrival. If all requests have the same SLO it is first
 * in, first out. An arrival is inserted from the back; the cost is the number of requests that it
 * overtakes.
 *
 * `form` computes the candidate for an instant t. Notation: l is the profile; d is the deadline and
 * a the arrival of the batch's first request; sizes are in rows.
 * 1. Hopeless heads, which would be late even alone, are dropped (TT_DROP_DEADLINE). With
 * sustainable minimum sizes the centre decides on that: whether another request gains by the end of
 * one that will probably be in time, step 2 decides.
 * 2. Early drop: while a batch of min(m, rows behind) could not start at t and be in time, the head
 * is skipped; m is the minimum size. Skipped heads are dropped (TT_DROP_EARLY) only when a batch is
 * dispatched. If this would skip all requests, none is skipped. That can happen with requests of
 * several rows.
 * With `lookahead`, a grant skips more heads where that loses fewer of the waiting requests, if it
 * says when the other executors are free and rows wait behind its batch, also when that has been
 * formed anew (lookahead.h).
 * 3. size = the largest prefix behind the skipped heads that ends in time: t + l(size) <= d (S1:
 *    GetBatch). If by the tail not even its head would be, alone, l is the centre here and in
 *    `latest`.
 * 4. latest = d - l(size). exec follows from the `defer` rule:
 *
 *     none     t
 *     timeout  max(t, min(a + delay, latest))
 *     full     max(t, frontrun), with frontrun = d - l(size + 1) (S2)
 *     partial  max(t, a + min(s - min(gap_factor gap, slack_limit s), beta_limit beta)),
 *              with s = max(0, frontrun - a)
 *
 * With `full` and `partial` the time from a to frontrun shrinks where runs differ in length: it is
 * multiplied by 1 - 2 (tail - centre) / centre of l(size + 1), at least 0. A slow run needs the
 * room.
 *
 * With by_load the wait of `partial` is only a share of that: min(1, x / psi_cap), with x = (psi
 * gather - 1) / (gather - 1), both in ppm and rounded down. psi gather is the size of the batches
 * that keep up without a wait. So nothing waits while batches of one row keep up. The whole wait is
 * left when batches of psi_cap gather rows are needed. A gather of one row counts as x = 0 or, if
 * psi > 0, 1. The share is 1 as well if 2 l(1) > D: an arrival during a run of one row would then
 * be late. Where nothing waits, and psi is 0, a batch has at most max(1, ceil(20 beta / alpha))
 * rows, but at least one request. More rows save less than 5 % of the batch's time, and all members
 * wait until the last row is done.
 *
 * exec = t if the batch cannot grow (more rows wait than fit, or it has the model's maximum), or if
 * there is no deadline. With `full` and a delay per row, frontrun counts also if more rows wait
 * than fit: a batch that fits leaves earlier than one row more would. In real time frontrun, and
 * the latest of a timeout, are lateness_ns earlier: only l(size + 1) - l(size) lies between
 * frontrun and latest, often next to nothing.
 *
 * In steps 1 to 5 and in staggered minimum sizes l is the tail of the latency (core/profile.h). An
 * executor is expected to be free after the centre. Alpha and beta are those of the centre.
 *
 * With sustainable minimum sizes steps 2 and 3 and `latest` go by the middle of tail and centre: by
 * the tail a batch is in time almost always, but many more requests find no place in one. In
 * overload as few as possible should be computed and late. So of the distance between tail and
 * centre at most 1.10 - need is trusted in (`need`: see Overload), half of it below a need of 0.6.
 *
 * Executors that share a device (deferred_rank.h). If k batches run there at once, and their
 * demands sum to s > 1, each takes s times as long. So l grows by (s - 1) min(1, need) in steps 1
 * to 3 and in `latest`. k is the number that begin where that pays, and the demand that of a batch
 * of gather rows.
 *
 * 5. key = latest - credit (with `key: deadline`: d - credit).
 *
 * A candidate is formed anew at arrivals, at grants, at the head's deadline, and with
 * reform_at_latest when latest has passed. A grant re-forms it at the executor's time. With `full`
 * and `timeout`, a batch that would then start before its exec is not dispatched, so that frontrun
 * is kept: it is the candidate until the next event that forms it anew. Otherwise the skipped heads
 * are dropped and rows are taken: with `split` min(size, max(m, ceil(2 beta / alpha), ceil(waiting
 * rows / idle executors))), else size; with by_load no more than its limit. Lookahead comes after
 * that check: its plan begins with a batch at this instant, which then starts before the frontrun
 * of the rows that are left.
 *
 * S4: the duration of a message, d_ctrl + d_data rows, is added to now for the start. The candidate
 * reports it to the rank half. It does not know its executor, so the longest delay counts. A grant
 * counts with its executor's. Where a batch of a near executor may not start yet, the batch of the
 * longest delay is taken: its candidate said that it may.
 *
 * Minimum sizes m, by option. Rates are integers in rows per 1000 s. The first event at or after
 * each multiple of 100 ms counts the rows since the last count, those of its own instant included,
 * over the exact time since. That rate enters an average with weight 95163 ppm (1 - e^-0.1: a time
 * constant of 1 s), as often as 100 ms fit into that time (rounded to nearest, at least once); the
 * first ten enter with weight 1/n. gather = (D - beta - d_ctrl) / (alpha + d_data +
 * 1/r), in whole thousandths of a row, from one row to the model's largest batch. It is the number
 * of rows that arrive at rate r while a head waits until its frontrun; D is the model's SLO. psi
 * gather is in whole thousandths, too; both are rounded down.
 * - bmax: m = gather.
 * - sustainable: m = max(1, round(min(psi, psi_cap) gather)), with psi from the rank half.
 * - staggered: the largest b with (1 + 1/N) l(b) <= D, on N executors. It needs no rates, so it
 * holds from the first instant on.
 * - fixed: the option `target`, or the model's own.
 * Shares of devices are in 1e-9, psi in ppm; products are computed in 128 bits. alpha (per row) and
 * beta (per batch) are the line through the profile.
 *
 * Overload. `need`, from the rank half, is the share of all executors that the models would use
 * with batches of gather. Below 1.03 nothing changes. From 1.03 to 1.10, in proportion, two things
 * change: the sustainable minimum size rises to gather at rate / need (the rate that can be served;
 * rounded down), and partial deferral extends to frontrun, in whole us. If requests must be dropped
 * anyway, the largest sustainable batches drop the fewest. Where runs differ in length (the tail is
 * more than the centre), executors become free irregularly, and too few fresh rows wait for some of
 * them. So the minimum size is then at most the largest b with l(b) + (2 N / (N + 1)) b / r <= D
 * (core/overload.h), r being the rate of the arrivals. From 1.10 on skipped heads are dropped at
 * once, not when a batch is dispatched. They would not be served, and while they wait, queue rules
 * refuse arrivals that would. `overload` off disables this. A burst stays in the rates for seconds
 * after its end. In a lull the model's minimum size is 1 and its deferral is partial. A lull is: a
 * quarter of the model's SLO within the overload brought less than half the rows that its rate
 * predicts, and that prediction is at least 64 rows. A rate window with so few rows restarts the
 * average.
 *
 * Closed loops. With `closed_loop`, deferral ends early if no further client can send a request.
 * Clients that send a request only after their last answer all wait under two conditions. First, as
 * many requests wait as were in each of the last five batches. Second, each of the last four took
 * all that waited, and no request arrived during the first half of its run. A request that arrived
 * then did not wait for that batch. Independent arrivals look like this only if they are so rare
 * that waiting for another gains nothing.
 * With by_load and one executor, clients might also split in two groups, of which one waits while
 * the other runs. So a batch waits for the clients of the last batch if after each of the last four
 * as many requests arrived as it had: from the middle of its run to the middle of the next. It
 * waits until they are back, but no longer than half a run, and not beyond the whole of partial
 * deferral without beta_limit.
 *
 * Credit is in hundredths: +100 per drop, -1 per arrival, within +-1000. Each 100 subtract
 * credit_step from the key.
 *
 * Inputs of several lengths: a queue counts with the longest length that it has had since it was
 * empty. So it is never late, but may be too careful.
 *
 * This half knows only those devices of which a grant tells. It never drops or runs requests
 * itself. It returns the dropped tickets in a list. Of a request it sees the ticket only. The
 * request is at the first of the model's steps, because the family runs whole graphs. */
#ifndef TT_POLICY_DEFERRED_DEFERRED_MODEL_H
#define TT_POLICY_DEFERRED_DEFERRED_MODEL_H

#include "base/heap.h"
#include "base/instant.h"
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
    bool reform_at_latest, credit, split, overload, closed_loop, lookahead, by_load, beside_pays;
    int32_t target;         /* TT_FLOOR_FIXED: rows */
    int64_t delay_ns;       /* TT_DEFER_TIMEOUT: how long a head waits */
    int64_t delay_permille; /* if > 0: that time, as a share of the head's time from arrival to
                               deadline */
    int64_t psi_cap_ppm;
    int64_t gap_permille, slack_permille;
    int64_t beta_permille; /* 0: no limit */
    int64_t credit_step_ns;
    struct tt_network_delay delay; /* S4; where it is learnt, the longest of the executors' */
    int64_t lateness_ns;           /* as in struct tt_policy_setup */
};

enum { TT_DEFERRED_AHEAD = 8 }; /* places between a ticket and the one whose address it stores */

struct tt_deferred_queue {
    /* The fields that every arrival touches come first. */
    struct tt_list tickets;
    const struct tt_step_model *model; /* NULL: no such model */
    int32_t count, rows;
    int64_t last_deadline_at; /* no ticket in the queue has a later deadline */
    int64_t arrived_rows;     /* total since the model was added */
    int32_t credit;           /* hundredths */
    uint32_t recent_count;    /* tickets entered in `recent`, counted from its last reset */
    struct tt_ticket *recent[TT_DEFERRED_AHEAD]; /* the last tickets of the queue, cyclically */

    /* l, indexed by rows: the tail for what must be in time, the centre for when it ends. */
    const int64_t *latency, *centre;
    int32_t skipped, skipped_rows;
    int32_t skipped_min_size;    /* the minimum size for which heads were skipped */
    bool is_exact;               /* a batch takes l, the centre */
    bool knows_demand;           /* of its batches */
    bool alone_by_centre;        /* the centre decides what is hopeless, also where others wait */
    struct tt_list_node *cursor; /* the first ticket that is not skipped; NULL: the head */
    int32_t min_size, grain;     /* grain: ceil(2 beta / alpha) */
    int32_t hint;                /* the size found last, at which the next search starts */
    int32_t last_batch_count;    /* requests of the last batch; see `closed_loop` */
    int32_t equal_batches; /* consecutive batches of that many requests that left the queue empty */
    int64_t quiet_until;   /* an arrival before this instant did not wait for the last batch */
    /* by_load and `closed_loop`: requests that arrived between the middles of the runs of a batch
     * and of the next one. In a closed loop they are as many as the batch had. */
    int32_t awaited, returned; /* requests of the last batch whose middle has passed; arrivals */
    int32_t next_awaited;      /* requests of the batch whose middle is quiet_until; 0: none */
    int32_t returns;           /* consecutive batches after which as many arrived */
    int64_t back_at;           /* half a run after the last batch */
    int32_t length;
    uint32_t generation;       /* of the newest candidate */
    uint32_t first_generation; /* that of the last candidate before the model was added */
    int64_t credit_ns;         /* what the credit subtracts from the key */
    int64_t beta_limit_ns;
    int64_t wait_ppm;  /* the share of its wait that `partial` keeps */
    int64_t trust_ppm; /* a batch counts with tail - trust (tail - centre) */
    int64_t slow_ppm;  /* and takes so much longer beside others of its device */
    int32_t parallel;  /* executors that run at once */
    int32_t few_rows;  /* ceil(20 beta / alpha), at least 1 */
    bool is_light;     /* by_load: batches have at most few_rows */
    int64_t rate_mhz;  /* rows per 1000 s */
    int64_t gather_milli;
    int64_t measured_rows; /* arrived_rows at the last tick */
    int64_t lull_rows;     /* arrived_rows at the last test for a lull */
    int64_t lull_at;
    int32_t window_count; /* ticks in the average */
    bool watches_lull;    /* lull_at is an instant of this overload */
    bool lull;            /* fewer rows arrive than the rate predicts */
};

/* What a grant takes from a queue. */
struct tt_deferred_batch {
    int32_t count, rows; /* 0: nothing */
};

struct tt_deferred_model {
    struct tt_deferred_options options;
    int32_t count;
    struct tt_deferred_queue *queues;
    struct tt_heap timers;  /* model -> the instant at which it must be formed anew */
    struct tt_list dropped; /* tickets to drop, with the reason; the caller empties the list */
    int32_t executors;      /* that are up, as last reported */
    int64_t kept_gap_ns;    /* gap_factor gap */
    int64_t overload_ppm;   /* 0: none; 1000000: the full effect of `overload` */
    int64_t tick_at, next_tick_at;
    struct tt_deferred_candidate refused; /* size > 0: the next `form` of its model gives it */
};

TT_MUST_CHECK enum tt_err tt_deferred_model_init(struct tt_deferred_model *self, int32_t models,
                                                 const struct tt_deferred_options *options);
void tt_deferred_model_fini(struct tt_deferred_model *self);
void tt_deferred_model_add(struct tt_deferred_model *self, int32_t model,
                           const struct tt_step_model *step_model);
/* The latencies of its model are other ones (TT_CHANGE_BELIEF); `form` is due afterwards. */
void tt_deferred_model_believe(struct tt_deferred_model *self, int32_t model);
/* Messages take another time; `form` is due for all models afterwards. */
void tt_deferred_model_delay(struct tt_deferred_model *self, struct tt_network_delay delay);
void tt_deferred_model_remove(struct tt_deferred_model *self, int32_t model);

/* Puts a ticket into its queue, or takes it out; `form` is due afterwards. One that returns from a
 * task does not count as an arrival. */
void tt_deferred_model_arrived(struct tt_deferred_model *self, struct tt_ticket *ticket);
void tt_deferred_model_returned(struct tt_deferred_model *self, struct tt_ticket *ticket);
void tt_deferred_model_cancelled(struct tt_deferred_model *self, struct tt_ticket *ticket);

/* Forms the candidate as of `now`, always with the next generation, and sets the model's timer. */
void tt_deferred_model_form(struct tt_deferred_model *self, int32_t model, int64_t now,
                            struct tt_deferred_candidate *out_candidate);
/* Takes the batch of a grant: the first requests of the queue, which no longer count. The caller
 * removes their tickets from the queue's list before the next call; it walks them anyway, so there
 * is no other walk. `form` is due afterwards. */
void tt_deferred_model_granted(struct tt_deferred_model *self, int64_t now,
                               const struct tt_deferred_grant *grant,
                               struct tt_deferred_batch *out_batch,
                               struct tt_deferred_dispatched *out_dispatched);
/* For a walk of a queue: fetches a ticket some places further on. */
static inline void tt_deferred_fetch_ahead(const struct tt_ticket *ticket) {
    __builtin_prefetch((const void *)((intptr_t)ticket + ticket->ahead));
}

/* The next model whose timer is due; -1: none. `form` sets the timer anew. */
static inline int32_t tt_deferred_model_due(const struct tt_deferred_model *self, int64_t now) {
    return tt_heap_next_key(&self->timers) <= now ? tt_heap_top(&self->timers)->id : -1;
}
/* The instant of the next timer; TT_NEVER: none. Rates need no timer: the next event updates them.
 */
static inline int64_t tt_deferred_model_next_at(const struct tt_deferred_model *self) {
    return tt_heap_next_key(&self->timers);
}

/* True if `measure` is due. Its instants are the multiples of 100 ms; 100 ms are added for every
 * thousand models, so that at most 10,000 models are measured per second. The first call only
 * starts the clock. */
bool tt_deferred_model_tick(struct tt_deferred_model *self, int64_t now, int64_t *out_elapsed_ns);
/* False if `tick` has nothing to do yet. */
static inline bool tt_deferred_model_tick_due(const struct tt_deferred_model *self, int64_t now) {
    return now >= self->next_tick_at;
}
/* Closes the model's rate window of `elapsed_ns`. Reports the device time that the model needs. */
void tt_deferred_model_measure(struct tt_deferred_model *self, int32_t model, int64_t elapsed_ns,
                               struct tt_deferred_load *out_load);
/* So many executors are up: the minimum sizes that follow from their number alone (staggered) are
 * new. `fleet` reports the number, too; until its first message this call does. */
void tt_deferred_model_executors(struct tt_deferred_model *self, int32_t executors);
/* Takes the answer to the loads of all models: new minimum sizes, new gap. */
void tt_deferred_model_fleet(struct tt_deferred_model *self, const struct tt_deferred_fleet *fleet);

void tt_deferred_model_check(const struct tt_deferred_model *self);

#endif
