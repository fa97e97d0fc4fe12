/* The workers of the elastic policy: executors, each for batches of one size, a power of two.
 *
 * Made once from the option `workers` and then only read. A set of workers is a bit for each place
 * in by_size, so that "the largest idle worker that fits, then the smallest id" is the lowest bit
 * of a few sets' intersection, whatever the number of workers.
 *
 * Who may take what (E2bird's algorithms say: a worker whose size is at most the rows that wait,
 * takes just as many rows). A request of several rows is not divided, so a worker must hold it, and
 * the smallest one that does may take it even if fewer rows wait than its size: nobody else could.
 * A request larger than every worker is taken by the largest. For requests of one row, where some
 * worker has size 1, this is the algorithms' rule. */
#ifndef TT_POLICY_ELASTIC_ELASTIC_WORKERS_H
#define TT_POLICY_ELASTIC_ELASTIC_WORKERS_H

#include "policy/elastic/elastic_plan.h"
#include "policy/policy.h"

enum { TT_ELASTIC_MAX_WORKERS = 64 };

struct tt_elastic_workers {
    int32_t count;
    uint64_t up_to[TT_ELASTIC_SIZES]; /* of at most 2^k rows */
    /* For requests of more than 2^(k - 1) and at most 2^k rows, the last for all larger ones: the
     * workers that hold one, where none does the largest, and the smallest of these. */
    uint64_t holding[TT_ELASTIC_SIZES + 1], nearest[TT_ELASTIC_SIZES + 1];
    int32_t sizes[TT_ELASTIC_MAX_WORKERS];   /* of each executor */
    int32_t by_size[TT_ELASTIC_MAX_WORKERS]; /* executors, largest size first, then smallest id */
    int32_t place[TT_ELASTIC_MAX_WORKERS];   /* of each executor in by_size */
};

/* From the option `workers`; where it is not given 1, 1, 2, 4 .. for the domain's executors.
 * INVALID says what is wrong. */
TT_MUST_CHECK enum tt_err tt_elastic_workers_init(struct tt_elastic_workers *self,
                                                  const struct tt_policy_setup *setup,
                                                  struct tt_error *why);
/* out_counts[k] workers have size 2^k. */
void tt_elastic_workers_count(const struct tt_elastic_workers *self,
                              int32_t out_counts[TT_ELASTIC_SIZES]);
/* The first counts[k] workers of each size 2^k. */
uint64_t tt_elastic_workers_first(const struct tt_elastic_workers *self,
                                  const int32_t counts[TT_ELASTIC_SIZES]);

/* Floor, for value >= 1. */
static inline int32_t tt_elastic_log2(int32_t value) { return 31 - __builtin_clz((uint32_t)value); }

/* Of the workers that count, those that may take a range of `rows` rows, or its front, that begins
 * with a request of `first` rows (1 .. rows). If none that counts holds the request, the smallest
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
