#include "policy/deferred/deferred_model.h"

#include "base/instant.h"
#include "core/mechanism.h"
#include "policy/deferred/lookahead.h"
#include "policy/sharing_gain.h"

#include <stdlib.h>

enum {
    PPM = 1000000,
    WEIGHT_PPM = 95163,
    TICK_NS = 100000000,
    MODELS_PER_TICK = 1000,
    MILLI_ROWS_MAX = 4096000,
    CREDIT_DROP = 100,
    CREDIT_LIMIT = 1000,
    SLACK_MAX_S = 3600,
    OVERLOAD_FROM_PPM = 1030000,
    OVERLOAD_SPAN_PPM = 70000,
    LULL_ROWS = 64, /* minimum of expected rows: fewer are too few to detect a lull */
    LULL_RATIO = 2,
    SPREAD_LIMIT = 2,  /* 1 / (the relative spread from which on nothing waits) */
    FEW_BETAS = 20,    /* the per-row time of a batch beyond which more rows save next to nothing */
    EQUAL_BATCHES = 4, /* equal batches in a row from which on they are taken to be all clients */
};
static const int64_t rate_limit_mhz = INT64_C(1000000000000); /* 1e9 rows/s */
static const int64_t share_limit = INT64_C(100000000000000);  /* 100,000 devices */

enum tt_err tt_deferred_model_init(struct tt_deferred_model *self, int32_t models,
                                   const struct tt_deferred_options *options) {
    *self =
        (struct tt_deferred_model){.options = *options, .count = models, .next_tick_at = INT64_MIN};
    tt_list_init(&self->dropped);
    self->queues = calloc((size_t)models, sizeof(*self->queues));
    if (!self->queues || tt_heap_init(&self->timers, models)) {
        tt_deferred_model_fini(self);
        return TT_ERR_NO_MEMORY;
    }
    for (int32_t m = 0; m < models; m++)
        tt_list_init(&self->queues[m].tickets);
    return TT_OK;
}

void tt_deferred_model_fini(struct tt_deferred_model *self) {
    tt_heap_fini(&self->timers);
    free(self->queues);
    *self = (struct tt_deferred_model){0};
}

static int64_t clamp128(__int128 value, int64_t limit) {
    return value > limit ? limit : (int64_t)value;
}

/* The rows, at most a whole batch, that take `count` times as long as a batch takes besides them:
 * ceil(count beta / alpha). */
static int32_t rows_of_betas(const struct tt_deferred_queue *q, int64_t count) {
    const struct tt_profile *whole = q->model->whole;
    if (whole->alpha_ns <= 0)
        return q->model->max_batch;
    int64_t rows = (count * whole->beta_ns + whole->alpha_ns - 1) / whole->alpha_ns;
    return (int32_t)tt_instant_min(rows, q->model->max_batch);
}

/* What follows from the line through the profile. */
static void settle_line(const struct tt_deferred_model *self, struct tt_deferred_queue *q) {
    const struct tt_profile *whole = q->model->whole;
    q->grain = rows_of_betas(q, 2);
    q->few_rows = (int32_t)tt_instant_max(1, rows_of_betas(q, FEW_BETAS));
    q->beta_limit_ns = TT_NEVER;
    if (self->options.beta_permille > 0)
        q->beta_limit_ns = whole->beta_ns * self->options.beta_permille / 1000;
}

/* The largest b with (1 + 1/N) l(b) <= D on N executors. */
static int32_t staggered_size(const struct tt_deferred_queue *q, int32_t executors) {
    int64_t slo = q->model->slo_ns;
    if (slo <= 0 || slo == TT_NEVER || executors == 0)
        return 1;
    int64_t latency_ns = clamp128((__int128)slo * executors / (executors + 1), TT_NEVER);
    return (int32_t)tt_instant_max(
        1, tt_profile_largest_batch(q->model->whole, latency_ns, q->length, q->model->max_batch));
}

/* by_load: how much of its wait `partial` keeps. */
static int64_t wait_by_load(const struct tt_deferred_model *self, const struct tt_deferred_queue *q,
                            int64_t psi_ppm) {
    if (2 * q->latency[1] > q->model->slo_ns)
        return PPM;
    if (psi_ppm == 0)
        return 0;
    int64_t more_milli = psi_ppm * q->gather_milli / PPM - 1000, all_milli = q->gather_milli - 1000;
    int64_t cap_ppm = self->options.psi_cap_ppm;
    int64_t share_ppm = all_milli > 0 ? tt_instant_max(0, more_milli) * PPM / all_milli : PPM;
    return share_ppm >= cap_ppm ? PPM : share_ppm * PPM / cap_ppm;
}

/* Half way between tail and centre; near overload less, because there as few as possible should be
 * computed and late. */
static int64_t trust_of(const struct tt_deferred_model *self, int64_t need_ppm) {
    if (self->options.floor != TT_FLOOR_SUSTAINABLE)
        return 0;
    int64_t left_ppm = OVERLOAD_FROM_PPM + OVERLOAD_SPAN_PPM - need_ppm;
    return tt_instant_max(0, tt_instant_min(PPM / 2, left_ppm));
}

/* The share of a device that a batch needs; 0: not known. */
static int32_t demand_of(const struct tt_deferred_queue *q, int32_t rows) {
    return q->knows_demand ? tt_profile_demand(q->model->whole, rows, q->length) : 0;
}

