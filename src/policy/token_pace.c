#include "policy/token_pace.h"

#include "base/instant.h"

#include <stdlib.h>

enum tt_err tt_token_pace_init(struct tt_token_pace *self, const struct tt_mechanism *domain,
                               const struct tt_cell_queues *cells, bool is_ahead) {
    size_t models = (size_t)domain->model_capacity, executors = (size_t)domain->executor_capacity;
    *self = (struct tt_token_pace){.domain = domain,
                                   .cells = cells,
                                   .is_ahead = is_ahead,
                                   .depth = domain->executors[0].depth};
    tt_list_init(&self->begun);
    self->decoders = calloc(models, sizeof(*self->decoders));
    self->loads = calloc(models, sizeof(*self->loads));
    self->began_at = calloc(executors, sizeof(*self->began_at));
    self->work_ns = calloc(executors * (size_t)self->depth, sizeof(*self->work_ns));
    if (!self->decoders || !self->loads || !self->began_at || !self->work_ns)
        return TT_ERR_NO_MEMORY;
    for (size_t m = 0; m < models; m++)
        self->decoders[m] = -1;
    return TT_OK;
}

void tt_token_pace_fini(struct tt_token_pace *self) {
    free(self->decoders);
    free(self->loads);
    free(self->began_at);
    free(self->work_ns);
    *self = (struct tt_token_pace){0};
}

void tt_token_pace_model_changed(struct tt_token_pace *self, int32_t model, enum tt_change change) {
    const struct tt_step_model *added = self->domain->models[model];
    int32_t *decoder = &self->decoders[model];
    if (change == TT_CHANGE_GONE && *decoder >= 0) {
        self->model_count--;
        *decoder = -1;
    }
    if (change != TT_CHANGE_ADDED || !tt_token_slo_given(&added->tokens))
        return;
    for (int32_t s = 0; s < added->step_count && *decoder < 0; s++)
        if (added->steps[s].kind == TT_STEP_DECODER)
            *decoder = s;
    self->model_count += *decoder >= 0;
}

static struct tt_cell_type *type_at(const struct tt_token_pace *self, int32_t model, int32_t step) {
    return self->cells->types[model][step];
}

bool tt_token_pace_is_decoder(const struct tt_token_pace *self, const struct tt_cell_type *type) {
    for (int32_t m = 0; m < self->domain->model_capacity; m++)
        if (self->decoders[m] >= 0 && type_at(self, m, self->decoders[m]) == type)
            return true;
    return false;
}

/* ---- times ---- */

/* How long a task of the type takes. */
static int64_t task_ns(const struct tt_token_pace *self, const struct tt_cell_type *type,
                       int32_t rows, int32_t length) {
    const struct tt_step *steps = self->domain->models[type->model]->steps;
    int64_t sum_ns = 0;
    for (int32_t s = type->first_step; s <= type->last_step; s++)
        sum_ns += tt_profile_tail(steps[s].profile, rows, length);
    return sum_ns;
}

/* The largest number of rows of a decoder with which it keeps the smallest TPOT; at least 1. */
static int32_t capacity(const struct tt_token_pace *self, const struct tt_token_load *load) {
    int32_t fits = 1, above = load->type->max_rows + 1;
    if (load->tpot_ns == 0)
        return load->type->max_rows;
    while (above - fits > 1) {
        int32_t rows = fits + (above - fits) / 2;
        if (task_ns(self, load->type, rows, load->length) <= load->tpot_ns)
            fits = rows;
        else
            above = rows;
    }
    return fits;
}

/* The part of a round that this decoder takes. */
static int64_t part_ns(const struct tt_token_pace *self, const struct tt_token_load *load) {
    int32_t most = capacity(self, load);
    return task_ns(self, load->type, load->rows < most ? load->rows : most, load->length);
}

static int64_t round_ns(const struct tt_token_pace *self) {
    int64_t sum_ns = 0;
    for (int32_t i = 0; i < self->load_count; i++)
        sum_ns += part_ns(self, &self->loads[i]);
    return sum_ns;
}

static int64_t smallest_tpot(const struct tt_token_pace *self) {
    int64_t least_ns = TT_NEVER;
    for (int32_t i = 0; i < self->load_count; i++)
        if (self->loads[i].tpot_ns > 0)
            least_ns = tt_instant_min(least_ns, self->loads[i].tpot_ns);
    return least_ns;
}

/* When the executor will have run what it has. */
static int64_t free_at(const struct tt_token_pace *self, int64_t now, int32_t executor) {
    const struct tt_executor *e = &self->domain->executors[executor];
    int64_t at = self->began_at[executor];
    for (int32_t k = 0; k < e->queued; k++) {
        int32_t place = e->oldest + k < e->depth ? e->oldest + k : e->oldest + k - e->depth;
        at += self->work_ns[(ptrdiff_t)executor * self->depth + place];
    }
    return e->queued > 0 ? tt_instant_max(at, now) : now;
}

