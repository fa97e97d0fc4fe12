/* shortest: an example of a policy, for readers who write their own.
 *
 * The rule. Whenever an executor is idle, every model with waiting requests offers a batch: its
 * oldest requests, as many as fit. The batch that takes the least time by its model's profile runs
 * first; if two take the same time, the one of the smaller model number. (Shortest job first: good
 * for the mean latency; while short batches keep coming, a long one waits.)
 *
 * A policy of your own begins as this one did:
 *   1. copy this file to src/policy/NAME.c and replace "shortest";
 *   2. add the line X(NAME) to src/policy/registry.c, in alphabetical order.
 * Nothing else in the tree changes: server, simulator, experiments, recordings and tests read what
 * they need from `tt_NAME_kind` at the end of this file. The contract is policy/policy.h; tests
 * that show the rule stand in test_shortest.c. */
#include "base/instant.h"
#include "policy/queued.h"

/* What an instance keeps. Many instances may run in one process, so there are no variables at file
 * scope. A policy with queues begins with them: one queue per model, and the idle executors. */
struct tt_policy {
    struct tt_queues queues;
    int32_t max_batch;
};
TT_QUEUED_POLICY;

/* ---- options: `policy { name: "shortest" option { key: "max_batch" value: "8" } }` ---- */

enum { MAX_BATCH, DROP, OPTION_COUNT };

static const struct tt_option_spec options[OPTION_COUNT] = {
    [MAX_BATCH] = {.key = "max_batch",
                   .type = TT_OPTION_INTEGER,
                   .minimum = 1,
                   .maximum = TT_PROFILE_MAX_BATCH,
                   .default_value = TT_PROFILE_MAX_BATCH,
                   .help = "maximum rows in a batch, where the model allows more"},
    [DROP] = TT_DROP_SPEC, /* drop: none|deadline, as other policies have it */
};

/* ---- the decision ---- */

/* The model's batch: its oldest requests that stand at one step, up to the maximum number of rows.
 * The head is in it even if it alone has more rows than the option allows. */
static struct tt_batch form(const struct tt_policy *self, int32_t model) {
    const struct tt_fifo *fifo = &self->queues.fifos[model];
    struct tt_request *head = tt_fifo_first(fifo);
    int32_t limit = self->queues.domain->models[model]->max_batch;
    if (self->max_batch < limit)
        limit = self->max_batch;
    struct tt_batch batch = {.first = head, .model = model};
    for (struct tt_request *r = head; r && r->step == head->step; r = tt_fifo_next(fifo, r)) {
        if (batch.count > 0 && batch.rows + r->rows > limit)
            break;
        batch.count++;
        batch.rows += r->rows;
        if (r->length > batch.length)
            batch.length = r->length;
    }
    return batch;
}

/* count = 0: no request waits. O(models + requests in the batches). */
static struct tt_batch shortest(const struct tt_policy *self) {
    const struct tt_queues *queues = &self->queues;
    struct tt_batch best = {.count = 0};
    int64_t best_ns = TT_NEVER;
    for (int32_t m = 0; m < queues->domain->model_capacity; m++) {
        if (queues->fifos[m].count == 0)
            continue;
        struct tt_batch batch = form(self, m);
        int64_t ns = tt_queues_duration(queues, m, batch.rows, batch.length);
        if (best.count == 0 || ns < best_ns) {
            best = batch;
            best_ns = ns;
        }
    }
    return best;
}

/* All events of this instant are known. A policy first drops what is lost, then runs batches until
 * there is no idle executor or nothing to run. It must not leave an idle executor and a batch that
 * it would run: the mechanism does not call again before the next event or next_at. */
static void shortest_decide(struct tt_policy *self, int64_t now, struct tt_mechanism *actions) {
    struct tt_queues *queues = &self->queues;
    tt_queues_drop_hopeless(queues, now, actions);
    const struct tt_heap_entry *idle;
    while ((idle = tt_heap_top(&queues->idle))) { /* the smallest number */
        struct tt_batch batch = shortest(self);
        if (batch.count == 0)
            break;
        tt_queues_run(queues, actions, idle->id, &batch);
        tt_queues_drop_hopeless(queues, now, actions); /* the new head may be hopeless already */
    }
}

/* ---- making one ---- */

/* The only place that allocates. `values` are the options, read and checked. */
static enum tt_err shortest_init(struct tt_policy *self, const struct tt_policy_setup *setup,
                                 const int64_t *values, struct tt_error *why) {
    (void)why; /* for options that do not fit each other; NO_MEMORY needs no message */
    self->max_batch = (int32_t)values[MAX_BATCH];
    return tt_queues_init(&self->queues, setup, TT_FIFO_ARRIVAL, values[DROP] != 0);
}

/* What the mechanism calls. The queues do all of it but the decision: see policy/queued.h, and
 * write your own where your policy keeps more. */
static const struct tt_policy_ops ops = {
    .arrived = tt_queued_arrived,
    .finished = tt_queued_finished,
    .cancelled = tt_queued_cancelled,
    .decide = shortest_decide,
    .next_at = tt_queued_next_at,
    .model_changed = tt_queued_model_changed,
    .executor_changed = tt_queued_executor_changed,
    .check = tt_queued_check,
    .free = tt_queued_free,
};

/* In `tutti serve` requests that are lost are dropped unless the configuration says otherwise. */
static const struct tt_option server_defaults[] = {TT_DROP_DEADLINE_OPTION};

/* What the policy is, as data. The test test_policy_kinds checks it against the callbacks. */
extern const struct tt_policy_kind tt_shortest_kind;
const struct tt_policy_kind tt_shortest_kind = {
    .name = "shortest",
    .summary = "the batch that takes the least time runs first",
    .traits = {.granularity = TT_GRANULARITY_GRAPH, /* a task runs all steps */
               .runs_as_they_came = true,
               .needs_profiles = true, /* or all batches would take no time */
               .default_depth = 1},
    .serving = {.defaults = server_defaults,
                .default_count = TT_COUNT(server_defaults),
                .computes_late = TT_DROP_NONE_OPTION},
    .options = options,
    .option_count = OPTION_COUNT,
    .state_bytes = sizeof(struct tt_policy),
    .init = shortest_init,
    .ops = &ops,
};
