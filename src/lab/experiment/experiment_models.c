#include "base/instant.h"
#include "lab/experiment/experiment_build.h"
#include "lab/experiment/step_table.h"
#include "lab/experiment/whole_profile.h"
#include "model/text/csv.h"
#include "profile/repository_profile.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_MAX_BATCH = 512, MAX_MODELS = 100000 };

struct building {
    const struct tt_experiment *experiment;
    struct tt_scenario *scenario;
    int32_t capacity;
    struct tt_error *why;
};

bool tt_experiment_ns(double value, int64_t unit_ns, int64_t *out_ns) {
    double ns = value * (double)unit_ns;
    if (!(ns >= 0 && ns <= 1e15))
        return false;
    *out_ns = (int64_t)(ns + 0.5);
    return true;
}

static struct tt_scenario_model *add_model(struct building *b, const char *name, int32_t copy) {
    struct tt_scenario *scenario = b->scenario;
    if (scenario->model_count == b->capacity) {
        int32_t capacity = b->capacity ? 2 * b->capacity : 16;
        struct tt_scenario_model *models =
            realloc(scenario->models, (size_t)capacity * sizeof(*models));
        if (!models)
            return NULL;
        scenario->models = models;
        b->capacity = capacity;
    }
    struct tt_scenario_model *model = &scenario->models[scenario->model_count];
    *model = (struct tt_scenario_model){.rows = 1, .weight = 1};
    if (copy < 0)
        model->name = strdup(name);
    else if (asprintf(&model->name, "%s.%d", name, copy) < 0)
        model->name = NULL;
    if (!model->name)
        return NULL;
    model->step_model.name = model->name;
    scenario->model_count++;
    return model;
}

static enum tt_err no_memory(struct building *b) {
    return tt_fail(TT_ERR_NO_MEMORY, b->why, "%s: out of memory", b->experiment->path);
}

/* ---- profiles ---- */

static enum tt_err points_profile(struct building *b, const Tutti__Profile *given,
                                  int32_t max_batch, struct tt_profile **out_profile) {
    struct tt_profile_point *points = calloc(given->n_point, sizeof(*points));
    if (!points)
        return no_memory(b);
    int32_t largest = 1;
    for (size_t i = 0; i < given->n_point; i++) {
        const Tutti__ProfilePoint *point = given->point[i];
        double ppm = point->demand * TT_DEMAND_WHOLE;
        points[i] = (struct tt_profile_point){
            .length = point->length,
            .batch = point->batch,
            .latency_ns = point->latency_ns,
            .demand_ppm = ppm >= 0 && ppm <= TT_DEMAND_WHOLE ? (int32_t)(ppm + 0.5) : -1};
        if (point->batch > largest)
            largest = point->batch;
    }
    int32_t limit = max_batch > 0 ? max_batch : given->max_batch > 0 ? given->max_batch : largest;
    enum tt_err err =
        tt_profile_new_points(points, (int32_t)given->n_point, limit, out_profile, b->why);
    free(points);
    return err;
}

static enum tt_err make_profile(struct building *b, const Tutti__Profile *given, int32_t max_batch,
                                struct tt_profile **out_profile) {
    const struct tt_experiment *e = b->experiment;
    if ((given->linear != NULL) == (given->n_point > 0))
        return tt_experiment_wrong(e, given, NULL, b->why,
                                   "a profile needs either linear { alpha_ms beta_ms } or points");
    enum tt_err err;
    if (given->n_point > 0) {
        err = points_profile(b, given, max_batch, out_profile);
    } else {
        int64_t alpha_ns, beta_ns;
        if (!tt_experiment_ns(given->linear->alpha_ms, TT_MS, &alpha_ns) ||
            !tt_experiment_ns(given->linear->beta_ms, TT_MS, &beta_ns))
            return tt_experiment_wrong(e, given->linear, NULL, b->why,
                                       "alpha_ms %g, beta_ms %g: both must be >= 0",
                                       given->linear->alpha_ms, given->linear->beta_ms);
        int32_t limit = max_batch > 0          ? max_batch
                        : given->max_batch > 0 ? given->max_batch
                                               : DEFAULT_MAX_BATCH;
        err = tt_profile_new_linear(alpha_ns, beta_ns, limit, out_profile, b->why);
    }
    if (err == TT_ERR_INVALID) {
        struct tt_error inner = b->why ? *b->why : (struct tt_error){0};
        return tt_experiment_wrong(e, given, NULL, b->why, "%s", inner.text);
    }
    return err;
}

