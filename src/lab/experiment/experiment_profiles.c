/* The steps and profiles of one model of an experiment, from any of the four places where the file
 * may name them; its lengths and its cells, which decide how often the steps run. */
#include "base/instant.h"
#include "lab/experiment/experiment_build.h"
#include "lab/scenario/allocate.h"
#include "profile/profile_file.h"
#include "profile/repository_profile.h"
#include "profile/step_table.h"

#include <stdlib.h>
#include <string.h>

bool tt_experiment_ns(double value, int64_t unit_ns, int64_t *out_ns) {
    double ns = value * (double)unit_ns;
    if (!(ns >= 0 && ns <= 1e15))
        return false;
    *out_ns = (int64_t)(ns + 0.5);
    return true;
}

struct building {
    const struct tt_experiment *experiment;
    const char *repository; /* NULL: none */
    struct tt_scenario_model *model;
    const Tutti__ExperimentModel *given;
    struct tt_error *why;
};

static void set_steps(const struct building *b, int32_t count) {
    struct tt_scenario_model *model = b->model;
    model->steps = tt_allocate((size_t)count, sizeof(*model->steps));
    model->profiles = tt_allocate((size_t)count, sizeof(*model->profiles));
    model->step_model.steps = model->steps;
    model->step_model.step_count = count;
}

/* A file that is missing is reported where the experiment names it. */
static enum tt_err unreadable(const struct building *b, enum tt_err err, const char *field,
                              const char *what, const char *name) {
    if (err != TT_ERR_NOT_FOUND && err != TT_ERR_IO)
        return err;
    return tt_experiment_wrong(b->experiment, b->given, field, b->why, "the %s '%s' cannot be read",
                               what, name);
}

/* ---- where steps come from ---- */

/* From profile_file. */
static enum tt_err read_profile(const struct building *b, struct tt_profile **out_profile) {
    char *path = tt_experiment_path(b->experiment, b->given->profile_file);
    struct tt_profile_file *file;
    enum tt_err err = tt_profile_file_open(path, b->given->max_batch, &file, b->why);
    free(path);
    if (err)
        return unreadable(b, err, "profile_file", "profile", b->given->profile_file);
    *out_profile = file->whole;
    file->whole = NULL;
    tt_profile_file_close(file);
    return TT_OK;
}

/* From a profile in the experiment itself. */
static enum tt_err make_profile(const struct building *b, const Tutti__Profile *given,
                                struct tt_profile **out_profile) {
    struct tt_error inner;
    enum tt_err err = tt_profile_file_whole(given, b->given->max_batch, out_profile, &inner);
    if (err == TT_ERR_INVALID)
        return tt_experiment_wrong(b->experiment, given, NULL, b->why, "%s", inner.text);
    return err ? tt_fail(err, b->why, "%s", inner.text) : TT_OK;
}

/* From profile, profile_file or step. */
static enum tt_err make_steps(const struct building *b, bool has_file) {
    const Tutti__ExperimentModel *given = b->given;
    struct tt_scenario_model *model = b->model;
    int32_t steps = given->n_step > 0 ? (int32_t)given->n_step : 1;
    set_steps(b, steps);
    enum tt_err err = TT_OK;
    for (int32_t s = 0; !err && s < steps; s++) {
        const char *name = given->n_step > 0 ? given->step[s]->name : given->name;
        const Tutti__Profile *profile =
            given->n_step > 0 ? given->step[s]->profile : given->profile;
        model->steps[s].name = tt_copy_text(name);
        if (!profile && !has_file)
            return tt_experiment_wrong(b->experiment, given->step[s], NULL, b->why,
                                       "step '%s' of model '%s' has no profile", name, given->name);
        err = has_file ? read_profile(b, &model->profiles[s])
                       : make_profile(b, profile, &model->profiles[s]);
        model->steps[s].profile = model->profiles[s];
        model->steps[s].kind =
            given->n_step > 0 ? (enum tt_step_kind)given->step[s]->kind : TT_STEP_STATIC;
    }
    return err;
}

