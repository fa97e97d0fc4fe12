#include "control/emulated_cells_load.h"

#include "model/cells/cells.h"
#include "profile/cell_profile.h"
#include "profile/find_profile.h"
#include "profile/profile_file.h"
#include "serve/served_model_state.h"

#include <stdlib.h>
#include <string.h>

enum {
    SLOTS = 1 << 18, /* states of cells: the maximum of a real model */
    MAX_LENGTH = 4096,
};

static const char *kind_name(Tutti__ModelUnfold__Kind kind) {
    return kind == TUTTI__MODEL_UNFOLD__KIND__TREE      ? "TREE"
           : kind == TUTTI__MODEL_UNFOLD__KIND__SEQ2SEQ ? "SEQ2SEQ"
                                                        : "CHAIN";
}

static enum tt_err check_steps(const struct tt_repository_model *model,
                               const struct tt_profile_file *file, struct tt_error *why) {
    Tutti__ModelUnfold__Kind kind = model->settings->emulation.cells->kind;
    int32_t count = file->step_count;
    bool is_tree = kind == TUTTI__MODEL_UNFOLD__KIND__TREE;
    int32_t least = kind == TUTTI__MODEL_UNFOLD__KIND__CHAIN ? 1 : 2;
    if (count < least || (is_tree && count != 2) || count > TT_STATS_MAX_CELLS)
        return tt_fail(TT_ERR_INVALID, why,
                       "cells of kind %s are the steps of profile.pbtxt, which has %d: write a "
                       "`step { ... }` per type of cell, %s",
                       kind_name(kind), count,
                       is_tree         ? "leaf and inner node"
                       : count > least ? "at most 16"
                       : least == 2    ? "at least an encoder and a decoder"
                                       : "at least one");
    return TT_OK;
}

static enum tt_step_kind step_kind(Tutti__ModelUnfold__Kind kind, int32_t step, int32_t count) {
    if (kind == TUTTI__MODEL_UNFOLD__KIND__TREE)
        return TT_STEP_STATIC;
    bool decodes = kind == TUTTI__MODEL_UNFOLD__KIND__SEQ2SEQ && step == count - 1;
    return decodes ? TT_STEP_DECODER : TT_STEP_ENCODER;
}

/* The cells, and what the scheduler keeps of them, for the served model. */
static enum tt_err make_cells(const struct tt_emulated_cells_options *options,
                              const struct tt_profile_file *file, struct tt_served_model *served,
                              struct tt_error *why) {
    const Tutti__ModelEmulatedCells *given = options->model->settings->emulation.cells;
    int32_t count = file->step_count,
            max_length = given->max_length ? given->max_length : MAX_LENGTH;
    struct tt_step *steps = calloc((size_t)count, sizeof(*steps));
    served->cells = calloc(1, sizeof(*served->cells));
    enum tt_err err = steps && served->cells ? TT_OK : TT_ERR_NO_MEMORY;
    for (int32_t s = 0; s < count && !err; s++)
        steps[s] = (struct tt_step){.name = file->message->step[s]->name,
                                    .profile = file->steps[s],
                                    .kind = step_kind(given->kind, s, count)};
    struct tt_cells_plain plain = {.step_count = count,
                                   .steps = steps,
                                   .is_tree = given->kind == TUTTI__MODEL_UNFOLD__KIND__TREE,
                                   .max_length = max_length,
                                   .max_output =
                                       given->max_output ? given->max_output : max_length};
    if (!err)
        err = tt_cells_new_plain(&plain, &served->cells->cells);
    if (!err)
        err = tt_cell_slots_init(&served->cells->slots, SLOTS);
    free(steps);
    if (err)
        return tt_fail(err, why, "out of memory for the cells");
    served->cells->by_cell = options->by_cell;
    return TT_OK;
}

static bool has_tensor(const struct tt_tensor_spec *specs, int32_t count,
                       const struct tt_tensor_spec *wanted) {
    for (int32_t i = 0; i < count; i++)
        if (strcmp(specs[i].name, wanted->name) == 0 && specs[i].dtype == wanted->dtype)
            return true;
    return false;
}

/* The tensors of such cells are given; the configuration lists them for clients. */
static enum tt_err check_tensors(const struct tt_repository_model *model,
                                 const struct tt_signature *cells, struct tt_error *why) {
    const struct tt_signature *configured = &model->config->signature;
    bool good = configured->input_count == cells->input_count &&
                configured->output_count == cells->output_count && configured->batched;
    for (int32_t i = 0; good && i < cells->input_count; i++)
        good = has_tensor(configured->inputs, configured->input_count, &cells->inputs[i]);
    if (good && has_tensor(configured->outputs, configured->output_count, &cells->outputs[0]))
        return TT_OK;
    bool is_tree = cells->input_count > 1;
    return tt_fail(TT_ERR_INVALID, why,
                   "config.pbtxt of emulated cells of kind %s lists %s, output { name: \"output\" "
                   "data_type: TYPE_UINT8 dims: 1 }, and a max_batch_size",
                   kind_name(model->settings->emulation.cells->kind),
                   is_tree ? "input { name: \"left\" data_type: TYPE_INT64 dims: -1 } and the same "
                             "named \"right\""
                           : "input { name: \"lengths\" data_type: TYPE_INT32 dims: -1 }");
}

