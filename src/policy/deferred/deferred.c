#include "policy/deferred/deferred.h"

#include "base/instant.h"
#include "policy/deferred/deferred_rank.h"

#include <stdlib.h>

struct tt_policy {
    struct tt_deferred_model model;
    struct tt_deferred_rank rank;
    const struct tt_mechanism *domain;
    int32_t *changed; /* models to be formed in the next decision, each once */
    int32_t changed_count;
    bool *is_changed;
};

/* ---- decisions ---- */

static void mark(struct tt_policy *self, int32_t model) {
    if (self->is_changed[model])
        return;
    self->is_changed[model] = true;
    self->changed[self->changed_count++] = model;
}

static void publish(struct tt_policy *self, int64_t now, int32_t model) {
    tt_deferred_model_form(&self->model, model, now, &self->rank.candidates[model]);
    tt_deferred_rank_renewed(&self->rank, now, model);
}

TT_APART static void measure(struct tt_policy *self, int64_t now) {
    int64_t elapsed_ns;
    if (!tt_deferred_model_tick(&self->model, now, &elapsed_ns))
        return;
    for (int32_t m = 0; m < self->model.count; m++) {
        struct tt_deferred_load load;
        tt_deferred_model_measure(&self->model, m, elapsed_ns, &load);
        tt_deferred_rank_load(&self->rank, &load);
    }
    struct tt_deferred_fleet fleet;
    tt_deferred_rank_fleet(&self->rank, &fleet);
    tt_deferred_model_fleet(&self->model, &fleet);
}

static void drop_all(struct tt_policy *self, struct tt_mechanism *actions) {
    struct tt_list_node *node;
    while ((node = tt_list_first(&self->model.dropped))) {
        struct tt_request *request = tt_request_of(tt_ticket_at(node));
        tt_list_remove(node);
        tt_mechanism_drop(actions, request, (enum tt_drop_reason)request->drop_reason);
    }
}

static inline void drop_given_up(struct tt_policy *self, struct tt_mechanism *actions) {
    if (!tt_list_empty(&self->model.dropped))
        drop_all(self, actions);
}

static void grant(struct tt_policy *self, int64_t now, struct tt_deferred_grant *granted,
                  struct tt_mechanism *actions) {
    struct tt_deferred_batch batch;
    struct tt_deferred_dispatched answer;
    granted->delay = tt_mechanism_delay(self->domain, granted->executor, self->model.options.delay);
    tt_deferred_model_granted(&self->model, now, granted, &batch, &answer);
    drop_given_up(self, actions);
    if (answer.taken) {
        int32_t last_step = self->domain->models[granted->model]->step_count - 1;
        struct tt_task *task =
            tt_mechanism_run_begin(actions, granted->executor, granted->model, 0, last_step);
        struct tt_list *tickets = &self->model.queues[granted->model].tickets;
        for (int32_t i = 0; i < batch.count; i++) {
            struct tt_list_node *node = tt_list_first(tickets);
            struct tt_request *request = tt_request_of(tt_ticket_at(node));
            tt_deferred_fetch_ahead(tt_ticket_at(node));
            tt_list_remove(node);
            if (request->length > task->length)
                task->length = request->length;
            tt_mechanism_run_add(actions, request);
        }
        tt_mechanism_run_commit(actions, answer.start_at);
    }
    tt_deferred_rank_dispatched(&self->rank, now, &answer);
    publish(self, now, granted->model);
    drop_given_up(self, actions);
}

TT_APART static void grant_all(struct tt_policy *self, int64_t now, struct tt_mechanism *actions) {
    struct tt_deferred_grant granted;
    while (tt_deferred_rank_next(&self->rank, now, &granted)) {
        grant(self, now, &granted, actions);
        if (tt_deferred_rank_quiet(&self->rank, now))
            return;
    }
}

static void deferred_decide(struct tt_policy *self, int64_t now, struct tt_mechanism *actions) {
    if (self->domain->beliefs)
        self->model.options.lateness_ns = self->domain->lateness.believed_ns;
    if (tt_deferred_model_tick_due(&self->model, now))
        measure(self, now);
    for (int32_t i = 0; i < self->changed_count; i++) {
        self->is_changed[self->changed[i]] = false;
        publish(self, now, self->changed[i]);
    }
    self->changed_count = 0;
    int32_t due;
    while ((due = tt_deferred_model_due(&self->model, now)) >= 0)
        publish(self, now, due);
    drop_given_up(self, actions);
    if (!tt_deferred_rank_quiet(&self->rank, now))
        grant_all(self, now, actions);
}

