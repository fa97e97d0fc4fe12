/* The partition of models over sub-clusters (Symphony, appendix A): the problem, and how good an
 * answer to it is.
 *
 * Each model lies in exactly one sub-cluster (eq. 8). A sub-cluster's rate stays within max_rate
 * (eq. 4), and the sum of its models' static memory plus the largest dynamic memory stays within
 * max_memory (eq. 5). The objective (eq. 3, 6, 7) is the largest deviation of a rate from the mean
 * plus `weight` times the largest deviation of a static memory, each relative to its mean. With a
 * current placement, loads and unloads cost at most max_cost (eq. 10).
 *
 * Rates, bytes and costs are integers, so sums are exact and every machine finds the same answer.
 * Implemented in place_problem.c; nothing here searches. */
#ifndef TT_PLACE_PLACE_PROBLEM_H
#define TT_PLACE_PLACE_PROBLEM_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    TT_PLACE_NOWHERE = -1, /* in no sub-cluster yet, or in one that is gone */
    TT_PLACE_MAX_MODELS = 100000,
    TT_PLACE_MAX_CLUSTERS = 4096
};
#define TT_PLACE_MICRO INT64_C(1000000)
/* The largest rate (in millionths), memory (in bytes) and cost (in millionths) of one model: sums
 * over all models stay below 2^63. */
#define TT_PLACE_MAX_AMOUNT (INT64_C(1) << 46)

struct tt_place_model {
    const char *name;      /* borrowed */
    int64_t rate;          /* millionths of a request per second */
    int64_t static_bytes;  /* weights */
    int64_t dynamic_bytes; /* what a run needs beside them */
    int64_t cost;          /* of one load or one unload, in millionths */
    int32_t now;           /* its sub-cluster in the current placement, or NOWHERE */
};

struct tt_place_problem {
    const struct tt_place_model *models;
    int32_t model_count, cluster_count;
    int64_t max_rate;            /* of a sub-cluster, in millionths per second; 0: no limit */
    int64_t max_memory;          /* of a backend, in bytes; 0: no limit */
    const int64_t *max_memories; /* [cluster_count], instead of max_memory; NULL: all are alike */
    int64_t max_cost;            /* in millionths; below 0: no limit, and costs do not count */
    double weight;               /* of memory beside rate, 0 or more */
    uint64_t seed;
};

/* What an assignment is worth. All but `cost` and `moves` are relative to the mean. */
struct tt_place_value {
    double rate_deviation, memory_deviation; /* the largest, of any sub-cluster */
    double objective;                        /* rate_deviation + weight * memory_deviation */
    double imbalance_rate, imbalance_memory; /* (largest - smallest) / mean, as in figure 16 */
    int64_t cost;                            /* of all loads and unloads, in millionths */
    int32_t moves, loads; /* models that change their sub-cluster, and that lay nowhere */
};

/* Sums over the sub-clusters of one assignment. Owned: `rate`, `memory`, `dynamic`. */
struct tt_place_loads {
    int64_t *rate, *memory,
        *dynamic; /* cluster_count each; memory is static, dynamic the largest */
};

/* Of a backend of the sub-cluster; 0: no limit. */
static inline int64_t tt_place_max_memory(const struct tt_place_problem *problem, int32_t cluster) {
    return problem->max_memories ? problem->max_memories[cluster] : problem->max_memory;
}
/* What a model costs that lies in `to` (no NOWHERE) instead of where it is now: one load, and one
 * unload if it lies somewhere. */
int64_t tt_place_move_cost(const struct tt_place_model *model, int32_t to);

/* Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_place_loads_init(struct tt_place_loads *self, int32_t cluster_count);
void tt_place_loads_fini(struct tt_place_loads *self);
/* Adds up `at` (model_count sub-clusters, none NOWHERE). */
void tt_place_loads_sum(struct tt_place_loads *self, const struct tt_place_problem *problem,
                        const int32_t *at);

/* The value of `at`, which need not hold the limits. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_place_evaluate(const struct tt_place_problem *problem,
                                            const int32_t *at, struct tt_place_value *out_value);
/* INVALID with the limit that `at` breaks, and by how much; else TT_OK. Also NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_place_check(const struct tt_place_problem *problem, const int32_t *at,
                                         struct tt_error *why);
/* INVALID with the reason when no assignment at all can hold the limits, as far as sums and single
 * models show it: a model larger than a backend, more models than all memory, a cost limit below
 * what new models need. TT_OK does not promise that there is an assignment. */
TT_MUST_CHECK enum tt_err tt_place_possible(const struct tt_place_problem *problem,
                                            struct tt_error *why);

#endif
