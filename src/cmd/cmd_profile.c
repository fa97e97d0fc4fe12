/* tutti profile: measures a model's latency per batch size and input length on this machine, whole
 * and per stage, and writes it beside the model. The server, the emulated devices and the simulator
 * read it there. */
#include "cmd/outcome.h"
#include "cmd/verbs.h"

#include "base/instant.h"
#include "base/processors.h"
#include "cmd/overlap_report.h"
#include "cmd/profile_table.h"
#include "cmd/profile_workers.h"
#include "control/model_exits.h"
#include "control/processor_plan.h"
#include "engine/engine_kind.h"
#include "lab/scenario/allocate.h"
#include "model/onnx/onnx_memory.h"
#include "model/onnx/slices.h"
#include "model/repository/repository.h"
#include "profile/cell_profile.h"
#include "profile/demand_estimate.h"
#include "profile/machine.h"
#include "profile/memory_probe.h"
#include "profile/profile_keeper.h"
#include "profile/row_probe.h"
#include "profile/worker_search.h"
#include "slicer/slicer.h"

#include <errno.h>
#include <float.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_LENGTHS = 32 };

struct flags {
    const char *model, *output, *onnxruntime, *python;
    int32_t max_batch, runs; /* max_batch 0: the model's */
    int32_t executors;       /* busy at once; 0: one per processor */
    int32_t lengths[MAX_LENGTHS], length_count;
    double link_gb_per_s; /* 0: copies in memory */
    double slo_ms;        /* 0: the model's */
    bool json;
    int32_t totals[TT_WORKER_SEARCH_MAX_TOTALS], total_count; /* 0: no search for workers */
};

static bool take_lengths(void *options, char *text) {
    struct flags *self = options;
    self->length_count = tt_flags_integers(text, 1, 1 << 20, MAX_LENGTHS, self->lengths);
    return self->length_count > 0;
}

static bool take_totals(void *options, char *text) {
    struct flags *self = options;
    self->total_count = tt_flags_integers(text, 4, 64, TT_WORKER_SEARCH_MAX_TOTALS, self->totals);
    for (int32_t i = 0; i < self->total_count; i++)
        if ((self->totals[i] & (self->totals[i] - 1)) != 0)
            return false;
    return self->total_count > 0;
}

static const struct tt_flag_row flag_rows[] = {
    TT_OPERAND(TT_FLAG_TEXT, "MODEL_DIRECTORY", model, true,
               "a model of a model repository, such as demo/models/cnn"),
    TT_INTEGER("max-batch", "N", max_batch, 1, TT_PROFILE_MAX_BATCH, 0,
               "largest batch (default: the model's maximum)"),
    TT_CALL("lengths", "A,B,...", take_lengths, "up to 32 ascending numbers, such as 8,16,32", NULL,
            "input lengths to measure (default: the model's length classes, else "
            "8,16,32,64,128)"),
    TT_INTEGER("runs", "N", runs, 1, 1000, 20, "minimum number of runs per point"),
    TT_INTEGER("executors", "N", executors, 1, TT_DEMAND_MAX_EXECUTORS, 0,
               "measure with up to N executors busy at once, for the demand; 1: one after another "
               "only (default: number of processors, at most 64)"),
    TT_CALL("workers", "A,B,...", take_totals, "ascending numbers among 4, 8, 16, 32 and 64", NULL,
            "instead of latencies, search the best workers (batch sizes that run at once) for "
            "loads of A, B, ... rows, and write MODEL_DIRECTORY/workers.pbtxt for the policy "
            "elastic"),
    TT_TEXT("output", "FILE", output, NULL,
            "where to write (default: MODEL_DIRECTORY/profile.pbtxt); -: stdout"),
    TT_DECIMAL("slo-ms", "MS", slo_ms, DBL_MIN, 86400000, 0,
               "objective for which the table names the largest batch, and that workers must keep "
               "(default: the model's)"),
    TT_SWITCH("json", json, "print the table as JSON"),
    TT_DECIMAL("link-gb-per-s", "G", link_gb_per_s, DBL_MIN, 1e6, 0,
               "bandwidth for the estimate of overlapping copies (default: copies in memory)"),
    TT_TEXT("onnxruntime", "FILE", onnxruntime, NULL,
            "the ONNX Runtime library (default: searched for)"),
    TT_TEXT("python", "FILE", python, NULL,
            "the Python interpreter of models with backend python; it needs numpy (default: "
            "python3, in PATH)"),
};

