#include "policy/lazy_worth.h"

#include "base/instant.h"

bool tt_lazy_worth_preempting(const struct tt_lazy_worth *self, const struct tt_lazy_stack *stack,
                              const struct tt_lazy_run *run, const struct tt_lazy_group *group,
                              int64_t now) {
    if (self->foreign != TT_LAZY_SHORTER)
        return self->foreign == TT_LAZY_SLACK;
    const struct tt_lazy_entry *top = tt_lazy_stack_top(stack);
    const struct tt_lazy_times *own = &self->times[top->model], *new = &self->times[group->model];
    int64_t left_ns =
        tt_lazy_times_span(own, top->rows, top->length, top->place, own->model->step_count);
    if (run->running)
        left_ns -= tt_instant_max(now - run->started_at, 0);
    return tt_lazy_times_span(new, group->rows, group->length, group->place,
                              new->model->step_count) < left_ns;
}

int64_t tt_lazy_worth_price(const struct tt_lazy_worth *self, const struct tt_lazy_stack *stack,
                            const struct tt_lazy_run *run, const struct tt_lazy_group *group,
                            int64_t now) {
    if (self->patience_permille == 0)
        return 0;
    const struct tt_lazy_entry *top = tt_lazy_stack_top(stack);
    const struct tt_lazy_times *times = &self->times[top->model];
    int32_t end = times->model->step_count;
    struct tt_lazy_place place = top->place;
    int64_t after_ns;
    if (run->running)
        place = tt_lazy_times_reach(times, top->rows, top->length, place,
                                    tt_instant_max(now - run->started_at, 0), &after_ns);
    if (place.step >= end || place.step < group->place.step)
        return TT_NEVER;
    int32_t rows =
        top->rows + group->rows <= group->most_rows ? top->rows + group->rows : group->most_rows;
    int64_t held_up_ns =
        tt_lazy_times_span(times, group->rows, group->length, group->place, place.step) +
        tt_lazy_times_span(times, rows, top->length, place, end) -
        tt_lazy_times_span(times, top->rows, top->length, place, end);
    __int128 price_ns = (__int128)held_up_ns * stack->count * self->patience_permille / 1000;
    return price_ns < TT_NEVER ? (int64_t)price_ns : TT_NEVER;
}
