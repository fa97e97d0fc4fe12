#include "policy/elastic/elastic.h"

#include "base/instant.h"
#include "policy/elastic/elastic_workers.h"
#include "policy/idle.h"
#include "policy/queued.h"

#include <stdlib.h>
#include <string.h>

enum { WORKERS, MAX_INF, VARIANT, CONFIGURATIONS, LOAD, QOS, DROP, OPTION_COUNT };
/* Loads 1, 2, 4 .. TT_ELASTIC_MAX_TOTAL; the third is the first with a configuration. */
enum { TOTALS = 7, LEAST_TOTAL = 2 };

static const struct tt_option_spec options[OPTION_COUNT] = {
    [WORKERS] =
        TT_SIZES_SPEC("workers", 1, TT_ELASTIC_MAX_WORKERS,
                      "batch size of each executor, a power of two; not given: 1, 1, 2, 4, ..."),
    [MAX_INF] = TT_INTEGER_SPEC(
        "max_inf", 1, 1 << 20, 0,
        "maximum number of rows that run at once, at least the size of the largest worker; not "
        "given: the sum of the workers' sizes"),
    [VARIANT] = TT_CHOICE_SPEC("variant", "naive|enhanced", 0,
                               "which workers take inputs: naive: all; enhanced: those of the best "
                               "configuration for the load"),
    [CONFIGURATIONS] = TT_GROUPS_SPEC(
        "configurations", 1, TOTALS - 2,
        "enhanced: the workers to use at loads of 4, 8, 16, 32 and 64 rows; each group "
        "sums to its load, such as 4;4,4;8,8,16; not given: computed from the profile"),
    [LOAD] =
        TT_CHOICE_SPEC("load", "pending|waiting", 0,
                       "enhanced: whether the load counts running rows too, or only waiting ones"),
    [QOS] = TT_CHOICE_SPEC(
        "qos", "off|on", 0,
        "enhanced, without configurations: on: only choices of workers that keep the model's "
        "objective whenever one of them begins beside the others, where there are any"),
    [DROP] = TT_DROP_SPEC,
};

/* The oldest range of a model's queue: its requests from the head on whose slots are adjacent. It
 * is updated when the queue grows at its end or shrinks at its head, so that a decision need not
 * walk the queue. After any other change it is searched for again. */
struct range {
    bool known;
    bool cut;      /* a request waits behind its end */
    int32_t count; /* of its requests */
    int64_t rows;
    struct tt_request *last;
    int64_t enough; /* rows in the queue from which on another decision can assign more */
};

struct tt_policy {
    struct tt_queues queues; /* requests whose input has arrived */
    struct range *ranges;    /* [model_capacity] */
    /* A new decision can assign more than the last one. Most events do not set it: an arrival whose
     * input is still in transfer, or growth of a queue below `enough` rows. */
    bool changed;
    bool enhanced, only_waiting, keeps_qos;
    bool is_configured; /* by the option `configurations`, for all models: they are in the first row
                  of `planned` */
    int32_t running;    /* rows that run */
    int32_t max_inf;
    /* [model_capacity * TOTALS]: the workers that count at loads of 2^k to 2^(k + 1) - 1 rows. The
     * last entry of a row also applies to all higher loads. */
    uint64_t *planned;
    uint64_t idle;
    uint64_t smallest; /* the first workers of size 1 and 2, for loads below the smallest
                          configuration */
    struct tt_elastic_workers workers;
};
TT_QUEUED_POLICY;

static void elastic_arrived(struct tt_policy *self, int64_t now, struct tt_request *request) {
    (void)self; /* it waits for its input */
    (void)now;
    (void)request;
}

/* ---- ranges ---- */

/* True if the slots of the two are adjacent. Without slots in the carrier all requests are. */
static bool adjacent(const struct tt_request *a, const struct tt_request *b) {
    return a->step == b->step && (a->slot < 0 || b->slot == a->slot + a->rows);
}

/* Adds the request behind the end of the range, if the range includes it. */
static void extend(struct range *range, struct tt_request *request) {
    if (!range->cut && range->last && !adjacent(range->last, request))
        range->cut = true;
    if (range->cut)
        return;
    range->count++;
    range->rows += request->rows;
    range->last = request;
}

