#include "policy/lazy/lazy_waiting.h"

#include "base/instant.h"

#include <stdlib.h>

enum tt_err tt_lazy_waiting_init(struct tt_lazy_waiting *self, int32_t models) {
    self->since_sum = calloc((size_t)models, sizeof(*self->since_sum));
    self->admitted_at = calloc((size_t)models, sizeof(*self->admitted_at));
    self->count = calloc((size_t)models, sizeof(*self->count));
    if (!self->since_sum || !self->admitted_at || !self->count) {
        tt_lazy_waiting_fini(self);
        return TT_ERR_NO_MEMORY;
    }
    for (int32_t m = 0; m < models; m++)
        self->admitted_at[m] = INT64_MIN;
    return TT_OK;
}

void tt_lazy_waiting_fini(struct tt_lazy_waiting *self) {
    free(self->since_sum);
    free(self->admitted_at);
    free(self->count);
    *self = (struct tt_lazy_waiting){0};
}

void tt_lazy_waiting_add(struct tt_lazy_waiting *self, struct tt_request *request, int64_t now) {
    request->policy_word = now;
    self->since_sum[request->model] += now;
    self->count[request->model]++;
}

void tt_lazy_waiting_remove(struct tt_lazy_waiting *self, const struct tt_request *request) {
    tt_assert(self->count[request->model] > 0);
    self->since_sum[request->model] -=
        tt_instant_max(request->policy_word, self->admitted_at[request->model]);
    self->count[request->model]--;
}

void tt_lazy_waiting_restart(struct tt_lazy_waiting *self, int32_t model, int64_t now) {
    self->admitted_at[model] = now;
    self->since_sum[model] = (__int128)self->count[model] * now;
}

int64_t tt_lazy_waiting_of(const struct tt_lazy_waiting *self, int32_t model, int32_t count,
                           int64_t now) {
    tt_assert(self->count[model] > 0);
    __int128 all_ns = (__int128)self->count[model] * now - self->since_sum[model];
    return (int64_t)(all_ns * count / self->count[model]);
}
