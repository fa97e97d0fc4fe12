#include "fleet/scaling_service.h"

#include "base/clock.h"
#include "base/instant.h"
#include "base/log/log.h"

#include <stdlib.h>
#include <string.h>

enum { DRAINS, CALLS, OBSERVED_SILENCES = 10, MAX_BACKOFFS = 60 };

static const int64_t look_ns = TT_S;

/* ---- life ---- */

static enum tt_err set_limits(const struct tt_scaling_options *options, const char *pool,
                              const int32_t *devices, struct tt_pool_scaler_settings *settings,
                              struct tt_error *why) {
    const struct tt_scaling_limit *limit = NULL;
    for (int32_t i = 0; i < options->limit_count; i++)
        if (strcmp(options->limits[i].pool, pool) == 0)
            limit = &options->limits[i];
    if (!limit)
        return TT_OK;
    int32_t sum = 0;
    settings->least = settings->most = 0;
    for (int32_t i = 0; i < settings->node_count; i++) {
        settings->least += sum < limit->least;
        settings->most += sum < limit->most;
        sum += devices[i];
    }
    if (limit->most > sum)
        return tt_fail(TT_ERR_INVALID, why,
                       "pool %s has %d devices in the description; the limit %d:%d is beyond that",
                       pool, sum, limit->least, limit->most);
    return TT_OK;
}

static enum tt_err open_pool(struct tt_scaling_service *self, int32_t number,
                             struct tt_error *why) {
    const struct tt_cluster_settings *cluster = self->role->settings;
    const struct tt_scaling_options *options = self->options;
    struct tt_scaling_pool *pool = &self->pools[number];
    int32_t *devices = calloc((size_t)cluster->node_count, sizeof(*devices)), count = 0;
    pool->number = (uint16_t)number;
    pool->nodes = calloc((size_t)cluster->node_count, sizeof(*pool->nodes));
    tt_text_init(&pool->last);
    for (int32_t i = 0; devices && pool->nodes && i < cluster->node_count; i++)
        if (cluster->nodes[i].role == TT_ROLE_BACKEND && cluster->nodes[i].pool == number) {
            devices[count] = cluster->nodes[i].devices;
            pool->nodes[count++] = (uint16_t)i;
        }
    struct tt_pool_scaler_settings settings = {.devices = devices,
                                               .node_count = count,
                                               .least = 1,
                                               .most = count,
                                               .hold_ns = options->hold_ns,
                                               .deliver_ns = options->deliver_ns,
                                               .drain_ns = options->drain_ns,
                                               .retry_ns = options->retry_ns,
                                               .retry_most_ns = MAX_BACKOFFS * options->retry_ns,
                                               .start_up_ns = options->start_up_ns};
    enum tt_err err = tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    if (devices && pool->nodes)
        err = set_limits(options, tt_cluster_pool_name(cluster, pool->number), devices, &settings,
                         why);
    if (!err && tt_pool_scaler_init(&pool->scaler, &settings))
        err = tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    free(devices);
    return err;
}

static enum tt_err check_limits(const struct tt_scaling_service *self, struct tt_error *why) {
    for (int32_t i = 0; i < self->options->limit_count; i++) {
        const char *name = self->options->limits[i].pool;
        bool is_there = false;
        for (int32_t k = 0; k < self->pool_count; k++)
            is_there |= strcmp(name, tt_cluster_pool_name(self->role->settings, (uint16_t)k)) == 0;
        if (!is_there)
            return tt_fail(TT_ERR_INVALID, why, "there is no pool '%.64s' to be scaled", name);
    }
    return TT_OK;
}

enum tt_err tt_scaling_service_init(struct tt_scaling_service *self, struct tt_fleet_node *node,
                                    struct tt_scheduler_role *role,
                                    struct tt_cluster_demand *demand, struct tt_error *why) {
    *self = (struct tt_scaling_service){.node = node,
                                        .role = role,
                                        .demand = demand,
                                        .options = tt_fleet_node_options(node)->scaling,
                                        .began_at = tt_clock_now(),
                                        .look_at = TT_NEVER};
    if (!self->options)
        return TT_OK;
    self->was_linked = calloc((size_t)role->settings->node_count, sizeof(*self->was_linked));
    self->pools = calloc((size_t)role->pool_count, sizeof(*self->pools));
    if (!self->was_linked || !self->pools)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    enum tt_err err = TT_OK;
    while (!err && self->pool_count < role->pool_count)
        err = open_pool(self, self->pool_count++, why);
    return err ? err : check_limits(self, why);
}