/* The steps as policies and the engine see them. */
static void take_kinds(struct tt_served_model *served) {
    struct tt_served_cells *by = served->cells;
    const struct tt_cells *cells = by->cells;
    for (int32_t q = 0; q < TT_QUANTILES; q++)
        by->output_quantiles[q] = cells->max_output;
    for (int32_t t = 0; t < cells->type_count; t++) {
        served->steps[t].kind = cells->types[t].kind;
        served->steps[t].name = cells->types[t].name;
        if (cells->types[t].kind == TT_STEP_DECODER)
            served->step_model.output_quantiles = by->output_quantiles;
    }
    served->step_model.max_batch = tt_step_max_rows(&served->step_model, 0, cells->type_count - 1);
}

/* The engine's model, and the profile of whole sequences. */
static enum tt_err load_engine(const struct tt_emulated_cells_options *options,
                               const struct tt_cells *cells, const struct tt_profile_file *file,
                               const struct tt_engine_model_spec *spec,
                               struct tt_engine_model **out_loaded, struct tt_profile **out_whole,
                               struct tt_error *why) {
    enum tt_err err = tt_cell_profile_whole(cells, file->steps, out_whole, why);
    if (err)
        return err;
    err = tt_engine_load(options->runtime, options->engine, spec, out_loaded, why);
    if (err)
        tt_profile_free(*out_whole);
    return err;
}

/* The description is kept; to the engine the model is one step. */
static enum tt_err load_whole(const struct tt_emulated_cells_options *options,
                              const struct tt_profile_file *file, struct tt_served_model *served,
                              struct tt_error *why) {
    struct tt_cells *cells = served->described = served->cells->cells;
    tt_cell_slots_fini(&served->cells->slots);
    free(served->cells);
    served->cells = NULL;
    const struct tt_engine_model_spec spec = {.form = TT_ENGINE_GRAPH,
                                              .name = options->model->name,
                                              .signature = &cells->signature,
                                              .batched = true,
                                              .max_batch = cells->signature.max_batch};
    struct tt_engine_model *loaded;
    struct tt_profile *whole;
    enum tt_err err = load_engine(options, cells, file, &spec, &loaded, &whole, why);
    if (err)
        return err;
    return tt_served_model_loaded(served, loaded, whole, NULL)
               ? tt_fail(TT_ERR_NO_MEMORY, why, "out of memory")
               : TT_OK;
}

static enum tt_err load(const struct tt_emulated_cells_options *options,
                        struct tt_profile_file *file, struct tt_served_model *served,
                        struct tt_error *why) {
    const Tutti__ModelEmulatedCells *given = options->model->settings->emulation.cells;
    struct tt_cells *cells = served->cells->cells;
    served->cells->task_ns = (int64_t)(given->task_us * 1e3 + 0.5);
    served->cells->gather_row_ns = (int64_t)(given->gather_row_us * 1e3 + 0.5);
    struct tt_engine_emulation emulation = {
        .signature = &cells->signature,
        .step_count = cells->type_count,
        .latency_ns = options->latency_ns,
        .latency_context = served,
        .demand_ppm = options->demand_ppm,
        .cells = {.cells = cells,
                  .steps = &served->step_model,
                  .slot_count = SLOTS,
                  .task_ns = served->cells->task_ns,
                  .gather_row_ns = served->cells->gather_row_ns}};
    struct tt_engine_model_spec spec = {.form = TT_ENGINE_CELL_SET,
                                        .name = options->model->name,
                                        .signature = &cells->signature,
                                        .cells = cells,
                                        .emulation = &emulation};
    struct tt_engine_model *loaded;
    struct tt_profile *whole;
    enum tt_err err = load_engine(options, cells, file, &spec, &loaded, &whole, why);
    if (err)
        return err;
    struct tt_profile **steps = file->steps;
    file->steps = NULL;
    file->step_count = 0;
    err = tt_served_model_loaded(served, loaded, whole, steps);
    if (err)
        return tt_fail(err, why, "out of memory");
    take_kinds(served);
    return TT_OK;
}

enum tt_err tt_emulated_cells_load(const struct tt_emulated_cells_options *options,
                                   struct tt_served_model *served, struct tt_error *why) {
    struct tt_profile_file *file;
    int32_t max_batch = options->model->config->signature.max_batch;
    enum tt_err err = tt_find_profile_open(options->model, max_batch, &file, why);
    if (err == TT_ERR_NOT_FOUND)
        return tt_fail(TT_ERR_INVALID, why,
                       "%s: emulated cells take as long as profile.pbtxt says, and there is none",
                       options->model->directory);
    if (err)
        return err;
    err = check_steps(options->model, file, why);
    if (!err)
        err = make_cells(options, file, served, why);
    if (!err)
        err = check_tensors(options->model, &served->cells->cells->signature, why);
    if (!err)
        err = options->is_whole ? load_whole(options, file, served, why)
                                : load(options, file, served, why);
    tt_profile_file_close(file);
    return err;
}
