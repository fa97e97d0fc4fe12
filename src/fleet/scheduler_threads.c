#include "fleet/scheduler_threads.h"

#include "base/log/log.h"
#include "multicore/threaded_policy.h"

static enum tt_err create(void *context, struct tt_mechanism *mechanism,
                          const struct tt_policy_setup *setup,
                          const struct tt_mechanism_options *limits, bool is_again,
                          struct tt_error *why) {
    const struct tt_scheduler_threads *self = context;
    const struct tt_threaded_policy_options options = {.threads = self->count,
                                                       .max_batch = limits->max_batch,
                                                       .request_limit = limits->request_limit,
                                                       .wake = self->wake,
                                                       .wake_context = self->node};
    enum tt_err err = tt_threaded_policy_create(mechanism, self->policy.name, setup, &options, why);
    if (err)
        return err;
    struct tt_error refused;
    err = tt_threaded_policy_start(mechanism->policy, &refused);
    if (err && is_again) {
        tt_log_write(self->log, TT_LOG_WARNING, NULL,
                     "cluster: %s; this scheduler goes on without threads", refused.text);
        return TT_OK;
    }
    if (err) {
        tt_policy_destroy(mechanism);
        return tt_fail(err, why, "%s", refused.text);
    }
    return TT_OK;
}

void tt_scheduler_threads_init(struct tt_scheduler_threads *self, int32_t count,
                               void (*wake)(void *node), void *node, struct tt_log *log) {
    *self = (struct tt_scheduler_threads){
        .count = count,
        .node = node,
        .wake = wake,
        .log = log,
        .policy = {.name = "deferred", .create = count > 0 ? create : NULL, .context = self}};
}
