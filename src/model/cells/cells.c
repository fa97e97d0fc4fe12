#include "model/cells/cells.h"

#include "core/cell_graph.h"
#include "model/cells/cells_internal.h"
#include "model/cells/unfold_plugin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LENGTH = TT_CELL_GRAPH_MAX_CELLS / 4 };

static const char *const kind_names[] = {
    [TT_UNFOLD_CHAIN] = "CHAIN",
    [TT_UNFOLD_SEQ2SEQ] = "SEQ2SEQ",
    [TT_UNFOLD_TREE] = "TREE",
    [TT_UNFOLD_PLUGIN] = "PLUGIN",
};

/* ---- rules of each kind of unfolding ---- */

static void check_types(struct tt_cells_work *work) {
    const Tutti__ModelUnfold *unfold = work->settings->unfold;
    const struct tt_cells *self = work->cells;
    const struct tt_cell_type *types = self->types;
    static const int32_t wanted[] = {
        [TT_UNFOLD_CHAIN] = 1, [TT_UNFOLD_SEQ2SEQ] = 2, [TT_UNFOLD_TREE] = 2};
    if (self->kind == TT_UNFOLD_PLUGIN)
        return;
    if (self->type_count != wanted[self->kind]) {
        tt_cells_problem(work, unfold, "kind", "%s wants %s, but there are %d cells",
                         kind_names[self->kind],
                         self->kind == TT_UNFOLD_CHAIN     ? "one cell"
                         : self->kind == TT_UNFOLD_SEQ2SEQ ? "two cells, encoder and decoder"
                                                           : "two cells, leaf and inner node",
                         self->type_count);
        return;
    }
    for (int32_t i = 0; i < self->type_count; i++) {
        int32_t arity = self->kind != TT_UNFOLD_TREE ? 1 : i == 0 ? 0 : self->child_count;
        const Tutti__ModelCell *message = work->settings->message->cell[i];
        if (types[i].state_count == 0)
            tt_cells_problem(work, message, NULL,
                             "cell '%s' has no state, so no other cell can read it", types[i].name);
        else if (types[i].arity != arity)
            tt_cells_problem(work, message, "state",
                             "cell '%s' reads %d others (a state has so many inputs), but in this "
                             "place it is to read %d",
                             types[i].name, types[i].arity, arity);
    }
    if (self->kind != TT_UNFOLD_SEQ2SEQ)
        return;
    const Tutti__ModelCell *decoder = work->settings->message->cell[1];
    if (types[1].emit < 0)
        tt_cells_problem(work, decoder, NULL,
                         "the decoder '%s' emits nothing; write emit: with the output that is the "
                         "word",
                         types[1].name);
    if (types[1].read_count > 0)
        tt_cells_problem(work, decoder, "read",
                         "the decoder '%s' cannot read the request: its own words are a state",
                         types[1].name);
}

/* Finds which types can read the states of which: all states that both have must have equal rows.
 */
static void find_readable(struct tt_cells *self) {
    for (int32_t i = 0; i < self->type_count; i++) {
        struct tt_cell_type *reader = &self->types[i];
        for (int32_t j = 0; j < self->type_count && reader->arity > 0; j++) {
            const struct tt_cell_type *read = &self->types[j];
            bool fits = read->state_count > 0;
            for (int32_t k = 0; k < reader->state_count && k < read->state_count; k++)
                fits = fits &&
                       tt_cell_rows_equal(&reader->signature.inputs[reader->states[k].inputs[0]],
                                          &read->signature.outputs[read->states[k].output]);
            if (fits)
                reader->readable |= 1u << j;
        }
    }
}

static bool is_in_place(const struct tt_cell_type *type, int32_t output) {
    for (int32_t s = 0; s < type->state_count; s++)
        if (type->states[s].in_place && type->states[s].output == output)
            return true;
    return false;
}

static bool same_caches(const struct tt_cell_type *a, const struct tt_cell_type *b) {
    for (int32_t s = 0; s < TT_CELLS_MAX_STATES; s++)
        if (a->states[s].in_place != b->states[s].in_place)
            return false;
    return true;
}

