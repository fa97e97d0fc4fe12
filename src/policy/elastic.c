#include "policy/elastic.h"

#include "policy/elastic_plan.h"
#include "policy/fifo.h"

#include <stdlib.h>
#include <string.h>

enum { WORKERS, MAX_INF, VARIANT, CONFIGURATIONS, LOAD, DROP, OPTION_COUNT };
/* Totals 1, 2, 4 .. TT_ELASTIC_MAX_TOTAL, of which the third is the first with a configuration. */
enum { MAX_WORKERS = 64, TOTALS = 7, LEAST_TOTAL = 2 };

static const struct tt_option_spec options[OPTION_COUNT] = {
    [WORKERS] = {.key = "workers",
                 .type = TT_OPTION_SIZES,
                 .minimum = 1,
                 .maximum = MAX_WORKERS,
                 .help = "batch size of each executor, a power of two; not given: 1, 1, 2, 4, ..."},
    [MAX_INF] = {.key = "max_inf",
                 .type = TT_OPTION_INTEGER,
                 .minimum = 1,
                 .maximum = 1 << 20,
                 .standard = 0,
                 .help = "most rows that run at once; not given: the sum of the workers' sizes"},
    [VARIANT] = {.key = "variant",
                 .type = TT_OPTION_CHOICE,
                 .choices = "naive|enhanced",
                 .help = "all workers, or those of the best configuration for the load"},
    [CONFIGURATIONS] = {.key = "configurations",
                        .type = TT_OPTION_GROUPS,
                        .minimum = 1,
                        .maximum = TOTALS - 2,
                        .help = "enhanced: the workers that count, for loads of 4, 8, 16, 32 and "
                                "64 rows, each a group that sums to it, such as 4;4,4;8,8,16; not "
                                "given: found from the profile"},
    [LOAD] = {.key = "load",
              .type = TT_OPTION_CHOICE,
              .choices = "pending|waiting",
              .help = "enhanced: the load counts what runs too, or only what waits"},
    [DROP] = {.key = "drop",
              .type = TT_OPTION_CHOICE,
              .choices = "none|deadline",
              .help = "what becomes of a request that cannot meet its deadline any more"},
};

/* What of a model's queue lies side by side from the head on. Kept while the queue grows at its end
 * and shrinks at its head, for a decision must not walk it; looked for anew after anything else. */
struct range {
    bool known;
    bool cut; /* something lies behind its end */
    int64_t rows;
    struct tt_request *last;
};

struct tt_policy {
    struct tt_queues queues; /* of requests whose input is there */
    struct range *ranges;    /* [model_capacity] */
    int32_t worker_count;
    int32_t sizes[MAX_WORKERS];   /* of each executor */
    int32_t by_size[MAX_WORKERS]; /* executors, largest size first, then smallest id */
    int32_t place[MAX_WORKERS];   /* of each executor in by_size */
    /* Sets of workers, a bit for each place: so a decision that finds nobody costs next to nothing,
     * and most do. */
    uint64_t idle;
    uint64_t up_to[TT_ELASTIC_SIZES]; /* of at most 2^k rows */
    uint64_t smallest;                /* the first of size 1 and of 2: for loads below all plans */
    int32_t running;                  /* rows */
    int32_t max_inf;
    bool enhanced, only_waiting;
    bool told; /* the configurations, which are in the first row of plans then, for all models */
    struct tt_elastic_choice *plans; /* [model_capacity * TOTALS], by log2 of the total */
    uint64_t *planned;               /* the same: their workers */
};

static void elastic_arrived(struct tt_policy *self, int64_t now, struct tt_request *request) {
    (void)self; /* it waits for its input */
    (void)now;
    (void)request;
}

/* ---- ranges ---- */

/* Do the two lie side by side? Where the carrier has no slots everything does. */
static bool adjacent(const struct tt_request *a, const struct tt_request *b) {
    return a->step == b->step && (a->slot < 0 || b->slot == a->slot + a->rows);
}

/* The request stands behind what the range is known of. */
static void extend(struct range *range, struct tt_request *request) {
    if (!range->cut && range->last && !adjacent(range->last, request))
        range->cut = true;
    if (range->cut)
        return;
    range->rows += request->rows;
    range->last = request;
}

static struct range find_range(const struct tt_fifo *fifo) {
    struct range range = {.known = true};
    for (struct tt_request *r = tt_fifo_first(fifo); r && !range.cut; r = tt_fifo_next(fifo, r))
        extend(&range, r);
    return range;
}

/* The rows of the model's oldest range, as far as `limit`; whether something lies behind its end.
 */