static enum tt_err read_profile(struct building *b, const Tutti__ExperimentModel *given,
                                int32_t max_batch, struct tt_profile **out_profile) {
    char *path = tt_experiment_path(b->experiment, given->profile_file);
    if (!path)
        return no_memory(b);
    ProtobufCMessage *message = NULL;
    enum tt_err err = tt_textproto_read_file(path, &tutti__profile__descriptor, &message, b->why);
    free(path);
    if (err == TT_ERR_NOT_FOUND || err == TT_ERR_IO)
        return tt_experiment_wrong(b->experiment, given, "profile_file", b->why,
                                   "the profile '%s' cannot be read", given->profile_file);
    if (err)
        return err;
    err = make_profile(b, (const Tutti__Profile *)message, max_batch, out_profile);
    protobuf_c_message_free_unpacked(message, NULL);
    return err;
}

static enum tt_err set_steps(struct building *b, struct tt_scenario_model *model, int32_t count) {
    model->steps = calloc((size_t)count, sizeof(*model->steps));
    model->profiles = calloc((size_t)count, sizeof(*model->profiles));
    if (!model->steps || !model->profiles)
        return no_memory(b);
    model->step_model.steps = model->steps;
    model->step_model.step_count = count;
    return TT_OK;
}

/* The steps of a CSV. */
static enum tt_err read_steps(struct building *b, struct tt_scenario_model *model,
                              const Tutti__ExperimentModel *given) {
    struct tt_step_table table;
    char *path = tt_experiment_path(b->experiment, given->step_file);
    if (!path)
        return no_memory(b);
    enum tt_err err = tt_step_table_read(path, given->max_batch, &table, b->why);
    free(path);
    if (err == TT_ERR_NOT_FOUND || err == TT_ERR_IO)
        return tt_experiment_wrong(b->experiment, given, "step_file", b->why,
                                   "the table '%s' cannot be read", given->step_file);
    if (err)
        return err;
    err = set_steps(b, model, table.count);
    for (int32_t s = 0; !err && s < table.count; s++) {
        model->profiles[s] = table.profiles[s];
        model->steps[s] = (struct tt_step){
            .name = table.names[s], .profile = table.profiles[s], .kind = table.kinds[s]};
        table.profiles[s] = NULL;
        table.names[s] = NULL;
    }
    tt_step_table_fini(&table);
    return err;
}