static struct range find_range(const struct tt_fifo *fifo) {
    struct range range = {.known = true};
    for (struct tt_request *r = tt_fifo_first(fifo); r && !range.cut; r = tt_fifo_next(fifo, r))
        extend(&range, r);
    return range;
}

/* The model's oldest range. */
static const struct range *range_of(struct tt_policy *self, int32_t model) {
    struct range *range = &self->ranges[model];
    if (!range->known)
        *range = find_range(&self->queues.fifos[model]);
    return range;
}

/* A batch leaves the queue, from the head on. */
static void shorten(struct range *range, const struct tt_batch *batch) {
    tt_assert(range->rows >= batch->rows);
    range->count -= batch->count;
    range->rows -= batch->rows;
    if (range->rows > 0)
        return;
    range->known = range->known && !range->cut; /* else another range begins behind the cut */
    range->last = NULL;
}

/* The queue changed in another way. */
static void forget(struct tt_policy *self, int32_t model) {
    self->ranges[model].known = false;
    self->changed = true;
}

static void elastic_ready(struct tt_policy *self, int64_t now, struct tt_request *request) {
    (void)now;
    struct tt_fifo *fifo = &self->queues.fifos[request->model];
    struct range *range = &self->ranges[request->model];
    tt_queues_put(&self->queues, request);
    if (range->known && !tt_fifo_next(fifo, request)) {
        bool was_cut = range->cut;
        extend(range, request);
        self->changed = self->changed || fifo->rows >= range->enough || range->cut != was_cut;
    } else
        forget(self, request->model);
}

/* Updates the idle set after the executor may have become idle or busy. */
static void update_idle(struct tt_policy *self, int32_t executor) {
    uint64_t bit = UINT64_C(1) << self->workers.place[executor];
    if (tt_idle_is(self->queues.domain, executor, 0))
        self->idle |= bit;
    else
        self->idle &= ~bit;
}

static void elastic_finished(struct tt_policy *self, int64_t now, const struct tt_task *task) {
    (void)now;
    self->running -= task->rows;
    tt_assert(self->running >= 0);
    tt_queues_finished(&self->queues, task);
    update_idle(self, task->executor);
    self->changed = true;
    for (int32_t i = 0; i < task->count; i++)
        if (task->items[i].request->state == TT_REQUEST_QUEUED)
            forget(self, task->model); /* it returned to the head of the queue */
}

static void elastic_cancelled(struct tt_policy *self, int64_t now, struct tt_request *request) {
    (void)now;
    if (!tt_list_linked(&request->link))
        return;
    tt_queues_take(&self->queues, request);
    forget(self, request->model);
}

/* Drops hopeless heads. */
static void drop_hopeless(struct tt_policy *self, int64_t now, struct tt_mechanism *actions) {
    while (tt_queues_has_hopeless(&self->queues, now))
        forget(self, tt_queues_drop_one(&self->queues, now, actions));
}

/* The front of the model's oldest range, at most `size` rows, but at least its first request. */
static struct tt_batch next_batch(const struct tt_policy *self, int32_t model, int32_t size) {
    const struct tt_fifo *fifo = &self->queues.fifos[model];
    const struct range *range = &self->ranges[model];
    struct tt_request *request = tt_fifo_first(fifo);
    struct tt_batch batch = {.first = request, .model = model, .count = 1, .rows = request->rows};
    if (range->rows == range->count) { /* each has one row */
        batch.count = batch.rows = range->count < size ? range->count : size;
        return batch;
    }
    struct tt_request *next;
    while ((next = tt_fifo_next(fifo, request)) && adjacent(request, next) &&
           batch.rows + next->rows <= size) {
        batch.count++;
        batch.rows += next->rows;
        request = next;
    }
    return batch;
}

/* ---- which workers count ---- */

/* E5: the workers of the configuration for the load. */
static uint64_t configuration(const struct tt_policy *self, int32_t model, int64_t load) {
    tt_assert(load >= 1);
    int32_t k = load < TT_ELASTIC_MAX_TOTAL ? tt_elastic_log2((int32_t)load) : TOTALS - 1;
    int64_t row = self->is_configured ? 0 : model;
    return self->planned[row * TOTALS + k];
}