static int32_t range_rows(struct tt_policy *self, int32_t model, int32_t limit, bool *out_cut) {
    struct range *range = &self->ranges[model];
    if (!range->known)
        *range = find_range(&self->queues.fifos[model]);
    *out_cut = range->cut && range->rows < limit;
    return range->rows < limit ? (int32_t)range->rows : limit;
}

/* A batch left the model's queue, from the head on. */
static void shorten(struct tt_policy *self, const struct tt_batch *batch) {
    struct range *range = &self->ranges[batch->model];
    range->rows -= batch->rows;
    range->known = range->known && range->rows > 0;
}

static void elastic_ready(struct tt_policy *self, int64_t now, struct tt_request *request) {
    (void)now;
    struct tt_fifo *fifo = &self->queues.fifos[request->model];
    struct range *range = &self->ranges[request->model];
    tt_queues_put(&self->queues, request);
    if (range->known && !tt_fifo_next(fifo, request))
        extend(range, request);
    else
        range->known = false;
}

/* The executor may have become idle, or busy. */
static void note_idle(struct tt_policy *self, int32_t executor) {
    uint64_t bit = UINT64_C(1) << self->place[executor];
    if (tt_heap_contains(&self->queues.idle, executor))
        self->idle |= bit;
    else
        self->idle &= ~bit;
}

static void elastic_finished(struct tt_policy *self, int64_t now, const struct tt_task *task) {
    (void)now;
    self->running -= task->rows;
    tt_queues_finished(&self->queues, task);
    note_idle(self, task->executor);
    for (int32_t i = 0; i < task->count; i++)
        if (task->items[i].request->state == TT_REQUEST_QUEUED)
            self->ranges[task->model].known = false; /* it is back, at the head */
}

static void elastic_cancelled(struct tt_policy *self, int64_t now, struct tt_request *request) {
    (void)now;
    if (!tt_list_linked(&request->link))
        return;
    tt_queues_take(&self->queues, request);
    self->ranges[request->model].known = false;
}

/* Heads that cannot make it any more leave. */
static void drop_lost(struct tt_policy *self, int64_t now, struct tt_mechanism *actions) {
    int32_t model;
    while ((model = tt_queues_drop_one(&self->queues, now, actions)) >= 0)
        self->ranges[model].known = false;
}

/* The next range of at most `size` rows, at least the first request. */
static struct tt_batch next_batch(const struct tt_fifo *fifo, int32_t model, int32_t size) {
    struct tt_request *request = tt_fifo_first(fifo);
    struct tt_batch batch = {.first = request,
                             .model = model,
                             .count = 1,
                             .rows = request->rows,
                             .length = request->length,
                             .deadline_at = request->deadline_at};
    struct tt_request *next;
    while ((next = tt_fifo_next(fifo, request)) && adjacent(request, next) &&
           batch.rows + next->rows <= size) {
        batch.count++;
        batch.rows += next->rows;
        if (next->length > batch.length)
            batch.length = next->length;
        request = next;
    }
    return batch;
}

/* ---- which workers count ---- */

static int32_t log2_of(int32_t value) { return 31 - __builtin_clz((uint32_t)value); }

/* E5: the workers of the configuration for the load. */
static uint64_t configuration(const struct tt_policy *self, int32_t model, int64_t load) {
    int32_t k = load < TT_ELASTIC_MAX_TOTAL ? log2_of((int32_t)load) : TOTALS - 1;
    int64_t row = self->told ? 0 : model;
    for (; k >= LEAST_TOTAL; k--)
        if (self->plans[row * TOTALS + k].total > 0)
            return self->planned[row * TOTALS + k];
    return self->smallest;
}

/* The first counts[k] workers of each size 2^k. */
static uint64_t workers_of(const struct tt_policy *self, const int32_t counts[TT_ELASTIC_SIZES]) {
    int32_t left[TT_ELASTIC_SIZES];
    memcpy(left, counts, sizeof(left));
    uint64_t workers = 0;
    for (int32_t i = 0; i < self->worker_count; i++)
        if (left[log2_of(self->sizes[self->by_size[i]])]-- > 0)
            workers |= UINT64_C(1) << i;
    return workers;
}

/* Those that may take a range of `rows` rows, or the front of it, that begins with a request of
 * `first` rows. */
static uint64_t fitting(const struct tt_policy *self, int32_t rows, int32_t first) {
    int32_t most = log2_of(rows), least = first > 1 ? log2_of(first - 1) + 1 : 0;
    if (least >= TT_ELASTIC_SIZES)
        return 0;
    uint64_t fit = self->up_to[most < TT_ELASTIC_SIZES ? most : TT_ELASTIC_SIZES - 1];
    return least > 0 ? fit & ~self->up_to[least - 1] : fit;
}