void tt_scaling_service_fini(struct tt_scaling_service *self) {
    if (self->advice)
        tt_scaling_job_abandon(self->advice);
    for (int32_t i = 0; i < TT_SCALING_LANES; i++) {
        struct tt_scaling_job *job = self->lanes[i].first, *next;
        if (job) {
            next = job->next;
            tt_scaling_job_abandon(job);
            while ((job = next)) {
                next = job->next;
                tt_scaling_job_free(job);
            }
        }
    }
    for (int32_t i = 0; i < self->pool_count; i++) {
        tt_pool_scaler_fini(&self->pools[i].scaler);
        tt_text_fini(&self->pools[i].last);
        free(self->pools[i].nodes);
    }
    free(self->pools);
    free(self->was_linked);
    *self = (struct tt_scaling_service){.look_at = TT_NEVER};
}

/* ---- what is seen ---- */

void tt_scaling_service_linked(struct tt_scaling_service *self, uint16_t peer, enum tt_link link) {
    if (self->options && link != TT_LINK_LOST)
        self->was_linked[peer] = link == TT_LINK_UP;
}

static bool has_usable(const struct tt_scheduler_role *role, uint16_t node, bool *out_is_idle) {
    bool found = false;
    *out_is_idle = true;
    for (int32_t i = role->first_device[node]; i < role->first_device[node + 1]; i++) {
        found |= role->devices[i].is_usable;
        *out_is_idle &= role->devices[i].count == 0;
    }
    return found;
}

static enum tt_pool_node_state state_of(const struct tt_scheduler_role *role, uint16_t node) {
    bool is_idle, is_usable = has_usable(role, node, &is_idle);
    switch (role->peers[node].state) {
    case TT_PEER_DOWN:
    case TT_PEER_DEAD: return TT_POOL_NODE_ABSENT;
    case TT_PEER_KNOWN: return is_usable ? TT_POOL_NODE_SERVING : TT_POOL_NODE_BUSY;
    case TT_PEER_LEAVING: return is_idle ? TT_POOL_NODE_DRAINED : TT_POOL_NODE_LEAVING;
    case TT_PEER_UNKNOWN:
    case TT_PEER_SUSPECT:
    case TT_PEER_AVOIDED: break;
    }
    return TT_POOL_NODE_BUSY;
}

static void observe(struct tt_scaling_service *self, int64_t now) {
    for (int32_t i = 0; i < self->pool_count; i++) {
        struct tt_scaling_pool *pool = &self->pools[i];
        for (int32_t k = 0; k < pool->scaler.settings.node_count; k++)
            tt_pool_scaler_observe(&pool->scaler, now, k, state_of(self->role, pool->nodes[k]));
    }
}

/* ---- what is done ---- */

static const char *pool_name(const struct tt_scaling_service *self,
                             const struct tt_scaling_pool *pool) {
    return tt_cluster_pool_name(self->role->settings, pool->number);
}

static void note(const struct tt_scaling_service *self, const struct tt_scaling_pool *pool,
                 enum tt_log_level level) {
    tt_log_write(tt_fleet_node_options(self->node)->log, level, NULL, "cluster: pool %s: %s",
                 pool_name(self, pool), tt_text_string(&pool->last));
}

static void say_event(const struct tt_scaling_service *self, struct tt_scaling_pool *pool,
                      enum tt_pool_event event) {
    const struct tt_pool_scaler *scaler = &pool->scaler;
    if (event == TT_POOL_QUIET)
        return;
    tt_text_clear(&pool->last);
    if (event == TT_POOL_DELIVERED)
        tt_text_printf(&pool->last, "%d device%s run", tt_pool_scaler_serving(scaler),
                       tt_plural(tt_pool_scaler_serving(scaler)));
    else if (event == TT_POOL_LATE)
        tt_text_printf(
            &pool->last, "%s promised %d devices %lld s ago, and %d serve; it is asked again",
            self->options->provider.name, tt_pool_scaler_devices(scaler, scaler->asked),
            (long long)(scaler->settings.deliver_ns / TT_S), tt_pool_scaler_serving(scaler));
    else
        tt_text_printf(&pool->last,
                       event == TT_POOL_DRAIN_LATE
                           ? "node %s has not ended its work in %lld s and is stopped"
                           : "node %s takes work although it was to drain for %lld s; it goes on",
                       tt_fleet_node_name(self->node, pool->nodes[scaler->goal]),
                       (long long)(scaler->settings.drain_ns / TT_S));
    note(self, pool, event == TT_POOL_DELIVERED ? TT_LOG_INFO : TT_LOG_WARNING);
}

