/* How long a step takes: latency in ns by the rows in the batch, and by the input's length where
 * the step has one. It is a table, so a lookup is one load and no decision uses a float. alpha and
 * beta (l(b) = alpha b + beta) summarise it for rules that need a line.
 *
 * It also holds `demand`, the share of the device that a batch occupies. Tasks whose demands sum to
 * at most one whole device run side by side without slowing each other down.
 *
 * `tail_ns` is a high quantile of the same latency. In a profile that was measured or read it is
 * the same table as `latency_ns`, the centre. A belief (core/belief.h) has two.
 *   - The tail answers whether something ends in time: deferral, drops, slack.
 *   - The centre answers how much work something is: capacity, throughput, when an executor is
 * free.
 *
 * Latencies never decrease with the batch size: a measured dip is raised to the value of the
 * smaller batch. The search for the largest batch that fits depends on it. A profile is immutable
 * once made, and shared by pointer. Only those of a belief change, and those of a cluster's
 * scheduler while no policy reads them. */
#ifndef TT_CORE_PROFILE_H
#define TT_CORE_PROFILE_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum { TT_PROFILE_MAX_BATCH = 4096, TT_DEMAND_WHOLE = 1000000 };
#define TT_PROFILE_MAX_BYTES (INT64_C(1) << 46) /* of memory, static or dynamic */

struct tt_profile {
    int32_t max_batch;
    int32_t length_count; /* >= 1 */
    int32_t *lengths;     /* ascending; {0} where the step has no length */
    int64_t *latency_ns;  /* [length_count][max_batch + 1]; entry 0 is 0 */
    int64_t *tail_ns;     /* as latency_ns, never below it */
    int32_t *demand_ppm;  /* [length_count][max_batch + 1]; 1 .. TT_DEMAND_WHOLE */
    bool knows_demand; /* it was given or measured; else every batch counts as the whole device */
    int64_t alpha_ns, beta_ns;
    /* Of the model on a device: its weights, and what a run needs beside them; 0: not known. */
    int64_t static_bytes, dynamic_bytes;
};

struct tt_profile_point {
    int32_t length; /* 0 where the step has no length */
    int32_t batch;
    int64_t latency_ns;
    int32_t demand_ppm; /* 0: the whole device */
};

/* A profile l(b) = alpha b + beta for 1 <= b <= max_batch that uses the whole device. INVALID: a
 * value is negative, or l(1) <= 0. */
TT_MUST_CHECK enum tt_err tt_profile_new_linear(int64_t alpha_ns, int64_t beta_ns,
                                                int32_t max_batch, struct tt_profile **out_profile,
                                                struct tt_error *why);
/* A profile from measured points, in any order. Values between two batches are interpolated; above
 * the last batch the last slope continues. Each length needs a point at batch 1. */
TT_MUST_CHECK enum tt_err tt_profile_new_points(const struct tt_profile_point *points,
                                                int32_t count, int32_t max_batch,
                                                struct tt_profile **out_profile,
                                                struct tt_error *why);
/* The same with rows for lengths between its own, at most a sixteenth apart (or 1): latencies and
 * demands lie on the line between the neighbours. For devices that know no rows. */
TT_MUST_CHECK enum tt_err tt_profile_new_between(const struct tt_profile *self,
                                                 struct tt_profile **out_profile,
                                                 struct tt_error *why);
/* The same where `tasks` tasks of as many rows are on a device at once, and a policy below puts
 * their rows into common batches: each takes as long as all of them. For `tasks` 1 a copy. */
TT_MUST_CHECK enum tt_err tt_profile_new_shared(const struct tt_profile *self, int32_t tasks,
                                                struct tt_profile **out_profile,
                                                struct tt_error *why);
/* A checked copy of a table from elsewhere: lengths ascend, latencies never decrease with the
 * batch. INVALID: the message says what is wrong. */
TT_MUST_CHECK enum tt_err tt_profile_new_table(const struct tt_profile *table,
                                               struct tt_profile **out_profile,
                                               struct tt_error *why);
void tt_profile_free(struct tt_profile *take_profile);
/* Asserts what the rest of the program takes for granted of a profile. O(size). */
void tt_profile_check(const struct tt_profile *self);

/* Index of the table row for inputs of `length`: the smallest profiled length >= `length`, else the
 * largest. */
int32_t tt_profile_length_index(const struct tt_profile *self, int32_t length);

/* Latency of `batch` rows (1 .. max_batch) at `length`. */
static inline int64_t tt_profile_latency(const struct tt_profile *self, int32_t batch,
                                         int32_t length) {
    tt_assert(batch >= 0 && batch <= self->max_batch);
    int32_t row = self->length_count == 1 ? 0 : tt_profile_length_index(self, length);
    return self->latency_ns[(int64_t)row * (self->max_batch + 1) + batch];
}

/* The tail of that latency. */
static inline int64_t tt_profile_tail(const struct tt_profile *self, int32_t batch,
                                      int32_t length) {
    tt_assert(batch >= 0 && batch <= self->max_batch);
    int32_t row = self->length_count == 1 ? 0 : tt_profile_length_index(self, length);
    return self->tail_ns[(int64_t)row * (self->max_batch + 1) + batch];
}

/* The centre or the tail of it. */
static inline int64_t tt_profile_run(const struct tt_profile *self, int32_t batch, int32_t length,
                                     bool by_centre) {
    return by_centre ? tt_profile_latency(self, batch, length)
                     : tt_profile_tail(self, batch, length);
}

/* Share of the device that `batch` rows (1 .. max_batch) at `length` occupy, in millionths. */
static inline int32_t tt_profile_demand(const struct tt_profile *self, int32_t batch,
                                        int32_t length) {
    tt_assert(batch >= 1 && batch <= self->max_batch);
    int32_t row = self->length_count == 1 ? 0 : tt_profile_length_index(self, length);
    return self->demand_ppm[(int64_t)row * (self->max_batch + 1) + batch];
}

/* The largest batch b <= limit with tail(b) <= budget_ns; 0: not even one row fits. O(log
 * max_batch). */
int32_t tt_profile_largest_batch(const struct tt_profile *self, int64_t budget_ns, int32_t length,
                                 int32_t limit);

#endif