void tt_deferred_model_add(struct tt_deferred_model *self, int32_t model,
                           const struct tt_step_model *step_model) {
    struct tt_deferred_queue *q = &self->queues[model];
    tt_assert(q->model == NULL && q->count == 0);
    const struct tt_profile *whole = step_model->whole;
    uint32_t generation =
        q->generation; /* continues, so that messages about the model before it stay outdated */
    *q = (struct tt_deferred_queue){.model = step_model,
                                    .latency = whole->tail_ns,
                                    .centre = whole->latency_ns,
                                    .generation = generation,
                                    .first_generation = generation,
                                    .min_size = 1,
                                    .alone_by_centre = self->options.floor == TT_FLOOR_SUSTAINABLE,
                                    .wait_ppm = PPM,
                                    .trust_ppm = trust_of(self, 0),
                                    .parallel = self->executors,
                                    .knows_demand = whole->knows_demand,
                                    .hint = 1};
    tt_list_init(&q->tickets);
    settle_line(self, q);
    if (self->options.by_load)
        q->wait_ppm = wait_by_load(self, q, 0);
    int32_t target = step_model->target > 0 ? step_model->target : self->options.target;
    if (self->options.floor == TT_FLOOR_FIXED)
        q->min_size = target < step_model->max_batch ? target : step_model->max_batch;
    if (self->options.floor == TT_FLOOR_STAGGERED)
        q->min_size = staggered_size(q, self->executors);
}

void tt_deferred_model_remove(struct tt_deferred_model *self, int32_t model) {
    tt_assert(self->queues[model].count == 0);
    tt_heap_remove(&self->timers, model);
    self->queues[model].model = NULL;
    self->queues[model].rate_mhz = 0;
}

/* ---- what candidates are computed from ----
 * It changes less often than they are formed, so its products are kept. */

static void set_credit(const struct tt_deferred_model *self, struct tt_deferred_queue *q,
                       int32_t credit) {
    q->credit = credit;
    if (self->options.credit)
        q->credit_ns = credit * self->options.credit_step_ns / CREDIT_DROP;
}

static void set_gap(struct tt_deferred_model *self, int64_t gap_ns) {
    self->kept_gap_ns = gap_ns * self->options.gap_permille / 1000;
}

/* ---- the queue ---- */

static void clear_skips(struct tt_deferred_queue *q) {
    q->skipped = q->skipped_rows = 0;
    q->cursor = NULL;
}

static void unlink_ticket(struct tt_deferred_queue *q, struct tt_ticket *ticket) {
    tt_assert(q->count > 0);
    tt_list_remove(&ticket->link);
    q->count--;
    q->rows -= ticket->rows;
}

static struct tt_ticket *first_kept(struct tt_deferred_queue *q) {
    return tt_ticket_at(q->cursor ? q->cursor : q->tickets.head.next);
}

static void settle_exact(struct tt_deferred_queue *q) {
    q->is_exact = q->latency == q->centre && q->slow_ppm == 0;
}

/* Not inlined, like insert_in_order: an arrival then saves fewer registers. */
TT_APART static void find_length(struct tt_deferred_queue *q, int32_t length) {
    const struct tt_profile *whole = q->model->whole;
    if (q->count == 1 || length > q->length)
        q->length = length;
    int64_t row = whole->length_count == 1 ? 0 : tt_profile_length_index(whole, q->length);
    q->latency = whole->tail_ns + row * (whole->max_batch + 1);
    q->centre = whole->latency_ns + row * (whole->max_batch + 1);
    settle_exact(q);
}

/* Counts with the length of the newest request. */
static void settle_length(struct tt_deferred_queue *q, int32_t length) {
    if (q->count == 1 || q->model->whole->length_count > 1)
        find_length(q, length);
}

void tt_deferred_model_believe(struct tt_deferred_model *self, int32_t model) {
    struct tt_deferred_queue *q = &self->queues[model];
    settle_line(self, q);
    clear_skips(q);
}

void tt_deferred_model_delay(struct tt_deferred_model *self, struct tt_network_delay delay) {
    self->options.delay = delay;
    for (int32_t m = 0; m < self->count; m++)
        clear_skips(&self->queues[m]);
}

static bool due_before(const struct tt_ticket *a, const struct tt_ticket *b) {
    return a->deadline_at < b->deadline_at ||
           (a->deadline_at == b->deadline_at && a->number < b->number);
}

/* S6: each ticket stores the distance to the one some places behind it, for prefetches. A walk of a
 * queue that has left the caches then need not wait for each line. It is a hint: 0 or stale where
 * the order was broken. */
static void point_ahead(struct tt_deferred_queue *q, struct tt_ticket *ticket, bool is_last) {
    struct tt_ticket **recent = &q->recent[q->recent_count % TT_DEFERRED_AHEAD];
    ticket->ahead = 0;
    if (!is_last) {
        q->recent_count = 0;
        return;
    }
    if (q->recent_count >= TT_DEFERRED_AHEAD &&
        q->count >= TT_DEFERRED_AHEAD) /* not dispatched yet */
        (*recent)->ahead = (int32_t)((intptr_t)ticket - (intptr_t)*recent);
    *recent = ticket;
    q->recent_count++;
}

/* Begins to count the clients that return from the last batch if `now` is past its middle. */
static void settle_returns(struct tt_deferred_queue *q, int64_t now) {
    if (q->next_awaited == 0 || now < q->quiet_until)
        return;
    q->returns = q->returned == q->awaited ? q->returns + (q->returns < EQUAL_BATCHES) : 0;
    q->awaited = q->next_awaited;
    q->returned = q->next_awaited = 0;
}

/* For a deadline that is not the latest. */
TT_APART static void insert_in_order(struct tt_deferred_queue *q, struct tt_ticket *ticket) {
    struct tt_list_node *before = &q->tickets.head;
    while (before->prev != &q->tickets.head && due_before(ticket, tt_ticket_at(before->prev)))
        before = before->prev;
    if (before != &q->tickets.head)
        clear_skips(q);
    tt_list_insert_before(before, &ticket->link);
    point_ahead(q, ticket, before == &q->tickets.head);
}

