#include "policy/lazy/lazy_ski_rental.h"

#include "base/instant.h"

bool tt_lazy_ski_rental_preempting(const struct tt_lazy_ski_rental *self,
                                   const struct tt_lazy_stack *stack, const struct tt_lazy_run *run,
                                   const struct tt_lazy_group *group, int64_t now) {
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

/* The delay of each running request if the group is admitted now; TT_NEVER: the group cannot join.
 */
static int64_t held_up_ns(const struct tt_lazy_ski_rental *self, const struct tt_lazy_entry *top,
                          const struct tt_lazy_run *run, const struct tt_lazy_group *group,
                          int64_t now) {
    const struct tt_lazy_times *times = &self->times[group->model];
    if (top->model != group->model)
        return tt_lazy_times_rest(times, group->rows, group->length, group->place);
    struct tt_lazy_place place = top->place;
    int64_t after_ns;
    if (run->running)
        place = tt_lazy_times_reach(times, top->rows, top->length, place,
                                    tt_instant_max(now - run->started_at, 0), &after_ns);
    if (place.step >= times->step_count || place.step < group->place.step)
        return TT_NEVER;
    int32_t rows =
        top->rows + group->rows <= group->max_rows ? top->rows + group->rows : group->max_rows;
    return tt_lazy_times_span(times, group->rows, group->length, group->place, place.step) +
           tt_lazy_times_rest(times, rows, top->length, place) -
           tt_lazy_times_rest(times, top->rows, top->length, place);
}

int64_t tt_lazy_ski_rental_price(const struct tt_lazy_ski_rental *self,
                                 const struct tt_lazy_stack *stack, const struct tt_lazy_run *run,
                                 const struct tt_lazy_group *group, int64_t now) {
    int64_t each_ns = held_up_ns(self, tt_lazy_stack_top(stack), run, group, now);
    if (each_ns == TT_NEVER)
        return TT_NEVER;
    __int128 price_ns = (__int128)each_ns * stack->count * self->patience_permille / 1000;
    return price_ns < TT_NEVER ? (int64_t)price_ns : TT_NEVER;
}
