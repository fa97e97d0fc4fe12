#include "policy/elastic/elastic_plan.h"

#include "base/instant.h"
#include "policy/elastic/elastic_qos.h"

#include <string.h>

struct search {
    const struct tt_profile *profile;
    const int32_t *available;
    int64_t promise_ns;
    struct tt_elastic_choice now, best;
};

/* Compares means as fractions: a / b < c / d <=> a d < c b. */
static bool better(const struct tt_elastic_choice *a, const struct tt_elastic_choice *b) {
    if (b->total == 0 || a->keeps != b->keeps)
        return b->total == 0 || a->keeps;
    __int128 left = (__int128)a->latency_sum * b->worker_count;
    __int128 right = (__int128)b->latency_sum * a->worker_count;
    return left < right || (left == right && a->worker_count < b->worker_count);
}

/* Tries every number of workers of size 2^k, the largest first, then the next smaller size. */
static void choose(struct search *self, int32_t k, int32_t left) {
    struct tt_elastic_choice *now = &self->now;
    if (left == 0) {
        now->tried++;
        now->latency_sum = tt_elastic_corun(self->profile, now->counts);
        now->keeps = tt_elastic_keeps(self->profile, now->counts, self->promise_ns);
        now->kept += now->keeps;
        if (better(now, &self->best))
            self->best = *now;
        return;
    }
    if (k < 0)
        return;
    int32_t max_count = 1 << k > self->profile->max_batch ? 0 : left >> k;
    if (max_count > self->available[k])
        max_count = self->available[k];
    for (int32_t count = max_count; count >= 0; count--) {
        now->counts[k] = count;
        now->worker_count += count;
        choose(self, k - 1, left - (count << k));
        now->worker_count -= count;
    }
    now->counts[k] = 0;
}

struct tt_elastic_choice tt_elastic_plan_within(const struct tt_profile *profile,
                                                const int32_t available[TT_ELASTIC_SIZES],
                                                int32_t total, int64_t promise_ns) {
    tt_assert(total >= 1 && total <= TT_ELASTIC_MAX_TOTAL);
    struct search search = {.profile = profile,
                            .available = available,
                            .promise_ns = promise_ns,
                            .now = {.total = total}};
    choose(&search, TT_ELASTIC_SIZES - 1, total);
    tt_assert(search.now.worker_count == 0); /* each step of the search was taken back */
    search.best.tried = search.now.tried;
    search.best.kept = search.now.kept;
    tt_elastic_choice_check(&search.best, available);
    return search.best;
}

struct tt_elastic_choice tt_elastic_plan(const struct tt_profile *profile,
                                         const int32_t available[TT_ELASTIC_SIZES], int32_t total) {
    return tt_elastic_plan_within(profile, available, total, TT_NEVER);
}

void tt_elastic_choice_check(const struct tt_elastic_choice *self,
                             const int32_t available[TT_ELASTIC_SIZES]) {
    int32_t total = 0, worker_count = 0;
    for (int32_t k = 0; k < TT_ELASTIC_SIZES; k++) {
        tt_assert(self->counts[k] >= 0);
        tt_assert(self->counts[k] <= available[k]);
        total += self->counts[k] << k;
        worker_count += self->counts[k];
    }
    tt_assert(total == self->total);
    tt_assert(worker_count == self->worker_count);
}

struct listing {
    int32_t now[TT_ELASTIC_SIZES];
    int32_t (*counts)[TT_ELASTIC_SIZES];
    int32_t count, limit;
};

static void list(struct listing *self, int32_t k, int32_t left) {
    if (left == 0) {
        if (self->count < self->limit)
            memcpy(self->counts[self->count], self->now, sizeof(self->now));
        self->count++;
        return;
    }
    if (k < 0)
        return;
    for (int32_t count = left >> k; count >= 0; count--) {
        self->now[k] = count;
        list(self, k - 1, left - (count << k));
    }
    self->now[k] = 0;
}

int32_t tt_elastic_choices(int32_t total, int32_t largest, int32_t (*out_counts)[TT_ELASTIC_SIZES],
                           int32_t limit) {
    tt_assert(total >= 1 && total <= TT_ELASTIC_MAX_TOTAL);
    tt_assert(largest >= 1 && (largest & (largest - 1)) == 0);
    int32_t k = __builtin_ctz((unsigned)largest);
    struct listing listing = {.counts = out_counts, .limit = limit};
    list(&listing, k < TT_ELASTIC_SIZES ? k : TT_ELASTIC_SIZES - 1, total);
    tt_assert(listing.count <= TT_ELASTIC_MAX_CHOICES);
    return listing.count;
}