static int64_t deferred_next_at(const struct tt_policy *self) {
    return tt_instant_min(tt_deferred_model_next_at(&self->model),
                          tt_deferred_rank_next_at(&self->rank));
}

/* ---- events ---- */

static void deferred_arrived(struct tt_policy *self, int64_t now, struct tt_request *request) {
    (void)now;
    tt_assert(request->step == 0); /* the family runs whole graphs only */
    tt_deferred_model_arrived(&self->model, &request->ticket);
    mark(self, request->model);
}

static void deferred_cancelled(struct tt_policy *self, int64_t now, struct tt_request *request) {
    (void)now;
    tt_deferred_model_cancelled(&self->model, &request->ticket);
    mark(self, request->model);
}

static void deferred_finished(struct tt_policy *self, int64_t now, const struct tt_task *task) {
    tt_deferred_rank_finished(&self->rank, now, task->executor);
    if (task->outcome == TT_OUTCOME_DONE)
        return;
    for (int32_t i = 0; i < task->count; i++) {
        struct tt_request *request = task->items[i].request;
        if (request->state != TT_REQUEST_QUEUED)
            continue;
        tt_deferred_model_returned(&self->model, &request->ticket);
        mark(self, request->model);
    }
}

static void deferred_model_changed(struct tt_policy *self, int64_t now, int32_t model,
                                   enum tt_change change) {
    if (change == TT_CHANGE_ADDED) {
        tt_deferred_model_add(&self->model, model, self->domain->models[model]);
    } else if (change == TT_CHANGE_BELIEF) {
        tt_deferred_model_believe(&self->model, model);
        mark(self, model);
    } else if (change == TT_CHANGE_GONE) {
        publish(self, now, model);
        tt_deferred_model_remove(&self->model, model);
        /* The model no longer uses the devices. */
        struct tt_deferred_load none = {.model = model};
        tt_deferred_rank_load(&self->rank, &none);
    }
}

/* S4: the timers count with the longest delay of the executors that are up. */
static void believe_delay(struct tt_policy *self) {
    struct tt_network_delay known = self->model.options.delay;
    struct tt_network_delay delay = tt_mechanism_longest_delay(self->domain, known);
    if (delay.control_ns == known.control_ns && delay.data_ns == known.data_ns)
        return;
    tt_deferred_model_delay(&self->model, delay);
    for (int32_t m = 0; m < self->model.count; m++)
        if (self->model.queues[m].model)
            mark(self, m);
}

static void deferred_executor_changed(struct tt_policy *self, int64_t now, int32_t executor,
                                      enum tt_change change) {
    if (change == TT_CHANGE_ADDED)
        tt_deferred_rank_add(&self->rank, now, executor, self->domain->executors[executor].depth);
    else if (change != TT_CHANGE_BELIEF)
        tt_deferred_rank_remove(&self->rank, executor);
    tt_deferred_model_executors(&self->model, self->rank.up);
    if (self->domain->delays)
        believe_delay(self);
}

static void deferred_check(const struct tt_policy *self) {
    tt_deferred_model_check(&self->model);
    tt_deferred_rank_check(&self->rank);
    tt_assert(self->changed_count == 0 || self->is_changed[self->changed[0]]);
    for (int32_t m = 0; m < self->model.count; m++) {
        const struct tt_deferred_queue *q = &self->model.queues[m];
        const struct tt_deferred_candidate *c = &self->rank.candidates[m];
        if (!q->model || self->is_changed[m])
            continue;
        tt_assert(c->generation == q->generation); /* the rank half has the newest candidate */
        tt_assert(c->size <= q->rows - q->skipped_rows);
        tt_assert((c->size == 0) == (q->count == 0));
    }
    for (int32_t i = 0; i < self->domain->executor_capacity; i++)
        tt_assert(self->rank.executors[i].queued == self->domain->executors[i].queued);
}

static void deferred_free(struct tt_policy *take_self) {
    tt_deferred_model_fini(&take_self->model);
    tt_deferred_rank_fini(&take_self->rank);
    free(take_self->changed);
    free(take_self->is_changed);
    free(take_self);
}

/* ---- kinds ---- */

