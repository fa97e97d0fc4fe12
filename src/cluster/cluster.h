/* What the roles of a cluster share: the list of nodes, epochs, times, and how a role is driven.
 *
 * A cluster has frontends (clients, inputs, answers), schedulers (one primary, the others spare)
 * and backends (devices). Each role is a state machine without I/O: a driver reports frames, links
 * and time to it, and sends what it leaves in its outbox. The driver is a network, or a simulated
 * one (cluster/virtual_cluster.h). After each report the driver looks at `next_at` and calls `tick`
 * at that instant. A tick that comes early or late does no harm.
 *
 * Owner of a request: the frontend that accepted it, until it is answered. Everything that the
 * other roles know of it is a copy that may be lost. So whatever fails, the frontend submits the
 * request again or answers with an error, once.
 *
 * Epochs: a scheduler becomes primary by claiming an epoch at all nodes. A node obeys the highest
 * epoch that it has seen claimed, and answers older ones with STALE. A device therefore never has
 * two masters, whatever the schedulers believe. The lower 16 bits of an epoch are the number of its
 * scheduler, so two schedulers never claim the same one. */
#ifndef TT_CLUSTER_CLUSTER_H
#define TT_CLUSTER_CLUSTER_H

#include "core/step_model.h"

#include <stdbool.h>
#include <stdint.h>

enum tt_cluster_role { TT_ROLE_FRONTEND, TT_ROLE_SCHEDULER, TT_ROLE_BACKEND };

enum {
    TT_CLUSTER_MAX_NODES = 1024,
    TT_CLUSTER_MAX_MODELS = 4096, /* a set of them is one frame */
    TT_CLUSTER_NO_NODE = UINT16_MAX,
    TT_CLUSTER_NO_POOL = UINT16_MAX,
    TT_CLUSTER_NO_MODEL = UINT16_MAX
};

struct tt_cluster_node {
    enum tt_cluster_role role;
    int32_t devices;              /* of a backend */
    int64_t memory_bytes;         /* of one of its devices; 0: not known */
    uint16_t pool;                /* of a backend: pools are numbered from 0, without gaps */
    const char *name, *pool_name; /* for messages; borrowed; NULL: their numbers */
};

/* All durations in ns. The same for every node of a cluster, but for the models: each node has its
 * own table of them, which only grows. The driver translates numbers (fleet/model_numbers.h). */
struct tt_cluster_settings {
    int32_t node_count;
    const struct tt_cluster_node *nodes; /* [node_count]; their numbers are their indices */
    /* Grows when a model comes; the driver then calls the _add of each role at once. */
    int32_t model_count;
    int32_t model_capacity; /* that it may grow to; 0: it does not */
    int32_t max_rows;       /* a model that comes has no larger batches; 0: than those there */
    const struct tt_step_model *const *models; /* [capacity]; whole graphs */
    /* [capacity]: models that are loaded together have the number of the first; NULL: each is
     * loaded alone. */
    const uint16_t *groups;
    int64_t silence_ns; /* a primary that was not heard for so long is suspected */
    int64_t beat_ns;    /* between two beats; a tenth of that */
    int64_t ask_ns;     /* for opinions before a silent primary is replaced */
    /* S4: what a batch's messages take, and one row's input: from the grant until the batch can
     * run, and from its end to the report. With learns_delays so it is believed until a backend's
     * last batches say otherwise. */
    int64_t control_ns, data_ns;
    bool learns_delays;
    /* The quantile of run times that are learnt (struct tt_mechanism_options); 0: profiles are
     * believed. A policy with threads decides by profiles. */
    int32_t learn_percent;
    int64_t overdue_ns;    /* a grant may be so late before its backend is suspected */
    int64_t fetch_ns;      /* a backend waits for inputs so long after the grant's start */
    int64_t patience_ns;   /* a frontend accepts requests so long without a primary */
    int64_t vacancy_ns;    /* requests wait so long for a backend of their pool; 0: no limit */
    int64_t grace_ns;      /* after its deadline, before a request is given up */
    int64_t placing_ns;    /* the models of a plan are loaded within that; 0: no limit */
    int32_t request_limit; /* requests at once: of a frontend */
    int32_t depth; /* plans at once on a device: with 2 the next one is sent ahead of its end */
};

/* The number by which the model is loaded and unloaded. */
static inline uint16_t tt_cluster_group(const struct tt_cluster_settings *settings,
                                        uint16_t model) {
    return settings->groups ? settings->groups[model] : model;
}

static inline int32_t tt_cluster_model_capacity(const struct tt_cluster_settings *settings) {
    return settings->model_capacity > settings->model_count ? settings->model_capacity
                                                            : settings->model_count;
}

/* The rows of the largest batch of any model, also of one that comes. */
static inline int32_t tt_cluster_max_rows(const struct tt_cluster_settings *settings) {
    int32_t rows = settings->max_rows;
    for (int32_t i = 0; i < settings->model_count; i++)
        if (settings->models[i]->max_batch > rows)
            rows = settings->models[i]->max_batch;
    return rows;
}

/* Pools of backends. The placement says which pool has a model (cluster/model_set.h). */
static inline int32_t tt_cluster_pools(const struct tt_cluster_settings *settings) {
    int32_t last = 0;
    for (int32_t i = 0; i < settings->node_count; i++)
        if (settings->nodes[i].role == TT_ROLE_BACKEND && settings->nodes[i].pool > last)
            last = settings->nodes[i].pool;
    return last + 1;
}

static inline const char *tt_cluster_pool_name(const struct tt_cluster_settings *settings,
                                               uint16_t pool) {
    for (int32_t i = 0; i < settings->node_count; i++)
        if (settings->nodes[i].role == TT_ROLE_BACKEND && settings->nodes[i].pool == pool &&
            settings->nodes[i].pool_name)
            return settings->nodes[i].pool_name;
    return "without a name";
}

/* In a record DROP, in place of an enum tt_drop_reason: no backend takes batches of the model. */
enum { TT_CLUSTER_DROP_NO_BACKEND = 1000 };

/* How a link between two nodes changed. */
enum tt_link {
    TT_LINK_UP,
    TT_LINK_CLOSED, /* the peer's process has ended */
    TT_LINK_LOST,   /* the network gave up; the peer may live */
};

static inline uint64_t tt_epoch(uint64_t term, int32_t scheduler) {
    return term << 16 | (uint64_t)scheduler;
}
static inline uint64_t tt_epoch_term(uint64_t epoch) { return epoch >> 16; }
/* The scheduler whose epoch it is; TT_CLUSTER_NO_NODE for epoch 0, which no scheduler claims. */
static inline uint16_t tt_epoch_scheduler(uint64_t epoch) {
    return epoch ? (uint16_t)(epoch & 0xffff) : TT_CLUSTER_NO_NODE;
}

#endif
