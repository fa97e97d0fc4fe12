#include "policy/lazy_slack.h"

#include "base/instant.h"

int64_t tt_lazy_slack_alone(const struct tt_lazy_slack *self, const struct tt_request *request) {
    const struct tt_lazy_times *times = &self->times[request->model];
    struct tt_lazy_place place = {.step = request->step, .round = request->round};
    return tt_lazy_times_rest(times, request->rows, request->length, place);
}

static struct tt_lazy_veto nobody(void) {
    return (struct tt_lazy_veto){.key = TT_NEVER, .until_at = TT_NEVER};
}

/* When the request would refuse: the smaller, the sooner. TT_NEVER: it does not. */
static int64_t vote_key(const struct tt_lazy_slack *self, const struct tt_request *request,
                        int64_t issued_at) {
    bool published = self->form == TT_LAZY_PUBLISHED && request->deadline_at != TT_NEVER;
    return published ? request->deadline_at - issued_at : request->deadline_at;
}

/* The vote of a request with this key (not TT_NEVER) that needs `alone_ns` by itself and has stood
 * still since `as_of` (TT_NEVER: it still does). */
static struct tt_lazy_veto vote(const struct tt_lazy_slack *self, const struct tt_request *request,
                                int64_t key, int64_t alone_ns, int64_t as_of, int64_t now) {
    int64_t latest_at = request->deadline_at - alone_ns; /* to go on, and be in time */
    struct tt_lazy_veto veto = {.key = key, .until_at = TT_NEVER};
    if (self->all_vote)
        return veto;
    if (as_of != TT_NEVER)
        return as_of > latest_at ? nobody() : veto;
    veto.until_at = latest_at + 1;
    return now > latest_at ? nobody() : veto;
}

static struct tt_lazy_veto first_of(struct tt_lazy_veto a, struct tt_lazy_veto b) {
    return b.key < a.key ? b : a;
}

struct tt_lazy_group tt_lazy_slack_grown(const struct tt_lazy_slack *self,
                                         const struct tt_lazy_group *group,
                                         const struct tt_request *request, int64_t alone_ns,
                                         int64_t now) {
    struct tt_lazy_group grown = *group;
    grown.count++;
    grown.rows += request->rows;
    grown.length = request->length > grown.length ? request->length : grown.length;
    if (request->round < grown.place.round)
        grown.place.round = request->round;
    grown.alone_ns += alone_ns;
    int64_t key = vote_key(self, request, now);
    if (key < grown.veto.key)
        grown.veto = first_of(grown.veto, vote(self, request, key, alone_ns, TT_NEVER, now));
    return grown;
}

/* Of members from `i` on that the line is for, in the last decoder of their model, where nothing
 * but their round matters. Returns the first that it is not for. */
static int32_t sum_decoders(const struct tt_lazy_line *line, struct tt_lazy_member *members,
                            int32_t i, int32_t count, int64_t *sum_ns) {
    const int32_t *left = line->left;
    int32_t known = line->left_count, rows = members[i].request->rows;
    int64_t sum = *sum_ns, round_ns = line->round_ns, ends_ns = line->fixed_ns - round_ns;
    for (; i < count && members[i].request->rows == rows; i++) {
        int32_t round = members[i].request->round;
        members[i].alone_ns = ends_ns + (round < known ? left[round] : 1) * round_ns;
        sum += members[i].alone_ns;
    }
    *sum_ns = sum;
    return i;
}

/* What the entry's members still need by themselves, which is noted, and the sum. */
static int64_t sum_alone(const struct tt_lazy_slack *self, const struct tt_lazy_stack *stack,
                         const struct tt_lazy_entry *entry) {
    const struct tt_lazy_times *times = &self->times[entry->model];
    struct tt_lazy_member *members = &stack->members[entry->first];
    int64_t sum_ns = 0;
    int32_t i = 0, count = entry->count;
    while (i < count) {
        const struct tt_request *request = members[i].request;
        int32_t rows = request->rows, length = request->length;
        const struct tt_lazy_line line = tt_lazy_times_line(times, rows, length, entry->place.step);
        if (line.left && line.any_length && line.per_input_ns == 0) {
            i = sum_decoders(&line, members, i, count, &sum_ns);
            continue;
        }
        do {
            members[i].alone_ns = tt_lazy_line_rest(&line, request->length, request->round);
            sum_ns += members[i].alone_ns;
            if (++i == count)
                break;
            request = members[i].request;
        } while (request->rows == rows && (line.any_length || request->length == length));
    }
    return sum_ns;
}

/* What they will still need when they come by `to` for the first time. */
static int64_t sum_from(const struct tt_lazy_slack *self, const struct tt_lazy_stack *stack,
                        const struct tt_lazy_entry *entry, int32_t to) {
    const struct tt_lazy_times *times = &self->times[entry->model];
    struct tt_lazy_line line = {0};
    int32_t rows = -1, length = -1;
    int64_t sum_ns = 0;
    for (int32_t i = 0; to < times->step_count && i < entry->count; i++) {
        const struct tt_request *request = stack->members[entry->first + i].request;
        if (request->rows != rows || (request->length != length && !line.any_length)) {
            rows = request->rows;
            length = request->length;
            line = tt_lazy_times_line(times, rows, length, to);
        }
        sum_ns += tt_lazy_line_rest(&line, request->length, 0);
    }
    return sum_ns;
}

