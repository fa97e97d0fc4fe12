#include "lab/autoscale/proxy_servers.h"

#include "base/instant.h"
#include "lab/scenario/allocate.h"
#include "scale/devices_wanted.h"

#include <math.h>
#include <stdlib.h>

enum {
    HALVINGS = 10,
    LOOKS = 20,
    PARTS = 5, /* of a sample: looks at the queue */
    SAMPLES = PARTS * TT_PROXY_SAMPLED,
};
static const double tolerance = 0.1;   /* changes of the queue that count as none */
static const double load_share = 0.8;  /* of the highest rate, for the target */
static const double least_queue = 0.1; /* of a target: below it nothing can be told from none */

/* ---- what one server holds ---- */

/* The share of bad requests of one server at this rate, and its mean queue. */
static double bad_at(struct tt_fleet_world *world, double per_s, double *out_queue) {
    struct tt_fleet_count sum = {0};
    double queue = 0;
    tt_fleet_world_set_rates(world, &per_s);
    (void)tt_fleet_world_run(world, TT_S / 4);
    for (int32_t i = 0; i < LOOKS; i++) {
        struct tt_fleet_span span = tt_fleet_world_run(world, TT_S / LOOKS);
        sum.ok += span.total.ok;
        sum.bad += span.total.bad;
        queue += tt_fleet_world_in_system(world) / (double)LOOKS;
    }
    *out_queue = queue;
    return tt_fleet_bad_share(&sum);
}

static void find_target(struct tt_proxy_pool *pool, const struct tt_fleet_world_model *model) {
    /* No device serves more than its largest batches back to back. */
    double low = 0, queue;
    double high =
        model->max_batch * 1e9 / (double)tt_profile_latency(model->profile, model->max_batch, 0);
    for (int32_t i = 0; i < HALVINGS; i++) {
        double middle = (low + high) / 2;
        if (bad_at(pool->worlds[0], middle, &queue) <= TT_DEVICES_BAD_SHARE)
            low = middle;
        else
            high = middle;
    }
    pool->highest_per_s = low;
    (void)bad_at(pool->worlds[0], load_share * low, &queue);
    pool->target_queue = fmax(queue, least_queue);
}

static enum tt_err pool_init(struct tt_proxy_pool *pool, const struct tt_proxy_options *options,
                             int32_t number, struct tt_error *why) {
    *pool = (struct tt_proxy_pool){.below_since_s = -1};
    for (int32_t i = 0; i < TT_PROXY_SAMPLED; i++) {
        struct tt_fleet_world_options world = options->world;
        world.models = &options->world.models[number];
        world.model_count = world.capacity = world.devices = 1;
        world.seed += (uint64_t)(number * TT_PROXY_SAMPLED + i + 1);
        enum tt_err err = tt_fleet_world_new(&world, &pool->worlds[i], why);
        if (err)
            return err;
    }
    find_target(pool, &options->world.models[number]);
    double held = load_share * pool->highest_per_s;
    double servers = held > 0 ? ceil(options->per_s[number] / held) : 1;
    pool->up = (int32_t)fmin(fmax(servers, 1), options->most);
    return TT_OK;
}

enum tt_err tt_proxy_servers_init(struct tt_proxy_servers *self,
                                  const struct tt_proxy_options *options, struct tt_error *why) {
    int32_t count = options->world.model_count;
    *self = (struct tt_proxy_servers){.pools = tt_allocate((size_t)count, sizeof(*self->pools)),
                                      .pool_count = count,
                                      .most = options->most,
                                      .start_up_s = options->start_up_s,
                                      .hold_s = options->hold_s};
    enum tt_err err = TT_OK;
    for (int32_t m = 0; !err && m < count; m++)
        err = pool_init(&self->pools[m], options, m, why);
    if (err)
        tt_proxy_servers_fini(self);
    return err;
}