/* Inlined, because it is most of the cost of an arrival. */
static inline __attribute__((always_inline)) struct tt_deferred_queue *
enter(struct tt_deferred_model *self, struct tt_ticket *ticket) {
    struct tt_deferred_queue *q = &self->queues[ticket->model];
    tt_assert(q->model != NULL);
    if (ticket->deadline_at > q->last_deadline_at) { /* does not touch the last ticket's deadline */
        q->last_deadline_at = ticket->deadline_at;
        tt_list_push_back(&q->tickets, &ticket->link);
        point_ahead(q, ticket, true);
    } else {
        insert_in_order(q, ticket);
    }
    q->count++;
    q->rows += ticket->rows;
    return q;
}

void tt_deferred_model_arrived(struct tt_deferred_model *self, struct tt_ticket *ticket) {
    struct tt_deferred_queue *q = enter(self, ticket);
    if (ticket->arrived_at < q->quiet_until)
        q->equal_batches = 0;
    if (self->options.by_load) {
        settle_returns(q, ticket->arrived_at);
        q->returned++;
    }
    q->arrived_rows += ticket->rows;
    if (q->credit > -CREDIT_LIMIT)
        set_credit(self, q, q->credit - 1);
    settle_length(q, ticket->length);
}

void tt_deferred_model_returned(struct tt_deferred_model *self, struct tt_ticket *ticket) {
    settle_length(enter(self, ticket), ticket->length);
}

void tt_deferred_model_cancelled(struct tt_deferred_model *self, struct tt_ticket *ticket) {
    struct tt_deferred_queue *q = &self->queues[ticket->model];
    unlink_ticket(q, ticket);
    clear_skips(q);
    q->recent_count = 0; /* it may be in `recent` */
}

static void drop_head(struct tt_deferred_model *self, struct tt_deferred_queue *q,
                      enum tt_drop_reason reason) {
    struct tt_ticket *head = tt_ticket_at(q->tickets.head.next);
    if (q->skipped > 0) {
        q->skipped--;
        q->skipped_rows -= head->rows;
    } else {
        q->cursor = NULL;
    }
    unlink_ticket(q, head);
    set_credit(self, q, (int32_t)tt_instant_min(q->credit + CREDIT_DROP, CREDIT_LIMIT));
    head->drop_reason = (int32_t)reason;
    tt_list_push_back(&self->dropped, &head->link);
}

static void drop_skipped(struct tt_deferred_model *self, struct tt_deferred_queue *q) {
    while (q->skipped > 0)
        drop_head(self, q, TT_DROP_EARLY);
    clear_skips(q);
}

/* ---- forming batches ---- */

/* The time that a batch is formed for: b rows start at max(sent_at + d_data b, free_at). */
struct moment {
    int64_t sent_at, free_at, d_data_ns;
};

static struct moment moment_of(int64_t now, int64_t free_at, struct tt_network_delay delay) {
    return (struct moment){now + delay.control_ns, free_at, delay.data_ns};
}
static int64_t start_of(const struct moment *t, int32_t rows) {
    return tt_instant_max(t->sent_at + t->d_data_ns * rows, t->free_at);
}
TT_APART static int64_t adjusted_ns(const struct tt_deferred_queue *q, int32_t rows,
                                    int64_t trust_ppm) {
    int64_t tail_ns = q->latency[rows], apart_ns = tail_ns - q->centre[rows];
    int64_t takes_ns = tail_ns - (int64_t)((__int128)apart_ns * trust_ppm / PPM);
    return takes_ns + (int64_t)((__int128)takes_ns * q->slow_ppm / PPM);
}
/* How long a batch counts, with this trust. */
static int64_t takes_ns(const struct tt_deferred_queue *q, int32_t rows, int64_t trust_ppm) {
    return q->is_exact ? q->latency[rows] : adjusted_ns(q, rows, trust_ppm);
}
static bool fits(const struct tt_deferred_queue *q, const struct moment *t, int32_t rows,
                 int64_t deadline_at, int64_t trust_ppm) {
    return start_of(t, rows) + takes_ns(q, rows, trust_ppm) <= deadline_at;
}
/* If not, the request is hopeless: by the tail where others wait, which gain by its drop. */
static bool fits_alone(const struct tt_deferred_queue *q, const struct moment *t,
                       const struct tt_ticket *ticket) {
    bool by_centre = q->alone_by_centre || q->count == 1;
    return fits(q, t, ticket->rows, ticket->deadline_at, by_centre ? PPM : 0);
}
/* The trust for a batch behind this head, which is not hopeless. */
static int64_t trust_behind(const struct tt_deferred_queue *q, const struct moment *t,
                            const struct tt_ticket *head) {
    return fits(q, t, head->rows, head->deadline_at, q->trust_ppm) ? q->trust_ppm : PPM;
}

/* The largest b <= limit that fits; 1 must fit. Begins at the last result, because sizes change
 * little from one search to the next. */
static int32_t largest(struct tt_deferred_queue *q, const struct moment *t, int64_t deadline_at,
                       int32_t limit, int64_t trust_ppm) {
    int32_t low = 1, high = limit + 1; /* low fits; high does not, or is not known to */
    int32_t guess = q->hint < limit ? q->hint : limit;
    for (int32_t stride = 1; guess > low && guess < high; stride *= 2) {
        if (fits(q, t, guess, deadline_at, trust_ppm)) {
            low = guess;
            if (high <= limit)
                break;
            guess = guess + stride;
        } else {
            high = guess;
            if (low > 1)
                break;
            guess = guess - stride;
        }
    }
    while (high - low > 1) {
        int32_t middle = low + (high - low) / 2;
        if (fits(q, t, middle, deadline_at, trust_ppm))
            low = middle;
        else
            high = middle;
    }
    q->hint = low;
    return low;
}

