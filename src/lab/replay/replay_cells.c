#include "lab/replay/replay_cells.h"

#include "base/array.h"
#include "lab/scenario/allocate.h"

#include <stdlib.h>

enum { MAX_ROWS = 1 << 30 }; /* of all cells of a request */

struct tt_replay_cells_request {
    const uint8_t *packed; /* in the recording; NULL: it has no cells */
    size_t bytes;
    int64_t first_end; /* index of its ends[spec_count]; -1: no spec is open-ended */
    int32_t spec_count;
    int32_t model;
};

struct tt_replay_cells_model {
    enum tt_replay_form form;
    int32_t step_count, longest;
    uint8_t *decodes; /* [step_count] */
};

/* ---- what a policy can run ---- */

/* Whether the steps of every cell run as one, and take that many rows. */
static bool are_types(const struct tt_step_model *model, const struct tt_arrival *arrival) {
    for (int32_t i = 0; i < arrival->spec_count; i++) {
        const struct tt_cell_spec *spec = &arrival->specs[i];
        if (spec->first_step >= model->step_count)
            return false;
        int32_t last_step = tt_step_last_of(model, spec->first_step);
        if (spec->last_step != last_step ||
            arrival->rows > tt_step_max_rows(model, spec->first_step, last_step))
            return false;
    }
    return true;
}

enum tt_err tt_replay_cells_graph(const struct tt_step_model *model,
                                  const struct tt_arrival *arrival,
                                  struct tt_cell_graph **out_graph, struct tt_error *why) {
    if (!are_types(model, arrival))
        return tt_fail(TT_ERR_INVALID, why, "a cell of steps that do not run as one in its model");
    struct tt_cell_graph *graph;
    enum tt_err err =
        tt_cell_graph_new(arrival->specs, arrival->spec_count, model->step_count, &graph, why);
    if (err)
        return err;
    if ((int64_t)graph->cell_count * arrival->rows > MAX_ROWS) {
        tt_cell_graph_free(graph);
        return tt_fail(TT_ERR_INVALID, why, "a request of more rows in all than can be counted");
    }
    *out_graph = graph;
    return TT_OK;
}

/* ---- arrivals ---- */

/* Whether it is one chain per step, each reading the one before, and at most one of each kind.
 * (Neighbours of one kind would be one block.) */
static bool is_row(const struct tt_arrival *arrival, int32_t step_count) {
    for (int32_t i = 0; i < arrival->spec_count; i++) {
        const struct tt_cell_spec *spec = &arrival->specs[i];
        bool reads_before = spec->source_count == (i > 0) && (i == 0 || spec->sources[0] == i - 1);
        if (spec->first_step != i || spec->last_step != i || !reads_before ||
            (i > 0 && spec->open_ended == spec[-1].open_ended) ||
            (!spec->open_ended && spec->repeat > arrival->length))
            return false;
    }
    return arrival->spec_count == step_count && step_count <= 2;
}

/* Derives the form of the model from the request. */
static bool note_form(struct tt_replay_cells *self, int32_t number, int32_t step_count,
                      const struct tt_arrival *arrival) {
    if (!TT_ARRAY_RESERVE(self->models, &self->model_capacity, number + 1))
        return false;
    struct tt_replay_cells_model *model = &self->models[number];
    if (model->form == TT_REPLAY_GRAPHS)
        return true;
    if (!is_row(arrival, step_count)) {
        model->form = TT_REPLAY_GRAPHS;
        return true;
    }
    bool is_first = model->form == TT_REPLAY_NO_CELLS;
    if (is_first)
        model->decodes = tt_allocate((size_t)step_count, 1);
    model->form = TT_REPLAY_ROWS;
    model->step_count = step_count;
    for (int32_t i = 0; i < step_count; i++) {
        const struct tt_cell_spec *spec = &arrival->specs[i];
        if (is_first)
            model->decodes[i] = spec->open_ended;
        else if (model->decodes[i] != spec->open_ended)
            model->form = TT_REPLAY_GRAPHS;
        if (spec->open_ended && spec->repeat > model->longest)
            model->longest = spec->repeat;
    }
    return true;
}

enum tt_err tt_replay_cells_add(struct tt_replay_cells *self, int64_t arrival, int32_t model,
                                int32_t step_count, const struct tt_recorded_event *event) {
    int32_t spec_count = event->arrival.spec_count;
    bool open_ended = false;
    for (int32_t i = 0; i < spec_count; i++)
        open_ended |= event->arrival.specs[i].open_ended;
    if (!TT_ARRAY_RESERVE(self->requests, &self->request_capacity, arrival + 1) ||
        (open_ended &&
         !TT_ARRAY_RESERVE(self->ends, &self->end_capacity, self->end_count + spec_count)) ||
        !note_form(self, model, step_count, &event->arrival))
        return TT_ERR_NO_MEMORY;
    self->requests[arrival] =
        (struct tt_replay_cells_request){.packed = event->cells,
                                         .bytes = event->cells_bytes,
                                         .first_end = open_ended ? self->end_count : -1,
                                         .spec_count = spec_count,
                                         .model = model};
    self->request_count = arrival + 1;
    for (int32_t i = 0; open_ended && i < spec_count; i++) /* it has no open-ended chain */
        self->ends[self->end_count + i] = event->arrival.specs[i].repeat == 1;
    self->end_count += open_ended ? spec_count : 0;
    return TT_OK;
}