/* ---- the requests that have begun ---- */

/* The load of the request's decoder; behind the last one if there is none. */
static struct tt_token_load *load_of(const struct tt_token_pace *self,
                                     const struct tt_request *request) {
    const struct tt_cell_type *type = type_at(self, request->model, self->decoders[request->model]);
    struct tt_token_load *load = self->loads;
    while (load < self->loads + self->load_count && load->type != type)
        load++;
    return load;
}

/* Adds the request to the load of its decoder, and returns it; *out_before: that load as it was. */
static struct tt_token_load *load_add(struct tt_token_pace *self, const struct tt_request *request,
                                      struct tt_token_load *out_before) {
    int64_t tpot_ns = self->domain->models[request->model]->tokens.tpot_ns;
    struct tt_token_load *load = load_of(self, request);
    if (load == self->loads + self->load_count) {
        *load = (struct tt_token_load){
            .type = type_at(self, request->model, self->decoders[request->model])};
        self->load_count++;
    }
    *out_before = *load;
    load->rows += request->rows;
    load->length = request->length > load->length ? request->length : load->length;
    if (tpot_ns > 0 && (load->tpot_ns == 0 || tpot_ns < load->tpot_ns))
        load->tpot_ns = tpot_ns;
    return load;
}

static void load_begun(struct tt_token_pace *self) {
    struct tt_token_load unused;
    self->load_count = 0;
    for (struct tt_list_node *node = self->begun.head.next; node != &self->begun.head;
         node = node->next)
        load_add(self, TT_CONTAINER_OF(node, struct tt_request, link), &unused);
}

/* What a decision about one type and executor depends on. */
struct situation {
    int64_t now, free_at, round_ns; /* round_ns: of the requests that have begun */
    int32_t executor;
    const struct tt_cell_type *type;
};

/* When the next token of the request is due, less what it needs before its decoder; TT_NEVER: a
 * task of the situation's type on its executor does not delay it, or it is given up. */
static int64_t due_of(const struct tt_token_pace *self, const struct situation *s,
                      const struct tt_request *request) {
    const struct tt_token_slo *slo = &self->domain->models[request->model]->tokens;
    const struct tt_cell_graph *graph = request->graph;
    const struct tt_cell_subgraph *decoder = NULL;
    int32_t first_step = self->decoders[request->model];
    int64_t rest_ns = 0;
    for (int32_t i = 0; i < graph->subgraph_count; i++) {
        const struct tt_cell_subgraph *part = &graph->subgraphs[i];
        const struct tt_cell_type *type = type_at(self, part->model, part->first_step);
        if (part->executor >= 0 && part->executor != s->executor)
            return TT_NEVER; /* it goes on there */
        if (part->first_step == first_step)
            decoder = part;
        if (part->first_step >= first_step || part->over)
            continue;
        if (part->ready > 0 && type == s->type)
            return TT_NEVER; /* the task brings it forward */
        rest_ns +=
            (part->count - part->submitted) * task_ns(self, type, part->rows, request->length);
    }
    if (!decoder || decoder->over)
        return TT_NEVER;
    int64_t earliest_at = s->free_at + rest_ns + part_ns(self, load_of(self, request));
    if (graph->tokens.count == 0 && decoder->submitted == 0) {
        int64_t first_by_at = tt_request_first_by(request, slo);
        if (first_by_at == TT_NEVER)
            return TT_NEVER;
        /* With tasks ahead a round without it is submitted before it comes to its decoder. */
        return first_by_at < earliest_at
                   ? TT_NEVER
                   : first_by_at - rest_ns - (self->is_ahead ? s->round_ns : 0);
    }
    if (slo->tpot_ns == 0)
        return TT_NEVER;
    /* While its first token is in flight, that comes now at the earliest. */
    int64_t done_at = graph->tokens.count > 0
                          ? graph->tokens.first_at + graph->tokens.count * slo->tpot_ns
                          : s->now;
    int64_t due_at = done_at + decoder->in_flight * slo->tpot_ns;
    return due_at + slo->tpot_ns < earliest_at ? TT_NEVER : due_at;
}

static int64_t earliest_due(const struct tt_token_pace *self, const struct situation *s) {
    int64_t earliest_at = TT_NEVER;
    for (const struct tt_list_node *node = self->begun.head.next; node != &self->begun.head;
         node = node->next)
        earliest_at = tt_instant_min(
            earliest_at, due_of(self, s, TT_CONTAINER_OF(node, struct tt_request, link)));
    return earliest_at;
}