/* True if so few rows contradict the rate. */
static bool is_lull(int64_t rate_mhz, int64_t rows, int64_t elapsed_ns) {
    int64_t promised =
        clamp128((__int128)rate_mhz * elapsed_ns / ((__int128)1000 * TT_S), INT64_MAX);
    return promised >= LULL_ROWS && rows < promised / LULL_RATIO;
}

/* For a second or two after a burst the rates still show an overload that is over. */
static bool overloaded(const struct tt_deferred_model *self, const struct tt_deferred_queue *q) {
    return self->overload_ppm > 0 && !q->lull;
}

/* The first test of an overload begins a quarter: a quiet time before a burst is no lull. */
static void detect_lull(struct tt_deferred_queue *q, int64_t now) {
    int64_t elapsed_ns = q->watches_lull ? now - q->lull_at : 0;
    if (q->watches_lull && elapsed_ns < q->model->slo_ns / 4)
        return;
    q->watches_lull = true;
    q->lull = is_lull(q->rate_mhz, q->arrived_rows - q->lull_rows, elapsed_ns);
    q->lull_at = now;
    q->lull_rows = q->arrived_rows;
}

/* The batch size that early drop preserves, in rows. */
static int32_t min_size_now(const struct tt_deferred_model *self,
                            const struct tt_deferred_queue *q) {
    bool from_rates = self->options.floor == TT_FLOOR_SUSTAINABLE;
    return from_rates && self->overload_ppm > 0 && q->lull ? 1 : q->min_size;
}

/* Skips heads until a batch of the minimum size can start in time. O(1) amortised: the cursor keeps
 * its position until that size changes, since time and arrivals only skip more. */
static void skip_heads(struct tt_deferred_queue *q, const struct moment *t, int32_t min_size) {
    if (min_size != q->skipped_min_size)
        clear_skips(q);
    q->skipped_min_size = min_size;
    if (min_size <= 1 && q->rows == q->count)
        return; /* the head is not hopeless, so a batch of one fits */
    if (!fits(q, t, 1, q->last_deadline_at, q->trust_ppm)) {
        clear_skips(q); /* as if all were skipped, which this saves */
        return;
    }
    for (;;) {
        struct tt_ticket *head = first_kept(q);
        int32_t left = q->rows - q->skipped_rows;
        int32_t need = left < min_size ? left : min_size;
        if (need < head->rows)
            need = head->rows;
        bool is_in_time = min_size > head->rows ? fits(q, t, need, head->deadline_at, q->trust_ppm)
                                                : fits_alone(q, t, head);
        if (is_in_time)
            return;
        q->skipped++;
        q->skipped_rows += head->rows;
        q->cursor = head->link.next;
        if (q->skipped == q->count) {
            clear_skips(q);
            return;
        }
    }
}

/* The rows of the longest run of requests from `first` on with at most `limit` rows, but at least
 * those of the first. */
static int32_t prefix_rows(const struct tt_deferred_queue *q, struct tt_ticket *first,
                           int32_t limit) {
    int32_t left = q->rows - q->skipped_rows;
    if (left <= limit || q->rows == q->count)
        return left < limit ? left : limit;
    int32_t sum = first->rows;
    for (struct tt_list_node *n = first->link.next; n != &q->tickets.head; n = n->next) {
        if (sum + tt_ticket_at(n)->rows > limit)
            break;
        sum += tt_ticket_at(n)->rows;
    }
    return sum;
}

/* S5 */
static int64_t timeout_of(const struct tt_deferred_options *o, const struct tt_step_model *model,
                          const struct tt_ticket *head) {
    if (model->delay_ns > 0)
        return model->delay_ns;
    if (o->delay_permille <= 0 || head->deadline_at == TT_NEVER)
        return o->delay_ns;
    int64_t whole =
        head->deadline_at - head->arrived_at; /* in two parts, so that the products fit */
    return whole / 1000 * o->delay_permille + whole % 1000 * o->delay_permille / 1000;
}

/* The part of a wait that is left beside runs of different length, because a slow run needs the
 * room: all of it where the tail is the centre, none where it is 1.5 times the centre. */
static int64_t beside_slow_runs(const struct tt_deferred_queue *q, int32_t rows, int64_t wait_ns) {
    int64_t centre_ns = q->centre[rows], tail_ns = q->latency[rows];
    if (tail_ns <= centre_ns || centre_ns <= 0)
        return wait_ns;
    int64_t left_ns = centre_ns - SPREAD_LIMIT * (tail_ns - centre_ns);
    return left_ns <= 0 ? 0 : (int64_t)((__int128)wait_ns * left_ns / centre_ns);
}

/* The frontrun of a batch that would have `grown` rows if it grew. */
static int64_t frontrun_of(const struct tt_deferred_model *self, const struct tt_deferred_queue *q,
                           const struct tt_ticket *head, int32_t grown) {
    int64_t a = head->arrived_at;
    int64_t frontrun = head->deadline_at - q->latency[grown] - self->options.lateness_ns;
    return frontrun > a ? a + beside_slow_runs(q, grown, frontrun - a) : frontrun;
}

/* True if the clients of the last batch are expected to send their next requests by back_at. */
static bool awaits_clients(const struct tt_deferred_model *self,
                           const struct tt_deferred_queue *q) {
    return self->options.by_load && self->options.closed_loop && q->parallel == 1 &&
           q->returns >= EQUAL_BATCHES && q->next_awaited == 0 && q->returned < q->awaited;
}