static bool progress(void *context, int32_t done, int32_t total, int32_t batch, int32_t length) {
    (void)context;
    if (isatty(STDERR_FILENO)) {
        int filled = done * 30 / total;
        fprintf(stderr, "\r[%.*s%*s] %d/%d  batch %d length %d      ", filled,
                "##############################", 30 - filled, "", done, total, batch, length);
    }
    return !tt_interrupted;
}

/* The model as it would be served: whole, or in the stages of its tutti.pbtxt. */
struct subject {
    const struct tt_repository_model *model;
    const char *path;
    struct tt_engine_model *loaded;
    struct tt_slices *slices;     /* NULL: whole, or cells */
    const struct tt_cells *cells; /* NULL: one graph */
    char stages[1024];            /* "": whole */
    char digest[TT_DIGEST_BYTES];
    char device[300], date[16], output[4096];
    const char **step_names;
    double link_gb_per_s;
    int64_t slo_ns; /* 0: none */
    bool json;
    int64_t static_bytes, dynamic_bytes; /* 0: not known */
    struct tt_profile_keeper keeper;
};

/* Number of stages or of cell types; 0: the whole model is one step. */
static int32_t step_count(const struct subject *subject) {
    if (subject->cells)
        return subject->cells->type_count;
    return subject->slices ? subject->slices->stage_count : 0;
}

static bool recall(void *context, struct tt_calibration_point *points, int32_t count) {
    struct subject *subject = context;
    return tt_profile_keeper_recall(&subject->keeper, points, count);
}

static void keep(void *context, const struct tt_calibration_point *points, int32_t count) {
    struct subject *subject = context;
    tt_profile_keeper_keep(&subject->keeper, points, count);
}

static enum tt_err load_stages(struct subject *subject, struct tt_engine *engine,
                               const struct tt_engine_runtime *runtime, int32_t max_batch,
                               struct tt_error *why) {
    const Tutti__ModelStages *stages = subject->model->settings->stages;
    struct tt_slicer_options slicer = {.engine = engine,
                                       .runtime = runtime,
                                       .name = subject->model->name,
                                       .path = subject->path,
                                       .batched = subject->model->config->signature.batched,
                                       .max_batch = subject->model->config->signature.max_batch,
                                       .cut = tt_model_settings_cut(subject->model->settings),
                                       .rows = stages->batch,
                                       .length = stages->length};
    char home[4096], directory[4096];
    enum tt_slicer_origin origin;
    snprintf(home, sizeof(home), "%s/.tutti", subject->model->directory);
    enum tt_err err = tt_slicer_find(&slicer, home, directory, sizeof(directory), &origin, why);
    if (err)
        return err;
    err = tt_slices_describe(directory, subject->stages, sizeof(subject->stages), why);
    if (!err)
        err = tt_slices_open(directory, &subject->slices, why);
    struct tt_engine_model_spec load = {.form = TT_ENGINE_STAGES,
                                        .name = subject->model->name,
                                        .path = directory,
                                        .max_batch = max_batch,
                                        .slot_count = stages->slots};
    struct tt_model_exits exits;
    if (!err)
        err = tt_model_exits_init(&exits, subject->model->settings, subject->path, why);
    if (err) {
        tt_slicer_release(directory, origin);
        return err;
    }
    load.exit_count = exits.count;
    load.exits = exits.exits;
    err = tt_engine_load(runtime, engine, &load, &subject->loaded, why);
    tt_model_exits_fini(&exits);
    tt_slicer_release(directory, origin);
    return err;
}

static enum tt_err load_subject(struct subject *subject, struct tt_engine *engine,
                                const struct tt_engine_runtime *runtime, int32_t max_batch,
                                struct tt_error *why) {
    struct tt_engine_model_spec load = {.form =
                                            subject->cells ? TT_ENGINE_CELL_SET : TT_ENGINE_GRAPH,
                                        .name = subject->model->name,
                                        .path = subject->path,
                                        .signature = &subject->model->config->signature,
                                        .batched = subject->model->config->signature.batched,
                                        .max_batch = max_batch,
                                        .cells = subject->cells};
    bool cuts = !subject->cells && subject->model->settings->stages && runtime->kind->cutting;
    struct tt_text config;
    tt_text_init(&config);
    if (tt_model_config_json(subject->model->config, &config) == TT_OK)
        load.config_json = tt_text_string(&config);
    enum tt_err err = subject->cells ? tt_cell_profile_digest(subject->cells, subject->digest, why)
                                     : tt_digest_file(subject->path, subject->digest, why);
    if (!err)
        err = cuts ? load_stages(subject, engine, runtime, max_batch, why)
                   : tt_engine_load(runtime, engine, &load, &subject->loaded, why);
    tt_text_fini(&config);
    if (err)
        return err;
    int32_t steps = step_count(subject);
    subject->step_names = tt_allocate((size_t)steps + 1, sizeof(char *));
    for (int32_t s = 0; s < steps; s++)
        subject->step_names[s] = subject->cells ? subject->cells->types[s].name
                                                : subject->slices->manifest->stage[s]->ends_after;
    return TT_OK;
}

