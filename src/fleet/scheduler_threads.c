#include "fleet/scheduler_threads.h"

#include "base/log/log.h"
#include "multicore/threaded_policy.h"
#include "record/recorder_streams.h"

#include <stdlib.h>

/* A pool's mechanism while it is recorded. */
struct tt_recorded_pool {
    const struct tt_mechanism *mechanism;
    struct tt_recorder_streams streams;
    struct tt_recorded_pool *next;
};

/* ---- the recording ---- */

static enum tt_err record(struct tt_scheduler_threads *self, struct tt_mechanism *mechanism,
                          const struct tt_policy_setup *setup,
                          const struct tt_mechanism_options *limits, struct tt_error *why) {
    struct tt_record_domain domain = {.policy = (char *)self->policy.name,
                                      .option_count = setup->option_count,
                                      .limits = *limits,
                                      .d_ctrl_ns = setup->d_ctrl_ns,
                                      .d_data_ns = setup->d_data_ns,
                                      .scheduler_threads = self->count};
    for (int32_t i = 0; i < setup->option_count; i++)
        domain.options[i] = setup->options[i];
    struct tt_recorded_pool *pool = calloc(1, sizeof(*pool));
    if (!pool)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a recording");
    pool->mechanism = mechanism;
    pool->next = self->recorded;
    self->recorded = pool;
    return tt_recorder_streams_add(self->recorder, mechanism, &domain, &pool->streams, why);
}

static void destroyed(void *context, struct tt_mechanism *mechanism) {
    struct tt_scheduler_threads *self = context;
    for (struct tt_recorded_pool **at = &self->recorded; *at; at = &(*at)->next) {
        struct tt_recorded_pool *pool = *at;
        if (pool->mechanism != mechanism)
            continue;
        *at = pool->next;
        tt_recorder_streams_leave(&pool->streams);
        free(pool);
        return;
    }
}

/* ---- the policy ---- */

static enum tt_err start(struct tt_scheduler_threads *self, struct tt_mechanism *mechanism,
                         bool is_again, struct tt_error *why) {
    struct tt_error refused;
    enum tt_err err = tt_threaded_policy_start(mechanism->policy, &refused);
    if (!err || !is_again)
        return err ? tt_fail(err, why, "%s", refused.text) : TT_OK;
    tt_log_write(self->log, TT_LOG_WARNING, NULL,
                 "cluster: %s; this scheduler goes on without threads", refused.text);
    return TT_OK;
}

static enum tt_err create(void *context, struct tt_mechanism *mechanism,
                          const struct tt_policy_setup *setup,
                          const struct tt_mechanism_options *limits, bool is_again,
                          struct tt_error *why) {
    struct tt_scheduler_threads *self = context;
    const struct tt_threaded_policy_options options = {.threads = self->count,
                                                       .max_batch = limits->max_batch,
                                                       .request_limit = limits->request_limit,
                                                       .wake = self->wake,
                                                       .wake_context = self->node};
    enum tt_err err = self->count > 0 ? tt_threaded_policy_create(mechanism, self->policy.name,
                                                                  setup, &options, why)
                                      : tt_policy_create(mechanism, self->policy.name, setup, why);
    if (err)
        return err;
    struct tt_error refused;
    if (self->recorder)
        err = record(self, mechanism, setup, limits, &refused);
    if (err && is_again) { /* requests matter more */
        tt_log_write(self->log, TT_LOG_WARNING, NULL,
                     "cluster: %s; this scheduler goes on without a recording", refused.text);
        err = TT_OK;
    } else if (err) {
        tt_fail(err, why, "%s", refused.text);
    }
    if (!err && self->count > 0)
        err = start(self, mechanism, is_again, why);
    if (err) {
        tt_policy_destroy(mechanism);
        destroyed(self, mechanism);
    }
    return err;
}

void tt_scheduler_threads_init(struct tt_scheduler_threads *self, int32_t count,
                               void (*wake)(void *node), void *node, struct tt_log *log,
                               struct tt_recorder *recorder) {
    *self = (struct tt_scheduler_threads){
        .count = count,
        .node = node,
        .wake = wake,
        .log = log,
        .recorder = recorder,
        .policy = {
            .name = TT_CLUSTER_POLICY, .create = create, .destroyed = destroyed, .context = self}};
}