/* ---- ends of chains ---- */

/* The ends of a request; NULL: it has no open-ended chain. */
static int32_t *ends_of(const struct tt_replay_cells *self, int64_t arrival) {
    if (arrival >= self->request_count || !self->requests[arrival].packed ||
        self->requests[arrival].first_end < 0)
        return NULL;
    return &self->ends[self->requests[arrival].first_end];
}

static void note_end(int32_t *end, int32_t count, bool ends) {
    if (*end <= 0)
        *end = ends ? count : -count;
}

void tt_replay_cells_done(struct tt_replay_cells *self, int64_t arrival,
                          const struct tt_task_item *item, bool ends) {
    const struct tt_cell_subgraph *subgraph = item->subgraph;
    int32_t *all = subgraph->open_ended ? ends_of(self, arrival) : NULL;
    if (all)
        note_end(&all[subgraph->spec], item->cell + 1, ends || item->cell + 1 == subgraph->count);
}

void tt_replay_cells_rounds(struct tt_replay_cells *self, int64_t arrival, int32_t step,
                            int32_t rounds, bool ends) {
    int32_t *all = ends_of(self, arrival);
    if (!all || rounds < 1)
        return;
    const struct tt_replay_cells_request *request = &self->requests[arrival];
    const struct tt_replay_cells_model *model = &self->models[request->model];
    if (model->form == TT_REPLAY_ROWS && model->decodes[step])
        note_end(&all[step], rounds, ends);
}

/* Fills `specs` with those of the request. They were checked when they were read first. */
static bool read(struct tt_replay_cells *self, int64_t arrival) {
    if (arrival >= self->request_count || !self->requests[arrival].packed)
        return false;
    const struct tt_replay_cells_request *request = &self->requests[arrival];
    const uint8_t *at = request->packed;
    const char *what;
    return tt_record_cells_get(&self->specs, &at, at + request->bytes, &what) == TT_OK;
}

int64_t tt_replay_cells_unknown(struct tt_replay_cells *self) {
    int64_t unknown = 0;
    for (int64_t i = 0; i < self->request_count; i++) {
        const int32_t *all = ends_of(self, i);
        bool is_unknown = false;
        int32_t count = all && read(self, i) ? self->specs.count : 0;
        for (int32_t s = 0; s < count && !is_unknown; s++)
            is_unknown = self->specs.specs[s].open_ended && all[s] <= 0;
        unknown += is_unknown;
    }
    return unknown;
}

/* No finished cell was its last: it ends with the next one at the earliest. */
static int32_t end_at(int32_t noted) { return noted > 0 ? noted : 1 - noted; }

bool tt_replay_cells_given(struct tt_replay_cells *self, int64_t arrival,
                           struct tt_sim_given *out_given) {
    if (!read(self, arrival))
        return false;
    *out_given = (struct tt_sim_given){.spec_count = self->specs.count, .specs = self->specs.specs};
    const int32_t *all = ends_of(self, arrival);
    if (!all)
        return true;
    if (!TT_ARRAY_RESERVE(self->spec_ends, &self->spec_end_capacity, self->specs.count))
        return false;
    for (int32_t s = 0; s < self->specs.count; s++)
        self->spec_ends[s] = end_at(all[s]);
    out_given->ends = self->spec_ends;
    return true;
}

int32_t tt_replay_cells_output(struct tt_replay_cells *self, int64_t arrival) {
    const int32_t *all = ends_of(self, arrival);
    if (!all)
        return 0;
    const struct tt_replay_cells_model *model = &self->models[self->requests[arrival].model];
    for (int32_t s = model->step_count - 1; model->form == TT_REPLAY_ROWS && s >= 0; s--)
        if (model->decodes[s])
            return end_at(all[s]);
    return 0;
}

/* ---- models ---- */

enum tt_replay_form tt_replay_cells_form(const struct tt_replay_cells *self, int32_t model) {
    return model < self->model_capacity ? self->models[model].form : TT_REPLAY_NO_CELLS;
}

enum tt_step_kind tt_replay_cells_kind(const struct tt_replay_cells *self, int32_t model,
                                       int32_t step) {
    return self->models[model].decodes[step] ? TT_STEP_DECODER : TT_STEP_ENCODER;
}

int32_t tt_replay_cells_longest(const struct tt_replay_cells *self, int32_t model) {
    return self->models[model].longest;
}

void tt_replay_cells_fini(struct tt_replay_cells *self) {
    for (int32_t m = 0; m < self->model_capacity; m++)
        free(self->models[m].decodes);
    free(self->requests);
    free(self->ends);
    free(self->models);
    free(self->spec_ends);
    tt_record_cells_fini(&self->specs);
    *self = (struct tt_replay_cells){0};
}