/* ---- deciding ---- */

static void run(struct tt_policy *self, struct tt_mechanism *actions, int32_t worker,
                const struct tt_batch *batch) {
    self->running += batch->rows;
    shorten(self, batch);
    tt_queues_run(&self->queues, actions, worker, batch);
    note_idle(self, worker);
}

/* Nothing runs and still something waits: no worker that is there fits (the small ones are gone, or
 * the request has more rows than any). The smallest that can hold the range takes it, else the
 * largest. */
static bool run_anyhow(struct tt_policy *self, struct tt_mechanism *actions, int32_t model,
                       int32_t rows) {
    int32_t chosen = -1;
    for (int32_t i = 0; i < self->worker_count; i++) {
        int32_t worker = self->by_size[i];
        if (tt_heap_contains(&self->queues.idle, worker) &&
            (chosen < 0 || self->sizes[worker] >= rows))
            chosen = worker;
    }
    if (chosen < 0)
        return false;
    int32_t most = self->queues.domain->models[model]->max_batch;
    int32_t limit = self->sizes[chosen] < most ? self->sizes[chosen] : most;
    struct tt_batch batch = next_batch(&self->queues.fifos[model], model, limit);
    run(self, actions, chosen, &batch);
    return true;
}

/* One range, or the part of it that may run: whether all of that runs now. */
static bool assign_range(struct tt_policy *self, struct tt_mechanism *actions, int32_t model,
                         int32_t rows, uint64_t counted) {
    const struct tt_fifo *fifo = &self->queues.fifos[model];
    int32_t most = self->queues.domain->models[model]->max_batch;
    while (rows > 0) {
        uint64_t may = self->idle & counted &
                       fitting(self, rows < most ? rows : most, tt_fifo_first(fifo)->rows);
        if (may == 0)
            return false;
        int32_t worker = self->by_size[__builtin_ctzll(may)];
        struct tt_batch batch = next_batch(fifo, model, self->sizes[worker]);
        rows -= batch.rows;
        run(self, actions, worker, &batch);
    }
    return true;
}

/* E4: algorithm 1, and with a plan (E5) algorithm 2, for one model. */
static void assign(struct tt_policy *self, struct tt_mechanism *actions, int32_t model) {
    const struct tt_fifo *fifo = &self->queues.fifos[model];
    bool goes_on = true;
    while (goes_on && fifo->count > 0 && self->running < self->max_inf) {
        bool cut;
        int32_t room = self->max_inf - self->running;
        int32_t rows = range_rows(self, model, room, &cut);
        uint64_t counted = UINT64_MAX;
        if (self->enhanced)
            counted = configuration(
                self, model, cut ? rows : fifo->rows + (self->only_waiting ? 0 : self->running));
        goes_on = assign_range(self, actions, model, rows, counted) && cut;
        if (self->running == 0)
            goes_on = run_anyhow(self, actions, model, rows);
    }
}

static void elastic_decide(struct tt_policy *self, int64_t now, struct tt_mechanism *actions) {
    struct tt_queues *queues = &self->queues;
    drop_lost(self, now, actions);
    const struct tt_heap_entry *oldest = tt_heap_top(&queues->heads);
    if (!oldest || !tt_heap_top(&queues->idle))
        return;
    int32_t first = oldest->id;
    assign(self, actions, first);
    for (int32_t m = 0; queues->heads.count > 0 && m < queues->domain->model_capacity; m++)
        if (m != first && queues->fifos[m].count > 0)
            assign(self, actions, m);
}

static int64_t elastic_next_at(const struct tt_policy *self) {
    return tt_queues_lost_at(&self->queues);
}

static void count_workers(const struct tt_policy *self, int32_t out_counts[TT_ELASTIC_SIZES]) {
    memset(out_counts, 0, TT_ELASTIC_SIZES * sizeof(*out_counts));
    for (int32_t w = 0; w < self->worker_count; w++)
        out_counts[log2_of(self->sizes[w])]++;
}

