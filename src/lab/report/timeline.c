#include "lab/report/timeline.h"

#include "base/instant.h"
#include "lab/scenario/allocate.h"
#include <stdlib.h>

enum { MAX_LANES = 64 };

void tt_timeline_init(struct tt_timeline *self, const struct tt_scenario *scenario) {
    *self = (struct tt_timeline){.scenario = scenario, .until_at = TT_NEVER};
    self->bars = tt_allocate(TT_TIMELINE_MAX_BARS, sizeof(*self->bars));
}

void tt_timeline_fini(struct tt_timeline *self) {
    free(self->bars);
    *self = (struct tt_timeline){0};
}

static void on_started(void *context, int64_t now, const struct tt_task *task, int32_t step,
                       const int64_t *request_numbers) {
    struct tt_timeline *self = context;
    if (task->executor >= MAX_LANES || now < self->from_at || now > self->until_at)
        return;
    self->seen++;
    if (self->count == TT_TIMELINE_MAX_BARS)
        return;
    int64_t deadline_at = TT_NEVER;
    for (int32_t i = 0; i < task->count; i++)
        deadline_at = tt_instant_min(deadline_at, task->items[i].request->deadline_at);
    struct tt_timeline_bar *bar = &self->bars[self->count++];
    *bar = (struct tt_timeline_bar){.start_at = now,
                                    .end_at = -1,
                                    .deadline_at = deadline_at,
                                    .executor = task->executor,
                                    .model = task->model,
                                    .rows = task->rows,
                                    .step = step,
                                    .member_count = task->count};
    for (int32_t i = 0; i < task->count && i < TT_TIMELINE_MEMBERS; i++)
        bar->members[i] = request_numbers[i];
}

static void on_step_over(void *context, int64_t now, const struct tt_task *task, int32_t step) {
    struct tt_timeline *self = context;
    for (int32_t i = self->count - 1; i >= 0; i--) {
        struct tt_timeline_bar *bar = &self->bars[i];
        if (bar->executor != task->executor)
            continue;
        if (bar->end_at < 0) {
            bar->end_at = now;
            bar->step = step;
            bar->slack_ns = bar->deadline_at == TT_NEVER ? TT_NEVER : bar->deadline_at - now;
        }
        return;
    }
}

struct tt_sim_observer tt_timeline_observer(struct tt_timeline *self) {
    return (struct tt_sim_observer){
        .context = self, .step_started = on_started, .step_ended = on_step_over};
}

void tt_timeline_since(struct tt_timeline *self, int64_t origin_at) {
    for (int32_t i = 0; i < self->count; i++) {
        self->bars[i].start_at -= origin_at;
        self->bars[i].end_at -= self->bars[i].end_at >= 0 ? origin_at : 0;
    }
}

static int by_start(const void *a, const void *b) {
    const struct tt_timeline_bar *x = a, *y = b;
    if (x->start_at != y->start_at)
        return (x->start_at > y->start_at) - (x->start_at < y->start_at);
    return (x->end_at > y->end_at) - (x->end_at < y->end_at);
}

void tt_timeline_sort(struct tt_timeline *self) {
    if (self->count > 0 && self->scenario->world != TT_WORLD_SIMULATED)
        qsort(self->bars, (size_t)self->count, sizeof(*self->bars), by_start);
}

static int32_t next_on_executor(const struct tt_timeline *self, int32_t i) {
    int32_t next = i + 1;
    while (next < self->count && self->bars[next].executor != self->bars[i].executor)
        next++;
    return next;
}

int32_t tt_timeline_resumed_by(const struct tt_timeline *self, int32_t i, int64_t until_at) {
    const struct tt_timeline_bar *bar = &self->bars[i];
    int32_t next = next_on_executor(self, i);
    if (next == self->count || bar->end_at < 0 || bar->step < 0 || bar->start_at > until_at ||
        self->bars[next].step > bar->step)
        return -1;
    if (self->bars[next].members[0] == bar->members[0])
        return -1; /* the same batch in the next round of a recurrent block */
    if (bar->step + 1 == self->scenario->models[bar->model].step_model.step_count)
        return -1;
    for (int32_t k = next; k < self->count && self->bars[k].start_at <= until_at; k++)
        if (self->bars[k].executor == bar->executor && self->bars[k].model == bar->model &&
            self->bars[k].step == bar->step + 1)
            return k;
    return -1;
}

static double ms(int64_t ns) { return (double)ns / 1e6; }

static json_t *bar_json(const struct tt_timeline_bar *bar) {
    json_t *members = json_array();
    for (int32_t i = 0; i < bar->member_count && i < TT_TIMELINE_MEMBERS; i++)
        json_array_append_new(members, json_integer(bar->members[i]));
    bool has_slack = bar->slack_ns != TT_NEVER && bar->step >= 0;
    return json_pack("[i,i,i,i,f,f,o,o]", bar->executor, bar->model, bar->step, bar->rows,
                     ms(bar->start_at), ms(bar->end_at),
                     has_slack ? json_real(ms(bar->slack_ns)) : json_null(), members);
}

json_t *tt_timeline_json(struct tt_timeline *self) {
    json_t *bars = json_array(), *waits = json_array();
    tt_timeline_sort(self);
    for (int32_t i = 0; i < self->count; i++) {
        const struct tt_timeline_bar *bar = &self->bars[i];
        if (bar->end_at >= 0)
            json_array_append_new(bars, bar_json(bar));
        int32_t by = tt_timeline_resumed_by(self, i, TT_NEVER);
        if (by >= 0)
            json_array_append_new(waits, json_pack("[i,i,f,f]", bar->executor, self->bars[by].step,
                                                   ms(bar->end_at), ms(self->bars[by].start_at)));
    }
    return json_pack("{s:o,s:o,s:I}", "bars", bars, "waits", waits, "seen", (json_int_t)self->seen);
}