static void start_keeping(struct subject *subject, const struct flags *flags, int32_t max_batch) {
    bool to_stdout = flags->output && strcmp(flags->output, "-") == 0;
    tt_machine_device(subject->device, sizeof(subject->device));
    snprintf(subject->output, sizeof(subject->output), "%s/profile.pbtxt",
             subject->model->directory);
    if (flags->output)
        snprintf(subject->output, sizeof(subject->output), "%s", flags->output);
    int32_t steps = step_count(subject);
    struct tt_profile_file_origin origin = {
        .source = "measured by tutti " TUTTI_VERSION,
        .device = subject->device,
        .date = tt_machine_date(subject->date, sizeof(subject->date)),
        .max_batch = max_batch,
        .model_sha256 = subject->digest,
        .stages = *subject->stages ? subject->stages : NULL,
        .step_count = steps > 1 || subject->cells ? steps : 0,
        .step_names = subject->step_names,
        .processors = tt_processors_usable(),
        .executors = subject->cells ? 1 : flags->executors,
        .static_bytes = subject->static_bytes,
        .dynamic_bytes = subject->dynamic_bytes};
    tt_profile_keeper_init(&subject->keeper, &origin, to_stdout ? NULL : subject->output);
}

/* ---- the summary ---- */

static const struct tt_calibration_point *point_at(const struct subject *subject, int32_t step,
                                                   int32_t batch) {
    for (int32_t i = 0; i < subject->keeper.count; i++)
        if (subject->keeper.points[i].step == step && subject->keeper.points[i].batch == batch)
            return &subject->keeper.points[i];
    return NULL;
}

static int64_t latency_at(const struct subject *subject, int32_t step, int32_t batch) {
    const struct tt_calibration_point *point = point_at(subject, step, batch);
    return point ? point->median_ns : 0;
}

/* The step's share of the device at the largest batch; 0: not measured. */
static double demand_at(const struct subject *subject, int32_t step, int32_t batch) {
    const struct tt_calibration_point *point = point_at(subject, step, batch);
    return point ? (double)point->demand_ppm / TT_DEMAND_WHOLE : 0;
}

/* E6: at the first length, for one row and for the largest batch. */
static void print_overlap(const struct subject *subject, int32_t max_batch) {
    const struct tt_profile_keeper *keeper = &subject->keeper;
    struct tt_overlap_report report = {
        .signature = subject->loaded->engine->ops->signature(subject->loaded),
        .length = keeper->count && keeper->points[0].length ? keeper->points[0].length : 1,
        .link_gb_per_s = subject->link_gb_per_s};
    tt_overlap_report_print(&report, 1, latency_at(subject, TT_CALIBRATION_WHOLE, 1), stderr);
    if (max_batch > 1)
        tt_overlap_report_print(&report, max_batch,
                                latency_at(subject, TT_CALIBRATION_WHOLE, max_batch), stderr);
}

/* D6: each step's preferred batch and the time that remains from it on (T_remain), for a batch of
 * one and for the largest, at the first length. */