static void put(struct tt_scaling_lane *lane, struct tt_scaling_job *take_job) {
    if (lane->last)
        lane->last->next = take_job;
    else
        lane->first = take_job;
    lane->last = take_job;
    if (lane->first == take_job)
        tt_scaling_job_start(take_job);
}

static void take_first(struct tt_scaling_lane *lane) {
    struct tt_scaling_job *next = lane->first->next;
    lane->first = next;
    if (next)
        tt_scaling_job_start(next);
    else
        lane->last = NULL;
}

/* What follows from the end of a job is not left for the next second. */
static void look_soon(struct tt_scaling_service *self) {
    if (self->epoch)
        self->look_at = tt_clock_now();
}

static int32_t index_in(const struct tt_scaling_pool *pool, uint16_t node) {
    int32_t i = 0;
    while (pool->nodes[i] != node)
        i++;
    return i;
}

static void on_drained(void *owner, struct tt_scaling_job *job) {
    struct tt_scaling_service *self = owner;
    struct tt_scaling_pool *pool = &self->pools[job->pool];
    take_first(&self->lanes[DRAINS]);
    look_soon(self);
    if (job->err && job->epoch == self->epoch) {
        tt_text_clear(&pool->last);
        tt_text_printf(&pool->last, "node %s cannot be drained: %s",
                       tt_fleet_node_name(self->node, job->drained), job->why.text);
        note(self, pool, TT_LOG_WARNING);
        tt_pool_scaler_drain_failed(&pool->scaler, tt_clock_now(), index_in(pool, job->drained));
    }
}

static void on_called(void *owner, struct tt_scaling_job *job) {
    struct tt_scaling_service *self = owner;
    struct tt_scaling_pool *pool = &self->pools[job->pool];
    take_first(&self->lanes[CALLS]);
    look_soon(self);
    if (job->epoch == self->epoch) {
        tt_text_clear(&pool->last);
        if (job->err)
            tt_text_printf(&pool->last, "%s does not run %d devices: %s",
                           self->options->provider.name, job->request.devices, job->why.text);
        else
            tt_text_printf(&pool->last, "%s promises %d device%s", self->options->provider.name,
                           job->request.devices, tt_plural(job->request.devices));
        note(self, pool, job->err ? TT_LOG_WARNING : TT_LOG_INFO);
    }
    tt_pool_scaler_answered(&pool->scaler, tt_clock_now(), job->serial, job->err, job->found);
}

static void drain(struct tt_scaling_service *self, struct tt_scaling_pool *pool, int64_t now,
                  int32_t node) {
    struct tt_scaling_job *job = tt_scaling_job_new(TT_SCALING_DRAIN, self->node, self, on_drained);
    if (!job) {
        tt_pool_scaler_drain_failed(&pool->scaler, now, node);
        return;
    }
    job->pool = pool->number;
    job->epoch = self->epoch;
    job->drained = pool->nodes[node];
    put(&self->lanes[DRAINS], job);
}

/* Copies of names and voters. False: out of memory. */
static bool fill_call(const struct tt_scaling_service *self, const struct tt_scaling_pool *pool,
                      struct tt_scaling_job *job) {
    const struct tt_cluster_settings *cluster = self->role->settings;
    int32_t count = pool->scaler.settings.node_count;
    const char **names = calloc((size_t)count, sizeof(*names));
    job->request.names = names;
    job->voters = calloc((size_t)cluster->node_count, sizeof(*job->voters));
    if (!names || !job->voters)
        return false;
    for (int32_t i = 0; i < count; i++)
        names[i] = tt_fleet_node_name(self->node, pool->nodes[i]);
    for (int32_t i = 0; i < cluster->node_count; i++)
        if (self->was_linked[i] && cluster->nodes[i].role != TT_ROLE_SCHEDULER)
            job->voters[job->voter_count++] = (uint16_t)i;
    return true;
}

/* NULL: out of memory. */
static struct tt_scaling_job *new_call(struct tt_scaling_service *self,
                                       const struct tt_scaling_pool *pool,
                                       enum tt_scaling_work work, tt_scaling_done_fn *done) {
    struct tt_scaling_job *job = tt_scaling_job_new(work, self->node, self, done);
    if (!job || !fill_call(self, pool, job)) {
        tt_scaling_job_free(job);
        return NULL;
    }
    job->pool = pool->number;
    job->epoch = job->request.epoch = self->epoch;
    job->provider = &self->options->provider;
    job->request.pool = pool_name(self, pool);
    job->request.node_count = pool->scaler.settings.node_count;
    return job;
}