static int64_t deferred_start(const struct tt_deferred_model *self,
                              const struct tt_deferred_queue *q, const struct tt_ticket *head,
                              int32_t size) {
    const struct tt_deferred_options *o = &self->options;
    int64_t a = head->arrived_at;
    int64_t frontrun = frontrun_of(self, q, head, size + 1);
    switch (o->defer) {
    case TT_DEFER_NONE: break;
    case TT_DEFER_TIMEOUT:
        return tt_instant_min(a + timeout_of(o, q->model, head),
                              head->deadline_at - q->latency[size] - o->lateness_ns);
    case TT_DEFER_FULL: return frontrun;
    case TT_DEFER_PARTIAL: {
        int64_t slack = tt_instant_min(tt_instant_max(0, frontrun - a), SLACK_MAX_S * TT_S);
        int64_t kept = tt_instant_min(self->kept_gap_ns, slack * o->slack_permille / 1000);
        int64_t wait = tt_instant_min(slack - kept, q->beta_limit_ns);
        if (q->wait_ppm != PPM)
            wait = wait * q->wait_ppm / PPM;
        if (awaits_clients(self, q))
            wait = tt_instant_max(wait, tt_instant_min(slack - kept, q->back_at - a));
        if (overloaded(self, q)) /* from partial to full deferral, in proportion to the overload */
            wait += (slack - wait) / 1000 * self->overload_ppm / 1000;
        return a + wait;
    }
    }
    return INT64_MIN;
}

/* Appendix D of Symphony. With a delay per row a larger batch starts later. So one that more rows
 * would make late may still start before the frontrun of the batch with these rows. Returns that
 * frontrun; INT64_MIN: no more rows may join. */
static int64_t start_before_rest(const struct tt_deferred_model *self,
                                 const struct tt_deferred_queue *q, struct tt_ticket *head,
                                 int32_t size) {
    int32_t more = 1;
    if (q->rows != q->count) {
        struct tt_list_node *next = &head->link;
        for (int32_t rows = 0; rows < size; next = next->next)
            rows += tt_ticket_at(next)->rows;
        more = tt_ticket_at(next)->rows;
    }
    if (size + more > q->model->max_batch)
        return INT64_MIN;
    return frontrun_of(self, q, head, size + more);
}

/* S1: the size of the longest prefix behind the skipped heads that is in time. */
static int32_t size_from_cursor(struct tt_deferred_queue *q, const struct moment *t) {
    struct tt_ticket *head = first_kept(q);
    int32_t left = q->rows - q->skipped_rows;
    int32_t limit = left < q->model->max_batch ? left : q->model->max_batch;
    int64_t trust_ppm = trust_behind(q, t, head);
    return prefix_rows(q, head, largest(q, t, head->deadline_at, limit, trust_ppm));
}

/* Steps 1 to 3 of the header: drops and skips heads. Returns the size of the batch behind them; 0:
 * the queue is empty. */
static int32_t choose(struct tt_deferred_model *self, struct tt_deferred_queue *q,
                      const struct moment *t) {
    while (q->count > 0) {
        const struct tt_ticket *head = tt_ticket_at(q->tickets.head.next);
        if (fits_alone(q, t, head))
            break;
        drop_head(self, q, TT_DROP_DEADLINE);
    }
    if (q->count == 0) {
        clear_skips(q);
        return 0;
    }
    skip_heads(q, t, min_size_now(self, q));
    return size_from_cursor(q, t);
}

/* S1: steps 1 to 5 of the header, as of `t`: the longest prefix in time, with heads dropped early
 * where that keeps a target size. */
static void form(struct tt_deferred_model *self, struct tt_deferred_queue *q,
                 const struct moment *t, struct tt_deferred_candidate *out) {
    const struct tt_deferred_options *o = &self->options;
    struct tt_ticket *head = tt_ticket_at(q->tickets.head.next);
    int64_t trust_ppm = q->trust_ppm;
    int32_t size = q->rows;
    if (self->options.by_load)
        settle_returns(q, t->sent_at);
    if (self->overload_ppm > 0)
        detect_lull(q, t->sent_at);
    if (q->skipped == 0 && size <= q->model->max_batch &&
        fits(q, t, size, head->deadline_at, trust_ppm)) {
        q->hint = size; /* the whole queue is in time, and so is every smaller batch */
    } else {
        size = choose(self, q, t);
        if (size == 0)
            return;
        head = first_kept(q);
        trust_ppm = trust_behind(q, t, head);
    }
    int32_t left = q->rows - q->skipped_rows;
    int64_t start_at = start_of(t, size);
    out->size = size;
    out->left = left;
    out->lead_ns = tt_network_delay_of(o->delay, size);
    out->demand_ppm = demand_of(q, size);
    out->exec_at = start_at;
    if (head->deadline_at == TT_NEVER) {
        out->latest_at = out->key = TT_NEVER;
        return;
    }
    bool all_here = self->options.closed_loop && q->equal_batches >= EQUAL_BATCHES &&
                    q->count >= q->last_batch_count;
    if (size == left && size < q->model->max_batch && !all_here) /* S2; otherwise it cannot grow */
        out->exec_at = tt_instant_max(start_at, deferred_start(self, q, head, size));
    else if (t->d_data_ns > 0 && size < left && o->defer == TT_DEFER_FULL)
        out->exec_at = tt_instant_max(start_at, start_before_rest(self, q, head, size));
    out->latest_at = head->deadline_at - takes_ns(q, size, trust_ppm);
    out->key = o->key == TT_KEY_LATEST ? out->latest_at : head->deadline_at;
    out->key -= q->credit_ns;
}