/* The first of the entry's members that may refuse. */
static struct tt_lazy_veto votes(const struct tt_lazy_slack *self,
                                 const struct tt_lazy_stack *stack,
                                 const struct tt_lazy_entry *entry, int64_t as_of, int64_t now) {
    struct tt_lazy_veto first = nobody();
    for (int32_t i = 0; i < entry->count; i++) {
        const struct tt_lazy_member *member = &stack->members[entry->first + i];
        int64_t key = vote_key(self, member->request, member->issued_at);
        if (key < first.key)
            first = first_of(first, vote(self, member->request, key, member->alone_ns, as_of, now));
    }
    return first;
}

/* Brings votes and totals up to date. */
static void survey(const struct tt_lazy_slack *self, struct tt_lazy_stack *stack,
                   const struct tt_lazy_run *run, int64_t now) {
    for (int32_t e = 0; e < stack->surveyed; e++)
        if (stack->entries[e].veto.until_at <= now) /* a vote has lapsed */
            stack->surveyed = e;
    for (int32_t e = stack->surveyed; e < stack->depth; e++) {
        struct tt_lazy_entry *entry = &stack->entries[e];
        bool runs = run->running && e == stack->depth - 1;
        if (!entry->timed)
            entry->alone_ns = sum_alone(self, stack, entry);
        entry->timed = true;
        entry->veto = votes(self, stack, entry, runs ? run->started_at : TT_NEVER, now);
        entry->total_alone_ns = entry->alone_ns;
        entry->total_full_ns = entry->full_ns;
        entry->total_veto = entry->veto;
        if (e == 0)
            continue;
        const struct tt_lazy_entry *below = entry - 1;
        entry->total_alone_ns += below->total_alone_ns;
        entry->total_full_ns += below->total_full_ns;
        entry->total_veto = first_of(below->total_veto, entry->veto);
    }
    stack->surveyed = stack->depth;
    stack->surveyed_at = now;
}

void tt_lazy_slack_started(struct tt_lazy_stack *stack, const struct tt_lazy_run *run) {
    struct tt_lazy_entry *top = tt_lazy_stack_top(stack);
    if (stack->surveyed == stack->depth && stack->surveyed_at == run->started_at) {
        top->veto.until_at = TT_NEVER; /* who is not lost now is not until the next boundary */
        top->total_veto = stack->depth > 1 ? first_of((top - 1)->total_veto, top->veto) : top->veto;
    } else if (stack->surveyed == stack->depth) {
        stack->surveyed--;
    }
}

/* What the running members need alone until their task ends. The stack has been surveyed. */
static int64_t consumed(const struct tt_lazy_slack *self, const struct tt_lazy_stack *stack,
                        struct tt_lazy_run *run) {
    if (run->consumed_ns >= 0)
        return run->consumed_ns;
    const struct tt_lazy_entry *top = tt_lazy_stack_top(stack);
    run->consumed_ns = top->alone_ns - sum_from(self, stack, top, run->to);
    return run->consumed_ns;
}

/* What the running members have done of what they needed alone. */
static int64_t done_ns(const struct tt_lazy_slack *self, const struct tt_lazy_stack *stack,
                       struct tt_lazy_run *run, int64_t now) {
    if (!run->running || now <= run->started_at)
        return 0;
    (void)consumed(self, stack, run);
    int64_t elapsed_ns = tt_instant_min(now - run->started_at, run->predicted_ns);
    return (int64_t)((__int128)run->consumed_ns * elapsed_ns / run->predicted_ns);
}

/* Batches as they would run: `group` on top, merging with what it catches up with. */
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
                      entry->rows + group.rows <= group.most_rows &&
                      place.step < times->model->step_count;
        int32_t to = merges ? place.step : times->model->step_count;
        at += tt_lazy_times_span(times, group.rows, group.length, group.place, to);
        if (!merges && at > group.veto.key)
            return false;
        if (!merges) /* rows of one model on a stack always fit into one batch (lazy_door.h) */
            group = (struct tt_lazy_group){.veto = nobody(), .most_rows = INT32_MAX};
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
        return TT_NEVER; /* later only means more to catch up with */
    const struct tt_lazy_entry *top = tt_lazy_stack_top(stack);
    int64_t at = tt_instant_min(top->total_veto.until_at, group->veto.until_at);
    if (self->form == TT_LAZY_PUBLISHED || !run->running)
        return at;
    int64_t gain_ns = consumed(self, stack, run) - run->predicted_ns;
    if (gain_ns <= 0)
        return at;
    /* The sum shrinks faster than time passes: the first elapsed x with
     * x * gain / predicted >= excess, rounded as done_ns does. */
    int64_t key = tt_instant_min(top->total_veto.key, group->veto.key);
    int64_t excess_ns = run->started_at + top->total_alone_ns + group->alone_ns - key;
    if (excess_ns <= 0)
        return at; /* a run that has outlasted even what it consumes: it was allowed, and is not */
    __int128 elapsed_ns = ((__int128)excess_ns * run->predicted_ns + gain_ns - 1) / gain_ns;
    /* At its predicted end too: outputs may outrun the prediction. From there on it only grows. */
    if (elapsed_ns <= run->predicted_ns && run->started_at + (int64_t)elapsed_ns > now)
        at = tt_instant_min(at, run->started_at + (int64_t)elapsed_ns);
    return at;
}