static const struct tt_policy_ops deferred_ops = {
    .arrived = deferred_arrived,
    .finished = deferred_finished,
    .cancelled = deferred_cancelled,
    .decide = deferred_decide,
    .next_at = deferred_next_at,
    .model_changed = deferred_model_changed,
    .executor_changed = deferred_executor_changed,
    .check = deferred_check,
    .free = deferred_free,
};

enum { OFF, ON };
#define SWITCH "off|on"

enum {
    FLOOR,
    TARGET,
    PSI_CAP,
    DEFER,
    GAP,
    SLACK,
    BETA,
    REFORM,
    CREDIT,
    CREDIT_STEP,
    SPLIT,
    KEY,
    OVERLOAD,
    CLOSED_LOOP,
    LOOKAHEAD,
    BESIDE,
};
static const struct tt_option_spec deferred_options[] = {
    [FLOOR] = TT_CHOICE_SPEC(
        "floor", "off|sustainable|bmax|staggered|fixed", TT_FLOOR_SUSTAINABLE,
        "minimum batch size when requests must be dropped: the oldest are dropped early "
        "until a batch of this size is in time. off: no early drops; sustainable: the "
        "smallest size with which the devices can serve the load; bmax: the rows that "
        "arrive while the oldest request can wait; staggered: the largest b with (1 + 1/N) "
        "latency(b) <= SLO on N devices; fixed: the option target"),
    [TARGET] = TT_INTEGER_SPEC("target", 1, TT_PROFILE_MAX_BATCH, 1,
                               "fixed: the minimum batch size in rows"),
    [PSI_CAP] = TT_PERMILLE_SPEC(
        "psi_cap", 0, 1000, 800,
        "sustainable: upper limit of the minimum batch size, as a share of the rows "
        "that arrive while the oldest request can wait"),
    [DEFER] = TT_CHOICE_SPEC(
        "defer", "none|partial|full", TT_DEFER_PARTIAL,
        "how long a batch that can still grow waits; none: not at all; partial: up to the limits "
        "gap_factor, slack_limit and beta_limit; full: until one more row would make it late"),
    [GAP] = TT_PERMILLE_SPEC(
        "gap_factor", 0, 100000, 3000,
        "defer partial: how much earlier than with defer full a batch starts, in mean times "
        "between two batches"),
    [SLACK] = TT_PERMILLE_SPEC(
        "slack_limit", 0, 1000, 500,
        "defer partial: upper limit of how much earlier a batch starts, as a share of the "
        "wait of defer full"),
    [BETA] = TT_PERMILLE_SPEC(
        "beta_limit", 0, 100000, 1500,
        "defer partial: maximum wait, in multiples of the profile's fixed time per batch; 0: "
        "no limit"),
    [REFORM] = TT_CHOICE_SPEC(
        "reform_at_latest", SWITCH, ON,
        "whether a smaller batch is formed as soon as the present one can no longer start "
        "in time; off: at the next arrival, dispatch or deadline"),
    [CREDIT] = TT_CHOICE_SPEC("credit", SWITCH, ON,
                              "whether models that have dropped requests go before others"),
    [CREDIT_STEP] = TT_DURATION_SPEC(
        "credit_step", 0, TT_S, 100 * TT_US,
        "credit: how much earlier the start time of a model counts for each dropped request"),
    [SPLIT] = TT_CHOICE_SPEC(
        "split", SWITCH, ON,
        "whether waiting requests are divided among all idle executors; off: one batch "
        "takes as many as fit"),
    [KEY] = TT_CHOICE_SPEC(
        "key", "latest|deadline", TT_KEY_LATEST,
        "which model goes first; latest: the one whose batch must start soonest; deadline: "
        "the one with the earliest deadline"),
    [OVERLOAD] = TT_CHOICE_SPEC(
        "overload", SWITCH, ON,
        "whether batches grow larger under overload: a higher minimum batch size, and "
        "waiting up to defer full"),
    [CLOSED_LOOP] = TT_CHOICE_SPEC(
        "closed_loop", SWITCH, OFF,
        "whether a batch starts early once all clients wait: as many requests wait as were in "
        "each of the last five batches, and none arrived while such a batch ran"),
    [LOOKAHEAD] = TT_CHOICE_SPEC(
        "lookahead", SWITCH, ON,
        "whether a batch drops more of the oldest requests where that loses fewer of all that "
        "wait, given when each executor becomes free; only where early drops are on and there are "
        "at most 64 executors"),
    [BESIDE] = TT_CHOICE_SPEC(
        "beside", "always|pays", 1,
        "whether a batch starts beside running ones of its device; pays: only if the profile's "
        "demands predict that the device has enough capacity left"),
};

