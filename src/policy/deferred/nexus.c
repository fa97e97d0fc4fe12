#include "policy/deferred/nexus.h"

#include "base/instant.h"
#include "policy/deferred/nexus_plan.h"
#include "policy/queued.h"

#include <stdlib.h>
#include <string.h>

enum { NONE = -1 };

struct session {
    struct tt_fifo fifo;
    int32_t next_of_model; /* in order of creation; NONE: the last */
};

struct tt_policy {
    struct tt_queues queues; /* requests without a session; idle executors */
    struct tt_nexus_plan plan;
    struct session *sessions;  /* parallel to plan.sessions */
    int64_t *credits;          /* [session][frontend] */
    int32_t *first_of_model;   /* [model_capacity] */
    int32_t *node_of_executor; /* [executor_capacity] */
    int32_t *executor_of_node; /* [executor_capacity] */
    int32_t *served_last;      /* [executor_capacity]: session */
    struct tt_heap to_serve;   /* executors that may be idle with waiting requests, by number */
    int64_t *rows_seen,
        *rates; /* [model_capacity]: rows of this epoch; rates of the last; 0: unknown */
    int64_t *planned_rates;
    int64_t epoch_ns, epoch_at; /* TT_NEVER: none has begun */
    int32_t frontends;
    bool plan_again;
};
TT_QUEUED_POLICY;

enum { EPOCH, FRONTENDS, OPTION_COUNT };

static const struct tt_option_spec options[OPTION_COUNT] = {
    [EPOCH] = TT_DURATION_SPEC("epoch", TT_MS, 3600 * TT_S, 10 * TT_S,
                               "how often the models are assigned to devices"),
    [FRONTENDS] = TT_INTEGER_SPEC(
        "frontends", 1, 64, 1,
        "number of frontends that distribute requests to devices independently of each other"),
};

/* The session of the model whose turn it is at the frontend; NONE: no session. */
static int32_t deal(struct tt_policy *self, const struct tt_request *request) {
    int64_t frontend = request->number % self->frontends, total = 0;
    int32_t best = NONE;
    int64_t *best_credit = NULL;
    for (int32_t s = self->first_of_model[request->model]; s != NONE;
         s = self->sessions[s].next_of_model) {
        int64_t *credit = &self->credits[s * (int64_t)self->frontends + frontend];
        *credit += self->plan.sessions[s].rate;
        total += self->plan.sessions[s].rate;
        if (best == NONE || *credit > *best_credit) {
            best = s;
            best_credit = credit;
        }
    }
    if (best != NONE)
        *best_credit -= total;
    return best;
}

static void put(struct tt_policy *self, struct tt_request *request) {
    int32_t session = deal(self, request);
    request->policy_word = session;
    if (session == NONE) {
        tt_queues_put(&self->queues, request);
        return;
    }
    tt_fifo_insert(&self->sessions[session].fifo, request);
    int32_t executor = self->executor_of_node[self->plan.sessions[session].node];
    tt_heap_set(&self->to_serve, executor, executor, 0);
}

static void nexus_arrived(struct tt_policy *self, int64_t now, struct tt_request *request) {
    (void)now;
    self->rows_seen[request->model] += request->rows;
    put(self, request);
}

static void nexus_finished(struct tt_policy *self, int64_t now, const struct tt_task *task) {
    (void)now;
    for (int32_t i = 0; i < task->count; i++)
        if (task->items[i].request->state == TT_REQUEST_QUEUED)
            put(self, task->items[i].request);
    tt_queues_executor_freed(&self->queues, task->executor);
    tt_heap_set(&self->to_serve, task->executor, task->executor, 0);
}

static void nexus_cancelled(struct tt_policy *self, int64_t now, struct tt_request *request) {
    (void)now;
    if (request->policy_word == NONE)
        tt_queues_take(&self->queues, request);
    else
        tt_fifo_remove(&self->sessions[request->policy_word].fifo, request);
}

