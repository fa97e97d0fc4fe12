#include "policy/elastic/elastic_corun.h"

#include "base/instant.h"
#include "core/device.h"

/* Starts all workers at once. Returns the sum of their latencies; *out_last: the largest. */
static int64_t corun(const struct tt_profile *profile, const int32_t counts[TT_ELASTIC_SIZES],
                     int64_t *out_last) {
    struct tt_device_run runs[TT_ELASTIC_MAX_TOTAL];
    struct tt_device device = {.capacity = TT_ELASTIC_MAX_TOTAL, .runs = runs};
    int32_t worker = 0, length = tt_elastic_length(profile);
    for (int32_t k = TT_ELASTIC_SIZES - 1; k >= 0; k--)
        tt_assert(counts[k] >= 0);
    for (int32_t k = TT_ELASTIC_SIZES - 1; k >= 0; k--)
        for (int32_t i = 0; i < counts[k]; i++)
            tt_device_start(&device, 0, worker++, tt_profile_latency(profile, 1 << k, length),
                            tt_profile_demand(profile, 1 << k, length));
    int64_t sum = 0, at;
    *out_last = 0;
    while ((at = tt_device_next_at(&device)) != TT_NEVER)
        while (tt_device_take_ended(&device, at) >= 0) {
            sum += at;
            *out_last = at;
        }
    return sum;
}

int64_t tt_elastic_corun(const struct tt_profile *profile, const int32_t counts[TT_ELASTIC_SIZES]) {
    int64_t last;
    return corun(profile, counts, &last);
}

int64_t tt_elastic_corun_last(const struct tt_profile *profile,
                              const int32_t counts[TT_ELASTIC_SIZES]) {
    int64_t last;
    (void)corun(profile, counts, &last);
    return last;
}