static void print_summary(const struct subject *subject, int32_t max_batch) {
    const struct tt_profile_keeper *keeper = &subject->keeper;
    int32_t steps = keeper->origin.step_count;
    fprintf(stderr, "preferred batch of the whole: %d\n",
            tt_profile_file_preferred(keeper->points, keeper->count, TT_CALIBRATION_WHOLE));
    if (subject->static_bytes > 0)
        fprintf(stderr, "memory: %.1f MiB static, %.1f for a run of the largest batch%s\n",
                (double)subject->static_bytes / 0x100000, (double)subject->dynamic_bytes / 0x100000,
                subject->dynamic_bytes > 0 ? "" : " (not known)");
    if (steps == 0)
        return;
    fprintf(stderr, "%5s %9s %12s %12s %14s %14s %14s\n", "step", "preferred", "b=1 us",
            "largest us", "remains b=1", "remains largest", "demand largest");
    for (int32_t s = 0; s < steps; s++) {
        int64_t remains[2] = {0, 0};
        for (int32_t k = s; k < steps; k++) {
            remains[0] += latency_at(subject, k, 1);
            remains[1] += latency_at(subject, k, max_batch);
        }
        fprintf(stderr, "%5d %9d %12lld %12lld %14lld %14lld %14.2f\n", s,
                tt_profile_file_preferred(keeper->points, keeper->count, s),
                (long long)(latency_at(subject, s, 1) / 1000),
                (long long)(latency_at(subject, s, max_batch) / 1000),
                (long long)(remains[0] / 1000), (long long)(remains[1] / 1000),
                demand_at(subject, s, max_batch));
    }
}

static void print_table(const struct subject *subject) {
    struct tt_profile_table table = {.model = subject->model->name,
                                     .device = subject->device,
                                     .points = subject->keeper.points,
                                     .count = subject->keeper.count,
                                     .step_names = subject->step_names,
                                     .by_step = subject->cells != NULL,
                                     .slo_ns = subject->slo_ns};
    if (subject->json) {
        tt_outcome_print_json(tt_profile_table_json(&table));
        return;
    }
    struct tt_text text;
    tt_text_init(&text);
    tt_profile_table_write(&table, &text);
    tt_outcome_print_text(&text);
}

static enum tt_err write_profile(struct subject *subject, int32_t max_batch, struct tt_error *why) {
    struct tt_text text;
    tt_text_init(&text);
    tt_profile_keeper_print(&subject->keeper, &text);
    enum tt_err err = TT_OK;
    if (strcmp(subject->output, "-") == 0) {
        fputs(tt_text_string(&text), stdout);
    } else {
        err = tt_text_write_file(subject->output, &text, why);
        if (!err) {
            tt_profile_keeper_finished(&subject->keeper);
            print_table(subject);
            print_summary(subject, max_batch);
            print_overlap(subject, max_batch);
            fprintf(stderr,
                    "tutti profile: wrote %d points (%d of them from an earlier run) to %s\n",
                    subject->keeper.count, subject->keeper.recalled, subject->output);
        }
    }
    tt_text_fini(&text);
    return err;
}

/* The lengths that are measured, ascending. */
static const int32_t *lengths_of(const struct subject *subject, const struct flags *flags,
                                 int32_t *out_count) {
    static const int32_t usual[] = {8, 16, 32, 64, 128};
    const struct tt_model_settings *settings = subject->model->settings;
    *out_count = (int32_t)TT_COUNT(usual);
    if (flags->length_count) {
        *out_count = flags->length_count;
        return flags->lengths;
    }
    if (settings->class_count) {
        *out_count = settings->class_count;
        return settings->classes;
    }
    return usual;
}

/* Before any other run, which the runtime would keep memory of. A run that fails leaves it unknown:
 * the measurement that follows says why. */
static void measure_memory(struct subject *subject, const struct flags *flags, int32_t max_batch,
                           struct tt_memory_probe *probe) {
    if (subject->model->config->engine->runs_programs)
        return; /* their memory is in other processes */
    struct tt_onnx_memory file = {0};
    struct tt_error why;
    int32_t count;
    const int32_t *lengths = lengths_of(subject, flags, &count);
    if (!subject->cells && subject->model->config->engine->needs_file &&
        tt_onnx_memory_read(subject->path, max_batch, &file, &why))
        file.weight_bytes = 0;
    tt_memory_probe_loaded(probe, file.weight_bytes);
    subject->static_bytes = probe->static_bytes;
    const struct tt_signature *signature = subject->loaded->engine->ops->signature(subject->loaded);
    if (subject->cells)
        return; /* what a batch needs depends on the cells in it */
    enum tt_err err = tt_memory_probe_run(subject->loaded, max_batch,
                                          tt_signature_varies(signature) ? lengths[count - 1] : 0,
                                          &subject->dynamic_bytes, &why);
    if (err == TT_ERR_UNSUPPORTED)
        fprintf(stderr, "tutti profile: the memory of runs is not known: %s\n", why.text);
}