/* Loads without a plan use that of the next smaller one; the smallest loads use `smallest`. */
static void fill_plans(struct tt_policy *self, uint64_t planned[TOTALS]) {
    for (int32_t k = 0; k < TOTALS; k++)
        if (planned[k] == 0)
            planned[k] = k > 0 ? planned[k - 1] : self->smallest;
    tt_assert(planned[TOTALS - 1] != 0);
}

/* ---- decisions ---- */

/* Gives the worker the front of the oldest range, at most `size` rows. Returns the rows that it
 * takes. */
static int32_t run_front(struct tt_policy *self, struct tt_mechanism *actions, int32_t model,
                         int32_t worker, int32_t size) {
    uint64_t bit = UINT64_C(1) << self->workers.place[worker];
    tt_assert(self->idle & bit);
    struct tt_batch batch = next_batch(self, model, size);
    self->idle &= ~bit;
    self->running += batch.rows;
    shorten(&self->ranges[model], &batch);
    tt_queues_run(&self->queues, actions, worker, &batch);
    return batch.rows;
}

/* Nothing runs, but requests wait that no available worker fits: the small workers are gone, or the
 * request has more rows than any. The smallest idle worker that can hold the range takes it, else
 * the largest. */
static bool run_fallback(struct tt_policy *self, struct tt_mechanism *actions, int32_t model,
                         int32_t rows) {
    int32_t chosen = -1;
    for (int32_t i = 0; i < self->workers.count; i++) {
        int32_t worker = self->workers.by_size[i];
        int32_t size = self->workers.sizes[worker];
        if ((self->idle >> i & 1) &&
            (chosen < 0 || (size >= rows && size < self->workers.sizes[chosen])))
            chosen = worker;
    }
    if (chosen < 0)
        return false;
    int32_t max_batch = self->queues.domain->models[model]->max_batch;
    int32_t limit =
        self->workers.sizes[chosen] < max_batch ? self->workers.sizes[chosen] : max_batch;
    run_front(self, actions, model, chosen, limit);
    return true;
}

/* The part of a model's queue for which workers are chosen. */
struct offer {
    int32_t room, rows; /* rows that may still run; of these, the rows of the oldest range */
    bool cut;           /* a request waits behind the end of the range */
    int64_t load;
    uint64_t counted; /* the workers that count at this load */
};

static struct offer look(struct tt_policy *self, int32_t model) {
    const struct range *range = range_of(self, model);
    struct offer offer = {.room = self->max_inf - self->running,
                          .cut = range->cut,
                          .load = range->rows,
                          .counted = UINT64_MAX};
    offer.rows = range->rows < offer.room ? (int32_t)range->rows : offer.room;
    if (!offer.cut) /* the range is the whole queue */
        offer.load += self->only_waiting ? 0 : self->running;
    if (self->enhanced)
        offer.counted = configuration(self, model, offer.load);
    return offer;
}

static int32_t min_of(int32_t a, int32_t b) { return a < b ? a : b; }

/* Assigns one range, or the part of it that may run. The rest of the offer does not run now. */
static void assign_range(struct tt_policy *self, struct tt_mechanism *actions, int32_t model,
                         struct offer *offer) {
    const struct tt_fifo *fifo = &self->queues.fifos[model];
    int32_t max_batch = self->queues.domain->models[model]->max_batch;
    while (offer->rows > 0) {
        int32_t first = tt_fifo_first(fifo)->rows, rows = min_of(offer->rows, max_batch);
        if (first > rows)
            return;
        uint64_t may =
            self->idle & tt_elastic_workers_fit(&self->workers, offer->counted, rows, first);
        if (may == 0)
            return;
        int32_t worker = self->workers.by_size[__builtin_ctzll(may)];
        int32_t ran =
            run_front(self, actions, model, worker, min_of(self->workers.sizes[worker], rows));
        offer->rows -= ran;
        offer->room -= ran;
    }
}

/* The rest of the offer waits. Returns the number of further rows in the queue with which a worker
 * can take rows, or with which other workers count. */