void tt_proxy_servers_fini(struct tt_proxy_servers *self) {
    for (int32_t m = 0; m < self->pool_count; m++)
        for (int32_t i = 0; i < TT_PROXY_SAMPLED; i++)
            tt_fleet_world_free(self->pools[m].worlds[i]);
    free(self->pools);
    *self = (struct tt_proxy_servers){0};
}

/* ---- a step ---- */

static int32_t servers_of(const struct tt_proxy_servers *self, bool with_starting) {
    int32_t sum = 0;
    for (int32_t m = 0; m < self->pool_count; m++)
        sum += self->pools[m].up + (with_starting ? self->pools[m].starting : 0);
    return sum;
}

static void shrink(const struct tt_proxy_servers *self, struct tt_proxy_pool *pool, double now_s,
                   int32_t desired) {
    if (pool->below_since_s < 0) {
        pool->below_since_s = now_s;
        pool->highest = desired;
    }
    pool->highest = desired > pool->highest ? desired : pool->highest;
    if (now_s - pool->below_since_s < self->hold_s)
        return;
    pool->up = pool->highest;
    pool->below_since_s = -1;
}

/* ceil(N queue / target), as autoscalers of queues do; one start at a time. */
static void look(const struct tt_proxy_servers *self, struct tt_proxy_pool *pool, double now_s,
                 double queue) {
    double ratio = queue / pool->target_queue;
    int32_t room = self->most - servers_of(self, true);
    int32_t desired = (int32_t)fmin(fmax(ceil(pool->up * ratio), 1), self->most);
    if (fabs(ratio - 1) <= tolerance)
        desired = pool->up;
    if (desired < pool->up && pool->starting == 0) {
        shrink(self, pool, now_s, desired);
        return;
    }
    pool->below_since_s = -1;
    int32_t more = desired - pool->up < room ? desired - pool->up : room;
    if (more > 0 && pool->starting == 0) {
        pool->starting = more;
        pool->starts_at_s = now_s + self->start_up_s;
    }
}

struct pool_count {
    int64_t ok, bad;
    double queue; /* mean, of a server */
};

static struct pool_count run_pool(const struct tt_proxy_pool *pool, double per_s,
                                  int64_t sample_ns) {
    struct pool_count sum = {0};
    for (int32_t i = 0; i < TT_PROXY_SAMPLED; i++) {
        tt_fleet_world_set_rates(pool->worlds[i], &per_s);
        for (int32_t part = 0; part < PARTS; part++) {
            struct tt_fleet_span span = tt_fleet_world_run(pool->worlds[i], sample_ns / PARTS);
            sum.ok += span.total.ok;
            sum.bad += span.total.bad;
            sum.queue += tt_fleet_world_in_system(pool->worlds[i]) / (double)SAMPLES;
        }
    }
    return sum;
}

struct tt_proxy_step tt_proxy_servers_step(struct tt_proxy_servers *self, double now_s,
                                           const double *per_s, int64_t sample_ns) {
    struct tt_proxy_step step = {.servers = servers_of(self, false)};
    double bad_per_s = 0, sample_s = (double)sample_ns / 1e9;
    for (int32_t m = 0; m < self->pool_count; m++) {
        struct tt_proxy_pool *pool = &self->pools[m];
        struct pool_count count = run_pool(pool, per_s[m] / pool->up, sample_ns);
        double weight = pool->up / (TT_PROXY_SAMPLED * sample_s);
        step.good_per_s += (double)count.ok * weight;
        bad_per_s += (double)count.bad * weight;
        look(self, pool, now_s, count.queue);
    }
    for (int32_t m = 0; m < self->pool_count; m++) {
        struct tt_proxy_pool *pool = &self->pools[m];
        if (pool->starting > 0 && now_s >= pool->starts_at_s) {
            pool->up += pool->starting;
            pool->starting = 0;
        }
    }
    double all_per_s = step.good_per_s + bad_per_s;
    step.bad = all_per_s > 0 ? bad_per_s / all_per_s : 0;
    return step;
}