static struct tt_deferred_options extended_options(const int64_t *v, bool by_load) {
    return (struct tt_deferred_options){
        .floor = (enum tt_deferred_floor)v[FLOOR],
        .defer = (enum tt_deferred_defer)v[DEFER],
        .key = (enum tt_deferred_key)v[KEY],
        .reform_at_latest = v[REFORM] == ON,
        .credit = v[CREDIT] == ON,
        .split = v[SPLIT] == ON,
        .overload = v[OVERLOAD] == ON,
        .closed_loop = v[CLOSED_LOOP] == ON,
        .lookahead = v[LOOKAHEAD] == ON && v[FLOOR] != TT_FLOOR_OFF,
        .beside_pays = v[BESIDE] == 1,
        .by_load = by_load,
        .target = (int32_t)v[TARGET],
        .psi_cap_ppm = v[PSI_CAP] * 1000,
        .gap_permille = v[GAP],
        .slack_permille = v[SLACK],
        .beta_permille = v[BETA],
        .credit_step_ns = v[CREDIT_STEP],
    };
}

/* The options of the published rules. `delay` and `share` are for `timeout` only. */
enum { DROP, PLAIN_REFORM, DELAY, SHARE };
#define PLAIN_OPTIONS                                                                              \
    [DROP] = TT_CHOICE_SPEC(                                                                       \
        "drop", "prefix|target|staggered", 0,                                                      \
        "which requests are dropped early to keep larger batches in time; prefix: none; "          \
        "target: the oldest, to keep the rows that arrive while a request can wait; "              \
        "staggered: the oldest, to keep the largest b with (1 + 1/N) latency(b) <= SLO on "        \
        "N devices"),                                                                              \
    [PLAIN_REFORM] =                                                                               \
        TT_CHOICE_SPEC("reform_at_latest", SWITCH, OFF,                                            \
                       "whether a smaller batch is formed as soon as the present one can no "      \
                       "longer start in time")
static const struct tt_option_spec plain_options[] = {PLAIN_OPTIONS};
static const struct tt_option_spec timeout_options[] = {
    PLAIN_OPTIONS,
    [DELAY] = TT_DURATION_SPEC("delay", 0, 3600 * TT_S, 5 * TT_MS,
                               "how long the oldest request waits for others to share its batch"),
    [SHARE] = TT_PERMILLE_SPEC(
        "share", 0, 1000, 0,
        "the same, as a share of the time between its arrival and its deadline; 0: use delay"),
};

static struct tt_deferred_options published_options(enum tt_deferred_defer defer,
                                                    const int64_t *v) {
    static const enum tt_deferred_floor floors[] = {TT_FLOOR_OFF, TT_FLOOR_BMAX,
                                                    TT_FLOOR_STAGGERED};
    bool waits = defer == TT_DEFER_TIMEOUT;
    return (struct tt_deferred_options){
        .floor = floors[v[DROP]],
        .defer = defer,
        .key = TT_KEY_LATEST,
        .reform_at_latest = v[PLAIN_REFORM] == ON,
        .delay_ns = waits ? v[DELAY] : 0,
        .delay_permille = waits ? v[SHARE] : 0,
    };
}

static struct tt_deferred_options options_of(const struct tt_policy_kind *kind, const int64_t *v) {
    if (kind == &tt_deferred_kind || kind == &tt_adaptive_kind)
        return extended_options(v, kind == &tt_adaptive_kind);
    if (kind == &tt_eager_kind)
        return published_options(TT_DEFER_NONE, v);
    if (kind == &tt_symphony_kind)
        return published_options(TT_DEFER_FULL, v);
    return published_options(TT_DEFER_TIMEOUT, v);
}

enum tt_err tt_deferred_options_parse(const struct tt_policy_kind *kind,
                                      const struct tt_option *given, int32_t count,
                                      struct tt_deferred_options *out_options,
                                      struct tt_error *why) {
    if (kind->ops != &deferred_ops)
        return tt_fail(TT_ERR_UNSUPPORTED, why,
                       "policy %s does not split into halves; adaptive, deferred, eager, symphony "
                       "and timeout do",
                       kind->name);
    int64_t v[TT_MAX_OPTIONS];
    enum tt_err err = tt_options_parse(kind->options, kind->option_count, given, count, v, why);
    if (err)
        return err;
    *out_options = options_of(kind, v);
    return TT_OK;
}