/* What `tutti profile` has measured of the model of this name in the experiment's repository. */
static enum tt_err read_repository(struct building *b, struct tt_scenario_model *model,
                                   const Tutti__ExperimentModel *given,
                                   struct tt_profile **out_whole) {
    struct tt_repository_profile profile;
    enum tt_err err = tt_repository_profile_read(b->scenario->repository, given->name,
                                                 given->max_batch, &profile, b->why);
    if (err == TT_ERR_NO_MEMORY || err == TT_ERR_IO)
        return err;
    if (err) {
        struct tt_error inner = *b->why;
        return tt_experiment_wrong(b->experiment, given, "name", b->why, "%s", inner.text);
    }
    bool has_tree = given->tree != TUTTI__TREE_SHAPE__NO_TREE;
    if (has_tree != profile.is_tree) {
        tt_repository_profile_fini(&profile);
        return has_tree ? tt_experiment_wrong(b->experiment, given, "tree", b->why,
                                              "model '%s' of the repository takes no trees; leave "
                                              "tree out",
                                              given->name)
                        : tt_experiment_wrong(b->experiment, given, NULL, b->why,
                                              "model '%s' takes trees: say which, by tree: RANDOM "
                                              "or tree: BALANCED",
                                              given->name);
    }
    model->source = strdup(given->name);
    err = model->source ? set_steps(b, model, profile.step_count) : no_memory(b);
    for (int32_t s = 0; !err && s < profile.step_count; s++) {
        model->profiles[s] = profile.steps ? profile.steps[s] : profile.whole;
        model->steps[s] = (struct tt_step){.name = profile.names[s],
                                           .profile = model->profiles[s],
                                           .kind = profile.kinds[s],
                                           .min_rows = profile.min_rows[s]};
        if (profile.steps)
            profile.steps[s] = NULL;
        profile.names[s] = NULL;
    }
    if (!err) {
        *out_whole = profile.whole;
        profile.whole = NULL;
    }
    tt_repository_profile_fini(&profile);
    return err;
}

/* How long inputs and outputs are, where the model has recurrent steps or says so. */
static enum tt_err set_lengths(struct building *b, struct tt_scenario_model *model,
                               const Tutti__ExperimentModel *given) {
    const struct tt_experiment *e = b->experiment;
    const Tutti__ExperimentLengths *lengths = given->lengths;
    bool encodes = tt_whole_profile_walks_input(model), decodes = false;
    for (int32_t s = 0; s < model->step_model.step_count; s++)
        decodes = decodes || model->steps[s].kind == TT_STEP_DECODER;
    bool has_input = given->length > 0 || (lengths && lengths->input[0]);
    bool has_output = given->output_length > 0 || (lengths && lengths->output[0]);
    if (given->output_length < 0 || (encodes && !has_input) || (decodes && !has_output))
        return tt_experiment_wrong(e, given, NULL, b->why,
                                   "model '%s' has %s steps: say how long its %s are, by lengths "
                                   "{ ... } or %s",
                                   given->name,
                                   !encodes || has_input         ? "decoder"
                                   : model->tree != TT_TREE_NONE ? "tree"
                                                                 : "encoder",
                                   encodes && !has_input ? "inputs" : "outputs",
                                   encodes && !has_input ? "length" : "output_length");
    if (!lengths && !encodes && !decodes)
        return TT_OK;
    model->lengths = calloc(1, sizeof(*model->lengths));
    if (!model->lengths)
        return no_memory(b);
    for (int32_t p = 0; p < TT_QUANTILES; p++) {
        model->lengths->input[p] = given->length;
        model->lengths->output[p] = given->output_length;
    }
    model->step_model.output_quantiles = decodes ? model->lengths->output : NULL;
    char *path = lengths ? tt_experiment_path(e, lengths->file) : NULL;
    if (!lengths)
        return TT_OK;
    if (!path)
        return no_memory(b);
    enum tt_err err =
        tt_lengths_read(path, lengths->input, lengths->output, model->lengths, b->why);
    free(path);
    if (err == TT_ERR_NOT_FOUND || err == TT_ERR_IO)
        return tt_experiment_wrong(e, lengths, "file", b->why, "the lengths '%s' cannot be read",
                                   lengths->file);
    return err;
}

_Static_assert((int)TUTTI__TREE_SHAPE__NO_TREE == (int)TT_TREE_NONE &&
                   (int)TUTTI__TREE_SHAPE__BALANCED == (int)TT_TREE_BALANCED &&
                   (int)TUTTI__TREE_SHAPE__RANDOM == (int)TT_TREE_RANDOM,
               "one is cast to the other");