int64_t tt_token_pace_decoder_due(struct tt_token_pace *self, int64_t now, int32_t executor,
                                  const struct tt_cell_type *type) {
    int64_t earliest_at = TT_NEVER;
    load_begun(self);
    const struct situation s = {
        .now = now, .free_at = free_at(self, now, executor), .executor = executor};
    for (const struct tt_list_node *node = self->begun.head.next; node != &self->begun.head;
         node = node->next) {
        const struct tt_request *request = TT_CONTAINER_OF(node, struct tt_request, link);
        if (type_at(self, request->model, self->decoders[request->model]) == type)
            earliest_at = tt_instant_min(earliest_at, due_of(self, &s, request));
    }
    return earliest_at;
}

/* ---- how many rows may run ---- */

/* A task that grows. */
struct growing {
    int32_t rows, length;
    int64_t due_at;   /* the earliest of those that have begun */
    int64_t first_by; /* the latest end of the round behind it, for those that begin in it */
};

/* How long cells take that need `work_ns` beside decoders which keep their TPOT: these take a round
 * of each. TT_NEVER: they leave no time. */
static int64_t stretched(const struct tt_token_pace *self, int64_t work_ns, int64_t taken_ns) {
    int64_t of_ns = smallest_tpot(self);
    if (work_ns <= 0)
        return 0;
    if (of_ns == TT_NEVER)
        return work_ns;
    if (taken_ns >= of_ns)
        return TT_NEVER;
    return (int64_t)((__int128)work_ns * of_ns / (of_ns - taken_ns));
}

/* When a round that includes the request must have ended, if the request begins now in a task of
 * the situation's type; TT_NEVER: it has no TTFT, or that is lost. `beside`: what comes between
 * runs beside decoders that keep their TPOT. */
static int64_t latest_round(const struct tt_token_pace *self, const struct situation *s,
                            const struct tt_request *request, bool beside) {
    const struct tt_step_model *model = self->domain->models[request->model];
    const struct tt_cell_type *decoder =
        type_at(self, request->model, self->decoders[request->model]);
    int64_t first_by_at = tt_request_first_by(request, &model->tokens);
    int64_t alone_ns = tt_step_first_ns(model, request->rows, request->length);
    if (first_by_at == TT_NEVER || s->free_at + alone_ns > first_by_at)
        return TT_NEVER;
    /* What comes between this task and the decoder. */
    int64_t rest_ns = alone_ns - task_ns(self, s->type, request->rows, request->length) -
                      task_ns(self, decoder, request->rows, request->length);
    if (beside)
        rest_ns = stretched(self, rest_ns, s->round_ns);
    if (rest_ns == TT_NEVER)
        return INT64_MIN; /* not now */
    return first_by_at - rest_ns - (self->is_ahead ? s->round_ns : 0);
}

/* True if the request may begin beside those that have begun, as far as TPOT is concerned: its
 * load, which includes it, fits, and so does a round. */
static bool keeps_tpot(const struct tt_token_pace *self, const struct tt_token_load *load,
                       const struct tt_request *request) {
    int64_t limit = (int64_t)self->domain->executors_up * capacity(self, load);
    bool is_first = self->load_count == 1 && load->rows == request->rows;
    return is_first || (load->rows <= limit && round_ns(self) <= smallest_tpot(self));
}

/* Adds the subgraph's ready cells to the task if it then still keeps all objectives. */
static bool grow(struct tt_token_pace *self, const struct situation *s, struct growing *task,
                 const struct tt_cell_subgraph *subgraph) {
    const struct tt_request *request = subgraph->request;
    bool begins = !request->begun && self->decoders[request->model] >= 0;
    struct growing grown = *task;
    int64_t rows = (int64_t)task->rows + (int64_t)subgraph->ready * subgraph->rows;
    grown.rows = rows < s->type->max_rows ? (int32_t)rows : s->type->max_rows;
    grown.length = request->length > task->length ? request->length : task->length;
    struct tt_token_load before = {0}, *load = NULL;
    int32_t load_count = self->load_count;
    if (begins) {
        load = load_add(self, request, &before);
        grown.first_by = tt_instant_min(task->first_by, latest_round(self, s, request, true));
    }
    int64_t ends_at = tt_instant_add(s->free_at, task_ns(self, s->type, grown.rows, grown.length) +
                                                     round_ns(self));
    bool fits = ends_at <= grown.due_at && ends_at <= grown.first_by &&
                (!begins || keeps_tpot(self, load, request));
    if (fits) {
        *task = grown;
    } else if (begins) {
        *load = before;
        self->load_count = load_count;
    }
    return fits;
}

/* True if the round behind a task in which the request begins now on the executor would end too
 * late for its TTFT. */