/* A request has one cache, which its first cell begins. */
static void check_caches(struct tt_cells_work *work) {
    const struct tt_cells *self = work->cells;
    const struct tt_cell_type *types = self->types;
    for (int32_t i = 0; i < self->type_count; i++) {
        const Tutti__ModelCell *message = work->settings->message->cell[i];
        if (types[i].has_cache && self->kind != TT_UNFOLD_CHAIN && self->kind != TT_UNFOLD_SEQ2SEQ)
            tt_cells_problem(work, message, "state",
                             "cell '%s' has states in place, which are for kinds CHAIN and "
                             "SEQ2SEQ, and the kind is %s",
                             types[i].name, kind_names[self->kind]);
        else if (i > 0 && !same_caches(&types[0], &types[i]))
            tt_cells_problem(work, message, "state",
                             "cells '%s' and '%s' must have the same states in place, in the same "
                             "order",
                             types[0].name, types[i].name);
        const struct tt_cell_type *type = &types[i];
        if (type->emit >= 0 && is_in_place(type, type->emit))
            tt_cells_problem(work, message, "emit",
                             "output '%s' is a state in place, which cannot be emitted",
                             type->signature.outputs[type->emit].name);
    }
}

/* C1: two equal types have two queues and share no batch. */
static void remark_twins(struct tt_cells_work *work) {
    const struct tt_cell_type *types = work->cells->types;
    for (int32_t i = 0; i < work->cells->type_count; i++)
        for (int32_t j = 0; j < i; j++)
            if (strcmp(types[i].digest, types[j].digest) == 0)
                tt_findings_add(work->findings, TT_FINDING_REMARK,
                                "%s: cells '%s' and '%s' are the same; as one they would share "
                                "batches",
                                work->settings->file_name, types[j].name, types[i].name);
}

static void check_readable(struct tt_cells_work *work) {
    const struct tt_cells *self = work->cells;
    if (self->kind != TT_UNFOLD_SEQ2SEQ && self->kind != TT_UNFOLD_TREE)
        return; /* one type always fits itself; graphs of a plug-in are checked one by one */
    if (!(self->types[1].readable & 1u))
        tt_cells_problem(work, work->settings->message->cell[1], "state",
                         "the states of '%s' differ in element type or shape from those of '%s', "
                         "which it is to read",
                         self->types[1].name, self->types[0].name);
}

static void take_children(struct tt_cells_work *work) {
    static char *const left_right[] = {"left", "right"};
    const Tutti__ModelUnfold *unfold = work->settings->unfold;
    struct tt_cells *self = work->cells;
    size_t count = unfold->n_children > 0 ? unfold->n_children : TT_COUNT(left_right);
    char *const *names = unfold->n_children > 0 ? unfold->children : left_right;
    if (count > TT_CELLS_MAX_ARITY) {
        tt_cells_problem(work, unfold, "children", "a node has at most %d children",
                         TT_CELLS_MAX_ARITY);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        int32_t before = self->signature.input_count;
        self->children[i] = tt_cells_input(work, names[i], NULL, unfold, "children");
        if (self->children[i] >= 0 && self->children[i] < before)
            tt_cells_problem(work, unfold, "children",
                             "the tensor '%s' is read by a cell, or listed twice", names[i]);
    }
    self->child_count = (int32_t)count;
}

