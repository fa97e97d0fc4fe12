#include "lab/load/arrival_file.h"

#include "base/instant.h"
#include "lab/scenario/allocate.h"
#include "model/text/csv.h"

#include <stdlib.h>
#include <string.h>

enum column {
    AT,
    MODEL,
    INPUT_LENGTH,
    OUTPUT_LENGTH,
    ROWS,
    DEADLINE,
    PRIORITY,
    EXIT_STEP,
    EXIT_TO,
    TREE,
    CANCEL_AT,
    COLUMNS
};

static const char *const column_names[COLUMNS] = {
    "at_ns",    "model",     "input_length", "output_length", "rows",        "deadline_ns",
    "priority", "exit_step", "exit_to",      "tree",          "cancel_at_ns"};

struct reading {
    struct tt_csv csv;
    int32_t at[COLUMNS]; /* the index of each column; -1: missing */
    const struct tt_arrival_file_model *models;
    int32_t model_count;
    int32_t last_model; /* the model found last: files often repeat a name */
    struct tt_arrival_file *file;
    struct tt_sim_cells unfold;
    struct tt_error *why;
};

static enum tt_err find_columns(struct reading *r) {
    for (int32_t c = 0; c < COLUMNS; c++)
        r->at[c] = tt_csv_column(&r->csv, column_names[c]);
    for (int32_t c = AT; c <= MODEL; c++)
        if (r->at[c] < 0)
            return tt_fail(TT_ERR_INVALID, r->why,
                           "%s:%lld: no column is called %s; at_ns and model are needed",
                           r->csv.path, (long long)r->csv.line, column_names[c]);
    for (int32_t i = 0; i < r->csv.column_count; i++) {
        bool known = false;
        for (int32_t c = 0; c < COLUMNS; c++)
            known = known || strcmp(r->csv.columns[i], column_names[c]) == 0;
        if (!known)
            return tt_fail(TT_ERR_INVALID, r->why,
                           "%s:%lld: unknown column '%s'; there are at_ns, model, input_length, "
                           "output_length, rows, deadline_ns, priority, exit_step, exit_to, "
                           "tree, cancel_at_ns",
                           r->csv.path, (long long)r->csv.line, r->csv.columns[i]);
        if (tt_csv_column(&r->csv, r->csv.columns[i]) != i)
            return tt_fail(TT_ERR_INVALID, r->why, "%s:%lld: column '%s' is there twice",
                           r->csv.path, (long long)r->csv.line, r->csv.columns[i]);
    }
    return TT_OK;
}

static enum tt_err find_model(struct reading *r, int32_t *out_model) {
    const char *name = r->csv.fields[r->at[MODEL]];
    if (strcmp(r->models[r->last_model].name, name) != 0) {
        int32_t m = 0;
        while (m < r->model_count && strcmp(r->models[m].name, name) != 0)
            m++;
        if (m == r->model_count)
            return tt_fail(TT_ERR_INVALID, r->why,
                           "%s:%lld: the experiment has no model '%s'; its first is '%s'",
                           r->csv.path, (long long)r->csv.line, name, r->models[0].name);
        r->last_model = m;
    }
    *out_model = r->last_model;
    return TT_OK;
}

static bool is_given(const struct reading *r, enum column column) {
    return r->at[column] >= 0 && r->csv.fields[r->at[column]][0] != '\0';
}

/* The field as an integer; `default_value` if the column or the value is missing. */
static enum tt_err optional(struct reading *r, enum column column, int64_t minimum, int64_t maximum,
                            int64_t default_value, int64_t *out_value) {
    if (!is_given(r, column)) {
        *out_value = default_value;
        return TT_OK;
    }
    return tt_csv_integer(&r->csv, r->at[column], minimum, maximum, out_value, r->why);
}

/* A copy of the tree's text; unfolding it checks it. The input is as long as the tree has leaves.
 */
