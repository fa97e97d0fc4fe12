#include "scale/autoscaler.h"

void tt_autoscaler_init(struct tt_autoscaler *self, int32_t target, int32_t least, int32_t most,
                        double hold_s) {
    tt_assert(hold_s >= 0);
    *self = (struct tt_autoscaler){
        .target = target, .least = least, .most = most, .hold_s = hold_s, .over_since_s = -1};
    tt_autoscaler_check(self);
}

void tt_autoscaler_check(const struct tt_autoscaler *self) {
    tt_assert(self->least >= 1);
    tt_assert(self->least <= self->target);
    tt_assert(self->target <= self->most);
    tt_assert(self->over_since_s < 0 || self->highest < self->target);
}

static void aim(struct tt_autoscaler *self, int32_t target) {
    self->adjustments += target != self->target;
    self->target = target;
    self->over_since_s = -1;
}

static int32_t within(const struct tt_autoscaler *self, int32_t count) {
    return count < self->least ? self->least : count > self->most ? self->most : count;
}

static void forget_failure(struct tt_autoscaler *self, double now_s,
                           const struct tt_devices_wanted *wanted) {
    bool is_less = wanted->work * (1 + wanted->error) < self->failed_work;
    if (is_less || now_s - self->failed_at_s >= TT_AUTOSCALER_FAILURE_S)
        self->failed = 0;
}

static void note_failure(struct tt_autoscaler *self, double now_s,
                         const struct tt_devices_wanted *wanted) {
    self->failed = self->target;
    self->failed_work = wanted->work * (1 - wanted->error);
    self->failed_at_s = now_s;
}

int32_t tt_autoscaler_step(struct tt_autoscaler *self, double now_s,
                           const struct tt_devices_wanted *wanted, double bad) {
    tt_assert(now_s >= 0);
    forget_failure(self, now_s, wanted);
    bool failed = bad > TT_DEVICES_BAD_SHARE;
    if (failed)
        note_failure(self, now_s, wanted);
    int32_t floor = self->failed < self->target ? self->failed + 1 : 1;
    int32_t count = within(self, wanted->count > floor ? wanted->count : floor);
    bool is_short = wanted->fewest > self->target || failed;
    if (count > self->target && is_short) {
        aim(self, count);
    } else if (count >= self->target || wanted->most >= self->target) {
        self->over_since_s = -1;
    } else {
        if (self->over_since_s < 0) {
            self->over_since_s = now_s;
            self->highest = count;
        }
        self->highest = count > self->highest ? count : self->highest;
        if (now_s - self->over_since_s >= self->hold_s)
            aim(self, self->highest);
    }
    tt_autoscaler_check(self);
    return self->target;
}