/* A field of another kind would have no effect. Often `kind` is missing, which is a CHAIN. */
static void check_fields(struct tt_cells_work *work) {
    const Tutti__ModelUnfold *unfold = work->settings->unfold;
    enum tt_unfold_kind kind = work->cells->kind;
    const struct {
        const char *field;
        enum tt_unfold_kind kind;
        bool is_given;
    } rows[] = {{"threshold", TT_UNFOLD_SEQ2SEQ, unfold->threshold != 0},
                {"max_output", TT_UNFOLD_SEQ2SEQ, unfold->max_output != 0},
                {"children", TT_UNFOLD_TREE, unfold->n_children > 0},
                {"plugin", TT_UNFOLD_PLUGIN, *unfold->plugin != '\0'},
                {"parameter", TT_UNFOLD_PLUGIN, *unfold->parameter != '\0'},
                {"input", TT_UNFOLD_PLUGIN, unfold->n_input > 0},
                {"max_cells", TT_UNFOLD_PLUGIN, unfold->max_cells != 0},
                {"time_limit_us", TT_UNFOLD_PLUGIN, unfold->time_limit_us != 0}};
    for (size_t i = 0; i < TT_COUNT(rows); i++)
        if (rows[i].is_given && rows[i].kind != kind)
            tt_cells_problem(work, unfold, rows[i].field,
                             "%s is for kind: %s, and the kind is %s: leave it out, or state the "
                             "kind",
                             rows[i].field, kind_names[rows[i].kind], kind_names[kind]);
}

static void take_limits(struct tt_cells_work *work) {
    const Tutti__ModelUnfold *unfold = work->settings->unfold;
    struct tt_cells *self = work->cells;
    self->max_length = unfold->max_length ? unfold->max_length : TT_CELLS_DEFAULT_MAX_LENGTH;
    self->threshold = unfold->threshold;
    self->max_output = unfold->max_output;
    memcpy(self->output_quantiles, work->settings->output_quantiles,
           sizeof(self->output_quantiles));
    self->pins_outputs = unfold->pin_output_length;
    if (self->max_length < 1 || self->max_length > MAX_LENGTH)
        tt_cells_problem(work, unfold, "max_length", "max_length is %d; 1 to %d are possible",
                         self->max_length, MAX_LENGTH);
    if (self->threshold < 0 || self->threshold > MAX_LENGTH)
        tt_cells_problem(work, unfold, "threshold", "threshold is %d; 0 to %d are possible",
                         self->threshold, MAX_LENGTH);
    if (self->max_output < 0)
        tt_cells_problem(work, unfold, "max_output", "max_output is 0 (no limit) or more");
    self->max_cells = unfold->max_cells;
    if (unfold->max_cells == 0)
        self->max_cells =
            self->max_length <= MAX_LENGTH / 2 ? 8 * self->max_length : TT_CELL_GRAPH_MAX_CELLS;
    if (unfold->max_cells < 0 || unfold->max_cells > TT_CELL_GRAPH_MAX_CELLS)
        tt_cells_problem(work, unfold, "max_cells", "max_cells is %d; 1 to %d are possible",
                         unfold->max_cells, TT_CELL_GRAPH_MAX_CELLS);
}

static void take_ends(struct tt_cells_work *work) {
    const Tutti__ModelUnfold *unfold = work->settings->unfold;
    struct tt_cells *self = work->cells;
    if (unfold->n_eos > TT_CELLS_MAX_EOS) {
        tt_cells_problem(work, unfold, "eos", "at most %d integers may end a chain",
                         TT_CELLS_MAX_EOS);
        return;
    }
    for (size_t i = 0; i < unfold->n_eos; i++)
        self->eos[self->eos_count++] = unfold->eos[i];
    if (self->eos_count == 0)
        return;
    bool emits = false;
    for (int32_t i = 0; i < self->type_count; i++) {
        const struct tt_cell_type *type = &self->types[i];
        if (type->emit < 0)
            continue;
        const struct tt_tensor_spec *spec = &type->signature.outputs[type->emit];
        emits = true;
        if ((spec->dtype != TT_DTYPE_INT64 && spec->dtype != TT_DTYPE_INT32) ||
            tt_shape_count(&spec->shape, 1) != 1)
            tt_cells_problem(work, unfold, "eos",
                             "'%s' of cell '%s' is to be compared with eos, but is not one INT64 "
                             "or INT32 per cell",
                             spec->name, type->name);
    }
    if (!emits || self->kind == TT_UNFOLD_CHAIN || self->kind == TT_UNFOLD_TREE)
        tt_cells_problem(work, unfold, "eos",
                         "eos ends what a decoder emits; there is none in this model");
}

