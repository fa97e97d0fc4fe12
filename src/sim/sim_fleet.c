#include "sim/sim_fleet.h"

#include "sim/sim_executors.h"
#include "sim/simulation_state.h"

static enum tt_executor_state state_of(const struct tt_simulation *self, int32_t number) {
    return self->mechanism.executors[number].state;
}

/* Absent executors are in the heap, too: they appear never. */
static bool is_starting(const struct tt_simulation *self, int32_t number) {
    return state_of(self, number) == TT_EXECUTOR_GONE &&
           self->executors[number].appears_at != TT_NEVER;
}

struct tt_sim_fleet tt_simulation_fleet(const struct tt_simulation *self) {
    struct tt_sim_fleet fleet = {0};
    for (int32_t e = 0; e < self->executor_count; e++) {
        fleet.starting += is_starting(self, e);
        fleet.up += state_of(self, e) == TT_EXECUTOR_UP;
        fleet.draining += state_of(self, e) == TT_EXECUTOR_DRAINING;
    }
    return fleet;
}

static void drain(struct tt_simulation *self, int32_t number) {
    tt_mechanism_drain_executor(&self->mechanism, self->now, number);
    if (self->mechanism.executors[number].queued == 0)
        tt_sim_executor_leave(self, number);
}

void tt_simulation_resize(struct tt_simulation *self, int32_t count, int64_t ready_at) {
    tt_assert(count >= 1 && count <= self->executor_count);
    tt_assert(ready_at >= self->now);
    struct tt_sim_fleet fleet = tt_simulation_fleet(self);
    int32_t more = count - fleet.starting - fleet.up;
    for (int32_t e = 0; more > 0 && e < self->executor_count; e++)
        if (state_of(self, e) == TT_EXECUTOR_GONE && !is_starting(self, e)) {
            tt_sim_executor_plan(self, e, ready_at);
            more--;
        }
    for (int32_t e = self->executor_count - 1; more < 0 && e >= 0; e--)
        if (is_starting(self, e)) {
            tt_sim_executor_plan(self, e, TT_NEVER);
            more++;
        }
    for (int32_t e = self->executor_count - 1; more < 0 && e >= 0; e--)
        if (state_of(self, e) == TT_EXECUTOR_UP) {
            drain(self, e);
            more++;
        }
    self->timer_at = self->now; /* the policy decides with the executors that are left */
}

void tt_simulation_source_changed(struct tt_simulation *self) {
    self->more = self->source.next(self->source.context, &self->next);
    tt_assert(!self->more || self->next.at >= self->now);
}