static enum tt_err set_cells(struct building *b, struct tt_scenario_model *model,
                             const Tutti__ExperimentModel *given) {
    const struct tt_experiment *e = b->experiment;
    model->tree = (enum tt_tree)given->tree;
    bool is_pair = model->step_model.step_count == 2 && model->steps[0].kind == TT_STEP_STATIC &&
                   model->steps[1].kind == TT_STEP_STATIC;
    if (model->tree != TT_TREE_NONE && !is_pair)
        return tt_experiment_wrong(e, given, "tree", b->why,
                                   "model '%s' is a tree: it needs two static steps, the leaf cell "
                                   "and the internal one",
                                   given->name);
    if (!tt_experiment_ns(given->cell_task_us, TT_US, &model->cell_rates.task_ns) ||
        !tt_experiment_ns(given->cell_gather_us_per_row, TT_US, &model->cell_rates.gather_row_ns))
        return tt_experiment_wrong(e, given, "cell_task_us", b->why,
                                   "model '%s': cell_task_us and cell_gather_us_per_row must be >= "
                                   "0",
                                   given->name);
    return TT_OK;
}

/* As one of profile, profile_file, step says. */
static enum tt_err make_steps(struct building *b, struct tt_scenario_model *model,
                              const Tutti__ExperimentModel *given, bool has_file) {
    int32_t steps = given->n_step > 0 ? (int32_t)given->n_step : 1;
    enum tt_err err = set_steps(b, model, steps);
    for (int32_t s = 0; !err && s < steps; s++) {
        const char *name = given->n_step > 0 ? given->step[s]->name : given->name;
        const Tutti__Profile *profile =
            given->n_step > 0 ? given->step[s]->profile : given->profile;
        model->steps[s].name = strdup(name);
        if (!model->steps[s].name)
            return no_memory(b);
        if (!profile && !has_file)
            return tt_experiment_wrong(b->experiment, given->step[s], NULL, b->why,
                                       "step '%s' of model '%s' has no profile", name, given->name);
        err = has_file ? read_profile(b, given, given->max_batch, &model->profiles[s])
                       : make_profile(b, profile, given->max_batch, &model->profiles[s]);
        model->steps[s].profile = model->profiles[s];
        model->steps[s].kind =
            given->n_step > 0 ? (enum tt_step_kind)given->step[s]->kind : TT_STEP_STATIC;
    }
    return err;
}

/* The longest request must be a graph of cells. */
static enum tt_err check_cells(const struct building *b, const struct tt_scenario_model *model,
                               const Tutti__ExperimentModel *given) {
    int32_t longest = model->lengths ? model->lengths->input[TT_QUANTILES - 1] : given->length;
    int64_t cells = tt_sim_cells_count(&model->step_model, model->tree, longest);
    if (cells <= TT_CELL_GRAPH_MAX_CELLS)
        return TT_OK;
    return tt_experiment_wrong(b->experiment, given, NULL, b->why,
                               "model '%s': its longest requests are of %lld cells; at most %d "
                               "are possible",
                               given->name, (long long)cells, TT_CELL_GRAPH_MAX_CELLS);
}

static enum tt_err set_profiles(struct building *b, struct tt_scenario_model *model,
                                const Tutti__ExperimentModel *given) {
    bool has_file = given->profile_file && given->profile_file[0];
    bool has_table = given->step_file && given->step_file[0];
    int32_t ways = (given->profile != NULL) + has_file + (given->n_step > 0) + has_table;
    bool has_none = ways == 0 && b->scenario->repository;
    if (ways != 1 && !has_none)
        return tt_experiment_wrong(b->experiment, given, NULL, b->why,
                                   "model '%s' has %s profile; it needs one of profile, "
                                   "profile_file, step, step_file%s",
                                   given->name, ways ? "more than one" : "no",
                                   ways ? "" : ", or the experiment a repository");
    struct tt_profile *whole = NULL;
    enum tt_err err = has_table  ? read_steps(b, model, given)
                      : has_none ? read_repository(b, model, given, &whole)
                                 : make_steps(b, model, given, has_file);
    if (!err)
        err = set_cells(b, model, given);
    if (!err) {
        model->step_model.whole = whole; /* the model's, whatever follows */
        err = set_lengths(b, model, given);
    }
    if (!err)
        err = check_cells(b, model, given);
    if (err)
        return err;
    if (!whole) {
        whole = model->profiles[0];
        if (model->step_model.step_count > 1 || model->step_model.output_quantiles ||
            model->lengths)
            err = tt_whole_profile_sum(model, &whole, b->why);
    }
    if (!err) {
        model->step_model.whole = whole;
        model->step_model.max_batch = whole->max_batch;
    }
    return err;
}

