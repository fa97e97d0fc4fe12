#include "base/instant.h"
#include "lab/experiment/experiment_build.h"
#include "lab/scenario/allocate.h"
#include "model/text/csv.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_MODELS = 100000, MAX_TIMESTEPS = 1000000 };

struct building {
    const struct tt_experiment *experiment;
    struct tt_scenario *scenario;
    int32_t capacity;
    struct tt_error *why;
};

static struct tt_scenario_model *add_model(struct building *b, const char *name, int32_t copy) {
    struct tt_scenario *scenario = b->scenario;
    if (scenario->model_count == b->capacity) {
        b->capacity = b->capacity ? 2 * b->capacity : 16;
        scenario->models =
            tt_reallocate(scenario->models, (size_t)b->capacity, sizeof(*scenario->models));
    }
    struct tt_scenario_model *model = &scenario->models[scenario->model_count];
    *model = (struct tt_scenario_model){.rows = 1, .weight = 1};
    model->name = copy < 0 ? tt_copy_text(name) : tt_format_text("%s.%d", name, copy);
    model->step_model.name = model->name;
    scenario->model_count++;
    return model;
}

/* ---- model blocks ---- */

static void set_late(struct tt_scenario_model *model, Tutti__ExperimentLate late) {
    static const struct tt_queue_rule drops = {0};
    static const struct tt_queue_rule serves = {.delay_late = true,
                                                .late_every = TT_QUEUE_LATE_EVERY};
    if (late == TUTTI__EXPERIMENT_LATE__LATE_UNSPECIFIED)
        return;
    model->step_model.rules = late == TUTTI__EXPERIMENT_LATE__SERVE ? &serves : &drops;
    model->step_model.rule_count = 1;
}

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
    return TT_OK; /* also if it is below l(1): the report notes it (L2) */
}

/* `field` of the model: an objective for its tokens; 0: none. */
static enum tt_err read_token_slo(struct building *b, const struct tt_scenario_model *model,
                                  const void *message, const char *field, double ms,
                                  int64_t *out_ns) {
    double scale = b->experiment->message->slo_scale;
    bool decodes = model->step_model.output_quantiles != NULL;
    if (!tt_experiment_ns(ms * (scale > 0 ? scale : 1), TT_MS, out_ns) || (ms > 0 && *out_ns == 0))
        return tt_experiment_wrong(b->experiment, message, field, b->why,
                                   "model '%s': %s is %g; it must be > 0, or absent for no "
                                   "objective",
                                   model->name, field, ms);
    if (*out_ns > 0 && !decodes)
        return tt_experiment_wrong(b->experiment, message, field, b->why,
                                   "model '%s' has no decoder steps, whose output %s would be for",
                                   model->name, field);
    return TT_OK;
}