/* Takes all requests out of their sessions. */
static void gather(struct tt_policy *self) {
    for (int32_t s = 0; s < self->plan.session_count; s++) {
        struct tt_request *request;
        while ((request = tt_fifo_first(&self->sessions[s].fifo))) {
            tt_fifo_remove(&self->sessions[s].fifo, request);
            request->policy_word = NONE;
            tt_queues_put(&self->queues, request);
        }
    }
}

/* Computes the rates of the epoch, in rows per 1000 s. At least one row counts. */
static void close_epoch(struct tt_policy *self, int64_t now) {
    int64_t elapsed_ns = now - self->epoch_at;
    for (int32_t m = 0; m < self->queues.domain->model_capacity; m++) {
        int64_t rows = self->rows_seen[m] > 0 ? self->rows_seen[m] : 1;
        int64_t rate = (int64_t)((__int128)rows * TT_NEXUS_RATE_NS / elapsed_ns);
        self->rates[m] = self->queues.domain->models[m] ? (rate > 0 ? rate : 1) : 0;
        self->rows_seen[m] = 0;
    }
    self->epoch_at = now;
}

/* The rates to plan with: a model of unknown rate gets the mean of the others. */
static void fill_planned_rates(struct tt_policy *self) {
    int32_t known = 0;
    __int128 sum = 0;
    for (int32_t m = 0; m < self->queues.domain->model_capacity; m++) {
        known += self->rates[m] > 0;
        sum += self->rates[m];
    }
    int64_t mean = known ? (int64_t)(sum / known) : TT_NEXUS_RATE_NS / TT_S;
    for (int32_t m = 0; m < self->queues.domain->model_capacity; m++)
        self->planned_rates[m] = self->rates[m] > 0 ? self->rates[m] : mean;
}

static void link_sessions(struct tt_policy *self) {
    const struct tt_mechanism *domain = self->queues.domain;
    for (int32_t m = 0; m < domain->model_capacity; m++)
        self->first_of_model[m] = NONE;
    for (int32_t s = self->plan.session_count - 1; s >= 0; s--) {
        int32_t model = self->plan.sessions[s].model;
        tt_fifo_init(&self->sessions[s].fifo, TT_FIFO_DEADLINE, &self->queues.late);
        self->sessions[s].next_of_model = self->first_of_model[model];
        self->first_of_model[model] = s;
    }
    memset(self->credits, 0,
           (size_t)self->plan.session_count * (size_t)self->frontends * sizeof(*self->credits));
    for (int32_t e = 0, node = 0; e < domain->executor_capacity; e++) {
        bool used = domain->executors[e].state == TT_EXECUTOR_UP && node < self->plan.node_count;
        self->node_of_executor[e] = used ? node : NONE;
        self->served_last[e] = NONE;
        if (used)
            self->executor_of_node[node++] = e;
    }
}

static void make_plan(struct tt_policy *self) {
    const struct tt_mechanism *domain = self->queues.domain;
    self->plan_again = false;
    gather(self);
    fill_planned_rates(self);
    int32_t up = 0;
    for (int32_t e = 0; e < domain->executor_capacity; e++)
        up += domain->executors[e].state == TT_EXECUTOR_UP;
    tt_nexus_plan_make(&self->plan, domain->models, self->planned_rates, up);
    link_sessions(self);
    for (int32_t m = 0; m < domain->model_capacity; m++) {
        struct tt_request *request;
        while (self->first_of_model[m] != NONE &&
               (request = tt_fifo_first(&self->queues.fifos[m]))) {
            tt_queues_take(&self->queues, request);
            put(self, request);
        }
    }
}

/* The batch that the session runs now: drops heads until the planned batch is in time. rows = 0: no
 * request is left. */
static struct tt_batch slide(struct tt_policy *self, int64_t now, struct tt_mechanism *actions,
                             int32_t s) {
    struct tt_fifo *fifo = &self->sessions[s].fifo;
    struct tt_request *head;
    while ((head = tt_fifo_first(fifo))) {
        int32_t planned = self->plan.sessions[s].batch;
        int32_t limit = head->rows > planned ? head->rows : planned;
        struct tt_batch wanted = tt_queues_prefix(&self->queues, fifo, head, INT64_MIN, limit);
        struct tt_batch batch = tt_queues_prefix(&self->queues, fifo, head, now, limit);
        if (batch.count == wanted.count)
            return batch;
        tt_fifo_remove(fifo, head);
        tt_mechanism_drop(actions, head, batch.count > 0 ? TT_DROP_EARLY : TT_DROP_DEADLINE);
    }
    return (struct tt_batch){.count = 0};
}

