#include "policy/sharing_gain.h"

#include "core/profile.h"

/* Consecutive steps at one batch size: their duration alone, and their share of the device's time.
 */
struct stretch {
    int64_t takes_ns;
    __int128 work; /* ns x millionths */
};

static struct stretch measure(const struct tt_step_model *model, int32_t first, int32_t end,
                              int32_t rows, int32_t length) {
    struct stretch sum = {0};
    for (int32_t s = first; s < end; s++) {
        const struct tt_profile *profile = model->steps[s].profile;
        int64_t takes_ns = tt_profile_latency(profile, rows, length);
        sum.takes_ns += takes_ns;
        sum.work += (__int128)takes_ns * tt_profile_demand(profile, rows, length);
    }
    return sum;
}

/* The sum over all rows of the end times of two batches that start now and share the device. */
static __int128 side_by_side(struct stretch a, int32_t a_rows, struct stretch b, int32_t b_rows) {
    if (a.takes_ns > b.takes_ns)
        return side_by_side(b, b_rows, a, a_rows);
    __int128 demand = a.work / a.takes_ns + b.work / b.takes_ns;
    if (demand < TT_DEMAND_WHOLE)
        demand = TT_DEMAND_WHOLE;
    __int128 first = a.takes_ns * demand / TT_DEMAND_WHOLE;
    __int128 second = first + (b.takes_ns - a.takes_ns);
    return first * a_rows + second * b_rows;
}

bool tt_stretch_pays(const struct tt_stretch_case *self) {
    const struct tt_step_model *model = self->model;
    int32_t steps = model->step_count, rows = self->held + self->coming;
    int32_t length =
        self->held_length > self->coming_length ? self->held_length : self->coming_length;
    int64_t catch_up_ns =
        measure(model, 0, self->next_step, self->coming, self->coming_length).takes_ns;
    int64_t together_ns = measure(model, self->next_step, steps, rows, length).takes_ns;
    struct stretch held = measure(model, self->next_step, steps, self->held, self->held_length);
    struct stretch coming = measure(model, 0, steps, self->coming, self->coming_length);
    __int128 apart =
        self->beside ? side_by_side(held, self->held, coming, self->coming)
                     : (__int128)held.takes_ns * rows + (__int128)coming.takes_ns * self->coming;
    return (__int128)(catch_up_ns + together_ns) * rows <= apart;
}

bool tt_beside_pays(int32_t running, int64_t running_demand_ppm, int32_t demand_ppm) {
    int64_t before = running_demand_ppm, after = before + demand_ppm;
    if (before < TT_DEMAND_WHOLE)
        before = TT_DEMAND_WHOLE;
    if (after < TT_DEMAND_WHOLE)
        after = TT_DEMAND_WHOLE;
    return running == 0 || (running + 1) * (after - before) <= TT_DEMAND_WHOLE;
}

int32_t tt_beside_count(int32_t executors, int32_t demand_ppm) {
    int32_t count = 1;
    while (count < executors && tt_beside_pays(count, (int64_t)count * demand_ppm, demand_ppm))
        count++;
    return count;
}
