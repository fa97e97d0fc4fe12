#include "policy/lazy/lazy_slack.h"

#include "base/instant.h"

static inline struct tt_lazy_veto first_of(struct tt_lazy_veto a, struct tt_lazy_veto b) {
    return b.key < a.key ? b : a;
}

/* The sums of a member at `step`, if every member is one row and the profile has one length; else
 * NULL. */
static inline const struct tt_lazy_sum *uniform(const struct tt_lazy_times *times,
                                                const struct tt_lazy_entry *entry, int32_t step) {
    return times->one && entry->rows == entry->count ? &times->one[step] : NULL;
}

/* The time that members need alone from `step` on, summed one by one. `anew`: they reach it for the
 * first time; otherwise they stand there. */
static int64_t ask_each(const struct tt_lazy_times *times, const struct tt_lazy_member *members,
                        int32_t count, int32_t step, bool anew) {
    int64_t sum_ns = 0;
    for (int32_t i = 0; i < count; i++) {
        const struct tt_request *request = members[i].request;
        sum_ns += tt_lazy_sum_rest(times, &members[i].sums[step], step, request->length,
                                   anew ? 0 : request->round);
    }
    return sum_ns;
}

/* The total time that the entry's members still need alone. `at`: uniform() at its step. */
static inline int64_t sum_alone(const struct tt_lazy_times *times,
                                const struct tt_lazy_member *members,
                                const struct tt_lazy_entry *entry, const struct tt_lazy_sum *at) {
    int32_t count = entry->count, step = entry->place.step;
    if (!at)
        return ask_each(times, members, count, step, false);
    int64_t rounds = 0; /* left of the block */
    if (times->rows[step].kind == TT_STEP_DECODER)
        for (int32_t i = 0; i < count; i++)
            rounds += tt_lazy_times_left(times, members[i].request->round);
    else if (times->rows[step].kind == TT_STEP_ENCODER)
        for (int32_t i = 0; i < count; i++)
            rounds += tt_lazy_elements(members[i].request->length - members[i].request->round);
    else
        rounds = count;
    return count * at->fixed_ns + entry->elements * at->per_input_ns +
           (rounds - count) * at->round_ns;
}

/* The total time that they need alone from `to` on, when they reach it for the first time. */
static inline int64_t sum_behind(const struct tt_lazy_times *times,
                                 const struct tt_lazy_member *members,
                                 const struct tt_lazy_entry *entry, int32_t to) {
    if (to == times->step_count)
        return 0;
    const struct tt_lazy_sum *at = uniform(times, entry, to);
    if (!at)
        return ask_each(times, members, entry->count, to, true);
    int64_t more = times->rows[to].kind == TT_STEP_ENCODER
                       ? entry->elements - entry->count
                       : (int64_t)entry->count * (tt_lazy_times_left(times, 0) - 1);
    return entry->count * at->fixed_ns + entry->elements * at->per_input_ns + more * at->round_ns;
}

/* The smallest key of the entry's members that may refuse: those that are not hopeless at
 * `asked_at`. */
static inline struct tt_lazy_veto votes(const struct tt_lazy_times *times,
                                        const struct tt_lazy_member *members,
                                        const struct tt_lazy_entry *entry, int64_t asked_at) {
    int64_t key = TT_NEVER, latest_at = TT_NEVER - 1;
    int32_t step = entry->place.step;
    for (const struct tt_lazy_member *at = members, *end = members + entry->count; at < end; at++) {
        if (at->key >= key)
            continue;
        const struct tt_request *request = at->request;
        int64_t alone_ns =
            tt_lazy_sum_rest(times, &at->sums[step], step, request->length, request->round);
        if (request->deadline_at - alone_ns < asked_at)
            continue;
        key = at->key;
        latest_at =
            request->deadline_at - alone_ns; /* the latest instant to continue and be in time */
    }
    return (struct tt_lazy_veto){.key = key, .until_at = latest_at + 1};
}

static int64_t key_now(const struct tt_lazy_slack *self, const struct tt_request *request,
                       int64_t issued_at) {
    return tt_lazy_slack_key(self, request, tt_lazy_slack_alone(self, request), issued_at);
}

/* The votes of an entry with members that have not started: their slack shrinks with time. */
static struct tt_lazy_veto votes_unissued(const struct tt_lazy_slack *self,
                                          const struct tt_lazy_member *members,
                                          const struct tt_lazy_entry *entry, int64_t asked_at,
                                          int64_t now) {
    struct tt_lazy_veto first = {TT_NEVER, TT_NEVER};
    struct tt_lazy_entry alone = *entry;
    alone.count = 1;
    for (int32_t i = 0; i < entry->count; i++) {
        struct tt_lazy_member member = members[i];
        if (member.key == TT_NEVER)
            member.key = key_now(self, member.request, now);
        first = first_of(first, votes(&self->times[entry->model], &member, &alone, asked_at));
    }
    return first;
}

/* Computes the entry's totals from its own sums and the totals of the entry below. The totals of an
 * entry with members that have not started are outdated at once. */