static void run(struct tt_policy *self, struct tt_mechanism *actions, int32_t executor, int32_t s,
                const struct tt_batch *batch) {
    struct tt_queues *queues = &self->queues;
    struct tt_fifo *fifo = &self->sessions[s].fifo;
    tt_mechanism_run_begin(actions, executor, batch->model, batch->first->step,
                           queues->domain->models[batch->model]->step_count - 1);
    for (int32_t i = 0; i < batch->count; i++) {
        struct tt_request *request = tt_fifo_first(fifo);
        tt_fifo_remove(fifo, request);
        tt_mechanism_run_add(actions, request);
    }
    tt_heap_remove(&queues->idle, executor);
    tt_mechanism_run_commit(actions,
                            tt_queues_arrives_at(queues, actions->now, executor, batch->rows));
}

/* Gives an idle executor the batch of the session whose turn it is. */
static void serve(struct tt_policy *self, int64_t now, struct tt_mechanism *actions,
                  int32_t executor) {
    int32_t node = self->node_of_executor[executor];
    if (node == NONE || !tt_heap_contains(&self->queues.idle, executor))
        return;
    int32_t first = self->plan.nodes[node].first_session;
    int32_t last = self->served_last[executor];
    int32_t start = last == NONE ? NONE : self->plan.sessions[last].next_of_node;
    start = start == NONE ? first : start;
    int32_t s = start;
    do {
        struct tt_batch batch = slide(self, now, actions, s);
        if (batch.count > 0) {
            self->served_last[executor] = s;
            run(self, actions, executor, s, &batch);
            return;
        }
        s = self->plan.sessions[s].next_of_node;
        s = s == NONE ? first : s;
    } while (s != start);
}

static void nexus_decide(struct tt_policy *self, int64_t now, struct tt_mechanism *actions) {
    if (self->epoch_at == TT_NEVER) {
        self->epoch_at = now;
    } else if (now - self->epoch_at >= self->epoch_ns) {
        close_epoch(self, now);
        self->plan_again = true;
    }
    if (self->plan_again)
        make_plan(self);
    tt_queues_drop_hopeless(&self->queues, now, actions);
    const struct tt_heap_entry *top;
    while ((top = tt_heap_top(&self->to_serve))) {
        int32_t executor = top->id;
        tt_heap_remove(&self->to_serve, executor);
        serve(self, now, actions, executor);
    }
}

static void nexus_model_changed(struct tt_policy *self, int64_t now, int32_t model,
                                enum tt_change change) {
    (void)now;
    self->plan_again = true; /* also for a belief: a planned batch may no longer be in time */
    tt_queues_model_changed(&self->queues, model, change);
    if (change != TT_CHANGE_GONE)
        return;
    /* None of its requests waits; its sessions must not be visited before the next plan. */
    for (int32_t s = self->first_of_model[model]; s != NONE; s = self->sessions[s].next_of_model)
        tt_assert(self->sessions[s].fifo.count == 0);
    self->first_of_model[model] = NONE;
    self->rates[model] = self->rows_seen[model] = 0;
}

static void nexus_executor_changed(struct tt_policy *self, int64_t now, int32_t executor,
                                   enum tt_change change) {
    (void)now;
    tt_queues_executor_changed(&self->queues, executor, change);
    self->plan.delay = self->queues.delay;
    self->plan_again = true;
}