static bool is_too_late(struct tt_token_pace *self, int64_t now, int32_t executor,
                        const struct tt_cell_type *type, const struct tt_request *request) {
    struct situation s = {.now = now, .executor = executor, .type = type};
    struct tt_token_load unused;
    load_begun(self);
    s.free_at = free_at(self, now, executor);
    s.round_ns = round_ns(self);
    int64_t latest_at = latest_round(self, &s, request, false);
    if (latest_at == TT_NEVER)
        return true;
    load_add(self, request, &unused);
    return s.free_at + task_ns(self, type, request->rows, request->length) + round_ns(self) >
           latest_at;
}

bool tt_token_pace_is_lost(struct tt_token_pace *self, int64_t now, const struct tt_cell_type *type,
                           const struct tt_request *request) {
    const struct tt_mechanism *domain = self->domain;
    if (request->begun || self->decoders[request->model] < 0 || domain->executors_up == 0 ||
        tt_request_first_by(request, &domain->models[request->model]->tokens) == TT_NEVER)
        return false;
    for (int32_t e = 0; e < domain->executor_capacity; e++)
        if (domain->executors[e].state == TT_EXECUTOR_UP &&
            !is_too_late(self, now, e, type, request))
            return false;
    return true;
}

int32_t tt_token_pace_rows(struct tt_token_pace *self, int64_t now, int32_t executor,
                           const struct tt_cell_type *type) {
    struct situation s = {.now = now, .executor = executor, .type = type};
    const struct tt_cell_subgraph *first = tt_cell_type_first(type, executor);
    load_begun(self);
    for (int32_t i = 0; i < self->load_count; i++)
        if (self->loads[i].type == type) {
            int32_t most = capacity(self, &self->loads[i]);
            return most > first->rows ? most : first->rows;
        }
    s.free_at = free_at(self, now, executor);
    s.round_ns = round_ns(self);
    struct growing task = {.due_at = earliest_due(self, &s), .first_by = TT_NEVER};
    struct tt_cell_cursor cursor = tt_cell_type_cursor(type, executor);
    while (task.rows < type->max_rows) {
        const struct tt_cell_subgraph *next = tt_cell_cursor_next(&cursor);
        if (!next || !grow(self, &s, &task, next))
            break;
    }
    return task.rows;
}

int32_t tt_token_pace_forced_rows(const struct tt_cell_type *type, int32_t executor) {
    struct tt_cell_cursor cursor = tt_cell_type_cursor(type, executor);
    const struct tt_cell_subgraph *next = tt_cell_cursor_next(&cursor);
    int64_t rows = next->rows;
    if (next->request->begun)
        rows = (int64_t)next->ready * next->rows;
    while (rows < type->max_rows && (next = tt_cell_cursor_next(&cursor)) && next->request->begun)
        rows += (int64_t)next->ready * next->rows;
    return rows < type->max_rows ? (int32_t)rows : type->max_rows;
}

/* ---- what happens ---- */

void tt_token_pace_submitted(struct tt_token_pace *self, int64_t now, const struct tt_task *task) {
    const struct tt_executor *e = &self->domain->executors[task->executor];
    int32_t length = 0;
    for (int32_t i = 0; i < task->count; i++) {
        struct tt_request *request = task->items[i].request;
        length = request->length > length ? request->length : length;
        if (task->items[i].begins && self->decoders[request->model] >= 0)
            tt_list_push_back(&self->begun, &request->link);
    }
    if (e->queued == 1)
        self->began_at[task->executor] = now;
    const struct tt_cell_type *type = type_at(self, task->model, task->first_step);
    self->work_ns[(ptrdiff_t)task->executor * self->depth + (task - e->tasks)] =
        task_ns(self, type, task->rows, length);
}

void tt_token_pace_finished(struct tt_token_pace *self, int64_t now, const struct tt_task *task) {
    self->began_at[task->executor] = now;
    for (int32_t i = 0; i < task->count; i++)
        if (task->items[i].ends)
            tt_token_pace_forget(self, task->items[i].request);
}

void tt_token_pace_forget(struct tt_token_pace *self, struct tt_request *request) {
    if (self->decoders[request->model] >= 0)
        tt_list_remove(&request->link);
}

void tt_token_pace_check(const struct tt_token_pace *self) {
    int32_t models = 0;
    for (int32_t m = 0; m < self->domain->model_capacity; m++)
        models += self->decoders[m] >= 0;
    tt_assert(models == self->model_count);
    for (struct tt_list_node *node = self->begun.head.next; node != &self->begun.head;
         node = node->next) {
        const struct tt_request *request = TT_CONTAINER_OF(node, struct tt_request, link);
        tt_assert(request->begun && !request->reported);
        tt_assert(self->decoders[request->model] >= 0);
    }
}