/* The instant at which the candidate must be formed anew if no event comes before: when it can no
 * longer be sent in time (ours), and at the head's deadline (S4's drop timer). */
static void set_timer(struct tt_deferred_model *self, int32_t model,
                      const struct tt_deferred_candidate *c) {
    struct tt_deferred_queue *q = &self->queues[model];
    int64_t at = TT_NEVER;
    if (q->count > 0)
        at = tt_ticket_at(q->tickets.head.next)->deadline_at;
    if (self->options.reform_at_latest && c->size > 0 && c->latest_at != TT_NEVER)
        at = tt_instant_min(at, c->latest_at - c->lead_ns + 1);
    if (at == TT_NEVER)
        tt_heap_remove(&self->timers, model);
    else
        tt_heap_set(&self->timers, model, at, model);
}

void tt_deferred_model_form(struct tt_deferred_model *self, int32_t model, int64_t now,
                            struct tt_deferred_candidate *out_candidate) {
    struct tt_deferred_queue *q = &self->queues[model];
    *out_candidate = (struct tt_deferred_candidate){.model = model};
    struct moment t = moment_of(now, INT64_MIN, self->options.delay);
    bool is_refused = self->refused.size > 0 && self->refused.model == model;
    if (is_refused)
        *out_candidate = self->refused;
    else if (q->count > 0)
        form(self, q, &t, out_candidate);
    self->refused.size = 0;
    out_candidate->generation = ++q->generation;
    if (self->overload_ppm == PPM && !q->lull && !is_refused)
        drop_skipped(self, q); /* so that the backlog, which admits arrivals, counts none of them */
    set_timer(self, model, out_candidate);
}

/* Gives up more heads of the batch that a grant formed if that loses fewer of the waiting
 * requests (lookahead.h). */
static void look_ahead(struct tt_deferred_model *self, struct tt_deferred_queue *q,
                       const struct moment *t, const struct tt_deferred_free_times *others,
                       struct tt_deferred_candidate *c) {
    struct tt_lookahead plan;
    plan.latency = q->latency;
    plan.centre = q->centre;
    plan.max_batch = q->model->max_batch;
    plan.min_size = min_size_now(self, q);
    plan.start_at = start_of(t, 1);
    plan.others = others;
    const struct tt_lookahead_group *best =
        tt_lookahead_choose(&plan, &first_kept(q)->link, &q->tickets.head, c->left);
    if (!best)
        return;
    q->skipped += best->count_before;
    q->skipped_rows += best->rows_before;
    q->cursor = best->first;
    skip_heads(q, t, plan.min_size); /* that request may have too many rows */
    c->left = q->rows - q->skipped_rows;
    c->size = size_from_cursor(q, t);
}

/* The rows of the candidate to take if `idle` executors can share the waiting rows. */
static int32_t wanted_rows(const struct tt_deferred_model *self, const struct tt_deferred_queue *q,
                           int32_t size, int32_t idle) {
    if (q->is_light && size > q->few_rows)
        size = q->few_rows;
    if (!self->options.split || idle <= 1)
        return size;
    int32_t left = q->rows - q->skipped_rows;
    int32_t want = (left + idle - 1) / idle;
    int32_t min_size = min_size_now(self, q);
    if (want < min_size)
        want = min_size;
    if (want < q->grain)
        want = q->grain;
    return want < size ? want : size;
}

/* The first requests of at most `want` rows, but at least one request. They no longer count. */
static struct tt_deferred_batch take_rows(struct tt_deferred_queue *q, int32_t want) {
    struct tt_deferred_batch batch = {.count = want, .rows = want};
    if (q->rows == q->count) { /* each request is one row: the caller's walk is the only one */
        if (q->count < want)
            batch.count = batch.rows = q->count;
    } else {
        struct tt_list_node *last = q->tickets.head.next;
        batch.rows = tt_ticket_at(last)->rows;
        batch.count = 1;
        while (batch.rows < want && (last = tt_list_next(&q->tickets, last))) {
            tt_deferred_fetch_ahead(tt_ticket_at(last));
            int32_t more = tt_ticket_at(last)->rows;
            if (batch.rows + more > want)
                break;
            batch.rows += more;
            batch.count++;
        }
    }
    q->count -= batch.count;
    q->rows -= batch.rows;
    return batch;
}

/* Forms the batch of a grant. False: there is none, or it may not start yet. */
static bool form_granted(struct tt_deferred_model *self, struct tt_deferred_queue *q,
                         const struct moment *t, struct tt_deferred_candidate *out) {
    bool strict = self->options.defer == TT_DEFER_FULL || self->options.defer == TT_DEFER_TIMEOUT;
    out->size = 0;
    if (q->count > 0)
        form(self, q, t, out);
    strict = strict || awaits_clients(self, q);
    /* S2: not before frontrun */
    return out->size > 0 && !(strict && out->exec_at > start_of(t, out->size));
}