/* From step_file. */
static enum tt_err read_steps(const struct building *b) {
    struct tt_step_table table;
    char *path = tt_experiment_path(b->experiment, b->given->step_file);
    enum tt_err err = tt_step_table_read(path, b->given->max_batch, &table, b->why);
    free(path);
    if (err)
        return unreadable(b, err, "step_file", "table", b->given->step_file);
    set_steps(b, table.count);
    for (int32_t s = 0; s < table.count; s++) {
        b->model->profiles[s] = table.profiles[s];
        b->model->steps[s] = (struct tt_step){
            .name = table.names[s], .profile = table.profiles[s], .kind = table.kinds[s]};
        table.profiles[s] = NULL;
        table.names[s] = NULL;
    }
    tt_step_table_fini(&table);
    return TT_OK;
}

/* From what `tutti profile` measured of the model of this name in the experiment's repository. */
static enum tt_err read_repository(const struct building *b, struct tt_profile **out_whole) {
    const Tutti__ExperimentModel *given = b->given;
    struct tt_scenario_model *model = b->model;
    struct tt_repository_profile profile;
    enum tt_err err =
        tt_repository_profile_read(b->repository, given->name, given->max_batch, &profile, b->why);
    if (err == TT_ERR_NO_MEMORY || err == TT_ERR_IO)
        return err;
    if (err) {
        struct tt_error inner = *b->why;
        const char *command = b->experiment->message->repository_made_by;
        bool unmade = err == TT_ERR_NOT_FOUND && command[0];
        return tt_experiment_wrong(b->experiment, given, "name", b->why, "%s%s%s", inner.text,
                                   unmade ? "; this command makes it: " : "",
                                   unmade ? command : "");
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
    model->source = tt_copy_text(given->name);
    model->steps = profile.steps;
    model->profiles = profile.profiles;
    model->step_model.steps = profile.steps;
    model->step_model.step_count = profile.step_count;
    *out_whole = profile.whole;
    return TT_OK;
}

/* ---- lengths and cells ---- */

/* Whether the number of times that steps run depends on the input's length. */
static bool walks_input(const struct tt_scenario_model *model) {
    bool encodes = model->tree != TT_TREE_NONE;
    for (int32_t s = 0; s < model->step_model.step_count; s++)
        encodes = encodes || model->steps[s].kind == TT_STEP_ENCODER;
    return encodes;
}

/* The lengths of inputs and outputs, for a model with recurrent steps or with `lengths`. */
static enum tt_err set_lengths(const struct building *b) {
    const struct tt_experiment *e = b->experiment;
    const Tutti__ExperimentModel *given = b->given;
    struct tt_scenario_model *model = b->model;
    const Tutti__ExperimentLengths *lengths = given->lengths;
    bool encodes = walks_input(model), decodes = false;
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
    model->lengths = tt_allocate(1, sizeof(*model->lengths));
    for (int32_t p = 0; p < TT_QUANTILES; p++) {
        model->lengths->input[p] = given->length;
        model->lengths->output[p] = given->output_length;
    }
    model->step_model.output_quantiles = decodes ? model->lengths->output : NULL;
    if (!lengths)
        return TT_OK;
    char *path = tt_experiment_path(e, lengths->file);
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

static enum tt_err set_cells(const struct building *b) {
    const struct tt_experiment *e = b->experiment;
    const Tutti__ExperimentModel *given = b->given;
    struct tt_scenario_model *model = b->model;
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

/* The longest request must fit into a graph of cells. */
static enum tt_err check_cells(const struct building *b) {
    const struct tt_scenario_model *model = b->model;
    int32_t longest = model->lengths ? model->lengths->input[TT_QUANTILES - 1] : b->given->length;
    int64_t cells = tt_sim_cells_count(&model->step_model, model->tree, longest);
    if (cells <= TT_CELL_GRAPH_MAX_CELLS)
        return TT_OK;
    return tt_experiment_wrong(b->experiment, b->given, NULL, b->why,
                               "model '%s': its longest requests are of %lld cells; at most %d "
                               "are possible",
                               b->given->name, (long long)cells, TT_CELL_GRAPH_MAX_CELLS);
}

/* ---- the whole ---- */

/* Outputs count as long as nine in ten of them are at most. */
static int64_t times_run(const void *context, int32_t step, int32_t length) {
    const struct tt_scenario_model *model = context;
    enum tt_step_kind kind = model->steps[step].kind;
    int64_t times = kind == TT_STEP_ENCODER ? length : 1;
    if (kind == TT_STEP_DECODER)
        times = model->lengths->output[90];
    /* Cells of a level share a batch. No tree of so many leaves has fewer levels. */
    if (model->tree != TT_TREE_NONE && step > 0)
        return length > 1 ? 32 - __builtin_clz((unsigned)length - 1) : 0;
    return times > 1 ? times : 1;
}

/* The whole is wanted for the input lengths of the steps, or, with encoder steps, for those of the
 * distribution. */
static enum tt_err sum_steps(const struct building *b, struct tt_profile **out_whole) {
    const struct tt_scenario_model *model = b->model;
    const struct tt_profile *longest = model->profiles[0];
    for (int32_t s = 0; s < model->step_model.step_count; s++)
        if (model->profiles[s]->length_count > longest->length_count)
            longest = model->profiles[s];
    struct tt_whole_profile whole = {.step_count = model->step_model.step_count,
                                     .steps = model->profiles,
                                     .lengths = longest->lengths,
                                     .length_count = longest->length_count,
                                     .times = times_run,
                                     .context = model};
    int32_t lengths[TT_QUANTILES] = {0}, count = 0;
    if (walks_input(model)) {
        for (int32_t p = 0; p < TT_QUANTILES; p++)
            if (count == 0 || model->lengths->input[p] > lengths[count - 1])
                lengths[count++] = model->lengths->input[p];
        whole.lengths = lengths;
        whole.length_count = count;
    }
    return tt_whole_profile_sum(&whole, out_whole, b->why);
}

enum tt_err tt_experiment_build_profiles(const struct tt_experiment *self, const char *repository,
                                         const Tutti__ExperimentModel *given,
                                         struct tt_scenario_model *model, struct tt_error *why) {
    struct building b = {self, repository, model, given, why};
    bool has_file = given->profile_file && given->profile_file[0];
    bool has_table = given->step_file && given->step_file[0];
    int32_t ways = (given->profile != NULL) + has_file + (given->n_step > 0) + has_table;
    bool has_none = ways == 0 && repository;
    if (ways != 1 && !has_none)
        return tt_experiment_wrong(self, given, NULL, why,
                                   "model '%s' has %s profile; it needs one of profile, "
                                   "profile_file, step, step_file%s",
                                   given->name, ways ? "more than one" : "no",
                                   ways ? "" : ", or the experiment a repository");
    struct tt_profile *whole = NULL;
    enum tt_err err = has_table  ? read_steps(&b)
                      : has_none ? read_repository(&b, &whole)
                                 : make_steps(&b, has_file);
    if (!err)
        err = set_cells(&b);
    if (!err) {
        model->step_model.whole = whole; /* the model owns it, also after an error */
        err = set_lengths(&b);
    }
    if (!err)
        err = check_cells(&b);
    if (err)
        return err;
    if (!whole) {
        whole = model->profiles[0];
        if (model->step_model.step_count > 1 || model->step_model.output_quantiles ||
            model->lengths)
            err = sum_steps(&b, &whole);
    }
    if (!err) {
        model->step_model.whole = whole;
        model->step_model.max_batch = whole->max_batch;
    }
    return err;
}