static enum tt_err read_tree(struct reading *r, const struct tt_arrival_file_model *model,
                             const char **out_tree, int32_t *out_length) {
    const char *text = r->csv.fields[r->at[TREE]];
    if (model->tree == TT_TREE_NONE)
        return tt_fail(TT_ERR_INVALID, r->why,
                       "%s:%lld: a tree for model '%s', which has no tree cells; leave it empty",
                       r->csv.path, (long long)r->csv.line, model->name);
    struct tt_cell_graph *graph;
    enum tt_err err = tt_sim_cells_text(&r->unfold, model->step_model, text, &graph, r->why);
    if (err)
        return tt_fail_in(err, r->why, "%s:%lld: tree", r->csv.path, (long long)r->csv.line);
    *out_length = (graph->cell_count + 1) / 2;
    tt_cell_graph_free(graph);
    *out_tree = tt_copy_text(text);
    return TT_OK;
}

/* No input may be longer than a graph of cells can be, even if the policy does not work by cells.
 */
static enum tt_err check_length(const struct reading *r, const struct tt_arrival_file_model *model,
                                int64_t length) {
    int64_t cells = tt_sim_cells_count(model->step_model, model->tree, (int32_t)length);
    if (cells <= TT_CELL_GRAPH_MAX_CELLS)
        return TT_OK;
    return tt_fail(TT_ERR_INVALID, r->why,
                   "%s:%lld: input_length %lld makes %lld cells of model '%s'; at most %d are "
                   "possible",
                   r->csv.path, (long long)r->csv.line, (long long)length, (long long)cells,
                   model->name, TT_CELL_GRAPH_MAX_CELLS);
}

/* D8: an exit must skip at least one step and repeat none. */
static enum tt_err check_skip(const struct reading *r, const struct tt_arrival_file_model *model,
                              int64_t exit_step, int64_t exit_to) {
    if (exit_step < 0 || exit_to < exit_step + 2)
        return tt_fail(
            TT_ERR_INVALID, r->why,
            "%s:%lld: exit_to is %lld and exit_step %lld; a request skips steps if exit_to "
            "is at least exit_step + 2, and leaves if exit_to is empty",
            r->csv.path, (long long)r->csv.line, (long long)exit_to, (long long)exit_step);
    for (int32_t s = 0; s < model->step_count; s++)
        if (model->step_model->steps[s].kind != TT_STEP_STATIC)
            return tt_fail(
                TT_ERR_INVALID, r->why,
                "%s:%lld: exit_to: model '%s' has recurrent steps; only requests of static "
                "steps may skip some",
                r->csv.path, (long long)r->csv.line, model->name);
    return TT_OK;
}

/* The step at which the request continues after `exit_step`; 0: none. */
static enum tt_err read_skip(struct reading *r, const struct tt_arrival_file_model *model,
                             int64_t exit_step, int64_t *out_exit_to) {
    int64_t exit_to;
    if (model->step_count < 3 && is_given(r, EXIT_TO))
        return tt_fail(TT_ERR_INVALID, r->why,
                       "%s:%lld: exit_to is '%s', but model '%s' has too few steps (%d) to skip "
                       "any and go on behind; leave it empty",
                       r->csv.path, (long long)r->csv.line, r->csv.fields[r->at[EXIT_TO]],
                       model->name, model->step_count);
    enum tt_err err = optional(r, EXIT_TO, 1, model->step_count - 1, 0, &exit_to);
    if (!err && exit_to > 0)
        err = check_skip(r, model, exit_step, exit_to);
    if (!err)
        *out_exit_to = exit_to;
    return err;
}