void tt_deferred_model_granted(struct tt_deferred_model *self, int64_t now,
                               const struct tt_deferred_grant *grant,
                               struct tt_deferred_batch *out_batch,
                               struct tt_deferred_dispatched *out_dispatched) {
    struct tt_deferred_queue *q = &self->queues[grant->model];
    struct tt_deferred_candidate c = {.model = grant->model};
    struct moment t = moment_of(now, grant->free_at, grant->delay);
    set_gap(self, grant->gap_ns);
    *out_batch = (struct tt_deferred_batch){0};
    *out_dispatched = (struct tt_deferred_dispatched){.executor = grant->executor};
    if (!form_granted(self, q, &t, &c)) {
        struct moment late = moment_of(now, grant->free_at, self->options.delay);
        bool is_near = late.sent_at > t.sent_at || late.d_data_ns > t.d_data_ns;
        if (!is_near || !form_granted(self, q, &late, &c)) {
            clear_skips(q);
            /* The batch of this instant would be granted again at once, without end. */
            tt_assert(c.size == 0 || c.exec_at - c.lead_ns > now);
            self->refused = c;
            return;
        }
        t = late;
    }
    if (self->options.lookahead && grant->others && c.left > c.size)
        look_ahead(self, q, &t, grant->others, &c);
    int32_t want = wanted_rows(self, q, c.size, grant->idle);
    drop_skipped(self, q);
    int32_t waited = q->count;
    *out_batch = take_rows(q, want);
    int32_t rows = out_batch->rows;
    out_dispatched->taken = true;
    out_dispatched->start_at = start_of(&t, rows);
    out_dispatched->free_at = out_dispatched->start_at + q->centre[rows];
    bool same = q->count == 0 && waited == q->last_batch_count;
    q->equal_batches = same ? q->equal_batches + (q->equal_batches < EQUAL_BATCHES) : 0;
    q->last_batch_count = waited - q->count;
    settle_returns(q, INT64_MAX);
    q->next_awaited = q->last_batch_count;
    q->quiet_until = out_dispatched->start_at + q->centre[rows] / 2;
    q->back_at = out_dispatched->free_at + q->centre[rows] / 2;
}

/* ---- rates and minimum sizes ---- */

bool tt_deferred_model_tick(struct tt_deferred_model *self, int64_t now, int64_t *out_elapsed_ns) {
    if (!tt_deferred_model_tick_due(self, now))
        return false;
    bool first = self->next_tick_at == INT64_MIN;
    *out_elapsed_ns = now - self->tick_at;
    self->tick_at = now;
    int64_t period_ns = (int64_t)TICK_NS * (1 + (self->count - 1) / MODELS_PER_TICK);
    self->next_tick_at = (now / period_ns + 1) * period_ns;
    return !first && *out_elapsed_ns > 0;
}

/* The rows / 1000 that arrive while a head waits until its frontrun, at `rate_mhz` > 0. */
static int64_t gather_milli(const struct tt_deferred_model *self, const struct tt_deferred_queue *q,
                            int64_t rate_mhz) {
    const struct tt_profile *whole = q->model->whole;
    int64_t wait = q->model->slo_ns - whole->beta_ns - self->options.delay.control_ns;
    int64_t per_row =
        whole->alpha_ns + self->options.delay.data_ns + INT64_C(1000000000000) / rate_mhz;
    if (wait <= 0)
        return 1000;
    int64_t limit = tt_instant_min(MILLI_ROWS_MAX, q->model->max_batch * INT64_C(1000));
    int64_t milli = clamp128((__int128)wait * 1000 / tt_instant_max(1, per_row), limit);
    return tt_instant_max(1000, milli);
}

void tt_deferred_model_measure(struct tt_deferred_model *self, int32_t model, int64_t elapsed_ns,
                               struct tt_deferred_load *out_load) {
    struct tt_deferred_queue *q = &self->queues[model];
    *out_load = (struct tt_deferred_load){.model = model};
    if (!q->model)
        return;
    int64_t rows = q->arrived_rows - q->measured_rows;
    int64_t sample = clamp128((__int128)rows * 1000 * TT_S / elapsed_ns, rate_limit_mhz);
    if (self->overload_ppm > 0 && is_lull(q->rate_mhz, rows, elapsed_ns))
        q->window_count = 0; /* the burst is over: the average restarts */
    int64_t windows = tt_instant_min((elapsed_ns + TICK_NS / 2) / TICK_NS, 100);
    for (int64_t w = 0; w < tt_instant_max(1, windows); w++) {
        int64_t weight = WEIGHT_PPM;
        if (q->window_count < PPM / WEIGHT_PPM)
            weight = PPM / ++q->window_count;
        q->rate_mhz += (int64_t)((__int128)(sample - q->rate_mhz) * weight / PPM);
    }
    q->measured_rows = q->arrived_rows;
    q->gather_milli = 1000;
    const struct tt_profile *whole = q->model->whole;
    int64_t slo = q->model->slo_ns;
    if (q->rate_mhz <= 0 || slo <= 0 || slo == TT_NEVER)
        return;
    q->gather_milli = gather_milli(self, q, q->rate_mhz);
    out_load->gather_milli = q->gather_milli;
    out_load->demand_ppm = demand_of(q, (int32_t)(q->gather_milli / 1000));
    out_load->alpha_share = clamp128((__int128)q->rate_mhz * whole->alpha_ns / 1000, share_limit);
    out_load->beta_share = clamp128((__int128)q->rate_mhz * whole->beta_ns / 1000, share_limit);
}

/* The largest b with l(b) + (2 N / (N + 1)) b / r <= D, messages included: so many rows are fresh
 * enough whenever one of N executors becomes free, though they become free irregularly
 * (core/overload.h). r is the rate of the arrivals. */
static int32_t refilled_size(const struct tt_deferred_model *self,
                             const struct tt_deferred_queue *q, int32_t executors) {
    const struct tt_network_delay delay = self->options.delay;
    int32_t low = 1, high = q->model->max_batch + 1;
    while (high - low > 1) {
        int32_t size = low + (high - low) / 2;
        __int128 gather_ns = (__int128)INT64_C(1000000000000) * 2 * executors * size /
                             ((__int128)(executors + 1) * q->rate_mhz);
        if (q->latency[size] + tt_network_delay_of(delay, size) + gather_ns <= q->model->slo_ns)
            low = size;
        else
            high = size;
    }
    return low;
}