/* ---- models given one by one ---- */

static enum tt_err set_slo(struct building *b, struct tt_scenario_model *model, double slo_ms,
                           const void *message) {
    double scale = b->experiment->message->slo_scale;
    if (!(scale >= 0))
        return tt_experiment_wrong(b->experiment, b->experiment->message, "slo_scale", b->why,
                                   "slo_scale is %g; it must be > 0", scale);
    int64_t slo_ns;
    if (!tt_experiment_ns(slo_ms * (scale > 0 ? scale : 1), TT_MS, &slo_ns))
        return tt_experiment_wrong(b->experiment, message, "slo_ms", b->why,
                                   "model '%s': slo_ms is %g; it must be > 0, or absent for no "
                                   "deadline",
                                   model->name, slo_ms);
    model->step_model.slo_ns = slo_ns > 0 ? slo_ns : TT_NEVER;
    return TT_OK; /* even if it is below l(1): the report says so (L2) */
}

static enum tt_err set_details(struct building *b, struct tt_scenario_model *model,
                               const Tutti__ExperimentModel *given) {
    const struct tt_experiment *e = b->experiment;
    model->rows = given->rows > 0 ? given->rows : 1;
    model->length = given->length;
    model->output_length = given->output_length;
    model->input_bytes = given->input_bytes;
    model->output_bytes = given->output_bytes;
    if (given->rows < 0 || model->rows > model->step_model.max_batch)
        return tt_experiment_wrong(e, given, "rows", b->why,
                                   "model '%s': rows is %d; it must be 1 .. max_batch (%d)",
                                   model->name, given->rows, model->step_model.max_batch);
    if (given->length < 0 || given->input_bytes < 0 || given->output_bytes < 0)
        return tt_experiment_wrong(e, given, NULL, b->why,
                                   "model '%s': length and bytes must be >= 0", model->name);
    if (!(given->weight >= 0 && given->weight <= 1e6))
        return tt_experiment_wrong(e, given, "weight", b->why,
                                   "model '%s': weight is %g; it must be 0 .. 10^6", model->name,
                                   given->weight);
    model->weight = (int64_t)(given->weight * 1e6 + 0.5);
    bool recurs = false;
    for (int32_t s = 0; s < model->step_model.step_count; s++)
        recurs |= model->steps[s].kind != TT_STEP_STATIC;
    if (given->slots < 0 || (given->slots > 0 && recurs))
        return tt_experiment_wrong(e, given, "slots", b->why,
                                   "model '%s': slots is %d; it must be 1 or more, or absent for "
                                   "any number, as it is for models with recurrent steps",
                                   model->name, given->slots);
    model->step_model.slots = given->slots;
    if (!tt_experiment_ns(given->window_ms, TT_MS, &model->step_model.window_ns))
        return tt_experiment_wrong(e, given, "window_ms", b->why,
                                   "model '%s': window_ms is %g; it must be >= 0", model->name,
                                   given->window_ms);
    model->preferred = calloc(given->n_preferred_batch + 1, sizeof(*model->preferred));
    if (!model->preferred)
        return no_memory(b);
    for (size_t i = 0; i < given->n_preferred_batch; i++) {
        int32_t batch = given->preferred_batch[i];
        if (batch < 1 || batch > model->step_model.max_batch ||
            (i > 0 && batch <= given->preferred_batch[i - 1]))
            return tt_experiment_wrong(e, given, "preferred_batch", b->why,
                                       "model '%s': preferred_batch %d; they must ascend within "
                                       "1 .. max_batch (%d)",
                                       model->name, batch, model->step_model.max_batch);
        model->preferred[i] = batch;
    }
    model->step_model.preferred = model->preferred;
    model->step_model.preferred_count = (int32_t)given->n_preferred_batch;
    return TT_OK;
}