static void elastic_model_changed(struct tt_policy *self, int64_t now, int32_t model,
                                  enum tt_change change) {
    (void)now;
    tt_queues_model_changed(&self->queues, model, change);
    if (change != TT_CHANGE_ADDED || !self->enhanced || self->told)
        return;
    int32_t available[TT_ELASTIC_SIZES];
    count_workers(self, available);
    const struct tt_profile *profile = self->queues.domain->models[model]->whole;
    for (int32_t k = 0; k < TOTALS; k++) {
        struct tt_elastic_choice *plan = &self->plans[(int64_t)model * TOTALS + k];
        *plan = tt_elastic_plan(profile, available, 1 << k);
        self->planned[(int64_t)model * TOTALS + k] = workers_of(self, plan->counts);
    }
}

static void elastic_executor_changed(struct tt_policy *self, int64_t now, int32_t executor,
                                     enum tt_change change) {
    (void)now;
    tt_queues_executor_changed(&self->queues, executor, change);
    note_idle(self, executor);
}

static void elastic_check(const struct tt_policy *self) {
    tt_queues_check(&self->queues);
    const struct tt_mechanism *domain = self->queues.domain;
    int32_t running = 0;
    for (int32_t e = 0; e < domain->executor_capacity; e++)
        if (domain->executors[e].queued > 0)
            running += tt_mechanism_oldest(domain, e)->rows;
    tt_assert(running == self->running);
    for (int32_t i = 0; i < self->worker_count; i++)
        tt_assert((self->idle >> i & 1) == tt_heap_contains(&self->queues.idle, self->by_size[i]));
    for (int32_t m = 0; m < domain->model_capacity; m++) {
        struct range range = find_range(&self->queues.fifos[m]);
        tt_assert(!self->ranges[m].known || self->ranges[m].rows == range.rows);
        tt_assert(!self->ranges[m].known || self->ranges[m].cut == range.cut);
    }
}

static void elastic_free(struct tt_policy *take_self) {
    tt_queues_fini(&take_self->queues);
    free(take_self->plans);
    free(take_self->planned);
    free(take_self->ranges);
    free(take_self);
}

/* ---- making one ---- */

static enum tt_err read_workers(struct tt_policy *self, const struct tt_policy_setup *setup,
                                struct tt_message *why) {
    int32_t executors = setup->domain->executor_capacity;
    int32_t given =
        tt_options_sizes("workers", setup->options, setup->option_count, self->sizes, MAX_WORKERS);
    if (executors > MAX_WORKERS || (given > 0 && given != executors))
        return tt_fail(TT_ERR_INVALID, why,
                       "option workers: %d sizes for %d executors; it must be a size for each, of "
                       "at most %d",
                       given, executors, MAX_WORKERS);
    self->worker_count = executors;
    bool any_one = false;
    for (int32_t w = 0; w < executors; w++) {
        if (given == 0)
            self->sizes[w] =
                w < 2 ? 1 : 1 << (w - 1 < TT_ELASTIC_SIZES ? w - 1 : TT_ELASTIC_SIZES - 1);
        int32_t size = self->sizes[w];
        if ((size & (size - 1)) != 0 || size > 1 << (TT_ELASTIC_SIZES - 1))
            return tt_fail(TT_ERR_INVALID, why, "option workers: %d is not a power of two up to %d",
                           size, 1 << (TT_ELASTIC_SIZES - 1));
        any_one |= size == 1;
    }
    if (!any_one)
        return tt_fail(TT_ERR_INVALID, why,
                       "option workers: there is no worker of size 1, so that a single request "
                       "would wait for ever; add one");
    return TT_OK;
}

/* One group of `configurations`: its workers are there, and sum to a load that has none yet. */
static enum tt_err read_configuration(struct tt_policy *self, const int32_t *sizes, int32_t count,
                                      struct tt_message *why) {
    struct tt_elastic_choice plan = {.worker_count = count};
    for (int32_t i = 0; i < count; i++) {
        int32_t k = log2_of(sizes[i]);
        if (sizes[i] != 1 << k || k >= TT_ELASTIC_SIZES)
            return tt_fail(TT_ERR_INVALID, why,
                           "option configurations: %d is not a power of two up to %d", sizes[i],
                           1 << (TT_ELASTIC_SIZES - 1));
        plan.counts[k]++;
        plan.total += sizes[i];
    }
    int32_t k = log2_of(plan.total);
    if (plan.total != 1 << k || k < LEAST_TOTAL || k >= TOTALS)
        return tt_fail(TT_ERR_INVALID, why,
                       "option configurations: a group of %d workers sums to %d; it must be 4, 8, "
                       "16, 32 or %d",
                       count, plan.total, TT_ELASTIC_MAX_TOTAL);
    if (self->plans[k].total > 0)
        return tt_fail(TT_ERR_INVALID, why, "option configurations: two groups sum to %d",
                       plan.total);
    int32_t there[TT_ELASTIC_SIZES];
    count_workers(self, there);
    for (int32_t i = 0; i < TT_ELASTIC_SIZES; i++)
        if (plan.counts[i] > there[i])
            return tt_fail(TT_ERR_INVALID, why,
                           "option configurations: the group that sums to %d has %d workers of "
                           "size %d, option workers has %d",
                           plan.total, plan.counts[i], 1 << i, there[i]);
    self->plans[k] = plan;
    self->planned[k] = workers_of(self, plan.counts);
    return TT_OK;
}