static enum tt_err deferred_init(struct tt_policy *self, const struct tt_policy_setup *setup,
                                 const int64_t *values, struct tt_error *why) {
    (void)why;
    int32_t models = setup->domain->model_capacity;
    int32_t executors = setup->domain->executor_capacity;
    struct tt_deferred_options options = options_of(setup->kind, values);
    options.delay = (struct tt_network_delay){setup->d_ctrl_ns, setup->d_data_ns};
    options.lateness_ns = setup->lateness_ns;
    options.reform_at_latest |= tt_deferred_must_reform(setup->domain);
    self->domain = setup->domain;
    self->changed = calloc((size_t)models, sizeof(*self->changed));
    self->is_changed = calloc((size_t)models, sizeof(*self->is_changed));
    if (!self->changed || !self->is_changed)
        return TT_ERR_NO_MEMORY;
    enum tt_err err = tt_deferred_model_init(&self->model, models, &options);
    bool ahead = setup->d_ctrl_ns > 0 || setup->d_data_ns > 0 || setup->domain->delays;
    if (!err)
        err = tt_deferred_rank_init(&self->rank, models, executors, ahead);
    if (options.beside_pays)
        self->rank.sharing = &setup->domain->sharing;
    return err || !options.lookahead ? err : tt_deferred_rank_free_times_reserve(&self->rank);
}

/* HTTP clients often send a request after the answer to the last one. */
static const struct tt_option server_defaults[] = {{"closed_loop", "on"}};

const struct tt_policy_kind tt_adaptive_kind = {
    .name = "adaptive",
    .summary =
        "deferred, but batches wait only as the load requires (the default for models with an "
        "SLO)",
    .traits = {.first_step_only = true,
               .needs_profiles = true,
               .drops_early = true,
               .default_depth = 1},
    .serving = {.defaults = server_defaults, .default_count = TT_COUNT(server_defaults)},
    .options = deferred_options,
    .option_count = (int32_t)TT_COUNT(deferred_options),
    .state_bytes = sizeof(struct tt_policy),
    .init = deferred_init,
    .ops = &deferred_ops,
};
const struct tt_policy_kind tt_deferred_kind = {
    .name = "deferred",
    .summary = "batches wait for more requests as long as load and deadlines allow",
    .traits = {.first_step_only = true,
               .needs_profiles = true,
               .drops_early = true,
               .default_depth = 1},
    .serving = {.defaults = server_defaults, .default_count = TT_COUNT(server_defaults)},
    .options = deferred_options,
    .option_count = (int32_t)TT_COUNT(deferred_options),
    .state_bytes = sizeof(struct tt_policy),
    .init = deferred_init,
    .ops = &deferred_ops,
};
const struct tt_policy_kind tt_eager_kind = {
    .name = "eager",
    .summary = "runs the largest batch that is in time whenever an executor is idle",
    .traits = {.first_step_only = true, .needs_profiles = true, .default_depth = 1},
    .options = plain_options,
    .option_count = (int32_t)TT_COUNT(plain_options),
    .state_bytes = sizeof(struct tt_policy),
    .init = deferred_init,
    .ops = &deferred_ops,
};
const struct tt_policy_kind tt_symphony_kind = {
    .name = "symphony",
    .summary = "Symphony as published: a batch starts when it is full, or when one more row would "
               "make it late",
    .traits = {.first_step_only = true, .needs_profiles = true, .default_depth = 1},
    .options = plain_options,
    .option_count = (int32_t)TT_COUNT(plain_options),
    .state_bytes = sizeof(struct tt_policy),
    .init = deferred_init,
    .ops = &deferred_ops,
};
const struct tt_policy_kind tt_timeout_kind = {
    .name = "timeout",
    .summary =
        "runs the largest batch that is in time, once its oldest request has waited for the delay",
    .traits = {.first_step_only = true, .needs_profiles = true, .default_depth = 1},
    .options = timeout_options,
    .option_count = (int32_t)TT_COUNT(timeout_options),
    .state_bytes = sizeof(struct tt_policy),
    .init = deferred_init,
    .ops = &deferred_ops,
};