static enum tt_err check_model(struct building *b, const Tutti__ExperimentModel *given) {
    const struct tt_experiment *e = b->experiment;
    if (!given->name[0] || strpbrk(given->name, ", \t\r\n\""))
        return tt_experiment_wrong(e, given, "name", b->why,
                                   "a model needs a name without spaces, commas and quotes");
    bool copies_given = tt_textproto_places_find(&e->places, given, "copies", NULL);
    if (given->copies < 0 || given->copies > MAX_MODELS || (copies_given && given->copies == 0))
        return tt_experiment_wrong(e, given, "copies", b->why, "copies is %d; it must be 1 .. %d",
                                   given->copies, MAX_MODELS);
    bool batch_given = tt_textproto_places_find(&e->places, given, "max_batch", NULL);
    if (given->max_batch < 0 || given->max_batch > TT_PROFILE_MAX_BATCH ||
        (batch_given && given->max_batch == 0))
        return tt_experiment_wrong(e, given, "max_batch", b->why,
                                   "max_batch is %d; it must be 1 .. %d", given->max_batch,
                                   TT_PROFILE_MAX_BATCH);
    return TT_OK;
}

static enum tt_err build_model(struct building *b, const Tutti__ExperimentModel *given) {
    enum tt_err err = check_model(b, given);
    int32_t copies = given->copies > 0 ? given->copies : 1;
    for (int32_t copy = 0; !err && copy < copies; copy++) {
        struct tt_scenario_model *model = add_model(b, given->name, copies > 1 ? copy : -1);
        if (!model)
            return no_memory(b);
        err = set_profiles(b, model, given);
        if (!err)
            err = set_details(b, model, given);
        if (!err)
            err = set_slo(b, model, given->slo_ms, given);
    }
    return err;
}

/* ---- models from a table ---- */

struct table_columns {
    int32_t model, alpha, beta, slo;
};

static enum tt_err build_row(struct building *b, struct tt_csv *csv, const struct table_columns *at,
                             const Tutti__ExperimentModelTable *given, bool *out_taken) {
    double alpha, beta, slo;
    enum tt_err err = tt_csv_number(csv, at->alpha, 0, 1e6, &alpha, b->why);
    if (!err)
        err = tt_csv_number(csv, at->beta, 0, 1e6, &beta, b->why);
    if (!err)
        err = tt_csv_number(csv, at->slo, 1e-6, 1e9, &slo, b->why);
    if (err)
        return err;
    double above = given->beta_over_alpha_above, at_most = given->beta_over_alpha_at_most;
    *out_taken = beta > above * alpha && (at_most <= 0 || beta <= at_most * alpha);
    if (!*out_taken)
        return TT_OK;
    struct tt_scenario_model *model = add_model(b, csv->fields[at->model], -1);
    if (!model)
        return no_memory(b);
    err = set_steps(b, model, 1);
    int64_t alpha_ns, beta_ns;
    if (!err &&
        (!tt_experiment_ns(alpha, TT_MS, &alpha_ns) || !tt_experiment_ns(beta, TT_MS, &beta_ns)))
        err = TT_ERR_INTERNAL;
    if (!err)
        err = tt_profile_new_linear(alpha_ns, beta_ns,
                                    given->max_batch > 0 ? given->max_batch : DEFAULT_MAX_BATCH,
                                    &model->profiles[0], b->why);
    if (err)
        return err == TT_ERR_INVALID
                   ? tt_fail_in(err, b->why, "%s:%lld", csv->path, (long long)csv->line)
                   : err;
    model->steps[0].name = strdup(model->name);
    model->steps[0].profile = model->profiles[0];
    model->step_model.whole = model->profiles[0];
    model->step_model.max_batch = model->profiles[0]->max_batch;
    return set_slo(b, model, slo, given);
}