/* ---- what clients see ---- */

static int32_t output_named(const struct tt_cell_type *type, const char *name) {
    for (int32_t i = 0; i < type->signature.output_count; i++)
        if (strcmp(type->signature.outputs[i].name, name) == 0)
            return i;
    return -1;
}

/* Adds one output of the answer, by its name in the last cell type. */
static void add_answer(struct tt_cells_work *work, const struct tt_cell_type *last,
                       const char *name) {
    struct tt_signature *signature = &work->cells->signature;
    int32_t output = output_named(last, name);
    if (output < 0) {
        tt_cells_problem(work, work->settings->unfold, "answer", "cell '%s' has no output '%s'",
                         last->name, name);
        return;
    }
    if (signature->output_count == TT_MAX_TENSORS)
        return; /* some are listed twice; reported below */
    if (is_in_place(last, output))
        tt_cells_problem(work, work->settings->unfold, "answer",
                         "output '%s' of cell '%s' is a state in place, which is no answer; "
                         "write answer: with other outputs",
                         name, last->name);
    struct tt_tensor_spec *spec = &signature->outputs[signature->output_count];
    *spec = last->signature.outputs[output];
    for (int32_t i = 0; i < signature->output_count; i++)
        if (strcmp(signature->outputs[i].name, name) == 0)
            tt_cells_problem(work, work->settings->unfold, "answer", "'%s' is listed twice", name);
    if (output == last->emit && spec->shape.rank < TT_MAX_RANK) {
        memmove(spec->shape.dims + 2, spec->shape.dims + 1,
                (size_t)(spec->shape.rank - 1) * sizeof(spec->shape.dims[0]));
        spec->shape.dims[1] = -1; /* one per emitting cell */
        spec->shape.rank++;
    }
    signature->output_count++;
}

/* Fills in `answers`. False: the type lacks some, so it cannot be the last cell of a request. */
static bool find_answers(const struct tt_cells *self, const struct tt_cell_type *model,
                         struct tt_cell_type *type) {
    bool all = true;
    for (int32_t i = 0; i < self->signature.output_count; i++) {
        const char *name = self->signature.outputs[i].name;
        int32_t there = output_named(model, name), here = output_named(type, name);
        type->answers[i] = here;
        all =
            all && here >= 0 &&
            tt_cell_rows_equal(&type->signature.outputs[here], &model->signature.outputs[there]) &&
            (here == type->emit) == (there == model->emit);
    }
    if (!all)
        type->answers[0] = -1;
    return all;
}

static void take_answer(struct tt_cells_work *work) {
    const Tutti__ModelUnfold *unfold = work->settings->unfold;
    struct tt_cells *self = work->cells;
    struct tt_cell_type *last = &self->types[self->type_count - 1];
    for (size_t i = 0; i < unfold->n_answer; i++)
        add_answer(work, last, unfold->answer[i]);
    if (unfold->n_answer == 0 && last->emit >= 0)
        add_answer(work, last, last->signature.outputs[last->emit].name);
    for (int32_t i = 0; i < last->signature.output_count && unfold->n_answer == 0; i++)
        if (last->emit < 0)
            add_answer(work, last, last->signature.outputs[i].name);
    for (int32_t i = 0; i < self->type_count; i++) {
        bool all = find_answers(self, last, &self->types[i]);
        if (!all && self->kind == TT_UNFOLD_TREE)
            tt_cells_problem(work, unfold, "answer",
                             "'%s' can be the root of a tree, too, but has not all outputs that "
                             "are the answer; write answer: with those that both have",
                             self->types[i].name);
        if (self->kind == TT_UNFOLD_SEQ2SEQ && i == 0)
            self->types[i].answers[0] = -1;
    }
}

int64_t tt_cell_type_cache_bytes(const struct tt_cell_type *self) {
    int64_t bytes = 0;
    for (int32_t s = 0; s < self->state_count; s++) {
        const struct tt_tensor_spec *spec = &self->signature.outputs[self->states[s].output];
        if (self->states[s].in_place)
            bytes += tt_shape_count(&spec->shape, 1) * (int64_t)tt_dtype_bytes(spec->dtype);
    }
    return bytes;
}