static int32_t min_size_of(const struct tt_deferred_model *self, const struct tt_deferred_queue *q,
                           const struct tt_deferred_fleet *fleet) {
    int64_t psi, min_size;
    switch (self->options.floor) {
    case TT_FLOOR_OFF: return 1;
    case TT_FLOOR_FIXED: return q->min_size;
    case TT_FLOOR_BMAX: return (int32_t)(q->gather_milli / 1000);
    case TT_FLOOR_SUSTAINABLE:
        psi = tt_instant_min(fleet->psi_ppm, self->options.psi_cap_ppm);
        min_size = tt_instant_max(1, (psi * q->gather_milli / PPM + 500) / 1000);
        if (self->overload_ppm > 0 && q->rate_mhz > 0) {
            int64_t served = clamp128((__int128)q->rate_mhz * PPM / fleet->need_ppm, q->rate_mhz);
            int64_t limit = gather_milli(self, q, tt_instant_max(1, served)) / 1000;
            limit = q->latency[limit] > q->centre[limit]
                        ? tt_instant_min(limit, refilled_size(self, q, q->parallel))
                        : tt_instant_max(limit, min_size);
            min_size += (limit - min_size) * self->overload_ppm / PPM;
        }
        return (int32_t)min_size;
    case TT_FLOOR_STAGGERED: return staggered_size(q, fleet->executors);
    }
    return 1;
}

void tt_deferred_model_executors(struct tt_deferred_model *self, int32_t executors) {
    self->executors = executors;
    for (int32_t m = 0; m < self->count; m++) {
        struct tt_deferred_queue *q = &self->queues[m];
        q->parallel = executors;
        if (self->options.floor == TT_FLOOR_STAGGERED && q->model)
            q->min_size = staggered_size(q, executors);
    }
}

/* What follows from the load and from executors that share devices. */
static void settle_load(const struct tt_deferred_model *self, struct tt_deferred_queue *q,
                        const struct tt_deferred_fleet *fleet) {
    int32_t demand_ppm = demand_of(q, (int32_t)tt_instant_max(1, q->gather_milli / 1000));
    int64_t beyond_ppm = 0; /* of what one device has, if all run that begin */
    q->trust_ppm = trust_of(self, fleet->need_ppm);
    q->parallel = fleet->executors;
    if (fleet->each > 1 && demand_ppm > 0) {
        int32_t count = tt_beside_count(fleet->each, demand_ppm);
        q->parallel = (int32_t)tt_instant_max(1, (int64_t)fleet->executors * count / fleet->each);
        beyond_ppm = tt_instant_max(0, (int64_t)count * demand_ppm - PPM);
    }
    q->slow_ppm = beyond_ppm * tt_instant_min(PPM, fleet->need_ppm) / PPM;
    settle_exact(q);
}

void tt_deferred_model_fleet(struct tt_deferred_model *self,
                             const struct tt_deferred_fleet *fleet) {
    set_gap(self, fleet->gap_ns);
    self->executors = fleet->executors;
    self->overload_ppm = 0;
    if (self->options.overload && fleet->need_ppm > OVERLOAD_FROM_PPM)
        self->overload_ppm =
            tt_instant_min(PPM, (fleet->need_ppm - OVERLOAD_FROM_PPM) * PPM / OVERLOAD_SPAN_PPM);
    for (int32_t m = 0; m < self->count; m++) {
        struct tt_deferred_queue *q = &self->queues[m];
        if (!q->model)
            continue;
        settle_load(self, q, fleet);
        q->min_size = min_size_of(self, q, fleet);
        if (self->overload_ppm == 0)
            q->lull = q->watches_lull = false;
        if (self->options.by_load) {
            q->wait_ppm = wait_by_load(self, q, fleet->psi_ppm);
            q->is_light = q->wait_ppm == 0 && fleet->psi_ppm == 0 && q->rate_mhz > 0;
        }
    }
}

static void check_queue(const struct tt_deferred_model *self, int32_t m) {
    const struct tt_deferred_queue *q = &self->queues[m];
    int32_t count = 0, rows = 0, before = 0, rows_before = 0;
    bool at_cursor = q->cursor == NULL;
    const struct tt_ticket *last = NULL;
    for (struct tt_list_node *n = q->tickets.head.next; n != &q->tickets.head; n = n->next) {
        const struct tt_ticket *ticket = tt_ticket_at(n);
        tt_assert(ticket->model == m);
        tt_assert(!last || due_before(last, ticket));
        at_cursor = at_cursor || n == q->cursor;
        if (!at_cursor) {
            before++;
            rows_before += ticket->rows;
        }
        count++;
        rows += ticket->rows;
        last = ticket;
    }
    tt_assert(count == q->count && rows == q->rows);
    tt_assert(at_cursor);
    tt_assert(before == q->skipped && rows_before == q->skipped_rows);
    tt_assert(q->min_size >= 1);
    tt_assert(!last || last->deadline_at <= q->last_deadline_at);
    tt_assert(q->credit >= -CREDIT_LIMIT && q->credit <= CREDIT_LIMIT);
    tt_assert(count == 0 || tt_ticket_at(q->tickets.head.next)->deadline_at == TT_NEVER ||
              tt_heap_contains(&self->timers, m));
}

void tt_deferred_model_check(const struct tt_deferred_model *self) {
    tt_heap_check(&self->timers);
    tt_assert(tt_list_empty(&self->dropped));
    for (int32_t m = 0; m < self->count; m++)
        if (self->queues[m].model)
            check_queue(self, m);
}