static enum tt_err read_table(struct building *b, struct tt_csv *csv,
                              const Tutti__ExperimentModelTable *given) {
    struct table_columns at = {.model = tt_csv_column(csv, "model"),
                               .alpha = tt_csv_column(csv, "alpha_ms"),
                               .beta = tt_csv_column(csv, "beta_ms"),
                               .slo = tt_csv_column(csv, "slo_ms")};
    if (at.model < 0 || at.alpha < 0 || at.beta < 0 || at.slo < 0)
        return tt_fail(TT_ERR_INVALID, b->why,
                       "%s:%lld: a table of models needs the columns model, alpha_ms, beta_ms, "
                       "slo_ms",
                       csv->path, (long long)csv->line);
    int32_t taken = 0;
    bool more = given->first <= 0 || taken < given->first;
    while (more) {
        bool took = false;
        enum tt_err err = tt_csv_next(csv, &more, b->why);
        if (!err && more)
            err = build_row(b, csv, &at, given, &took);
        if (err)
            return err;
        taken += took;
        if (given->first > 0 && taken >= given->first)
            break;
    }
    if (taken == 0)
        return tt_experiment_wrong(b->experiment, given, "file", b->why,
                                   "the table '%s' has no model that qualifies", given->file);
    return TT_OK;
}

static enum tt_err build_table(struct building *b, const Tutti__ExperimentModelTable *given) {
    if (given->max_batch < 0 || given->max_batch > TT_PROFILE_MAX_BATCH)
        return tt_experiment_wrong(b->experiment, given, "max_batch", b->why,
                                   "max_batch is %d; it must be 1 .. %d", given->max_batch,
                                   TT_PROFILE_MAX_BATCH);
    char *path = tt_experiment_path(b->experiment, given->file);
    struct tt_csv *csv = calloc(1, sizeof(*csv));
    enum tt_err err = path && csv ? tt_csv_open(csv, path, b->why) : no_memory(b);
    if (err == TT_ERR_NOT_FOUND || err == TT_ERR_IO)
        err = tt_experiment_wrong(b->experiment, given, "file", b->why,
                                  "the table '%s' cannot be read", given->file);
    if (!err) {
        err = read_table(b, csv, given);
        tt_csv_close(csv);
    }
    free(csv);
    free(path);
    return err;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static enum tt_err check_names(struct building *b) {
    int32_t count = b->scenario->model_count;
    const char **names = calloc((size_t)count, sizeof(*names));
    if (!names)
        return no_memory(b);
    for (int32_t m = 0; m < count; m++)
        names[m] = b->scenario->models[m].name;
    qsort(names, (size_t)count, sizeof(*names), compare_names);
    enum tt_err err = TT_OK;
    for (int32_t m = 1; !err && m < count; m++)
        if (strcmp(names[m], names[m - 1]) == 0)
            err = tt_experiment_wrong(b->experiment, b->experiment->message, "model", b->why,
                                      "two models are called '%s'; names must differ", names[m]);
    free(names);
    return err;
}

enum tt_err tt_experiment_build_models(const struct tt_experiment *self,
                                       struct tt_scenario *scenario, struct tt_error *why) {
    struct building b = {.experiment = self, .scenario = scenario, .why = why};
    const Tutti__Experiment *message = self->message;
    enum tt_err err = TT_OK;
    for (size_t m = 0; !err && m < message->n_model; m++)
        err = build_model(&b, message->model[m]);
    for (size_t t = 0; !err && t < message->n_model_table; t++)
        err = build_table(&b, message->model_table[t]);
    if (!err && scenario->model_count == 0)
        err = tt_experiment_wrong(self, NULL, NULL, why,
                                  "no model; add model { name: ... profile { ... } slo_ms: ... }");
    return err ? err : check_names(&b);
}