static inline void add_up(struct tt_lazy_stack *stack, int32_t index) {
    struct tt_lazy_entry *entry = &stack->entries[index];
    entry->total_alone_ns = entry->alone_ns;
    entry->total_full_ns = entry->full_ns;
    entry->total_veto = entry->veto;
    entry->total_until_at = entry->unissued ? INT64_MIN : entry->veto.until_at;
    if (index == 0)
        return;
    const struct tt_lazy_entry *below = entry - 1;
    entry->total_alone_ns += below->total_alone_ns;
    entry->total_full_ns += below->total_full_ns;
    entry->total_veto = first_of(below->total_veto, entry->veto);
    entry->total_until_at = tt_instant_min(below->total_until_at, entry->total_until_at);
}

/* Computes votes and totals from entry `from` on. With `timely`, hopeless requests have no vote. A
 * running request that was not hopeless at the start of its task is not before the next boundary; a
 * waiting member can become hopeless at any time. */
static void survey_from(const struct tt_lazy_slack *self, struct tt_lazy_stack *stack,
                        const struct tt_lazy_run *run, int32_t from, int64_t now) {
    for (int32_t e = from; e < stack->depth; e++) {
        struct tt_lazy_entry *entry = &stack->entries[e];
        const struct tt_lazy_member *members = &stack->members[entry->first];
        const struct tt_lazy_times *times = &self->times[entry->model];
        const struct tt_lazy_sum *at = uniform(times, entry, entry->place.step);
        bool runs = run->running && e == stack->depth - 1;
        bool lapses = self->votes == TT_LAZY_VOTES_TIMELY;
        int64_t asked_at = !lapses ? INT64_MIN : runs ? run->started_at : now;
        if (!entry->timed)
            entry->alone_ns = sum_alone(times, members, entry, at);
        entry->timed = true;
        entry->veto = entry->unissued ? votes_unissued(self, members, entry, asked_at, now)
                                      : votes(times, members, entry, asked_at);
        if (!lapses || runs)
            entry->veto.until_at = TT_NEVER;
        add_up(stack, e);
    }
    stack->surveyed = stack->depth;
}

/* Updates votes and totals. */
static inline void survey(const struct tt_lazy_slack *self, struct tt_lazy_stack *stack,
                          const struct tt_lazy_run *run, int64_t now) {
    int32_t from = stack->surveyed;
    while (from > 0 && stack->entries[from - 1].total_until_at <= now) /* a vote has expired */
        from--;
    if (from < stack->depth)
        survey_from(self, stack, run, from, now);
    stack->surveyed_at = now;
}

/* Ends T_wait (equation 1) of the members that start with this task. */
static void issue(const struct tt_lazy_slack *self, struct tt_lazy_stack *stack,
                  int64_t started_at) {
    struct tt_lazy_entry *top = tt_lazy_stack_top(stack);
    for (int32_t i = top->first; i < top->first + top->count; i++)
        if (stack->members[i].key == TT_NEVER)
            stack->members[i].key = key_now(self, stack->members[i].request, started_at);
    top->unissued = false;
    if (stack->surveyed == stack->depth)
        stack->surveyed--;
}

void tt_lazy_slack_started(const struct tt_lazy_slack *self, struct tt_lazy_stack *stack,
                           const struct tt_lazy_run *run) {
    if (tt_lazy_stack_top(stack)->unissued) {
        issue(self, stack, run->started_at);
        return;
    }
    if (stack->surveyed == stack->depth && stack->surveyed_at == run->started_at) {
        tt_lazy_stack_top(stack)->veto.until_at = TT_NEVER; /* as in survey_from */
        add_up(stack, stack->depth - 1);
    } else if (stack->surveyed == stack->depth) {
        stack->surveyed--;
    }
}

/* The predicted duration of the task. */
static inline int64_t predicted(const struct tt_lazy_slack *self, const struct tt_lazy_stack *stack,
                                struct tt_lazy_run *run) {
    if (run->predicted_ns >= 0)
        return run->predicted_ns;
    const struct tt_lazy_entry *top = tt_lazy_stack_top(stack);
    int64_t span_ns =
        tt_lazy_times_span(&self->times[top->model], top->rows, top->length, top->place, run->to);
    return run->predicted_ns = tt_instant_max(span_ns, 1);
}

/* The time alone that the running members consume until their task ends. Needs a current survey. */
static inline int64_t consumed(const struct tt_lazy_slack *self, const struct tt_lazy_stack *stack,
                               struct tt_lazy_run *run) {
    if (run->consumed_ns >= 0)
        return run->consumed_ns;
    const struct tt_lazy_entry *top = tt_lazy_stack_top(stack);
    run->consumed_ns = top->alone_ns - sum_behind(&self->times[top->model],
                                                  &stack->members[top->first], top, run->to);
    return run->consumed_ns;
}

