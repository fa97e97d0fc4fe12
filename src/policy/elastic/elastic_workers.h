/* The workers of the elastic policy: executors, each for batches of one size, a power of two.
 *
 * The table is made once from the option `workers` and then only read. A set of workers has a bit
 * for each position in by_size. So "the largest idle worker that fits, then the smallest number" is
 * the lowest bit of the intersection of a few sets.
 *
 * Which worker may take what:
 * - E2bird's algorithms: a worker whose size is at most the number of waiting rows takes exactly
 *   that many rows.
 * - A request of several rows is not divided, so a worker must hold it. The smallest worker that
 *   does may take it even if fewer rows wait than its size, because no other worker could.
 * - A request larger than every worker goes to the largest.
 * For requests of one row, and with a worker of size 1, this is the rule of the algorithms. */
#ifndef TT_POLICY_ELASTIC_ELASTIC_WORKERS_H
#define TT_POLICY_ELASTIC_ELASTIC_WORKERS_H

#include "policy/elastic/elastic_plan.h"
#include "policy/policy.h"

enum { TT_ELASTIC_MAX_WORKERS = 64 };

struct tt_elastic_workers {
    int32_t count;
    uint64_t up_to[TT_ELASTIC_SIZES]; /* workers of at most 2^k rows */
    /* For requests of more than 2^(k - 1) and at most 2^k rows; the last entry for all larger ones.
     * holding: the workers that hold such a request, or the largest if none does. nearest: the
     * smallest of these. */
    uint64_t holding[TT_ELASTIC_SIZES + 1], nearest[TT_ELASTIC_SIZES + 1];
    int32_t sizes[TT_ELASTIC_MAX_WORKERS]; /* of each executor */
    int32_t
        by_size[TT_ELASTIC_MAX_WORKERS];   /* executors, largest size first, then smallest number */
    int32_t place[TT_ELASTIC_MAX_WORKERS]; /* the position of each executor in by_size */
};

/* Initialises from the option `workers`; not given: 1, 1, 2, 4, ... for the domain's executors.
 * Errors: INVALID, with a message. */
TT_MUST_CHECK enum tt_err tt_elastic_workers_init(struct tt_elastic_workers *self,
                                                  const struct tt_policy_setup *setup,
                                                  struct tt_error *why);
/* Asserts that the tables describe the same workers. */
void tt_elastic_workers_check(const struct tt_elastic_workers *self);
/* out_counts[k] = the number of workers of size 2^k. */
void tt_elastic_workers_count(const struct tt_elastic_workers *self,
                              int32_t out_counts[TT_ELASTIC_SIZES]);
/* The set of the first counts[k] workers of each size 2^k. */
uint64_t tt_elastic_workers_first(const struct tt_elastic_workers *self,
                                  const int32_t counts[TT_ELASTIC_SIZES]);

/* Rounds down; value >= 1. */
static inline int32_t tt_elastic_log2(int32_t value) { return 31 - __builtin_clz((uint32_t)value); }

/* Of the workers `counted`, those that may take a range of `rows` rows, or its front, whose first
 * request has `first` rows (1 .. rows). If none of them holds that request, the smallest workers
 * that do count too. */
static inline uint64_t tt_elastic_workers_fit(const struct tt_elastic_workers *self,
                                              uint64_t counted, int32_t rows, int32_t first) {
    int32_t k = tt_elastic_log2(rows), least = first > 1 ? tt_elastic_log2(first - 1) + 1 : 0;
    uint64_t up_to = self->up_to[k < TT_ELASTIC_SIZES ? k : TT_ELASTIC_SIZES - 1];
    least = least < TT_ELASTIC_SIZES ? least : TT_ELASTIC_SIZES;
    if ((counted & self->holding[least]) == 0)
        counted |= self->nearest[least];
    return counted & ((up_to & self->holding[least]) | self->nearest[least]);
}

#endif
