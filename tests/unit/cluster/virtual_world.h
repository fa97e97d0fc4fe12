/* The cluster that the tests of this folder run: two schedulers, two frontends, four backends of
 * two devices, three models. */
#ifndef TUTTI_TESTS_VIRTUAL_WORLD_H
#define TUTTI_TESTS_VIRTUAL_WORLD_H

#include "base/instant.h"
#include "base/prng.h"
#include "cluster/virtual_cluster.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { WORLD_NODES = 8, WORLD_MODELS = 3, WORLD_FIRST_BACKEND = 4 };

#define WORLD_SLO (50 * TT_MS)

struct virtual_world {
    struct tt_profile *profile;
    struct tt_step step;
    struct tt_step_model models[WORLD_MODELS];
    const struct tt_step_model *pointers[WORLD_MODELS];
    struct tt_cluster_node nodes[WORLD_NODES];
    struct tt_cluster_settings settings;
    struct tt_scheduler_policy policy;
};

static inline void virtual_world_init(struct virtual_world *self) {
    *self = (struct virtual_world){.policy = {.name = "deferred"}};
    struct tt_error why;
    assert_int_equal(tt_profile_new_linear(50 * TT_US, TT_MS, 32, &self->profile, &why), TT_OK);
    self->step = (struct tt_step){.name = "all", .profile = self->profile};
    for (int32_t i = 0; i < WORLD_MODELS; i++) {
        self->models[i] = (struct tt_step_model){.name = "m",
                                                 .step_count = 1,
                                                 .steps = &self->step,
                                                 .whole = self->profile,
                                                 .slo_ns = WORLD_SLO,
                                                 .max_batch = 32};
        self->pointers[i] = &self->models[i];
    }
    for (int32_t i = 0; i < WORLD_NODES; i++)
        self->nodes[i] =
            (struct tt_cluster_node){.role = i < 2                     ? TT_ROLE_SCHEDULER
                                             : i < WORLD_FIRST_BACKEND ? TT_ROLE_FRONTEND
                                                                       : TT_ROLE_BACKEND,
                                     .devices = i < WORLD_FIRST_BACKEND ? 0 : 2};
    self->settings = (struct tt_cluster_settings){.node_count = WORLD_NODES,
                                                  .nodes = self->nodes,
                                                  .model_count = WORLD_MODELS,
                                                  .models = self->pointers,
                                                  .silence_ns = 20 * TT_MS,
                                                  .beat_ns = 2 * TT_MS,
                                                  .ask_ns = 2 * TT_MS,
                                                  .control_ns = TT_MS,
                                                  .learn_percent = TT_BELIEF_PERCENT,
                                                  .learns_delays = true,
                                                  .overdue_ns = 5 * TT_MS,
                                                  .fetch_ns = 5 * TT_MS,
                                                  .patience_ns = TT_S,
                                                  .vacancy_ns = 30 * TT_MS,
                                                  .grace_ns = 100 * TT_MS,
                                                  .request_limit = 4096,
                                                  .depth = 2};
}

static inline void virtual_world_fini(struct virtual_world *self) {
    tt_profile_free(self->profile);
}

/* 2,000 requests/s for a second: a tenth of what the devices can do in large batches. */
static inline struct tt_virtual_options virtual_world_options(const struct virtual_world *self,
                                                              uint64_t seed) {
    return (struct tt_virtual_options){.settings = &self->settings,
                                       .policy = &self->policy,
                                       .seed = seed,
                                       .until_at = TT_S,
                                       .gap_ns = 500 * TT_US,
                                       .slo_ns = WORLD_SLO,
                                       .delay_ns = 50 * TT_US,
                                       .link_timeout_ns = 200 * TT_MS,
                                       .loss_permille = 10,
                                       .check_every = 64};
}

/* Faults of any kind at any node, one each `gap_ns` from `first_at` on, of 1 ms to `most_ns` more.
 */
static inline void virtual_world_draw_faults(struct tt_prng *prng, int64_t first_at, int64_t gap_ns,
                                             int64_t most_ns, int32_t count,
                                             struct tt_fault *out_faults) {
    for (int32_t i = 0; i < count; i++)
        out_faults[i] = (struct tt_fault){
            .at = first_at + i * gap_ns,
            .duration_ns =
                TT_MS + (int64_t)tt_prng_below(prng, (uint64_t)(most_ns / TT_US)) * TT_US,
            .kind = (enum tt_fault_kind)tt_prng_below(prng, TT_FAULT_KINDS),
            .node = (uint16_t)tt_prng_below(prng, WORLD_NODES),
            .other = TT_CLUSTER_NO_NODE};
}

#endif