/* The part of that time which is consumed by `now`. */
static int64_t done_ns(const struct tt_lazy_slack *self, const struct tt_lazy_stack *stack,
                       struct tt_lazy_run *run, int64_t now) {
    if (!run->running || now <= run->started_at)
        return 0;
    int64_t all_ns = predicted(self, stack, run);
    int64_t elapsed_ns = tt_instant_min(now - run->started_at, all_ns);
    return (int64_t)((__int128)consumed(self, stack, run) * elapsed_ns / all_ns);
}

/* Simulates the batches: `group` on top, merging with the entries that it catches up with. */
static bool curves_allow(const struct tt_lazy_slack *self, const struct tt_lazy_stack *stack,
                         const struct tt_lazy_run *run, const struct tt_lazy_group *newcomers,
                         int64_t now) {
    struct tt_lazy_group group = *newcomers;
    int64_t at = now;
    for (int32_t e = stack->depth - 1; e >= 0; e--) {
        const struct tt_lazy_entry *entry = &stack->entries[e];
        struct tt_lazy_place place = entry->place;
        if (run->running && e == stack->depth - 1) { /* it stops at its next boundary */
            int64_t after_ns, elapsed_ns = tt_instant_max(now - run->started_at, 0);
            place = tt_lazy_times_reach(&self->times[entry->model], entry->rows, entry->length,
                                        place, elapsed_ns, &after_ns);
            at = tt_instant_max(now, run->started_at + after_ns);
        }
        const struct tt_lazy_times *times = &self->times[group.model];
        bool merges = entry->model == group.model && place.step >= group.place.step &&
                      entry->rows + group.rows <= group.max_rows &&
                      place.step < times->model->step_count;
        int32_t to = merges ? place.step : times->model->step_count;
        at += tt_lazy_times_span(times, group.rows, group.length, group.place, to);
        if (!merges && at > group.veto.key)
            return false;
        if (!merges) /* the rows of one model on a stack always fit one batch (lazy_admission.h) */
            group = (struct tt_lazy_group){.veto = {.key = TT_NEVER, .until_at = TT_NEVER},
                                           .max_rows = INT32_MAX};
        bool same_round = merges && group.place.step == place.step;
        group.model = entry->model;
        group.rows += entry->rows;
        group.length = entry->length > group.length ? entry->length : group.length;
        int32_t round = merges ? (same_round ? group.place.round : 0) : place.round;
        group.place = place;
        group.place.round = round < place.round ? round : place.round;
        group.veto = first_of(group.veto, entry->veto);
    }
    const struct tt_lazy_times *times = &self->times[group.model];
    at +=
        tt_lazy_times_span(times, group.rows, group.length, group.place, times->model->step_count);
    return at <= group.veto.key;
}

bool tt_lazy_slack_allows(const struct tt_lazy_slack *self, struct tt_lazy_stack *stack,
                          struct tt_lazy_run *run, const struct tt_lazy_group *group, int64_t now) {
    tt_assert(stack->depth > 0);
    const struct tt_lazy_entry *top = tt_lazy_stack_top(stack);
    survey(self, stack, run, now);
    if (self->form == TT_LAZY_CURVES)
        return curves_allow(self, stack, run, group, now);
    int64_t key = tt_instant_min(top->total_veto.key, group->veto.key);
    if (key == TT_NEVER)
        return true;
    if (self->form == TT_LAZY_PUBLISHED)
        return top->total_full_ns + group->alone_ns <= key;
    return now + top->total_alone_ns - done_ns(self, stack, run, now) + group->alone_ns <= key;
}

int64_t tt_lazy_slack_retry_at(const struct tt_lazy_slack *self, const struct tt_lazy_stack *stack,
                               struct tt_lazy_run *run, const struct tt_lazy_group *group,
                               int64_t now) {
    if (self->form == TT_LAZY_CURVES)
        return TT_NEVER; /* a later start mostly means more to catch up with; the next boundary asks
                            again */
    const struct tt_lazy_entry *top = tt_lazy_stack_top(stack);
    int64_t at = tt_instant_min(top->total_veto.until_at, group->veto.until_at);
    if (self->form == TT_LAZY_PUBLISHED || !run->running)
        return at;
    /* The sum shrinks faster than time passes. Finds the first elapsed time x with x * gain /
     * predicted >= excess, rounded as in done_ns. */
    int64_t key = tt_instant_min(top->total_veto.key, group->veto.key);
    int64_t excess_ns = run->started_at + top->total_alone_ns + group->alone_ns - key;
    if (excess_ns <= 0)
        return at; /* a run longer than the time alone that it consumes: it was admitted, and is not
                      any more */
    /* The same at its predicted end, because outputs may exceed the prediction. From there on the
     * excess only grows. */
    int64_t all_ns = predicted(self, stack, run);
    if (excess_ns > top->alone_ns - all_ns)
        return at; /* the run cannot gain that much, wherever it ends */
    int64_t gain_ns = consumed(self, stack, run) - all_ns;
    if (excess_ns > gain_ns)
        return at;
    int64_t elapsed_ns = (int64_t)(((__int128)excess_ns * all_ns + gain_ns - 1) / gain_ns);
    return run->started_at + elapsed_ns > now ? tt_instant_min(at, run->started_at + elapsed_ns)
                                              : at;
}