static int64_t missing(const struct tt_policy *self, const struct offer *left) {
    if (left->cut || left->rows == 0)
        return INT32_MAX;
    int64_t rows = INT32_MAX;
    if (self->enhanced && left->load < TT_ELASTIC_MAX_TOTAL)
        rows = (2 << tt_elastic_log2((int32_t)left->load)) - left->load;
    uint64_t idle = self->idle & left->counted;
    if (idle == 0)
        return rows;
    int32_t smallest = self->workers.sizes[self->workers.by_size[63 - __builtin_clzll(idle)]];
    if (smallest <=
        left->rows) /* the worker is too small for the first request, or the model's batches are */
        return 1;
    return smallest <= left->room && smallest - left->rows < rows ? smallest - left->rows : rows;
}

/* E4: algorithm 1, and with a plan (E5) algorithm 2, once for one model. True: another round can
 * assign more, since this one lowered the load. */
static bool assign_once(struct tt_policy *self, struct tt_mechanism *actions, int32_t model) {
    const struct tt_fifo *fifo = &self->queues.fifos[model];
    int32_t before = self->running;
    struct offer offer = look(self, model);
    assign_range(self, actions, model, &offer);
    /* All rows in the queue and on the workers are the same load as before. */
    bool again = self->running != before && (offer.cut || (self->enhanced && self->only_waiting));
    if (self->running == 0)
        again = run_fallback(self, actions, model, offer.rows);
    self->ranges[model].enough = fifo->rows + missing(self, &offer);
    return again;
}

/* Rounds until one assigns nothing. */
static void assign(struct tt_policy *self, struct tt_mechanism *actions, int32_t model) {
    const struct tt_fifo *fifo = &self->queues.fifos[model];
    self->ranges[model].enough = INT64_MAX;
    while (fifo->count > 0 && self->running < self->max_inf && assign_once(self, actions, model))
        continue;
    if (fifo->count == 0)
        self->ranges[model].enough = 0; /* the next request is a range */
}

/* Visits every model with a queue, the model with the oldest request first. Running rows of one
 * model are part of the load of the others, so these may then have other workers. */
static void assign_all(struct tt_policy *self, struct tt_mechanism *actions) {
    const struct tt_queues *queues = &self->queues;
    int32_t before;
    bool only;
    self->changed = false;
    do {
        const struct tt_heap_entry *oldest = tt_heap_top(&queues->heads);
        if (!oldest)
            return;
        int32_t first = oldest->id;
        before = self->running;
        only = queues->heads.count == 1;
        assign(self, actions, first);
        for (int32_t m = 0; !only && queues->heads.count > 0 && m < queues->domain->model_capacity;
             m++)
            if (m != first && queues->fifos[m].count > 0)
                assign(self, actions, m);
    } while (!only && self->enhanced && self->running != before);
}

/* Not inlined: most decisions do not come here, and would save registers for it. */
TT_APART static void elastic_decide_anew(struct tt_policy *self, int64_t now,
                                         struct tt_mechanism *actions) {
    drop_hopeless(self, now, actions);
    if (self->changed && self->idle != 0)
        assign_all(self, actions);
}

static void elastic_decide(struct tt_policy *self, int64_t now, struct tt_mechanism *actions) {
    if ((self->changed && self->idle != 0) || tt_queues_has_hopeless(&self->queues, now))
        elastic_decide_anew(self, now, actions);
}

static void elastic_model_changed(struct tt_policy *self, int64_t now, int32_t model,
                                  enum tt_change change) {
    (void)now;
    tt_queues_model_changed(&self->queues, model, change);
    if (change != TT_CHANGE_ADDED || !self->enhanced || self->is_configured)
        return;
    int32_t available[TT_ELASTIC_SIZES];
    tt_elastic_workers_count(&self->workers, available);
    const struct tt_step_model *added = self->queues.domain->models[model];
    int64_t promise_ns = self->keeps_qos ? added->slo_ns : TT_NEVER;
    uint64_t *planned = &self->planned[(int64_t)model * TOTALS];
    for (int32_t k = 0; k < TOTALS; k++) {
        struct tt_elastic_choice plan = {0};
        if (k >= LEAST_TOTAL)
            plan = tt_elastic_plan_within(added->whole, available, 1 << k, promise_ns);
        planned[k] = tt_elastic_workers_first(&self->workers, plan.counts);
    }
    fill_plans(self, planned);
}