static void call(struct tt_scaling_service *self, struct tt_scaling_pool *pool, int64_t now,
                 const struct tt_pool_action *action) {
    struct tt_scaling_job *job = new_call(self, pool, TT_SCALING_CALL, on_called);
    if (!job) {
        tt_pool_scaler_answered(&pool->scaler, now, action->serial, TT_ERR_NO_MEMORY, -1);
        return;
    }
    job->serial = action->serial;
    job->request.count = action->count;
    job->request.devices = tt_pool_scaler_devices(&pool->scaler, action->count);
    job->request.before = pool->scaler.before;
    put(&self->lanes[CALLS], job);
}

static void on_looked(void *owner, struct tt_scaling_job *job) {
    struct tt_scaling_service *self = owner;
    struct tt_scaling_pool *pool = &self->pools[job->pool];
    take_first(&self->lanes[CALLS]);
    pool->looks = false;
    if (job->epoch != self->epoch)
        return;
    if (!job->err) {
        tt_pool_scaler_found(&pool->scaler, tt_clock_now(), job->found);
        look_soon(self);
        return;
    }
    pool->look_at = tt_instant_add(tt_clock_now(), self->options->retry_ns);
    tt_text_clear(&pool->last);
    tt_text_printf(&pool->last, "%s does not say what runs: %s", self->options->provider.name,
                   job->why.text);
    note(self, pool, TT_LOG_WARNING);
}

/* A primary that knows nothing yet asks the provider. */
static void look(struct tt_scaling_service *self, struct tt_scaling_pool *pool, int64_t now) {
    if (pool->scaler.stage != TT_POOL_OBSERVING || !self->options->provider.look || pool->looks ||
        now < pool->look_at)
        return;
    struct tt_scaling_job *job = new_call(self, pool, TT_SCALING_LOOK, on_looked);
    if (!job)
        return;
    pool->looks = true;
    put(&self->lanes[CALLS], job);
}

/* Backends of a cluster that starts come later than its primary; a provider that cannot be asked
 * gets no call before they had the time. */
static int64_t observed_at(const struct tt_scaling_service *self, int64_t now) {
    int64_t settled_at =
        now + tt_instant_max(look_ns, OBSERVED_SILENCES * self->role->settings->silence_ns);
    if (self->options->provider.look)
        return TT_NEVER;
    return tt_instant_max(settled_at, tt_instant_add(self->began_at, self->options->deliver_ns));
}

static void act(struct tt_scaling_service *self, struct tt_scaling_pool *pool, int64_t now) {
    bool is_planning = self->role->models.placement.stage != TT_PLACEMENT_NONE;
    for (;;) {
        const struct tt_pool_scaler *scaler = &pool->scaler;
        if (is_planning && scaler->stage == TT_POOL_STEADY &&
            tt_pool_scaler_target(scaler) < scaler->asked)
            return; /* a plan is dropped if one of its backends leaves */
        struct tt_pool_action action = tt_pool_scaler_step(&pool->scaler, now);
        say_event(self, pool, action.event);
        if (action.verb == TT_POOL_DRAIN)
            drain(self, pool, now, action.node);
        else if (action.verb == TT_POOL_CALL)
            call(self, pool, now, &action);
        if (action.verb == TT_POOL_NOTHING && action.event == TT_POOL_QUIET)
            return;
    }
}

/* ---- advice ---- */

/* The share of rows that were dropped or late in the last seconds; 0 while devices come or go, and
 * after that until they have served so long. */
static double count_bad(const struct tt_scaling_service *self, struct tt_scaling_pool *pool) {
    const struct tt_scheduler_pool *seen = &self->role->pools[pool->number];
    if (!tt_pool_scaler_is_settled(&pool->scaler)) {
        pool->counts = 0;
        return 0;
    }
    int32_t place = pool->counts++ % TT_RATE_WINDOW_S;
    int64_t came = seen->came - pool->counted[place].came;
    int64_t bad = seen->dropped + seen->late - pool->counted[place].bad;
    pool->counted[place].came = seen->came;
    pool->counted[place].bad = seen->dropped + seen->late;
    bool is_counted = pool->counts > TT_RATE_WINDOW_S && came > 0;
    return is_counted ? (double)(bad < came ? bad : came) / (double)came : 0; /* some came before */
}