static enum tt_err measure_subject(struct subject *subject, const struct flags *flags,
                                   int32_t max_batch, struct tt_error *why) {
    struct tt_calibrate_options options = {.max_batch = max_batch,
                                           .runs = flags->runs,
                                           .least_ns = 50 * TT_MS,
                                           .max_ns = 10 * TT_S,
                                           .by_step = true,
                                           .executors = flags->executors,
                                           .progress = progress,
                                           .recall = recall,
                                           .keep = keep,
                                           .progress_context = subject};
    options.lengths = lengths_of(subject, flags, &options.length_count);
    struct tt_calibration_point *points;
    int32_t count;
    enum tt_err err = subject->cells
                          ? tt_cell_profile_measure(subject->loaded, subject->cells, &options,
                                                    &points, &count, why)
                          : tt_calibrate(subject->loaded, &options, &points, &count, why);
    if (isatty(STDERR_FILENO))
        fputc('\n', stderr);
    if (!err)
        free(points); /* the keeper holds a copy */
    if (!err && subject->keeper.err)
        err = tt_fail(subject->keeper.err, why, "%s", subject->keeper.why.text);
    if (err == TT_ERR_CANCELLED && *subject->keeper.part)
        tt_fail(err, why, "interrupted; run it again to continue from %d points",
                subject->keeper.count);
    return err ? err : write_profile(subject, max_batch, why);
}

/* `out_rows_depend`: true if it failed since the default batch size is wrong. */
static enum tt_err measure(const struct flags *flags, const struct tt_repository_model *model,
                           struct tt_engine *engine, const struct tt_engine_runtime *runtime,
                           bool *out_rows_depend, struct tt_error *why) {
    const struct tt_signature *configured = &model->config->signature;
    int32_t max_batch = flags->max_batch ? flags->max_batch : configured->max_batch;
    if (max_batch > configured->max_batch)
        return tt_fail(TT_ERR_INVALID, why, "--max-batch %d is more than the model's %d", max_batch,
                       configured->max_batch);
    struct subject *subject = tt_allocate(1, sizeof(*subject));
    subject->model = model;
    subject->link_gb_per_s = flags->link_gb_per_s;
    subject->slo_ns = flags->slo_ms > 0 ? (int64_t)(flags->slo_ms * 1e6) : model->settings->slo_ns;
    subject->json = flags->json;
    subject->path = model->versions[model->version_count - 1].path;
    subject->cells = model->versions[model->version_count - 1].cells;
    struct tt_memory_probe probe;
    tt_memory_probe_begin(&probe);
    enum tt_err err = load_subject(subject, engine, runtime, max_batch, why);
    if (!err)
        measure_memory(subject, flags, max_batch, &probe);
    if (!err && !subject->cells && !subject->slices) {
        struct tt_error remark = {{0}};
        err = tt_row_check(model, subject->loaded, &remark, why);
        *out_rows_depend = err && model->config->has_default_max_batch;
        if (!err && *remark.text)
            fprintf(stderr, "tutti profile: %s\n", remark.text);
    }
    if (!err) {
        start_keeping(subject, flags, max_batch);
        err = measure_subject(subject, flags, max_batch, why);
        tt_profile_keeper_fini(&subject->keeper);
    }
    if (subject->loaded)
        engine->ops->unload(subject->loaded);
    tt_slices_close(subject->slices);
    free(subject->step_names);
    free(subject);
    return err;
}

static enum tt_err search_workers(const struct flags *flags,
                                  const struct tt_repository_model *model, struct tt_engine *engine,
                                  const struct tt_engine_runtime *runtime, struct tt_error *why) {
    struct tt_profile_workers options = {
        .model = model,
        .engine = engine,
        .runtime = runtime,
        .totals = flags->totals,
        .total_count = flags->total_count,
        .largest = flags->max_batch,
        .length = flags->length_count ? flags->lengths[0] : 0,
        .runs = flags->runs,
        .slo_ns = flags->slo_ms > 0 ? (int64_t)(flags->slo_ms * 1e6) : model->settings->slo_ns,
        .output = flags->output};
    return tt_profile_workers(&options, why);
}

static void ignore(void *context, struct tt_device_task *task) {
    (void)context;
    (void)task;
}