static void elastic_executor_changed(struct tt_policy *self, int64_t now, int32_t executor,
                                     enum tt_change change) {
    (void)now;
    tt_queues_executor_changed(&self->queues, executor, change);
    update_idle(self, executor);
    self->changed = true;
}

/* Each load has workers, and these exist. */
static void check_plans(const struct tt_policy *self) {
    const struct tt_mechanism *domain = self->queues.domain;
    uint64_t all = self->workers.up_to[TT_ELASTIC_SIZES - 1];
    for (int32_t m = 0; self->enhanced && m < domain->model_capacity; m++)
        for (int32_t k = 0; (m == 0 || !self->is_configured) && k < TOTALS; k++) {
            uint64_t planned = self->planned[(int64_t)m * TOTALS + k];
            tt_assert((planned & ~all) == 0);
            tt_assert(planned != 0 || !domain->models[m]);
        }
}

static void elastic_check(const struct tt_policy *self) {
    tt_queues_check(&self->queues);
    tt_elastic_workers_check(&self->workers);
    check_plans(self);
    const struct tt_mechanism *domain = self->queues.domain;
    int32_t running = 0;
    for (int32_t e = 0; e < domain->executor_capacity; e++)
        if (domain->executors[e].queued > 0)
            running += tt_mechanism_oldest(domain, e)->rows;
    tt_assert(running == self->running);
    for (int32_t i = 0; i < self->workers.count; i++)
        tt_assert((self->idle >> i & 1) == tt_idle_is(domain, self->workers.by_size[i], 0));
    for (int32_t m = 0; m < domain->model_capacity; m++) {
        struct range range = find_range(&self->queues.fifos[m]);
        tt_assert(!self->ranges[m].known || self->ranges[m].count == range.count);
        tt_assert(!self->ranges[m].known || self->ranges[m].rows == range.rows);
        tt_assert(!self->ranges[m].known || self->ranges[m].cut == range.cut);
        tt_assert(!self->ranges[m].known || self->ranges[m].last == range.last);
    }
}

static void elastic_free(struct tt_policy *take_self) {
    free(take_self->planned);
    free(take_self->ranges);
    tt_queued_free(take_self);
}

/* ---- creation ---- */

/* Reads one group of `configurations`. Its workers must exist, and its sum must be a load without a
 * group. */
static enum tt_err read_configuration(struct tt_policy *self, const int32_t *sizes, int32_t count,
                                      struct tt_error *why) {
    struct tt_elastic_choice plan = {.worker_count = count};
    for (int32_t i = 0; i < count; i++) {
        int32_t k = tt_elastic_log2(sizes[i]);
        if (sizes[i] != 1 << k || k >= TT_ELASTIC_SIZES)
            return tt_fail(TT_ERR_INVALID, why,
                           "option configurations: %d is not a power of two up to %d", sizes[i],
                           1 << (TT_ELASTIC_SIZES - 1));
        plan.counts[k]++;
        plan.total += sizes[i];
    }
    int32_t k = tt_elastic_log2(plan.total);
    if (plan.total != 1 << k || k < LEAST_TOTAL || k >= TOTALS)
        return tt_fail(TT_ERR_INVALID, why,
                       "option configurations: a group of %d workers sums to %d; it must be 4, 8, "
                       "16, 32 or %d",
                       count, plan.total, TT_ELASTIC_MAX_TOTAL);
    if (self->planned[k] != 0)
        return tt_fail(TT_ERR_INVALID, why, "option configurations: two groups sum to %d",
                       plan.total);
    int32_t available[TT_ELASTIC_SIZES];
    tt_elastic_workers_count(&self->workers, available);
    for (int32_t i = 0; i < TT_ELASTIC_SIZES; i++)
        if (plan.counts[i] > available[i])
            return tt_fail(TT_ERR_INVALID, why,
                           "option configurations: the group that sums to %d has %d workers of "
                           "size %d, option workers has %d",
                           plan.total, plan.counts[i], 1 << i, available[i]);
    self->planned[k] = tt_elastic_workers_first(&self->workers, plan.counts);
    return TT_OK;
}

