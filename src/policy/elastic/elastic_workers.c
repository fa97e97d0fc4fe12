#include "policy/elastic/elastic_workers.h"

#include <string.h>

static enum tt_err read_sizes(struct tt_elastic_workers *self, const struct tt_policy_setup *setup,
                              struct tt_error *why) {
    int32_t executors = setup->domain->executor_capacity;
    int32_t given = tt_options_sizes("workers", setup->options, setup->option_count, self->sizes,
                                     TT_ELASTIC_MAX_WORKERS);
    if (executors > TT_ELASTIC_MAX_WORKERS || (given > 0 && given != executors))
        return tt_fail(TT_ERR_INVALID, why,
                       "option workers: %d sizes for %d executors; it must be a size for each, of "
                       "at most %d",
                       given, executors, TT_ELASTIC_MAX_WORKERS);
    self->count = executors;
    for (int32_t w = 0; w < executors; w++) {
        if (given == 0)
            self->sizes[w] =
                w < 2 ? 1 : 1 << (w - 1 < TT_ELASTIC_SIZES ? w - 1 : TT_ELASTIC_SIZES - 1);
        int32_t size = self->sizes[w];
        if ((size & (size - 1)) != 0 || size > 1 << (TT_ELASTIC_SIZES - 1))
            return tt_fail(TT_ERR_INVALID, why, "option workers: %d is not a power of two up to %d",
                           size, 1 << (TT_ELASTIC_SIZES - 1));
    }
    return TT_OK;
}

enum tt_err tt_elastic_workers_init(struct tt_elastic_workers *self,
                                    const struct tt_policy_setup *setup, struct tt_error *why) {
    *self = (struct tt_elastic_workers){0};
    enum tt_err err = read_sizes(self, setup, why);
    if (err)
        return err;
    uint64_t of_size[TT_ELASTIC_SIZES] = {0};
    int32_t count = 0;
    for (int32_t k = TT_ELASTIC_SIZES - 1; k >= 0; k--)
        for (int32_t w = 0; w < self->count; w++)
            if (self->sizes[w] == 1 << k) {
                of_size[k] |= UINT64_C(1) << count;
                self->place[w] = count;
                self->by_size[count++] = w;
            }
    uint64_t largest =
        self->count > 0 ? of_size[tt_elastic_log2(self->sizes[self->by_size[0]])] : 0;
    self->holding[TT_ELASTIC_SIZES] = self->nearest[TT_ELASTIC_SIZES] = largest;
    uint64_t holding = 0, nearest = largest;
    for (int32_t k = TT_ELASTIC_SIZES - 1; k >= 0; k--) {
        holding |= of_size[k];
        if (of_size[k] != 0)
            nearest = of_size[k];
        self->holding[k] = holding != 0 ? holding : largest;
        self->nearest[k] = nearest;
    }
    for (int32_t k = 0; k < TT_ELASTIC_SIZES; k++)
        self->up_to[k] = of_size[k] | (k > 0 ? self->up_to[k - 1] : 0);
    tt_elastic_workers_check(self);
    return TT_OK;
}

/* The workers in the order of by_size: largest first, then by number. */
static void check_order(const struct tt_elastic_workers *self) {
    for (int32_t i = 0; i < self->count; i++) {
        int32_t worker = self->by_size[i], size = self->sizes[worker];
        tt_assert(size >= 1);
        tt_assert((size & (size - 1)) == 0);
        tt_assert(self->place[worker] == i);
        int32_t before = i > 0 ? self->by_size[i - 1] : worker;
        tt_assert(self->sizes[before] >= size);
        tt_assert(i == 0 || self->sizes[before] > size || before < worker);
    }
}

void tt_elastic_workers_check(const struct tt_elastic_workers *self) {
    tt_assert(self->count >= 0);
    tt_assert(self->count <= TT_ELASTIC_MAX_WORKERS);
    check_order(self);
    uint64_t all = self->count == 0 ? 0 : UINT64_MAX >> (64 - self->count);
    tt_assert(self->up_to[TT_ELASTIC_SIZES - 1] == all);
    for (int32_t k = 0; k <= TT_ELASTIC_SIZES; k++) {
        tt_assert((self->nearest[k] & ~self->holding[k]) == 0);
        tt_assert((self->holding[k] & ~all) == 0);
        tt_assert((self->nearest[k] != 0) == (self->count > 0));
    }
    for (int32_t k = 1; k < TT_ELASTIC_SIZES; k++)
        tt_assert((self->up_to[k - 1] & ~self->up_to[k]) == 0);
}

void tt_elastic_workers_count(const struct tt_elastic_workers *self,
                              int32_t out_counts[TT_ELASTIC_SIZES]) {
    memset(out_counts, 0, TT_ELASTIC_SIZES * sizeof(*out_counts));
    for (int32_t w = 0; w < self->count; w++)
        out_counts[tt_elastic_log2(self->sizes[w])]++;
}

uint64_t tt_elastic_workers_first(const struct tt_elastic_workers *self,
                                  const int32_t counts[TT_ELASTIC_SIZES]) {
    int32_t left[TT_ELASTIC_SIZES];
    memcpy(left, counts, sizeof(left));
    uint64_t workers = 0;
    for (int32_t i = 0; i < self->count; i++)
        if (left[tt_elastic_log2(self->sizes[self->by_size[i]])]-- > 0)
            workers |= UINT64_C(1) << i;
    tt_assert((workers & ~self->up_to[TT_ELASTIC_SIZES - 1]) == 0);
    return workers;
}