static enum tt_err profile(const struct flags *flags, struct tt_repository *repository,
                           const char *name, bool *out_rows_depend, struct tt_error *why) {
    const struct tt_repository_model *model = tt_repository_find(repository, name);
    if (!model)
        return tt_fail(TT_ERR_NOT_FOUND, why, "there is no model '%s' in %s", name,
                       repository->path);
    if (!tt_repository_model_ok(model))
        return tt_fail(TT_ERR_INVALID, why, "%s", tt_findings_first_problem(&model->findings));
    const struct tt_engine_traits *traits = model->config->engine;
    if (traits->emulates)
        return tt_fail(TT_ERR_INVALID, why, "model '%s' is %s; only real models can be measured",
                       name, traits->name);
    if (!traits->needs_file && !traits->file_name) /* whose digest the profile would name */
        return tt_fail(TT_ERR_UNSUPPORTED, why,
                       "model '%s' is a %s, which has no model file: it is not profiled", name,
                       traits->name);
    struct tt_engine_runtime_options where = {.onnxruntime = flags->onnxruntime,
                                              .python = flags->python};
    struct tt_engine_runtime runtime;
    enum tt_err err = tt_engine_runtime_open(tt_engine_kind_of(traits), &where, &runtime, why);
    if (err)
        return err;
    struct tt_engine_options options = {
        .executor_count = flags->executors, .queue_depth = 1, .done = ignore};
    if (flags->total_count)
        options.executor_count = tt_worker_search_executors(flags->totals, flags->total_count);
    struct tt_engine *engine;
    err = tt_engine_open(&runtime, &options, &engine, why);
    if (!err) {
        err = flags->total_count ? search_workers(flags, model, engine, &runtime, why)
                                 : measure(flags, model, engine, &runtime, out_rows_depend, why);
        engine->ops->close(engine);
    }
    tt_engine_runtime_close(&runtime);
    return err;
}

static enum tt_err scan_and_profile(const struct flags *flags, const char *directory,
                                    const char *name, int32_t default_max_batch,
                                    bool *out_rows_depend, struct tt_error *why) {
    struct tt_repository *repository;
    enum tt_err err =
        tt_repository_scan(directory, tt_engines(), default_max_batch, &repository, why);
    if (err)
        return err;
    err = profile(flags, repository, name, out_rows_depend, why);
    tt_repository_free(repository);
    return err;
}

static int run(void *options) {
    struct flags *flags = options;
    signal(SIGINT, tt_on_interrupt);
    if (flags->json && (flags->total_count || (flags->output && strcmp(flags->output, "-") == 0))) {
        fprintf(stderr, "tutti profile: --json prints the table of latencies to standard output; "
                        "leave --workers and --output - out\n");
        return EXIT_USAGE;
    }
    if (flags->executors == 0)
        flags->executors = tt_processor_plan_of(tt_processors_usable(), 0).measured_executors;
    char parent[4096], name[4096], real[4096];
    if (!realpath(flags->model, real)) {
        fprintf(stderr, "tutti profile: %s: %s\n", flags->model, strerror(errno));
        return EXIT_USAGE;
    }
    snprintf(parent, sizeof(parent), "%s", real);
    snprintf(name, sizeof(name), "%s", real);
    struct tt_error why;
    const char *directory = dirname(parent), *model = basename(name);
    bool rows_depend = false;
    enum tt_err err =
        scan_and_profile(flags, directory, model, TT_MODEL_DEFAULT_MAX_BATCH, &rows_depend, &why);
    if (rows_depend) {
        fprintf(stderr, "tutti profile: %s is measured without batching: %s\n", model, why.text);
        err = scan_and_profile(flags, directory, model, 0, &rows_depend, &why);
    }
    if (!err)
        return EXIT_DONE;
    int code = tt_outcome_print_error("profile", err, &why);
    return err == TT_ERR_IO ? EXIT_USAGE : err == TT_ERR_UNSUPPORTED ? EXIT_FAILED : code;
}

const struct tt_verb tt_verb_profile = {
    .name = "profile",
    .summary = "measure a model's latency per batch size",
    .usage = "MODEL_DIRECTORY [OPTIONS]",
    .description =
        "Measures how long the model runs per batch size, and per input length if it has one, on "
        "one executor of this machine and beside others, and writes MODEL_DIRECTORY/profile.pbtxt. "
        "A model whose "
        "tutti.pbtxt has stages is measured whole and stage by stage, a model of cells cell by "
        "cell. It prints a table: per batch size the median and the 10th and 90th percentile of "
        "the run time, rows per second, the best batch, and the largest one for the objective. A "
        "second table has the run time while other executors are busy, and the demand: the share "
        "of the device that a batch needs. An "
        "interrupted measurement continues when it is run again.",
    TT_VERB_RUNS(flag_rows, run)};