static enum tt_err read_row(struct reading *r, struct tt_sim_arrival *out) {
    struct tt_sim_arrival a = {0};
    int64_t rows, length = 0, output_length, priority, exit_step, exit_to = 0;
    enum tt_err err = tt_csv_integer(&r->csv, r->at[AT], 0, TT_NEVER / 4, &a.at, r->why);
    if (!err)
        err = find_model(r, &a.model);
    if (err)
        return err;
    const struct tt_arrival_file_model *model = &r->models[a.model];
    int64_t deadline_at =
        model->slo_ns == TT_NEVER ? TT_NEVER : tt_instant_add(model->slo_ns, a.at);
    err = optional(r, ROWS, 1, model->max_batch, model->rows, &rows);
    if (!err)
        err = optional(r, INPUT_LENGTH, 0, INT32_MAX, model->length, &length);
    if (!err)
        err = check_length(r, model, length);
    if (!err)
        err = optional(r, OUTPUT_LENGTH, 0, INT32_MAX, model->output_length, &output_length);
    if (!err)
        err = optional(r, DEADLINE, a.at, TT_NEVER - 1, deadline_at, &a.deadline_at);
    if (!err)
        err = optional(r, PRIORITY, 0, INT32_MAX, 0, &priority);
    if (!err)
        err = optional(r, EXIT_STEP, 0, model->step_count - 1, -1, &exit_step);
    if (!err && exit_step >= 0 && model->tree != TT_TREE_NONE)
        err =
            tt_fail(TT_ERR_INVALID, r->why,
                    "%s:%lld: exit_step %lld: the requests of %s are trees, which are not left at "
                    "a step; it must be empty",
                    r->csv.path, (long long)r->csv.line, (long long)exit_step, model->name);
    if (!err)
        err = read_skip(r, model, exit_step, &exit_to);
    if (!err)
        err = optional(r, CANCEL_AT, a.at, TT_NEVER - 1, TT_NEVER, &a.cancel_at);
    a.length = (int32_t)length;
    if (!err && is_given(r, TREE))
        err = read_tree(r, model, &a.tree, &a.length);
    if (err)
        return err;
    a.rows = (int32_t)rows;
    a.output_length = (int32_t)output_length;
    a.priority = (int32_t)priority;
    a.exit_step = (int32_t)exit_step;
    a.exit_to = (int32_t)exit_to;
    *out = a;
    return TT_OK;
}

static enum tt_err append(struct reading *r, const struct tt_sim_arrival *arrival) {
    struct tt_arrival_file *file = r->file;
    if (file->count > 0 && arrival->at < file->items[file->count - 1].at)
        return tt_fail(TT_ERR_INVALID, r->why,
                       "%s:%lld: at_ns %lld comes after %lld; arrivals must be in order of time",
                       r->csv.path, (long long)r->csv.line, (long long)arrival->at,
                       (long long)file->items[file->count - 1].at);
    if (file->count == file->capacity) {
        file->capacity = file->capacity ? file->capacity * 2 : 1024;
        file->items = tt_reallocate(file->items, (size_t)file->capacity, sizeof(*file->items));
    }
    file->items[file->count++] = *arrival;
    return TT_OK;
}

enum tt_err tt_arrival_file_read(const char *path, const struct tt_arrival_file_model *models,
                                 int32_t model_count, struct tt_arrival_file *out_file,
                                 struct tt_error *why) {
    struct tt_arrival_file file = {0};
    struct reading *r = tt_allocate(1, sizeof(*r));
    *r = (struct reading){.models = models, .model_count = model_count, .file = &file, .why = why};
    enum tt_err err = tt_csv_open(&r->csv, path, why);
    if (err) {
        free(r);
        return err;
    }
    err = find_columns(r);
    bool more = !err;
    while (more) {
        struct tt_sim_arrival arrival;
        err = tt_csv_next(&r->csv, &more, why);
        if (!err && more)
            err = read_row(r, &arrival);
        if (!err && more && (err = append(r, &arrival)) != TT_OK)
            free((char *)arrival.tree);
        more = more && !err;
    }
    if (!err && file.count == 0)
        err = tt_fail(TT_ERR_INVALID, why, "%s:2: no arrivals; a line per request is needed", path);
    tt_csv_close(&r->csv);
    tt_sim_cells_fini(&r->unfold);
    free(r);
    if (err) {
        tt_arrival_file_fini(&file);
        return err;
    }
    *out_file = file;
    return TT_OK;
}

void tt_arrival_file_fini(struct tt_arrival_file *self) {
    for (int64_t i = 0; i < self->count; i++)
        free((char *)self->items[i].tree);
    free(self->items);
    *self = (struct tt_arrival_file){0};
}

bool tt_arrival_file_next(void *context, struct tt_sim_arrival *out_arrival) {
    struct tt_arrival_file *self = context;
    if (self->position == self->count)
        return false;
    *out_arrival = self->items[self->position++];
    return true;
}