static enum tt_err read_configurations(struct tt_policy *self, int64_t group_count,
                                       const struct tt_policy_setup *setup, struct tt_error *why) {
    if (group_count > 0 && !self->enhanced)
        return tt_fail(TT_ERR_INVALID, why,
                       "option configurations: only variant enhanced follows them");
    self->is_configured = group_count > 0;
    for (int32_t i = 0; i < group_count; i++) {
        int32_t sizes[TT_ELASTIC_MAX_WORKERS];
        int32_t count = tt_options_group("configurations", setup->options, setup->option_count, i,
                                         sizes, TT_ELASTIC_MAX_WORKERS);
        if (count > TT_ELASTIC_MAX_WORKERS)
            return tt_fail(TT_ERR_INVALID, why,
                           "option configurations: a group of %d workers; at most %d", count,
                           TT_ELASTIC_MAX_WORKERS);
        enum tt_err err = read_configuration(self, sizes, count, why);
        if (err)
            return err;
    }
    fill_plans(self, self->planned);
    return TT_OK;
}

/* The first workers of size 1 and 2. If there are neither, the first of the smallest size. */
static uint64_t smallest_workers(const struct tt_elastic_workers *workers) {
    static const int32_t smallest[TT_ELASTIC_SIZES] = {1, 1};
    uint64_t found = tt_elastic_workers_first(workers, smallest);
    return found != 0 ? found : workers->nearest[0] & -workers->nearest[0];
}

static enum tt_err elastic_init(struct tt_policy *self, const struct tt_policy_setup *setup,
                                const int64_t *values, struct tt_error *why) {
    enum tt_err err = tt_queues_init(&self->queues, setup, TT_FIFO_ARRIVAL, values[DROP] != 0);
    if (!err)
        err = tt_elastic_workers_init(&self->workers, setup, why);
    if (err)
        return err;
    self->queues.ahead = -1;
    self->smallest = smallest_workers(&self->workers);
    int32_t sum = 0;
    for (int32_t w = 0; w < self->workers.count; w++)
        sum += self->workers.sizes[w];
    self->max_inf = values[MAX_INF] > 0 ? (int32_t)values[MAX_INF] : sum;
    self->enhanced = values[VARIANT] != 0;
    self->only_waiting = values[LOAD] != 0;
    self->keeps_qos = values[QOS] != 0;
    self->planned = calloc((size_t)setup->domain->model_capacity * TOTALS, sizeof(*self->planned));
    self->ranges = calloc((size_t)setup->domain->model_capacity, sizeof(*self->ranges));
    if (!self->planned || !self->ranges)
        return TT_ERR_NO_MEMORY;
    int32_t largest = self->workers.sizes[self->workers.by_size[0]];
    if (self->max_inf < largest)
        return tt_fail(
            TT_ERR_INVALID, why,
            "option max_inf is %d, but a worker takes %d at once; it must be at least that",
            self->max_inf, largest);
    return read_configurations(self, values[CONFIGURATIONS], setup, why);
}

static const struct tt_policy_ops ops = {
    .arrived = elastic_arrived,
    .ready = elastic_ready,
    .finished = elastic_finished,
    .cancelled = elastic_cancelled,
    .decide = elastic_decide,
    .next_at = tt_queued_next_at,
    .model_changed = elastic_model_changed,
    .executor_changed = elastic_executor_changed,
    .check = elastic_check,
    .free = elastic_free,
};

const struct tt_policy_kind tt_elastic_kind = {
    .name = "elastic",
    .summary =
        "transfers each input at once; idle workers of several batch sizes take ranges of them",
    .traits = {.needs_profiles = true,
               .waits_for_inputs = true,
               .composes = true,
               .default_depth = 1},
    .serving = {.computes_late = TT_DROP_NONE_OPTION,
                .workers = {.sizes = "workers",
                            .plans = "configurations",
                            .measured = {"variant", "enhanced"}}},
    .options = options,
    .option_count = OPTION_COUNT,
    .state_bytes = sizeof(struct tt_policy),
    .init = elastic_init,
    .ops = &ops,
};