static struct tt_pool_advice ask_pool(const struct tt_scaling_service *self,
                                      struct tt_scaling_pool *pool) {
    struct tt_pool_advice advice = {.start_up_s =
                                        tt_start_up_time_of(&pool->scaler.start_up).seconds,
                                    .feedback = pool->feedback,
                                    .in_force = tt_pool_scaler_serving(&pool->scaler),
                                    .bad = count_bad(self, pool)};
    bool is_new = pool->counts > TT_RATE_WINDOW_S && pool->counts % TT_RATE_WINDOW_S == 1;
    if (is_new && advice.in_force > 0)
        advice.span_s = TT_RATE_WINDOW_S;
    return advice;
}

static void on_advised(void *owner, struct tt_scaling_job *job) {
    struct tt_scaling_service *self = owner;
    self->advice = NULL;
    for (int32_t i = 0; job->epoch == self->epoch && i < self->pool_count; i++) {
        const struct tt_pool_advice *advice = &job->advice[i];
        self->pools[i].feedback = advice->feedback;
        tt_pool_scaler_advise(&self->pools[i].scaler, tt_clock_now(), &advice->wanted, advice->bad);
    }
}

static void ask_advice(struct tt_scaling_service *self) {
    size_t models = (size_t)self->role->settings->model_count;
    struct tt_scaling_job *job =
        self->advice ? NULL : tt_scaling_job_new(TT_SCALING_ADVICE, self->node, self, on_advised);
    if (!job)
        return; /* the last one is not ready, or there is no memory: the next look is soon */
    job->epoch = self->epoch;
    job->pool_count = self->pool_count;
    job->demand = tt_cluster_demand_copy(self->demand);
    job->homes = calloc(models, sizeof(*job->homes));
    job->advice = calloc((size_t)self->pool_count, sizeof(*job->advice));
    if (!job->homes || !job->advice || !job->demand.is_known) {
        tt_scaling_job_free(job);
        return;
    }
    double longest_s = 0;
    struct tt_devices_feedback feedback = {0};
    for (int32_t i = 0; i < self->pool_count; i++) {
        const struct tt_pool_advice *advice = &job->advice[i];
        job->advice[i] = ask_pool(self, &self->pools[i]);
        longest_s = advice->start_up_s > longest_s ? advice->start_up_s : longest_s;
        if (advice->feedback.factor > feedback.factor)
            feedback = advice->feedback;
    }
    tt_cluster_demand_starts(self->demand, longest_s, feedback);
    memcpy(job->homes, self->role->models.placement.homes, models * sizeof(*job->homes));
    self->advice = job;
    tt_scaling_job_start(job);
}

/* ---- ticks ---- */

static uint64_t epoch_now(const struct tt_scaling_service *self) {
    return self->role->is_primary ? self->role->primary.epoch : 0;
}

void tt_scaling_service_tick(struct tt_scaling_service *self, int64_t now) {
    if (!self->options)
        return;
    uint64_t epoch = epoch_now(self);
    if (epoch != self->epoch) {
        self->epoch = epoch;
        self->look_at = epoch ? now : TT_NEVER;
        for (int32_t i = 0; i < self->pool_count; i++) {
            self->pools[i].look_at = now + look_ns; /* when links are there */
            if (epoch)
                tt_pool_scaler_lead(&self->pools[i].scaler, observed_at(self, now));
            else
                tt_pool_scaler_yield(&self->pools[i].scaler);
        }
    }
    if (epoch == 0 || now < tt_scaling_service_next_at(self))
        return;
    if (now >= self->look_at) {
        self->look_at = now + look_ns;
        ask_advice(self);
    }
    observe(self, now);
    for (int32_t i = 0; i < self->pool_count; i++) {
        look(self, &self->pools[i], now);
        act(self, &self->pools[i], now);
    }
    tt_scaling_service_check(self);
}

int64_t tt_scaling_service_next_at(const struct tt_scaling_service *self) {
    if (self->options && epoch_now(self) != self->epoch)
        return 0;
    return self->look_at;
}

void tt_scaling_service_check(const struct tt_scaling_service *self) {
    for (int32_t i = 0; i < self->pool_count; i++)
        tt_pool_scaler_check(&self->pools[i].scaler);
    tt_assert(self->epoch == 0 || self->options);
    for (int32_t i = 0; i < TT_SCALING_LANES; i++)
        tt_assert((self->lanes[i].first == NULL) == (self->lanes[i].last == NULL));
}