uint64_t tt_cells_key(const struct tt_cells *self, int32_t type) {
    const struct tt_cell_type *kind = &self->types[type];
    uint64_t key = 0;
    if (!*kind->digest || kind->has_cache) /* a cache is in the memory of its own model */
        return 0;
    for (int32_t i = 0; i < 16;
         i++) /* of SHA-256, in hexadecimal: enough never to meet by chance */
        key = key << 4 | (uint64_t)(kind->digest[i] <= '9' ? kind->digest[i] - '0'
                                                           : kind->digest[i] - 'a' + 10);
    uint64_t uses = 0; /* a bit per output that answers hold */
    for (int32_t k = 0; kind->answers[0] >= 0 && k < self->signature.output_count; k++)
        uses |= UINT64_C(1) << (kind->answers[k] % 63);
    key ^= uses * UINT64_C(0x9e3779b97f4a7c15);
    return key ? key : 1;
}

bool tt_cells_is_emitted(const struct tt_cells *self, int32_t i) {
    const struct tt_cell_type *last = &self->types[self->type_count - 1];
    return last->answers[i] == last->emit;
}

/* ---- life ---- */

static void read_model(struct tt_cells_work *work, const char *model_directory) {
    const Tutti__ModelUnfold *unfold = work->settings->unfold;
    struct tt_cells *self = work->cells;
    struct tt_findings *findings = work->findings;
    int32_t before = findings->problem_count;
    if ((size_t)unfold->kind >= TT_COUNT(kind_names)) {
        tt_cells_problem(work, unfold, "kind", "there is no such kind of unfolding");
        return;
    }
    self->kind = (enum tt_unfold_kind)unfold->kind;
    self->signature.batched = true;
    check_fields(work);
    for (int32_t i = 0; i < self->type_count; i++) {
        tt_cell_type_read(work, i);
        if (self->types[i].max_batch > self->signature.max_batch)
            self->signature.max_batch = self->types[i].max_batch;
    }
    take_limits(work);
    if (findings->problem_count > before || work->no_memory)
        return;
    if (self->kind == TT_UNFOLD_TREE)
        take_children(work);
    for (size_t i = 0; i < unfold->n_input; i++)
        tt_cells_input(work, unfold->input[i], NULL, unfold, "input");
    if (self->signature.input_count == 0)
        tt_cells_problem(work, unfold, NULL, "no cell reads anything of a request");
    take_ends(work);
    check_types(work);
    if (findings->problem_count > before)
        return;
    find_readable(self);
    check_readable(work);
    check_caches(work);
    remark_twins(work);
    take_answer(work);
    if (self->kind == TT_UNFOLD_PLUGIN && findings->problem_count == before)
        self->plugin = tt_unfold_plugin_open(work, model_directory);
}

enum tt_err tt_cells_open(const struct tt_model_settings *settings, const char *model_directory,
                          const char *version_directory, struct tt_cells **out_cells,
                          struct tt_findings *findings) {
    size_t count = settings->message->n_cell;
    if (!settings->unfold || count == 0 || count > TT_CELLS_MAX_TYPES) {
        if (count > TT_CELLS_MAX_TYPES)
            tt_model_settings_problem(settings, findings, settings->message->cell[0], NULL,
                                      "%zu cells; the maximum is %d", count, TT_CELLS_MAX_TYPES);
        *out_cells = NULL; /* the settings have reported the other mistakes */
        return TT_OK;
    }
    struct tt_cells *self = calloc(1, sizeof(*self));
    struct tt_cell_type *types = calloc(count, sizeof(*types));
    if (!self || !types) {
        free(types);
        free(self);
        return TT_ERR_NO_MEMORY;
    }
    self->types = types;
    self->type_count = (int32_t)count;
    struct tt_cells_work work = {.settings = settings,
                                 .findings = findings,
                                 .version_directory = version_directory,
                                 .cells = self};
    int32_t before = findings->problem_count;
    read_model(&work, model_directory);
    bool good = !work.no_memory && findings->problem_count == before;
    if (!good) {
        tt_cells_close(self);
        self = NULL;
    }
    if (work.no_memory || findings->failed)
        return TT_ERR_NO_MEMORY; /* findings->failed implies a problem, so self is NULL */
    *out_cells = self;
    return TT_OK;
}