static enum tt_err read_configurations(struct tt_policy *self, int64_t group_count,
                                       const struct tt_policy_setup *setup,
                                       struct tt_message *why) {
    if (group_count > 0 && !self->enhanced)
        return tt_fail(TT_ERR_INVALID, why,
                       "option configurations: only variant enhanced follows them");
    self->told = group_count > 0;
    for (int32_t i = 0; i < group_count; i++) {
        int32_t sizes[MAX_WORKERS];
        int32_t count = tt_options_group("configurations", setup->options, setup->option_count, i,
                                         sizes, MAX_WORKERS);
        if (count > MAX_WORKERS)
            return tt_fail(TT_ERR_INVALID, why,
                           "option configurations: a group of %d workers; at most %d", count,
                           MAX_WORKERS);
        enum tt_err err = read_configuration(self, sizes, count, why);
        if (err)
            return err;
    }
    return TT_OK;
}

static void sort_workers(struct tt_policy *self) {
    int32_t count = 0;
    for (int32_t k = TT_ELASTIC_SIZES - 1; k >= 0; k--)
        for (int32_t w = 0; w < self->worker_count; w++)
            if (self->sizes[w] == 1 << k) {
                self->place[w] = count;
                self->by_size[count++] = w;
            }
    for (int32_t k = 0; k < TT_ELASTIC_SIZES; k++)
        for (int32_t i = 0; i < count; i++)
            if (self->sizes[self->by_size[i]] <= 1 << k)
                self->up_to[k] |= UINT64_C(1) << i;
    static const int32_t smallest[TT_ELASTIC_SIZES] = {1, 1};
    self->smallest = workers_of(self, smallest);
}

static enum tt_err elastic_create(const struct tt_policy_setup *setup, const int64_t *values,
                                  struct tt_policy **out_policy, struct tt_message *why) {
    struct tt_policy *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    enum tt_err err = read_workers(self, setup, why);
    if (err) {
        free(self);
        return err;
    }
    sort_workers(self);
    int32_t sum = 0;
    for (int32_t w = 0; w < self->worker_count; w++)
        sum += self->sizes[w];
    self->max_inf = values[MAX_INF] > 0 ? (int32_t)values[MAX_INF] : sum;
    self->enhanced = values[VARIANT] != 0;
    self->only_waiting = values[LOAD] != 0;
    self->plans = calloc((size_t)setup->domain->model_capacity * TOTALS, sizeof(*self->plans));
    self->planned = calloc((size_t)setup->domain->model_capacity * TOTALS, sizeof(*self->planned));
    self->ranges = calloc((size_t)setup->domain->model_capacity, sizeof(*self->ranges));
    err = tt_queues_init(&self->queues, setup, TT_FIFO_ARRIVAL, values[DROP] != 0, why);
    int32_t largest = self->sizes[self->by_size[0]];
    if (!err && (!self->plans || !self->planned || !self->ranges))
        err = tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    else if (!err && self->max_inf < largest)
        err =
            tt_fail(TT_ERR_INVALID, why,
                    "option max_inf is %d, but a worker takes %d at once; it must be at least that",
                    self->max_inf, largest);
    if (!err)
        err = read_configurations(self, values[CONFIGURATIONS], setup, why);
    if (err) {
        elastic_free(self);
        return err;
    }
    *out_policy = self;
    return TT_OK;
}

static const struct tt_policy_ops ops = {
    .name = "elastic",
    .arrived = elastic_arrived,
    .ready = elastic_ready,
    .finished = elastic_finished,
    .cancelled = elastic_cancelled,
    .decide = elastic_decide,
    .next_at = elastic_next_at,
    .model_changed = elastic_model_changed,
    .executor_changed = elastic_executor_changed,
    .check = elastic_check,
    .free = elastic_free,
};

const struct tt_policy_kind tt_elastic_kind = {
    .name = "elastic",
    .summary = "inputs go to the device at once; idle workers of many sizes take ranges of them",
    .options = options,
    .option_count = OPTION_COUNT,
    .create = elastic_create,
    .ops = &ops,
};