static void nexus_check(const struct tt_policy *self) {
    tt_queues_check(&self->queues);
    tt_heap_check(&self->to_serve);
    for (int32_t s = 0; s < self->plan.session_count; s++) {
        const struct tt_nexus_session *planned = &self->plan.sessions[s];
        const struct tt_fifo *fifo = &self->sessions[s].fifo;
        tt_assert(planned->node >= 0 && planned->node < self->plan.node_count);
        tt_assert(planned->batch >= 1);
        tt_fifo_check(fifo, planned->model);
        for (struct tt_request *r = tt_fifo_first(fifo); r; r = tt_fifo_next(fifo, r))
            tt_assert(r->policy_word == s);
        /* No request waits for an idle executor. */
        int32_t executor = self->executor_of_node[planned->node];
        tt_assert(fifo->count == 0 || !tt_heap_contains(&self->queues.idle, executor) ||
                  tt_heap_contains(&self->to_serve, executor) || self->plan_again);
    }
}

static void nexus_free(struct tt_policy *take_self) {
    tt_nexus_plan_fini(&take_self->plan);
    tt_heap_fini(&take_self->to_serve);
    free(take_self->sessions);
    free(take_self->credits);
    free(take_self->first_of_model);
    free(take_self->node_of_executor);
    free(take_self->executor_of_node);
    free(take_self->served_last);
    free(take_self->rows_seen);
    free(take_self->rates);
    free(take_self->planned_rates);
    tt_queued_free(take_self);
}

static enum tt_err state_init(struct tt_policy *self, const struct tt_policy_setup *setup) {
    size_t models = (size_t)setup->domain->model_capacity;
    size_t executors = (size_t)setup->domain->executor_capacity, sessions = models + executors;
    self->sessions = calloc(sessions, sizeof(*self->sessions));
    self->credits = calloc(sessions * (size_t)self->frontends, sizeof(*self->credits));
    self->first_of_model = calloc(models, sizeof(*self->first_of_model));
    self->node_of_executor = calloc(executors, sizeof(*self->node_of_executor));
    self->executor_of_node = calloc(executors, sizeof(*self->executor_of_node));
    self->served_last = calloc(executors, sizeof(*self->served_last));
    self->rows_seen = calloc(models, sizeof(*self->rows_seen));
    self->rates = calloc(models, sizeof(*self->rates));
    self->planned_rates = calloc(models, sizeof(*self->planned_rates));
    bool all = self->sessions && self->credits && self->first_of_model && self->node_of_executor &&
               self->executor_of_node && self->served_last && self->rows_seen && self->rates &&
               self->planned_rates;
    enum tt_err err = all ? TT_OK : TT_ERR_NO_MEMORY;
    if (!err)
        err = tt_heap_init(&self->to_serve, (int32_t)executors);
    if (!err)
        err = tt_nexus_plan_init(&self->plan, (int32_t)models, (int32_t)executors,
                                 self->queues.delay);
    return err;
}

static enum tt_err nexus_init(struct tt_policy *self, const struct tt_policy_setup *setup,
                              const int64_t *values, struct tt_error *why) {
    (void)why;
    self->epoch_ns = values[EPOCH];
    self->frontends = (int32_t)values[FRONTENDS];
    self->epoch_at = TT_NEVER;
    self->plan_again = true;
    enum tt_err err = tt_queues_init(&self->queues, setup, TT_FIFO_DEADLINE, true);
    if (!err)
        err = state_init(self, setup);
    for (int32_t m = 0; !err && m < setup->domain->model_capacity; m++)
        self->first_of_model[m] = NONE;
    return err;
}

static const struct tt_policy_ops ops = {
    .arrived = nexus_arrived,
    .finished = nexus_finished,
    .cancelled = nexus_cancelled,
    .decide = nexus_decide,
    .next_at = tt_queued_next_at,
    .model_changed = nexus_model_changed,
    .executor_changed = nexus_executor_changed,
    .check = nexus_check,
    .free = nexus_free,
};

const struct tt_policy_kind tt_nexus_kind = {
    .name = "nexus",
    .summary = "packs models onto devices every epoch; round robin on each device; drops old "
               "requests to keep the planned batch",
    .traits = {.needs_profiles = true, .drops_early = true, .default_depth = 1},
    .options = options,
    .option_count = OPTION_COUNT,
    .state_bytes = sizeof(struct tt_policy),
    .init = nexus_init,
    .ops = &ops,
};
