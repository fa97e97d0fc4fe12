#include "lab/scenario/server_cost.h"

#include "lab/scenario/rate.h"

int64_t tt_server_cost_shared_ns(const struct tt_server_cost *self, int32_t executors,
                                 int64_t rate) {
    int64_t beside_ns = self->request_ns + self->client_ns;
    if (self->cores <= 0 || beside_ns <= 0 || rate <= 0)
        return 0;
    /* The processors' time per request that executors leave over: (cores - executors) / rate. */
    int64_t spare = self->cores > executors ? self->cores - executors : 0;
    __int128 spare_ns = (__int128)spare * 1000000000 * TT_RATE_ONE / rate;
    return spare_ns >= beside_ns ? 0 : beside_ns - (int64_t)spare_ns;
}