void tt_cells_close(struct tt_cells *take_cells) {
    if (!take_cells)
        return;
    tt_unfold_plugin_close(take_cells->plugin);
    for (int32_t i = 0; i < take_cells->type_count; i++)
        tt_cell_type_fini(&take_cells->types[i]);
    free(take_cells->types);
    free(take_cells);
}

/* ---- with config.pbtxt ---- */

void tt_cells_present(const struct tt_cells *self, struct tt_onnx_file *out_file) {
    const struct tt_signature *signature = &self->signature;
    *out_file = (struct tt_onnx_file){.input_count = signature->input_count,
                                      .output_count = signature->output_count};
    for (int32_t i = 0; i < signature->input_count; i++)
        out_file->inputs[i] =
            (struct tt_onnx_value){.spec = signature->inputs[i], .has_shape = true};
    for (int32_t i = 0; i < signature->output_count; i++)
        out_file->outputs[i] =
            (struct tt_onnx_value){.spec = signature->outputs[i], .has_shape = true};
}

static int32_t tensor_named(const struct tt_tensor_spec *specs, int32_t count, const char *name) {
    for (int32_t i = 0; i < count; i++)
        if (strcmp(specs[i].name, name) == 0)
            return i;
    tt_assert(false); /* the configuration was completed from these tensors */
    return -1;
}

static bool is_reshaped(const struct tt_tensor_spec *specs, const struct tt_shape *engine,
                        int32_t count) {
    for (int32_t i = 0; i < count; i++)
        if (specs[i].shape.rank != engine[i].rank ||
            memcmp(specs[i].shape.dims, engine[i].dims,
                   (size_t)engine[i].rank * sizeof(engine[i].dims[0])) != 0)
            return true;
    return false;
}

void tt_cells_follow(struct tt_cells *self, const struct tt_model_config *config,
                     struct tt_findings *findings) {
    const struct tt_signature *wanted = &config->signature, *own = &self->signature;
    if (!wanted->batched)
        tt_findings_add(findings, TT_FINDING_PROBLEM,
                        "%s: max_batch_size is 0, but requests of a model of cells share batches; "
                        "leave it out",
                        config->file_name);
    if (is_reshaped(wanted->inputs, config->engine_inputs, wanted->input_count) ||
        is_reshaped(wanted->outputs, config->engine_outputs, wanted->output_count))
        tt_findings_add(findings, TT_FINDING_PROBLEM,
                        "%s: tensors of a model of cells cannot be reshaped", config->file_name);
    if (findings->problem_count > 0)
        return;
    int32_t place[TT_MAX_TENSORS] = {0}; /* index of each of our inputs in the configuration */
    for (int32_t i = 0; i < own->input_count; i++)
        place[i] = tensor_named(wanted->inputs, wanted->input_count, own->inputs[i].name);
    for (int32_t t = 0; t < self->type_count; t++) {
        struct tt_cell_type *type = &self->types[t];
        int32_t answers[TT_MAX_TENSORS];
        memcpy(answers, type->answers, sizeof(answers));
        for (int32_t i = 0; i < type->read_count; i++)
            type->reads[i].from = place[type->reads[i].from];
        for (int32_t i = 0; i < wanted->output_count && answers[0] >= 0; i++)
            type->answers[i] =
                answers[tensor_named(own->outputs, own->output_count, wanted->outputs[i].name)];
    }
    for (int32_t i = 0; i < self->child_count; i++)
        self->children[i] = place[self->children[i]];
    self->signature = *wanted;
}