static enum tt_err set_token_slo(struct building *b, struct tt_scenario_model *model,
                                 const Tutti__ExperimentModel *given) {
    struct tt_token_slo *slo = &model->step_model.tokens;
    enum tt_err err = read_token_slo(b, model, given, "ttft_ms", given->ttft_ms, &slo->ttft_ns);
    return err ? err : read_token_slo(b, model, given, "tpot_ms", given->tpot_ms, &slo->tpot_ns);
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
    model->preferred = tt_allocate(given->n_preferred_batch + 1, sizeof(*model->preferred));
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

/* By cells: the least rows of follow-up tasks, per step. */
static enum tt_err set_min_batch(struct building *b, struct tt_scenario_model *model,
                                 const Tutti__ExperimentModel *given) {
    size_t steps = (size_t)model->step_model.step_count;
    if (given->n_min_batch > 0 && given->n_min_batch != steps)
        return tt_experiment_wrong(b->experiment, given, "min_batch", b->why,
                                   "model '%s' has %zu steps, but %zu values of min_batch; give "
                                   "one per step",
                                   model->name, steps, given->n_min_batch);
    for (size_t s = 0; s < given->n_min_batch; s++) {
        int32_t rows = given->min_batch[s], most = model->steps[s].profile->max_batch;
        if (rows < 1 || rows > most)
            return tt_experiment_wrong(b->experiment, given, "min_batch", b->why,
                                       "model '%s': min_batch is %d; it must be 1 .. %d, the "
                                       "largest batch of the step",
                                       model->name, rows, most);
        model->steps[s].min_rows = rows;
    }
    return TT_OK;
}

static uint64_t mix(uint64_t hash, uint64_t value) {
    return (hash ^ value) * UINT64_C(0x100000001b3); /* FNV-1a, by words */
}

/* C1: what names the cell of a step: its name and its times. */
static uint64_t cell_of(const struct tt_step *step) {
    const struct tt_profile *profile = step->profile;
    uint64_t hash = mix(UINT64_C(0xcbf29ce484222325), (uint64_t)step->kind);
    for (const char *at = step->name; *at; at++)
        hash = mix(hash, (unsigned char)*at);
    for (int32_t l = 0; l < profile->length_count; l++)
        for (int32_t b = 1; b <= profile->max_batch; b++) {
            hash = mix(hash, (uint64_t)tt_profile_latency(profile, b, profile->lengths[l]));
            hash = mix(hash, (uint64_t)tt_profile_demand(profile, b, profile->lengths[l]));
        }
    return hash ? hash : 1;
}

static void share_cells(struct tt_scenario_model *model, const Tutti__ExperimentModel *given) {
    for (int32_t s = 0; given->shared_cells && s < model->step_model.step_count; s++)
        model->steps[s].cell = cell_of(&model->steps[s]);
}

/* For nexus: the executors that serve the model. */
static enum tt_err set_executors(struct building *b, struct tt_scenario_model *model,
                                 const Tutti__ExperimentModel *given) {
    int32_t count = 0, last = -1;
    for (int32_t d = 0; d < b->scenario->device_count; d++)
        count += b->scenario->devices[d].executors;
    model->executors = tt_allocate(given->n_executor + 1, sizeof(*model->executors));
    for (size_t i = 0; i < given->n_executor; last = given->executor[i++]) {
        if (given->executor[i] <= last || given->executor[i] >= count)
            return tt_experiment_wrong(b->experiment, given, "executor", b->why,
                                       "model '%s': executor %d; they must ascend within 0 .. %d",
                                       model->name, given->executor[i], count - 1);
        model->executors[i] = given->executor[i];
    }
    model->step_model.executors = model->executors;
    model->step_model.executor_count = (int32_t)given->n_executor;
    return TT_OK;
}

/* What replaces options of the policy for this model. */
static enum tt_err set_policy(struct building *b, struct tt_scenario_model *model,
                              const Tutti__ExperimentModel *given) {
    if (!tt_experiment_ns(given->delay_ms, TT_MS, &model->step_model.delay_ns))
        return tt_experiment_wrong(b->experiment, given, "delay_ms", b->why,
                                   "model '%s': delay_ms is %g; it must be > 0, or absent for the "
                                   "policy's option",
                                   model->name, given->delay_ms);
    if (given->target < 0 || given->dec_timesteps < 0 || given->dec_timesteps > MAX_TIMESTEPS)
        return tt_experiment_wrong(b->experiment, given,
                                   given->target < 0 ? "target" : "dec_timesteps", b->why,
                                   "model '%s': target and dec_timesteps (at most %d) must be > 0, "
                                   "or absent for the policy's options",
                                   model->name, MAX_TIMESTEPS);
    model->step_model.target = given->target;
    model->step_model.dec_timesteps = given->dec_timesteps;
    share_cells(model, given);
    enum tt_err err = set_min_batch(b, model, given);
    return err ? err : set_executors(b, model, given);
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
        err = tt_experiment_build_profiles(b->experiment, b->scenario->repository, given, model,
                                           b->why);
        if (!err)
            err = set_details(b, model, given);
        if (!err)
            err = set_policy(b, model, given);
        if (!err)
            err = set_slo(b, model, given->slo_ms, given);
        if (!err)
            err = set_token_slo(b, model, given);
        if (!err)
            set_late(model, given->late);
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
    /* A row is a short form of a model block: name, profile { linear }, slo_ms. */
    Tutti__LinearProfile linear = TUTTI__LINEAR_PROFILE__INIT;
    linear.alpha_ms = alpha;
    linear.beta_ms = beta;
    Tutti__Profile profile = TUTTI__PROFILE__INIT;
    profile.linear = &linear;
    Tutti__ExperimentModel row = TUTTI__EXPERIMENT_MODEL__INIT;
    row.name = model->name;
    row.max_batch = given->max_batch;
    row.profile = &profile;
    err = tt_experiment_build_profiles(b->experiment, NULL, &row, model, b->why);
    if (err)
        return err == TT_ERR_INVALID
                   ? tt_fail_in(err, b->why, "%s:%lld", csv->path, (long long)csv->line)
                   : err;
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
    struct tt_csv *csv = tt_allocate(1, sizeof(*csv));
    enum tt_err err = tt_csv_open(csv, path, b->why);
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

/* Executors are given for all models or for none, as the policy's tables have room for. */
static enum tt_err check_executors(struct building *b) {
    int32_t given = 0, executors = 0, models = b->scenario->model_count;
    int64_t sessions = 0;
    for (int32_t m = 0; m < models; m++) {
        given += b->scenario->models[m].step_model.executor_count > 0;
        sessions += b->scenario->models[m].step_model.executor_count;
    }
    for (int32_t d = 0; d < b->scenario->device_count; d++)
        executors += b->scenario->devices[d].executors;
    if (given > 0 && given < models)
        return tt_experiment_wrong(b->experiment, b->experiment->message, "model", b->why,
                                   "%d of %d models say which executor serves them; all must, or "
                                   "none",
                                   given, models);
    if (sessions > models + executors)
        return tt_experiment_wrong(b->experiment, b->experiment->message, "model", b->why,
                                   "the models name %lld executors in all; at most %d are "
                                   "possible, as many as models and executors",
                                   (long long)sessions, models + executors);
    return TT_OK;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static enum tt_err check_names(struct building *b) {
    int32_t count = b->scenario->model_count;
    const char **names = tt_allocate((size_t)count, sizeof(*names));
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
    if (!err)
        err = check_executors(&b);
    return err ? err : check_names(&b);
}
